"""Three servers on one store are killed and started again in turn, then all are down for ten seconds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from servers import Deployment

HERE = Path(__file__).parent
RATE, SECONDS, DOWN = 1_700, 24, 10


def test_no_caller_sees_an_error_and_no_key_comes_twice(own_deployment: Deployment) -> None:
    servers = [own_deployment.start() for _ in range(3)]
    urls = ",".join(server.url for server in servers)
    files = {face: own_deployment.folder / f"keys-{face}" for face in ("sync", "asyncio")}
    callers = {}
    for face, file in files.items():
        command = [sys.executable, str(HERE / "caller.py"), face, str(RATE), str(SECONDS), str(file), urls]
        callers[face] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(1.5)
        for server in servers:
            server.kill()
            time.sleep(0.8)
            server.start()
            time.sleep(0.8)
        assert all(caller.poll() is None for caller in callers.values()), "they are to take keys through all of it"
        for server in servers:
            server.kill()
        time.sleep(DOWN)
        assert all(caller.poll() is None for caller in callers.values()), "they are to take keys through all of it"
        for server in servers:
            server.start()
        said = {face: caller.communicate(timeout=40) for face, caller in callers.items()}
    finally:
        for caller in callers.values():
            caller.kill()
            caller.wait()
    together: list[str] = []
    for face, (printed, complained) in said.items():
        met = json.loads(printed or "{}")
        keys = files[face].read_text().split()
        print(f"{face}: {len(keys)} keys, {met}")
        assert met.get("error_count") == 0, (face, met, complained)
        assert len(keys) >= RATE * SECONDS * 0.9, "they were held up"
        together += keys
    assert len(set(together)) == len(together)
