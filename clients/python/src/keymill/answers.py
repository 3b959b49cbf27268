"""What calls return: plain records, with times as ``datetime`` in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional

from ._fields import Fields
from .definition import Definition
from .errors import KeymillError


@dataclass(frozen=True)
class Digest:
    """The key of an input, in a keyspace of kind ``digest``.

    Attributes:
        key: The key: always the same for the same input and scope.
        made: Whether the input is new. After a retry it may be false for an input that is.
    """

    key: str
    made: bool

    @classmethod
    def _read(cls, found: Fields) -> Digest:
        return cls(key=found.text("key"), made=found.flag("made"))


@dataclass(frozen=True)
class Alias:
    """A key of a user's choice. ``owner`` is empty if none was given."""

    space: str
    alias: str
    owner: str
    created_at: datetime

    @classmethod
    def _read(cls, found: Fields) -> Alias:
        return cls(
            space=found.text("space"),
            alias=found.text("alias"),
            owner=found.text("owner"),
            created_at=found.time("created_at"),
        )


@dataclass(frozen=True)
class Instance:
    """A server process. ``id`` is random: a process that is restarted is another instance."""

    id: str
    host: str
    pid: int
    version: str
    started_at: datetime

    @classmethod
    def _read(cls, found: Fields) -> Instance:
        return cls(
            id=found.text("id"),
            host=found.text("host"),
            pid=found.number("pid"),
            version=found.text("version"),
            started_at=found.time("started_at"),
        )


@dataclass(frozen=True)
class Lease:
    """A range of ordinals that was granted to an instance.

    Attributes:
        lease: Its number within the keyspace.
        start: The first ordinal.
        end: The ordinal after the last.
        purpose: ``lease``, ``advance``, ``fill`` or ``window``.
        holder: The instance that it was granted to.
        closed_at_ordinal: The first ordinal of the lease that was not used, once the lease is closed.
    """

    space: str
    lease: int
    start: int
    end: int
    purpose: str
    holder: Instance
    granted_at: datetime
    closed_at_ordinal: Optional[int]
    closed_at: Optional[datetime]

    @classmethod
    def _read(cls, found: Fields) -> Lease:
        return cls(
            space=found.text("space"),
            lease=found.number("lease"),
            start=found.number("start"),
            end=found.number("end"),
            purpose=found.text("purpose"),
            holder=Instance._read(found.part("holder")),
            granted_at=found.time("granted_at"),
            closed_at_ordinal=found.number_or_none("closed_at_ordinal"),
            closed_at=found.time_or_none("closed_at"),
        )


@dataclass(frozen=True)
class UsedKey:
    """A key that is on record as used.

    Attributes:
        used_at: When it was handed out; with audit ``batch``, when it was claimed from the pool.
        caller: The caller it was handed out to; empty if none was given.
        instance: The instance that handed it out.
    """

    key: str
    used_at: datetime
    caller: str
    instance: str
    expires_at: Optional[datetime]
    retired_at: Optional[datetime]

    @classmethod
    def _read(cls, found: Fields) -> UsedKey:
        return cls(
            key=found.text("key"),
            used_at=found.time("used_at"),
            caller=found.text("caller"),
            instance=found.text("instance"),
            expires_at=found.time_or_none("expires_at"),
            retired_at=found.time_or_none("retired_at"),
        )


@dataclass(frozen=True)
class Explanation:
    """Where a key came from.

    Attributes:
        key: The key in its canonical form; if it cannot belong to the keyspace, as it was given.
        state: ``invalid``, ``unissued``, ``leased``, ``issued``, ``skipped``, ``alias``, ``imported``, ``available``,
            ``reserved``, ``retired``, ``unknown``, or one that a later server has.
        reason: The reason for the state, in a sentence.
        ordinal: It is the n-th key of the keyspace.
        number: The number behind the key, before shuffling.
        time: When it was made; known for snowflake IDs and UUIDs of version 7.
        worker: The worker number that made a snowflake ID.
        sequence: The sequence number of a snowflake ID within its tick.
        lease: The lease it came from.
        used: When and to whom it was handed out, if single keys are recorded.
    """

    space: str
    key: str
    state: str
    reason: str
    ordinal: Optional[int]
    number: Optional[int]
    time: Optional[datetime]
    worker: Optional[int]
    sequence: Optional[int]
    lease: Optional[Lease]
    used: Optional[UsedKey]

    @classmethod
    def _read(cls, found: Fields) -> Explanation:
        lease, used = found.part_or_none("lease"), found.part_or_none("used")
        return cls(
            space=found.text("space"),
            key=found.text("key"),
            state=found.text("state"),
            reason=found.text("reason"),
            ordinal=found.number_or_none("ordinal"),
            number=found.number_or_none("number"),
            time=found.time_or_none("time"),
            worker=found.number_or_none("worker"),
            sequence=found.number_or_none("sequence"),
            lease=Lease._read(lease) if lease else None,
            used=UsedKey._read(used) if used else None,
        )


@dataclass(frozen=True)
class KeyspaceInfo:
    """A keyspace: its settings and its usage.

    Attributes:
        definition: Its settings, all of them present that its kind has.
        fingerprint: The fingerprint of the secret that its keys are made with, if they need one.
        capacity: How many keys it has in total.
        next: The lowest ordinal never granted.
        leased: Keys granted to instances, which may have handed them out.
        named: Aliases, keys in use elsewhere and digests on record.
        remaining: Keys not yet granted.
        available: Keys in the pool, if the keyspace has one.
        at_hand: Keys in the memory of the server that answered, ready to be taken.
        density: The chance that a guess hits a key that may be in use.
        rate: Keys per second that the server that answered currently hands out.
        leased_rate: Keys per second that all servers leased, on average.
        exhausted_at: When the keyspace will be used up at that rate.
        runs_out_at: With kind ``snowflake``: when its timestamps end.
    """

    name: str
    definition: Definition
    fingerprint: Optional[str]
    sealed: bool
    created_at: datetime
    capacity: int
    next: int
    leased: int
    named: int
    remaining: int
    available: Optional[int]
    at_hand: int
    density: float
    rate: float
    leased_rate: float
    exhausted_at: Optional[datetime]
    runs_out_at: Optional[datetime]

    @classmethod
    def _read(cls, found: Fields) -> KeyspaceInfo:
        return cls(
            name=found.text("name"),
            definition=Definition._read(found),
            fingerprint=found.text_or_none("fingerprint"),
            sealed=found.flag("sealed"),
            created_at=found.time("created_at"),
            capacity=found.number("capacity"),
            next=found.number("next"),
            leased=found.number("leased"),
            named=found.number("named"),
            remaining=found.number("remaining"),
            available=found.number_or_none("available"),
            at_hand=found.number("at_hand"),
            density=found.ratio("density"),
            rate=found.ratio("rate"),
            leased_rate=found.ratio("leased_rate"),
            exhausted_at=found.time_or_none("exhausted_at"),
            runs_out_at=found.time_or_none("runs_out_at"),
        )


@dataclass(frozen=True)
class CacheStatus:
    """How a cache is.

    Attributes:
        state: ``starting``: it has fetched nothing yet. ``on``: it hands out keys from memory. ``failing``: it is on,
            and the last fetch failed; fetching goes on. ``refused``: servers refuse to give out more keys; they are
            asked again when keys are wanted. ``off``: every take asks a server, for the reason in ``reason``.
        at_hand: How many keys are in memory.
        target: How many it aims to hold.
        rate: Keys per second that are taken from it.
        reason: Why it is off.
        error: Why the last fetch failed.
    """

    state: str
    at_hand: int
    target: int
    rate: float
    reason: Optional[str] = None
    error: Optional[KeymillError] = None
