"""A check for schemathesis: which data may be refused although the description allows it.

`check` has it loaded as hooks. schemathesis.toml lets the calls below answer valid data with 400, by status; here it
is narrowed to the codes that depend on what no schema can say. With any other code, the description lacks a bound
or a pattern.
"""

import schemathesis

DEPENDS_ON_MORE = {
    # Settings that contradict each other, or give too few keys to shuffle: alphabet to the power of length.
    "PUT /v1/spaces/{space}": {"bad_definition"},
    # Reserved, blocked, or belonging to another region; an owner of too many bytes, not characters.
    "PUT /v1/spaces/{space}/aliases/{alias}": {"bad_alias", "bad_owner"},
    # Not a URL, where the keyspace treats equivalent URLs as the same input; too many bytes, not characters.
    "POST /v1/spaces/{space}/digests": {"bad_input"},
    # Numbers are safe in some keyspaces only; a setting may be in the query or in the body, not in both; a caller of too
    # many bytes.
    "POST /v1/spaces/{space}/keys": {"unsafe_numbers", "repeated_parameter", "bad_caller"},
}


@schemathesis.check
def refuses_valid_data_only_for_what_no_schema_can_say(ctx, response, case):
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.operation.label in DEPENDS_ON_MORE:
        code = response.json().get("code")
        assert code in DEPENDS_ON_MORE[case.operation.label], f"valid by the description, refused as `{code}`"
