"""What a program does with a client that was generated from the description, against a live server.

`check` runs it with the address of the server and the file of the description; the generated package
`keymill_client` lies in the current folder. Calls are looked up by method and path, as a reader of the documentation
would, so that an operation which the generator left out is missed here. Answers have the generated types:
a field that the description lacks, or names otherwise, is an AttributeError.
"""

import datetime
import importlib
import inspect
import io
import json
import pkgutil
import re
import sys
import typing

sys.path.insert(0, ".")
import keymill_client  # noqa: E402
from keymill_client.types import File  # noqa: E402


class Api:
    """The generated functions, by method and path."""

    def __init__(self, url, description):
        # With this, a status that the description does not name is an error.
        self.client = keymill_client.Client(base_url=url, raise_on_unexpected_status=True)
        self.paths = description["paths"]
        api = importlib.import_module("keymill_client.api")
        self.modules = {}
        for module in pkgutil.walk_packages(api.__path__, "keymill_client.api."):
            if not module.ispkg:
                self.modules[plain(module.name.rpartition(".")[2])] = module.name

    def call(self, method, path, *values, **named):
        """Calls an operation and gives the generated `Response`: status, headers and the typed answer."""
        operation = self.paths[path][method]["operationId"]
        module = self.modules.get(plain(operation))
        assert module, f"the client has no {method.upper()} {path} ({operation})"
        function = importlib.import_module(module).sync_detailed
        if isinstance(named.get("body"), dict):
            named["body"] = typed_body(function, named["body"])
        return function(*values, client=self.client, **named)


def plain(name):
    """A name without what generators change of it: case, separators, a `_` behind a reserved word."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def typed_body(function, fields):
    """An object of the class that the function wants as its body, which must know all the fields."""
    wanted = typing.get_type_hints(function)["body"]
    for kind in typing.get_args(wanted) or (wanted,):
        if inspect.isclass(kind) and hasattr(kind, "from_dict"):
            try:
                body = kind.from_dict(fields)
            except (KeyError, TypeError, ValueError):
                continue  # another class of the choice
            if not getattr(body, "additional_properties", None):
                return body
    raise AssertionError(f"no body of {function.__module__} has the fields {sorted(fields)}")


def is_problem(answer, status, code):
    assert answer.status_code == status, (answer.status_code, answer.content)
    assert type(answer.parsed).__name__ == "Problem", answer.parsed
    assert (answer.parsed.status, answer.parsed.code) == (status, code), answer.content
    assert answer.parsed.detail and answer.parsed.title


def makes_and_lists_keyspaces(api):
    settings = {
        "contract-links": {},
        "contract-pages": {"kind": "digest", "length": 10},
        "contract-pool": {"kind": "pooled", "length": 8},
        "contract-ids": {"kind": "snowflake"},
        "contract-numbers": {"kind": "snowflake", "layout": "javascript"},
    }
    for name, fields in settings.items():
        for status in 201, 200:
            answer = api.call("put", "/v1/spaces/{space}", name, body=fields)
            assert answer.status_code == status, (name, answer.status_code, answer.content)
            assert answer.parsed.name == name
    is_problem(
        api.call("put", "/v1/spaces/{space}", "contract-links", body={"length": 9}), 409, "different_definition"
    )
    listed = api.call("get", "/v1/spaces").parsed.spaces
    assert {"default", *settings} <= {space.name for space in listed}
    kinds = {space.name: space.kind.value for space in listed}
    assert kinds["default"] == "shuffled" and kinds["contract-pages"] == "digest", kinds
    shown = api.call("get", "/v1/spaces/{space}", "contract-links").parsed
    assert (int(shown.capacity), shown.length, shown.sealed) == (62**7, 7, False)
    is_problem(api.call("get", "/v1/spaces/{space}", "nowhere"), 404, "unknown_space")


def takes_keys(api):
    take = "/v1/spaces/{space}/keys"
    keys = []
    for count in 1, 3, 1000:
        answer = api.call("post", take, "contract-links", count=count).parsed
        assert answer.space == "contract-links" and len(answer.keys) == count
        keys += answer.keys
    keys += api.call("post", take, "contract-links").parsed.keys
    keys += api.call("post", take, "contract-links", body={"count": 5}).parsed.keys
    assert len(set(keys)) == 1010 and all(re.fullmatch("[0-9A-Za-z]{7}", key) for key in keys)
    is_problem(api.call("post", take, "contract-links", count=0), 400, "bad_count")
    is_problem(api.call("post", take, "nowhere"), 404, "unknown_space")
    one = api.call("get", "/get-key", space="contract-links").content.decode()
    assert re.fullmatch("[0-9A-Za-z]{7}", one) and one not in keys
    return keys[0]


def explains(api, key):
    path = "/v1/spaces/{space}/keys/{key}"
    told = api.call("get", path, "contract-links", key).parsed
    assert (told.key, told.state.value, told.lease.space) == (key, "leased", "contract-links"), told
    assert int(told.lease.start) <= int(told.ordinal) < int(told.lease.end)
    assert api.call("get", path, "contract-links", "!").parsed.state.value == "invalid"
    retired = api.call("delete", path, "contract-links", key).parsed
    assert retired.key == key and retired.retired_at
    assert api.call("get", path, "contract-links", key).parsed.state.value == "retired"


def digests(api):
    def digest(**fields):
        return api.call("post", "/v1/spaces/{space}/digests", "contract-pages", body=fields)

    first = digest(input="https://example.com/a").parsed
    again = digest(input="https://example.com/a").parsed
    assert first.made and not again.made and first.key == again.key and len(first.key) == 10
    many = [f"https://example.com/{name}" for name in "bac"]
    keys = digest(inputs=many).parsed.keys
    assert len(set(keys)) == 3 and keys[1] == first.key, "not in the order of the inputs"
    assert digest(input=many[2]).parsed.key == keys[2]
    assert digest(input="https://example.com/a", scope="two").parsed.key != first.key
    is_problem(digest(input=""), 400, "bad_input")


def sets_reads_and_deletes_an_alias(api):
    path = "/v1/spaces/{space}/aliases/{alias}"
    sale = "contract-links", "summer-sale"
    for status in 201, 200:
        answer = api.call("put", path, *sale, body={"owner": "ann"})
        assert (answer.status_code, answer.parsed.alias, answer.parsed.owner) == (status, "summer-sale", "ann")
    is_problem(api.call("put", path, *sale, body={"owner": "bob"}), 409, "taken")
    read = api.call("get", path, *sale).parsed
    assert (read.alias, read.owner) == ("summer-sale", "ann") and read.created_at
    listed = api.call("get", "/v1/spaces/{space}/aliases", "contract-links", limit=10).parsed
    assert [alias.alias for alias in listed.aliases] == ["summer-sale"]
    is_problem(api.call("delete", path, *sale, owner="bob"), 409, "taken")
    assert api.call("delete", path, *sale, owner="ann").status_code == 204
    is_problem(api.call("get", path, *sale), 404, "unknown_alias")


def imports_into_a_pool(api):
    keys = ["AAAA0001", "AAAA0002"]
    lines = File(payload=io.BytesIO("\n".join([*keys, "not a key"]).encode()))
    report = api.call("post", "/v1/spaces/{space}/pool", "contract-pool", body=lines).parsed
    assert (report.imported, report.refused_count, report.refused[0].line) == (2, 1, 3), report
    taken = api.call("post", "/v1/spaces/{space}/keys", "contract-pool", count=2).parsed.keys
    assert sorted(taken) == keys
    used = api.call("get", "/v1/spaces/{space}/used", "contract-pool").parsed.used
    assert sorted(row.key for row in used) == keys


def administers_keyspaces_and_pools(api):
    path = "/v1/spaces/{space}"
    changed = api.call("patch", path, "contract-links", body={"horizon_seconds": 60}).parsed
    assert (changed.horizon_seconds, changed.length) == (60, 7), changed
    grown = api.call("post", path + "/grow", "contract-links", body={"length": 8}).parsed
    assert grown.grown == [8], grown
    filled = api.call("post", path + "/pool/fill", "contract-pool", body={"count": 10}).parsed
    assert (filled.added, filled.left, filled.is_used_up) == (10, 0, False), filled
    available = api.call("get", path + "/pool", "contract-pool", limit=5).parsed
    assert len(available.keys) == 5 and available.next_, available
    lines = File(payload=io.BytesIO(b"0000000\n"))
    used = api.call("post", path + "/used-keys", "contract-links", body=lines).parsed
    assert used.imported + used.refused_count == 1, used
    plan = api.call("post", path + "/advance", "contract-links", body=File(payload=io.BytesIO()), to=3521614606208).parsed
    assert plan.done is False and int(plan.next_) == 3521614606208, plan
    is_problem(api.call("post", path + "/seal", "contract-links", confirm="links"), 400, "unconfirmed")
    begin = datetime.datetime(2026, 11, 16, tzinfo=datetime.timezone.utc)
    end = begin + datetime.timedelta(days=1)
    bounds = api.call("get", path + "/bounds", "contract-ids", from_=begin, to=end)
    assert bounds.parsed.first < bounds.parsed.last, bounds
    store = api.call("get", "/v1/store").parsed
    assert store.kind == "sqlite" and store.findings[0].verdict.value == "safe", store
    preview = api.call("post", "/v1/preview", body={"length": 9}).parsed
    assert [len(key) for key in preview.keys] == [9] * 6, preview


def reads_the_audit_and_the_health(api):
    leases = api.call("get", "/v1/leases", space="contract-links", limit=1).parsed.leases
    assert [lease.space for lease in leases] == ["contract-links"]
    instances = api.call("get", "/v1/instances").parsed.instances
    assert leases[0].holder.id in [record.id for record in instances]
    assert api.call("get", "/readyz").parsed.ready is True
    assert api.call("get", "/healthz").content == b"ok\n"
    assert b"keymill_ready 1" in api.call("get", "/metrics").content


def main(url, description):
    with open(description, encoding="utf-8") as file:
        api = Api(url, json.load(file))
    makes_and_lists_keyspaces(api)
    explains(api, takes_keys(api))
    digests(api)
    sets_reads_and_deletes_an_alias(api)
    imports_into_a_pool(api)
    administers_keyspaces_and_pools(api)
    reads_the_audit_and_the_health(api)


if __name__ == "__main__":
    main(*sys.argv[1:])
