"""The tools that deploy/check uses: those of this machine, or else Debian's and PyPI's.

Nothing is installed, because Debian's packages would start servers: packages are unpacked in ~/.cache/keymill, and what
is on PyPI goes into a virtual environment below target/. A tool that cannot be had is named, and `exit_code` tells
whether that is for lack of a network, as other checks do.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "keymill" / "tools"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
NO_NETWORK, NO_TOOL = 75, 69
# What apt-get and pip say without a network. pip may only say that there are no versions at all.
UNREACHABLE = r"from versions: none|resolve|connect|unreachable|timed? ?out|temporary failure|\bproxy\b"


class Absent(Exception):
    """A tool that cannot be had, and the exit code that says why."""

    def __init__(self, reason, output=""):
        super().__init__(f"{reason}\n{output}".strip())
        self.exit_code = NO_NETWORK if re.search(UNREACHABLE, output, re.IGNORECASE) else NO_TOOL


class Tool:
    """A command, and the variables that it needs where its package was only unpacked."""

    def __init__(self, path, environment=None):
        self.path = path
        self.environment = {**os.environ, **(environment or {})}

    def __call__(self, *arguments, **options):
        """Runs it; what it prints."""
        done = self.run(*arguments, **options)
        if done.returncode != 0:
            sys.exit(f"FAILED: {self.path} {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, *arguments, **options):
        command = [str(it) for it in (self.path, *arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, **options)


class Tools:
    """The tools that were asked for; `exit_code` is not 0 when one was absent."""

    def __init__(self):
        self.exit_code = 0

    def of_debian(self, name, package):
        """A tool of this machine or of Debian's archive; None where neither has it."""
        found = shutil.which(name)
        return Tool(found) if found else self.had(name, lambda: of_root(name, unpacked(package)))

    def of_pypi(self, name):
        """A tool in the version of requirements.txt; None where it cannot be installed."""
        return self.had(name, lambda: Tool(virtual_environment() / "bin" / name))

    def had(self, name, get):
        try:
            return get()
        except Absent as absent:
            print(f"{absent}\n*** NO {name.upper()}: what it checks is NOT TESTED ***", file=sys.stderr)
            # The lack of a network excuses no other reason.
            self.exit_code = NO_TOOL if self.exit_code == NO_TOOL else absent.exit_code
            return None


def of_root(name, root):
    """A tool of a package that was unpacked there, with the libraries beside it."""
    path = next((path for folder in ("usr/bin", "usr/sbin", "bin") if (path := root / folder / name).exists()), None)
    if not path:
        raise Absent(f"{root} has no {name}")
    libraries = [*root.glob("usr/lib/*-linux-gnu"), *root.glob("usr/lib/*-linux-gnu/systemd")]
    return Tool(path, {
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"),
        # Its own units, and then those of this machine.
        "SYSTEMD_UNIT_PATH": f"{root}/usr/lib/systemd/system:{root}/lib/systemd/system:",
    })


def unpacked(package):
    """The folder of a package of Debian, with what it needs and this machine lacks."""
    if not shutil.which("apt-get"):
        raise Absent(f"this machine has no apt-get to get {package} with")
    release = platform.freedesktop_os_release().get("VERSION_ID", "")
    root = CACHE / f"{package}-{release}"
    if root.exists():
        return root
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        try:
            download(package, folder)
        except Absent:
            # The lists of packages may be missing, or too old. Only root may renew them.
            if os.geteuid() != 0:
                raise
            ask("apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any")
            download(package, folder)
        for archive in Path(folder).glob("*.deb"):
            ask("dpkg-deb", "--extract", archive, f"{folder}/root")
        try:
            os.rename(f"{folder}/root", root)
        except OSError:
            # Another may have been faster.
            if not root.exists():
                raise
    return root


def download(package, folder):
    listed = ask("apt-get", "install", "--print-uris", "-qq", "--no-install-recommends", package)
    names = re.findall(r"^'\S+' ([^_\s]+)_\S+\.deb ", listed, re.MULTILINE)
    # A package that is installed, but whose tool is not on the PATH, is in no list.
    ask("apt-get", "download", "-qq", *(names or [package]), cwd=folder)


def virtual_environment():
    """The folder with what requirements.txt names, made again when that changes."""
    requirements = HERE / "requirements.txt"
    root, note = TARGET / "deploy/venv", TARGET / "deploy/installed"
    wanted = f"{sys.version}\n{requirements.read_text()}"
    if note.exists() and note.read_text() == wanted:
        return root
    note.unlink(missing_ok=True)
    ask(sys.executable, "-m", "venv", "--clear", root)
    ask(root / "bin/pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", "-r", requirements)
    note.write_text(wanted)
    return root


def ask(*command, **options):
    """Runs a command that may need a network, with a limit of time; what it prints."""
    command = [str(it) for it in command]
    # Messages are looked at, so they are in English.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, **options)
    except subprocess.TimeoutExpired:
        raise Absent(" ".join(command), "timed out") from None
    if done.returncode != 0:
        raise Absent(f"{' '.join(command)}: exit code {done.returncode}", done.stdout + done.stderr)
    return done.stdout
