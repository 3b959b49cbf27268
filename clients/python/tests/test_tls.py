"""TLS with an authority and certificates of one's own, over both faces."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from servers import Deployment

from keymill import BadSettings, Keymill, Unauthorized, Unreachable


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server's certificate for 127.0.0.1, and a client's."""
    assert shutil.which("openssl"), "these tests need openssl"
    folder = tmp_path_factory.mktemp("certificates")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    openssl(
        folder,
        "req",
        "-x509",
        *new,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=test authority",
        "-addext",
        "keyUsage=critical,keyCertSign",
    )
    for name, alternative in [("server", "IP:127.0.0.1"), ("client", "DNS:shop.example")]:
        issue = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName={alternative}"]
        ends = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"]
        openssl(folder, "req", "-x509", *new, *issue, *ends, "-addext", "basicConstraints=critical,CA:false")
    return folder


def test_servers_are_checked_and_clients_can_show_a_certificate(
    connect: Callable[..., Any], own_deployment: Deployment, certificates: Path
) -> None:
    at = {name: str(certificates / name) for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")}
    tls = ["--tls-certificate", at["server.pem"], "--tls-key", at["server.key"], "--tls-client-ca", at["ca.pem"]]
    own_deployment.run("token", "create", "shop", "--allow", "take:*", "--certificate", "shop.example")
    url = own_deployment.start(*tls).url
    assert url.startswith("https://")
    with pytest.raises(Unauthorized):
        connect(url, ca_file=at["ca.pem"]).keyspace("default").take()
    identity = (at["client.pem"], at["client.key"])
    space = connect(url, ca_file=at["ca.pem"], client_certificate=identity).keyspace("default")
    assert len({space.take() for _ in range(20)} | set(space.take_many(20_000))) == 20_020
    context = ssl.create_default_context(cafile=at["ca.pem"])
    context.load_cert_chain(*identity)
    assert connect(url, ssl_context=context).keyspace("default").cached(any_keyspace=True).take()
    # Neither an authority that is not trusted nor another name is accepted.
    with pytest.raises(Unreachable, match="certificate verify failed"):
        connect(url, timeout=0.5).keyspace("default").take()
    with pytest.raises(Unreachable, match="certificate verify failed"):
        other = url.replace("127.0.0.1", "localhost")
        connect(other, ca_file=at["ca.pem"], timeout=0.5).keyspace("default").take()


def test_files_that_do_not_fit_are_refused(certificates: Path) -> None:
    ca, client, key = (str(certificates / name) for name in ("ca.pem", "client.pem", "server.key"))
    with pytest.raises(BadSettings, match="cannot be used for TLS"):
        Keymill("https://a", ca_file=ca, client_certificate=(client, key))
    with pytest.raises(BadSettings, match="cannot be used for TLS"):
        Keymill("https://a", ca_file=key)
