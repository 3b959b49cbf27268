"""The settings of a keyspace."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any, Optional

from ._fields import Fields


@dataclass(frozen=True)
class Definition:
    """The settings of a keyspace. One that is ``None`` has the server's default.

    The format of the keys is permanent. What is marked as changeable is set by every ``ensure``.

    Attributes:
        kind: ``shuffled``, ``sequential``, ``pooled``, ``digest``, ``snowflake`` or ``uuid``.
        alphabet: ``base62``, ``base58``, ``base36``, ``base32``, ``base64url``, ``hex``, ``decimal``, ``safe``, or the
            characters themselves.
        length: Length of a key, without prefix and check; 0 writes plain integers.
        prefix: What every key begins with.
        group: A hyphen after every so many characters; 0 for none.
        check: Whether a check character ends every key.
        step: The distance between two numbers: more than 1 shares one keyspace among stores.
        offset: The first number, below ``step``.
        normalize: With kind ``digest``, how inputs are compared: ``none``, ``url`` or ``url-decoded``.
        layout: With kind ``snowflake``: the bits of time, worker and sequence, such as ``41/10/12``.
        epoch: With kind ``snowflake``: the start of the time count.
        uuid_version: With kind ``uuid``: 7 or 4.
        start: The first ordinal to grant; only when the keyspace is created.
        lease_size_min: The fewest keys an instance leases at once; changeable.
        lease_size_max: The most keys an instance leases at once; changeable.
        horizon_seconds: Seconds of demand that instances keep leased in memory; changeable.
        blocklist: Whether keys that the blocklist matches are skipped; changeable.
        audit: ``batch``, or ``key`` to record every key with its time and caller; changeable.
        low_water: A pool with fewer keys than this is filled; changeable.
        ttl_seconds: How long a pool's key is valid once it is handed out; 0 means forever; changeable.
        reserve_seconds: With audit ``key``: how long a pool's keys stay reserved for an instance that does not hand
            them out; changeable.
        window_seconds: With kind ``snowflake``: how far ahead an instance holds its worker number; changeable.
    """

    kind: Optional[str] = None
    alphabet: Optional[str] = None
    length: Optional[int] = None
    prefix: Optional[str] = None
    group: Optional[int] = None
    check: Optional[bool] = None
    step: Optional[int] = None
    offset: Optional[int] = None
    normalize: Optional[str] = None
    layout: Optional[str] = None
    epoch: Optional[datetime] = None
    uuid_version: Optional[int] = None
    start: Optional[int] = None
    lease_size_min: Optional[int] = None
    lease_size_max: Optional[int] = None
    horizon_seconds: Optional[int] = None
    blocklist: Optional[bool] = None
    audit: Optional[str] = None
    low_water: Optional[int] = None
    ttl_seconds: Optional[int] = None
    reserve_seconds: Optional[int] = None
    window_seconds: Optional[int] = None

    def _as_json(self) -> dict[str, Any]:
        """What is set, as servers read it."""
        values: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, datetime):
                value = value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
            if value is not None:
                values[field.name] = value
        return values

    @classmethod
    def _read(cls, found: Fields) -> Definition:
        return cls(
            kind=found.text_or_none("kind"),
            alphabet=found.text_or_none("alphabet"),
            length=found.number_or_none("length"),
            prefix=found.text_or_none("prefix"),
            group=found.number_or_none("group"),
            check=found.flag_or_none("check"),
            step=found.number_or_none("step"),
            offset=found.number_or_none("offset"),
            normalize=found.text_or_none("normalize"),
            layout=found.text_or_none("layout"),
            epoch=found.time_or_none("epoch"),
            uuid_version=found.number_or_none("uuid_version"),
            start=found.number_or_none("start"),
            lease_size_min=found.number_or_none("lease_size_min"),
            lease_size_max=found.number_or_none("lease_size_max"),
            horizon_seconds=found.number_or_none("horizon_seconds"),
            blocklist=found.flag_or_none("blocklist"),
            audit=found.text_or_none("audit"),
            low_water=found.number_or_none("low_water"),
            ttl_seconds=found.number_or_none("ttl_seconds"),
            reserve_seconds=found.number_or_none("reserve_seconds"),
            window_seconds=found.number_or_none("window_seconds"),
        )
