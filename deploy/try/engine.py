"""A Docker engine of its own, in a temporary folder, with images that need no registry.

Every `deploy/try-*` uses it. It needs root, and Debian's docker.io, docker-compose and debootstrap. Nothing
of it is left when it ends: no daemon, no container, no image, no rule of a firewall. Only the Debian system that images
are made of is kept, in ~/.cache/keymill, because it takes minutes to make; DEBIAN_SUITE=bookworm takes an older one.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "keymill" / "try"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
# What a release of Debian has of what compose.yaml names.
SUITES = {"bookworm": {"postgres": "15", "haproxy": "2.6"}, "trixie": {"postgres": "17", "haproxy": "3.0"}}
SUITE = os.environ.get("DEBIAN_SUITE", "trixie")
PACKAGES = "postgresql,haproxy,systemd,systemd-sysv,dbus,procps"
HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


BEGAN = time.monotonic()


def say(text):
    print(f"== {text} (after {time.monotonic() - BEGAN:.0f} s)", flush=True)


def need(condition, problem):
    """What was to be shown."""
    if not condition:
        raise SystemExit(f"FAILED: {problem}")


def run(*command, **options):
    """Runs a command that must succeed, and returns what it prints."""
    done = subprocess.run([str(it) for it in command], stdout=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout.strip()


def is_static(binary):
    """Whether a program needs no other file: then no interpreter is named in it."""
    headers = run("readelf", "--program-headers", binary)
    return "INTERP" not in headers


class Engine:
    """A daemon, and its client's commands."""

    def __init__(self):
        if os.geteuid() != 0:
            raise SystemExit("this needs root, because it starts a Docker engine")
        tools = {"dockerd": "docker.io", "docker-compose": "docker-compose", "debootstrap": "debootstrap"}
        missing = [package for tool, package in tools.items() if not shutil.which(tool)]
        if missing:
            raise SystemExit(f"please install: apt-get install --no-install-recommends {' '.join(missing)}")
        self.folder = Path(tempfile.mkdtemp(prefix="keymill-try-"))
        socket = f"unix://{self.folder}/socket"
        self.environment = {**os.environ, "DOCKER_HOST": socket, "COMPOSE_PROJECT_NAME": "keymill"}
        self.log = open(self.folder / "log", "w")
        # Containers reach each other and nothing else, so that the machine's firewall is left alone.
        self.daemon = subprocess.Popen(
            ["dockerd", "--storage-driver=vfs", f"--host={socket}", f"--data-root={self.folder}/data",
             f"--exec-root={self.folder}/exec", f"--pidfile={self.folder}/pid", "--bridge=none",
             "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false"],
            stdout=self.log, stderr=self.log, start_new_session=True)

    def __enter__(self):
        deadline = time.monotonic() + 60
        while subprocess.run(["docker", "version"], env=self.environment, capture_output=True).returncode:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                lines = (self.folder / "log").read_text().splitlines()
                self.__exit__()
                raise SystemExit("the Docker engine does not start:\n" + "\n".join(lines[-20:]))
            time.sleep(0.2)
        return self

    def __exit__(self, *_):
        """Removes containers, ends the daemon, and removes its folder."""
        if self.daemon.poll() is None:
            listed = subprocess.run(["docker", "ps", "--all", "--quiet"], env=self.environment,
                                    capture_output=True, text=True)
            for container in listed.stdout.split():
                subprocess.run(["docker", "rm", "--force", "--volumes", container], env=self.environment,
                               capture_output=True)
            subprocess.run(["docker", "network", "prune", "--force"], env=self.environment, capture_output=True)
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        self.log.close()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        below = [line.split()[4] for line in mounts if line.split()[4].startswith(f"{self.folder}/")]
        for mount in reversed(below):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def docker(self, *command, **options):
        return run("docker", *command, env=self.environment, **options)

    def import_debian(self, name, *changes):
        """Makes an image of the Debian system, under the name of an official one."""
        options = [option for change in changes for option in ("--change", change)]
        self.docker("import", *options, debian(), name, stderr=subprocess.DEVNULL)

    def import_libraries(self, name, binary):
        """Makes an image of the libraries that a binary needs, for one that is not static."""
        root = self.folder / name
        for library in re.findall(r"(/\S+) \(0x", run("ldd", binary)):
            # Folders that an archive leaves out could be entered by root alone.
            copy = root / library.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)
        run("tar", "--create", "--file", f"{root}.tar", "--directory", root, ".")
        self.docker("import", f"{root}.tar", name, stderr=subprocess.DEVNULL)

    def build(self, name, dockerfile, binary, base="scratch"):
        """Makes an image of a binary, as releases do."""
        context = self.folder / "context"
        (context / "dist").mkdir(parents=True)
        (context / "deploy/docker").mkdir(parents=True)
        shutil.copytree(REPOSITORY / "deploy/docker/state", context / "deploy/docker/state")
        arch = run("dpkg", "--print-architecture")
        target = context / "dist" / f"{name}-linux-{arch}"
        shutil.copy(binary, target)
        target.chmod(0o755)
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", context / "dist")
        # Debian's engine has no plugin for the newer builder.
        environment = {**self.environment, "DOCKER_BUILDKIT": "0"}
        run("docker", "build", "--quiet", "--target=given", f"--build-arg=TARGETARCH={arch}",
            f"--build-arg=BASE={base}", f"--tag={name}:latest", "--file", REPOSITORY / dockerfile, context,
            env=environment, stderr=subprocess.DEVNULL)
        shutil.rmtree(context)


def debian():
    """A Debian system with what stands in for the official images, as an archive."""
    entrypoint = HERE / "postgres-entrypoint"
    made_of = hashlib.sha256(f"{SUITE} {PACKAGES} {entrypoint.read_text()}".encode()).hexdigest()
    archive = CACHE / f"{SUITE}-{made_of[:12]}.tar"
    if archive.exists():
        return archive
    say(f"making a Debian system ({PACKAGES}); this takes minutes, once")
    CACHE.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="root-", dir=CACHE))
    # It becomes the root of containers, which not only root may enter.
    root.chmod(0o755)
    try:
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, root, MIRROR)
        for unneeded in ["var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"]:
            shutil.rmtree(root / unneeded, ignore_errors=True)
        shutil.copy(entrypoint, root / "usr/local/bin/docker-entrypoint.sh")
        run("tar", "--create", "--file", f"{archive}.new", "--directory", root, "--exclude=./dev/*", ".")
        os.rename(f"{archive}.new", archive)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return archive


def program(name, description):
    """The one argument of each program: the binary to try."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        raise SystemExit(f"usage: {name} BINARY\n\n{description}")
    binary = Path(sys.argv[1]).resolve()
    version = run(binary, "--version")
    need(re.match(r"keymill \d", version), f"{binary} is not keymill")
    return binary
