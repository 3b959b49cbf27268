"""A web application whose cache is filled when it is loaded, in the process that all workers are forked from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from keymill import Keymill

client = Keymill(os.environ["TEST_SERVERS"])
links = client.keyspace("default").cached(keys_min=2_000)
loaded = {"pid": os.getpid(), "keys": [links.take()]}
while len(links) < 1_500:
    loaded["keys"].append(links.take())  # type: ignore[attr-defined]


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    here = {"pid": os.getpid(), "keys": [links.take() for _ in range(40)]}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([loaded, here]).encode()]
