"""The services of compose.yaml in an engine of their own: their images, their secrets, and how they are. `try-compose` and
`try-shortener` use it.

The images of PostgreSQL and HAProxy are made of Debian's packages, under the names that compose.yaml uses. Those of
keymill are made of binaries as releases make them.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.request

from engine import REPOSITORY, SUITE, SUITES, is_static, need, run, say

PORT = int(os.environ.get("KEYMILL_PORT", "18080"))
INSTANCES = ["keymill1", "keymill2", "keymill3"]
POSTGRES, HAPROXY = SUITES[SUITE]["postgres"], SUITES[SUITE]["haproxy"]


class Compose:
    """The services of compose.yaml, in a copy of what it needs."""

    def __init__(self, engine):
        self.engine = engine
        self.folder = engine.folder / "compose"
        shutil.copytree(REPOSITORY / "deploy", self.folder / "deploy", ignore=shutil.ignore_patterns("secrets"))
        shutil.copy(REPOSITORY / "compose.yaml", self.folder)
        self.environment = {**engine.environment, "KEYMILL_PORT": str(PORT), "POSTGRES_VERSION": POSTGRES,
                            "HAPROXY_VERSION": HAPROXY}

    def __call__(self, *command):
        return run("docker-compose", *command, env=self.environment, cwd=self.folder, stderr=subprocess.DEVNULL)

    def make_secrets(self, script, binary):
        run(self.folder / script, env={**self.environment, "KEYMILL": str(binary)}, stderr=subprocess.DEVNULL)

    def up(self):
        say("up")
        self("up", "--detach", "--no-build")
        self.wait_healthy("postgres", *INSTANCES)
        self.wait_answered("balancer", f"http://127.0.0.1:{PORT}/readyz")

    def id(self, service):
        return self("ps", "--all", "--quiet", service)

    def inspect(self, service):
        return json.loads(self.engine.docker("inspect", self.id(service)))[0]

    def wait_healthy(self, *services):
        deadline = time.monotonic() + 90
        for service in services:
            inspect = ["inspect", "--format", "{{.State.Health.Status}}", self.id(service)]
            while self.engine.docker(*inspect) != "healthy":
                need(time.monotonic() < deadline, f"{service} does not become healthy:\n{self.logs(service)}")
                time.sleep(0.2)

    def wait_answered(self, service, url):
        """Until a service answers: the load balancer once it has found an instance."""
        deadline = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except OSError:
                need(time.monotonic() < deadline, f"{service} does not answer:\n{self.logs(service)}")
                time.sleep(0.2)

    def check_image(self, service, image, binary):
        """What an image promises: a user of its own, a root that cannot be written, little else than the binary."""
        settings = self.inspect(service)
        need(settings["Config"]["User"] == "65532:65532", f"{service} does not run as a user of its own")
        need(settings["HostConfig"]["ReadonlyRootfs"], f"the root of {service} can be written")
        size = int(self.engine.docker("image", "inspect", "--format", "{{.Size}}", f"{image}:latest"))
        say(f"the image {image} has {size / 1e6:.0f} MB, the binary {binary.stat().st_size / 1e6:.0f} MB")

    def stop(self, *services):
        """A clean stop ends in time with exit code 0."""
        self("stop", *services)
        for service in services:
            code = self.inspect(service)["State"]["ExitCode"]
            need(code == 0, f"{service} ended with exit code {code}")

    def logs(self, service):
        return self("logs", "--no-color", "--tail=30", service)

    def rows(self, query):
        asked = ["psql", "--username=keymill", "--no-align", "--tuples-only", "--command", query]
        return [line.split("|") for line in self("exec", "-T", "postgres", *asked).splitlines()]


def make_images(engine, *ours):
    """Makes every image; `ours` are those of keymill: a name, a Dockerfile and a binary each."""
    say("images")
    engine.import_debian(f"postgres:{POSTGRES}", 'ENTRYPOINT ["docker-entrypoint.sh"]')
    configuration = "/usr/local/etc/haproxy/haproxy.cfg"
    command = f'CMD ["haproxy", "-W", "-db", "-f", "{configuration}"]'
    engine.import_debian(f"haproxy:{HAPROXY}", command, "USER haproxy")
    for image, dockerfile, binary in ours:
        base = "scratch"
        if not is_static(binary):
            say(f"NOT STATIC: the image {image} has the libraries of this binary, and is not the one that is released")
            base = f"{image}-libraries"
            engine.import_libraries(base, binary)
        engine.build(image, dockerfile, binary, base)
