"""The store with TLS and a restricted user."""

import pytest
import trustme

from tests.faults.load import Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import judge
from tests.faults.servers import Server, free_port

RIGHTS = ("+@all", "-@dangerous", "+config|get")
"""The rights that deploy/README.md lists for the user."""


@pytest.fixture
def tls_store(tmp_path):
    """The URL of a server with a TLS port, for a restricted user."""
    ca, port, trusted, own = trustme.CA(), free_port(), tmp_path / "ca.pem", tmp_path / "own.pem"
    ca.cert_pem.write_to_path(str(trusted))
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(own))
    files = {"tls_cert_file": own, "tls_key_file": own, "tls_ca_cert_file": trusted}
    made = Server(tmp_path / "tls", tls_port=port, tls_auth_clients="no", **files)
    try:
        made.start()
    except AssertionError:
        pytest.skip("the installed server was built without TLS")
    with made.client() as client:
        client.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~onepass:*", "&onepass:*", *RIGHTS)
    yield f"rediss://app:secret@127.0.0.1:{port}/0?ssl_ca_certs={trusted}"
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
