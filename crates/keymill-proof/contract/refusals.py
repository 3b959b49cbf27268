"""Hooks for schemathesis, which `check` has it load: which data may be refused although the description allows it.

schemathesis.toml lets the calls below answer valid data with 400, by status; here it is narrowed to the codes that
depend on what no schema can say. With any other code, the description lacks a bound or a pattern. Takes are altered so
that such refusals are few: nothing of an operation is tested by calls that are all refused.
"""

import schemathesis

TAKE = "POST /v1/spaces/{space}/keys"
FILL = "POST /v1/spaces/{space}/pool/fill"

DEPENDS_ON_MORE = {
    # Settings that contradict each other, or give too few keys to shuffle: alphabet to the power of length.
    "PUT /v1/spaces/{space}": {"bad_definition"},
    "POST /v1/preview": {"bad_definition"},
    # Lease sizes that contradict each other.
    "PATCH /v1/spaces/{space}": {"bad_definition"},
    # Not longer than the keys that there are, or a kind that cannot grow.
    "POST /v1/spaces/{space}/grow": {"bad_definition"},
    # Beyond the end of the keyspace, or keys of another one; `confirm` with another name.
    "POST /v1/spaces/{space}/advance": {"bad_definition", "unconfirmed"},
    # Reserved, blocked, or belonging to another region; an owner of too many bytes, not characters.
    "PUT /v1/spaces/{space}/aliases/{alias}": {"bad_alias", "bad_owner"},
    # Not a URL, where the keyspace treats equivalent URLs as the same input; too many bytes, not characters.
    "POST /v1/spaces/{space}/digests": {"bad_input"},
    # A caller of too many bytes, not characters.
    TAKE: {"bad_caller"},
}


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Says what a valid take asks for in one place only, and asks for numbers where they are safe. Keeps fills small:
    they take time, and a pool that has all keys of its keyspace refuses more."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.operation.label == FILL and isinstance(case.body, dict):
        case.body.update({name: min(count, 50) for name, count in case.body.items() if isinstance(count, int)})
    if case.operation.label != TAKE:
        return
    body = case.body if isinstance(case.body, dict) else {}
    query = case.query or {}
    # In the place that the case is about; each field may be left out of both.
    is_about_query = getattr(case.meta.phase.data, "parameter_location", None) == "query"
    for name in [name for name in query if body.get(name) is not None]:
        (body if is_about_query else query).pop(name)
    if query.get("numbers") == "true" or body.get("numbers"):
        case.path_parameters["space"] = "contract-numbers"


@schemathesis.check
def refuses_valid_data_only_for_what_no_schema_can_say(ctx, response, case):
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.operation.label in DEPENDS_ON_MORE:
        code = response.json().get("code")
        assert code in DEPENDS_ON_MORE[case.operation.label], f"valid by the description, refused as `{code}`"
