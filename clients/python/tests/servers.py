"""Real servers: one store in a folder of its own, and as many instances on it as a test wants."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Optional

BINARY = os.environ.get("KEYMILL_BINARY") or str(Path(__file__).parents[3] / "target/debug/keymill")
_LISTENING = re.compile(r"^ *listening +(\S+)", re.MULTILINE)


class Instance:
    """A server process. It keeps its address when it is started again."""

    def __init__(self, deployment: Deployment, number: int, options: tuple[str, ...]) -> None:
        self.url = ""
        self._deployment = deployment
        self._greeting = deployment.folder / f"greeting-{number}"
        self._options = options
        self._process: Optional[subprocess.Popen[bytes]] = None
        self.start()

    def start(self) -> None:
        listen = self.url.split("//")[-1] or "127.0.0.1:0"
        command = [*self._deployment.command, "serve", "--listen", listen, *self._options]
        with open(self._greeting, "wb") as greeting:
            self._process = subprocess.Popen(
                command, stdout=greeting, stderr=greeting, env=self._deployment.environment
            )
        end = time.monotonic() + 30
        while True:
            said = self._greeting.read_text(errors="replace")
            found = _LISTENING.search(said)
            if found:
                self.url = found[1]
                return
            assert self._process.poll() is None and time.monotonic() < end, f"the server did not start:\n{said}"
            time.sleep(0.02)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class Deployment:
    """A store, its command line, and its servers, all of which end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("KEYMILL_")}
        # What tests wait for comes sooner.
        self.environment.update(KEYMILL_LIMITS_WAIT_SECONDS="0.3", KEYMILL_LIMITS_HEARTBEAT_SECONDS="0.5")
        self.command = [BINARY, "--data-dir", str(folder / "data"), "--store", f"sqlite:{folder / 'keys.db'}"]
        self.instances: list[Instance] = []
        (folder / "data").mkdir()

    def start(self, *options: str) -> Instance:
        self.instances.append(Instance(self, len(self.instances), options))
        return self.instances[-1]

    @property
    def url(self) -> str:
        return self.instances[0].url

    def run(self, *arguments: str) -> str:
        """Runs a command on the store, and returns what it prints."""
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        for instance in self.instances:
            instance.kill()
