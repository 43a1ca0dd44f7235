"""The store with TLS and a restricted user."""

import shutil
import subprocess

import pytest

from tests.faults.load import Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import judge
from tests.faults.servers import Server, free_port

RIGHTS = ("+@all", "-@dangerous", "+config|get")
"""The rights that deploy/README.md lists for the user."""


@pytest.fixture
def certificate(tmp_path):
    """A certificate for the loopback address, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: apt install openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate


@pytest.fixture
def tls_store(tmp_path, certificate):
    """The URL of a server with a TLS port, for a restricted user."""
    key, cert = certificate
    port = free_port()
    files = {"tls_cert_file": cert, "tls_key_file": key, "tls_ca_cert_file": cert}
    made = Server(tmp_path / "tls", tls_port=port, tls_auth_clients="no", **files)
    try:
        made.start()
    except AssertionError:
        pytest.skip("the installed server was built without TLS")
    with made.client() as client:
        client.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~onepass:*", "&onepass:*", *RIGHTS)
    yield f"rediss://app:secret@127.0.0.1:{port}/0?ssl_ca_certs={cert}"
    made.end()


@pytest.mark.slow
def test_services_share_a_store_behind_tls(serve, tls_store):
    """Rows, snapshots and notices go over TLS, and the user only needs Onepass's keys and channels."""
    settings = {"REDIS_URL": tls_store, "SNAPSHOT_MIN_KB": 10**6}
    pair = [serve(**settings).start() for _ in range(2)]
    pair[0].create()
    assert 0 == pair[1].get("/models/m")["rows"]
    table = rows(120, 90)
    load = Load(pair[:1], table).run()
    assert 120 == eventually(120, lambda: pair[1].get("/models/m")["rows"])
    assert 1 == pair[1].metric("hints")
    judge(pair[1], table, load)
    assert 201 == pair[1].request("POST", "/models/m/snapshots").status
