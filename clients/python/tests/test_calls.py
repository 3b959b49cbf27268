"""Every call, over both faces, against a real server."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from servers import Deployment

from keymill import Definition, UnknownAlias

Connect = Callable[..., Any]
_numbers = itertools.count()


@pytest.fixture
def client(connect: Connect, deployment: Deployment) -> Any:
    return connect(deployment.url)


@pytest.fixture
def name() -> str:
    """The name of a keyspace that is not in use."""
    return f"space-{next(_numbers)}"


def test_a_keyspace_is_created_shown_and_listed(client: Any, name: str) -> None:
    space = client.keyspace(name)
    made = space.ensure(Definition(alphabet="base32", length=8, prefix="ord_", group=4, check=True))
    assert (made.name, made.sealed, made.capacity) == (name, False, 32**8)
    assert made.definition.kind == "shuffled"
    assert abs(made.created_at - datetime.now(timezone.utc)) < timedelta(minutes=1)
    again = space.ensure(made.definition)
    assert again.definition == made.definition == space.show().definition
    assert name in [info.name for info in client.keyspaces()]


def test_keys_are_taken_one_by_one_and_many_at_a_time(client: Any, name: str) -> None:
    space = client.keyspace(name)
    space.ensure()
    keys = [space.take(), *space.take_many(1), *space.take_many(500), *space.take_many(20_000)]
    assert len(keys) == len(set(keys)) == 20_502
    assert {len(key) for key in keys} == {7}


def test_a_key_is_explained(client: Any, name: str) -> None:
    space = client.keyspace(name)
    space.ensure()
    explanation = space.explain(space.take())
    assert (explanation.state, explanation.ordinal, explanation.number) == ("leased", 0, 0)
    assert explanation.lease is not None and explanation.lease.holder.pid > 0
    assert space.explain("not/a key?").state == "invalid"


def test_aliases_are_added_shown_listed_and_removed(client: Any, name: str) -> None:
    space = client.keyspace(name)
    space.ensure()
    assert space.add_alias("summer", owner="shop") is True
    assert space.add_alias("summer", owner="shop") is False
    found = space.alias("summer")
    assert (found.space, found.alias, found.owner) == (name, "summer", "shop")
    # More than a page.
    for number in range(101):
        space.add_alias(f"a{number:03}")
    listed = [alias.alias for alias in space.aliases()]
    assert listed == [f"a{number:03}" for number in range(101)] + ["summer"]
    space.remove_alias("summer", owner="shop")
    with pytest.raises(UnknownAlias):
        space.alias("summer")


def test_an_input_has_the_same_key_every_time(client: Any, name: str) -> None:
    space = client.keyspace(name)
    space.ensure(Definition(kind="digest", normalize="url"))
    first = space.digest("https://example.com/b")
    assert first.made is True
    assert space.digest("HTTPS://example.com:443/a/../b").key == first.key
    assert space.digest("https://example.com/b", scope="bob").key != first.key
    many = space.digest_many(["https://example.com/b", "https://example.com/ü\U0001f511"])
    assert many[0] == first.key and many[1] != first.key


def test_who_a_key_is_for_is_recorded_and_it_can_be_retired(client: Any, name: str) -> None:
    client.keyspace(name).ensure(Definition(audit="key"))
    space = client.keyspace(name, caller="shop & co")
    key = space.take()
    used = space.explain(key).used
    assert used is not None and used.caller == "shop & co" and used.retired_at is None
    retired = space.retire(key)
    assert retired.key == key and retired.retired_at is not None
    assert space.retire(key) == retired
    assert space.explain(key).state == "retired"


def test_every_kind_hands_out_keys(client: Any, name: str) -> None:
    epoch = datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    for number, definition in enumerate(
        [
            Definition(kind="sequential", length=0),
            Definition(kind="pooled", low_water=100),
            Definition(kind="snowflake", layout="41/10/12", epoch=epoch),
            Definition(kind="uuid", uuid_version=4),
        ]
    ):
        space = client.keyspace(f"{name}-{number}")
        made = space.ensure(definition)
        assert made.definition.kind == definition.kind
        assert made.definition.epoch == definition.epoch
        keys = space.take_many(10)
        assert len(set(keys)) == 10
    assert space.explain(keys[0]).state == "unknown"


def test_a_server_on_a_unix_socket_is_reached(connect: Connect, own_deployment: Deployment) -> None:
    path = own_deployment.folder / "socket"
    own_deployment.start("--listen", f"unix:{path}")
    space = connect(f"unix:{path}").keyspace("default")
    assert space.take() != space.take()
