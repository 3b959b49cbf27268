"""The servers that are compared: keymill itself, nginx, Redis and PostgreSQL, each a process of its own."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
from pathlib import Path

from kit.processes import Process, answers, build_proof, free_port, run

NGINX = """
user root; daemon off; worker_processes {workers}; pid nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path client_body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{
    listen 127.0.0.1:{port};
    default_type {content_type}; add_header Cache-Control no-store;
    add_header X-Content-Type-Options nosniff; add_header X-Request-Id $request_id;
    location / {{ {parts} return 200 '{body}'; }}
  }}
}}
"""


class Keymill(Process):
    """An instance; several on one store have it named."""

    def __init__(self, binary: Path, folder: Path, name: str = "keymill", store: str = "", **settings: str) -> None:
        self.binary, self.data = binary, folder / name
        self.store = ["--store", store] if store else []
        settings.setdefault("KEYMILL_LIMITS_THREADS", str(os.cpu_count()))
        command = [str(binary), "serve", "--listen", "127.0.0.1:0", "--data-dir", str(self.data), *self.store]
        super().__init__(command, folder, name, **settings)
        self.until(lambda: self.said(r"^ *listening +(http\S+)") is not None)
        self.url = self.said(r"^ *listening +(http\S+)") or ""

    def command(self, *arguments: str) -> str:
        """Runs a command on its store."""
        return run([str(self.binary), *arguments, "--data-dir", str(self.data), *self.store])


class Nginx(Process):
    """It answers everything with one body, and with headers like keymill's."""

    def __init__(self, folder: Path, body: str, content_type: str) -> None:
        port = free_port()
        # A parameter of its settings may not have more than 4,096 bytes.
        parts = {f"$part{at}": body[at : at + 3_000] for at in range(0, len(body), 3_000)}
        settings = {
            "workers": os.cpu_count(),
            "port": port,
            "content_type": content_type,
            "parts": " ".join(f"set {name} '{part}';" for name, part in parts.items()),
            "body": "".join(parts),
        }
        home = folder / f"nginx-{port}"
        home.mkdir()
        (home / "nginx.conf").write_text(NGINX.format(**settings))
        super().__init__(["nginx", "-p", str(home), "-c", str(home / "nginx.conf"), "-e", "nginx.err"], home, "nginx")
        self.until(lambda: answers(port))
        self.url = f"http://127.0.0.1:{port}"


class ConstantRedis(Process):
    """It answers every command of the Redis protocol with the same key."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        super().__init__([str(build_proof("constant_redis")), f"127.0.0.1:{self.port}"], folder, "constant-redis")
        self.until(lambda: answers(self.port))


class Redis(Process):
    """Without files, as a cache has it; or with every change on disk before its answer."""

    def __init__(self, folder: Path, is_durable: bool) -> None:
        self.port = free_port()
        home = folder / f"redis-{self.port}"
        home.mkdir()
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no"]
        super().__init__(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(home), "--save", ""]
            + (durable if is_durable else []),
            home,
            "redis",
        )
        self.until(lambda: answers(self.port))

    def command(self, *arguments: str) -> str:
        return run(["redis-cli", "-p", str(self.port), *arguments]).strip()


class Postgres(Process):
    """A cluster of its own with the settings of Debian, so every commit is on disk."""

    def __init__(self, folder: Path) -> None:
        home, port = folder / "postgres", free_port()
        home.mkdir()
        programs = Path(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1])
        # It does not run as root.
        self._as = []
        if os.geteuid() == 0:
            self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
            shutil.chown(home, "postgres", "postgres")
        user = "postgres" if self._as else pwd.getpwuid(os.getuid()).pw_name
        run([*self._as, str(programs / "initdb"), "-D", str(home / "data"), "-A", "trust", "-U", user], cwd=Path("/"))
        command = [str(programs / "postgres"), "-D", str(home / "data"), "-p", str(port), "-k", str(home)]
        super().__init__([*self._as, *command, "-c", "listen_addresses=127.0.0.1"], folder, "postgres")
        self.address = ["-h", "127.0.0.1", "-p", str(port), "-U", user]
        self.until(lambda: answers(port) and "ready to accept" in self.log.read_text())
        self.url = f"postgres://{user}@127.0.0.1:{port}/postgres"

    def sql(self, script: str) -> str:
        return run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", *self.address, "postgres"], stdin=script)
