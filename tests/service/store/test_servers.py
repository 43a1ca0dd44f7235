"""Which server a connection leads to, and whether it is one that can be used; servers of the tests' own."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
import trustme

from service.errors import StoreDown
from service.store.redis import node
from service.store.redis import topology as servers
from service.store.redis.connection import Call, Connection
from service.store.redis.redis_errors import reply_error
from service.store.redis.tls import TlsConnection
from service.store.redis.url import parse
from tests.listening import listening
from tests.service.store.test_connection import connected
from tests.service.store_fixtures import next_command
from tests.service.waiting import until

GET = Call(None, ("x",), ("GET", "x"))


async def test_an_address_that_leads_to_another_primary_is_followed(monkeypatch):
    """Connections stay with the server that they were made to; what waits on one of them is answered first.

    They are made anew once for all replies that say so at a time.
    """
    monkeypatch.setattr(node, "RENEW_S", 60.0)
    primary, answered, left = "old", asyncio.Event(), []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = primary
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while words := await next_command(reader):
                if words[0] == b"BLPOP":
                    await answered.wait()
                writer.write(b"-READONLY\r\n" if (server, words[0]) == ("old", b"SET") else f"+{server}\r\n".encode())
        left.append(server)

    def call(verb: str) -> Call:
        return Call(None, ("x",), (verb, "x"))

    async with listening(talk) as port, connected(f"redis://127.0.0.1:{port}") as connection:
        blocked = asyncio.create_task(connection.one(call("BLPOP")))
        heard = asyncio.get_running_loop().create_future()
        await connection.subscriber(heard.set_result)
        assert [b"old", b"old"] == [await connection.one(call("GET")), *await connection.run([call("GET")], quick=True)]
        primary = "new"
        with pytest.raises(StoreDown, match="read-only replica"):
            await connection.one(call("SET"))
        assert [b"new"] == await connection.run([call("SET")], quick=True)
        assert b"new" == await connection.one(call("SET"))
        assert isinstance(await heard, ConnectionError)
        answered.set()
        assert b"old" == await blocked
        assert b"new" == await connection.one(call("GET"))
        await until(lambda: left == ["old"] * 4)
        connection.topology.sole.renew()
        assert [] == [line for line in connection.topology.sole._lines if line.ended]


async def test_a_primary_that_sentinels_have_replaced_is_left_while_it_still_answers():
    """Every ping asks them, once: for seconds the former primary would take rows that are lost."""
    asked = []

    def server(name: str) -> Callable[..., Awaitable[None]]:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while words := await next_command(reader):
                    sentinel = words[:2] == [b"SENTINEL", b"MASTERS"]
                    asked.append(sentinel)
                    writer.write(masters() if sentinel else f"+{name}\r\n".encode())

        return talk

    def masters() -> bytes:
        if primary is None:
            return b"-ERR starting\r\n"
        fields = ["name", "store", "ip", "127.0.0.1", "port", str(primary), "flags", "master"]
        state = "".join(f"${len(field)}\r\n{field}\r\n" for field in [*fields, "num-other-sentinels", "0"])
        return f"*1\r\n%5\r\n{state}".encode()

    async with listening(server("old")) as old, listening(server("new")) as new, listening(server("OK")) as third:
        primary = old
        async with connected(f"redis+sentinel://127.0.0.1:{third}/store") as connection:
            await connection.ping()
            assert b"old" == await connection.one(GET)
            primary = None
            await connection.ping()
            await until(connection.topology._looking.done)
            assert b"old" == await connection.one(GET)
            primary, told = new, sum(asked)
            await asyncio.sleep(0.3)
            assert told == sum(asked)
            await connection.ping()
            await until(connection.topology._looking.done)
            assert b"new" == await connection.one(GET)


@pytest.mark.parametrize(
    ("answer", "why"),
    [({b"HELLO": "-WRONGPASS invalid"}, "AuthenticationError"), ({b"SENTINEL": "*0"}, "No master found for 'none'")],
)
async def test_why_sentinels_name_no_primary_is_logged_once(answer, why, caplog):
    """However often they are asked; without what the client library tells about its own connections."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while words := await next_command(reader):
                asked.append(words)
                writer.write(f"{answers.get(words[0], '+OK')}\r\n".encode())

    asked, answers = [], {b"HELLO": "%1\r\n$5\r\nproto\r\n:3", **answer}
    async with listening(talk) as port:
        url = f"redis+sentinel://127.0.0.1:{port}/none?sentinel_username=u&sentinel_password=hidden"
        async with connected(url) as connection:
            with pytest.raises(StoreDown, match="looking up"):
                await connection.ping()
            await until(lambda: len(asked) > 5)
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told.startswith("the store's servers are not found: No master found for 'none'")
    assert told.endswith(why)
    assert not any(part in told for part in ("hidden", "redis.", str(port)))


async def test_a_cluster_is_up_when_one_of_its_nodes_says_so():
    """Nodes without slots are asked again until they have some; one that answers a ping may be down for every key."""
    state, slots, asked = "fail", "*0\r\n", 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while words := await next_command(reader):
                asked += words[-1] == b"SLOTS"
                answers = {b"INFO": f"+cluster_state:{state}\r\n", b"SLOTS": slots}
                writer.write(answers.get(words[-1], "+OK\r\n").encode())

    async with listening(talk) as port, connected(f"redis+cluster://127.0.0.1:{port}", 20.0) as connection:
        ping = asyncio.create_task(connection.ping())
        await until(lambda: asked > 1 or ping.done())
        slots = f"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$2\r\nid\r\n"
        with pytest.raises(StoreDown, match="cluster is down"):
            await ping
        state = "ok"
        await connection.ping()


async def test_a_connection_that_is_idle_is_kept_alive_or_closed(monkeypatch):
    """A firewall forgets it silently, and whoever used it then would wait for the timeout."""
    made, left = [], []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(writer)
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            while await next_command(reader):
                writer.write(b"+OK\r\n")
        left.append(writer)

    async with listening(talk) as port, connected(f"redis://127.0.0.1:{port}") as connection:
        line = await connection.subscriber(lambda _: None)
        held = line._transport.get_extra_info("socket")
        assert 1 == held.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not hasattr(socket, "TCP_KEEPIDLE") or 60 == held.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        for _ in range(2):
            await connection.ping()
        assert 2 == len(made)
        monkeypatch.setattr(node, "IDLE_S", 0)
        await connection.ping()
        assert 3 == len(made)
        await until(lambda: left == [made[1]])


async def test_a_database_that_the_store_does_not_have_is_named(server):
    """It looks like a server that cannot be reached otherwise."""
    async with connected(f"{server.url}?db=99") as connection:
        with pytest.raises(StoreDown, match="does not have the database that its URL names"):
            await connection.ping()


async def test_servers_that_are_lost_again_are_told_again(caplog, monkeypatch):
    """Once each time."""
    monkeypatch.setattr(servers, "LOOK_S", 0.0)
    answers = [None, None, [servers.ONLY], None]

    async def find(_):
        if (found := answers.pop(0)) is None:
            raise OSError
        return found

    topology = servers.Topology(find, lambda server: server, [None], 1.0)
    for tries in (3, 1):
        await topology._look(tries)
    assert 2 == caplog.text.count("the store's servers are not found")


@pytest.mark.parametrize("scheme", ["rediss://a", "rediss+cluster://a/", "rediss+sentinel://a/store"])
def test_certificates_that_cannot_be_used_are_refused_at_the_start(scheme, tmp_path, monkeypatch):
    """The option is named; a key with a password is not asked for at the terminal."""
    cert, key, other = (tmp_path / name for name in ("cert.pem", "key.pem", "other"))
    other.write_text("x")
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=a")
    subprocess.run([*made, "-passout", "pass:p", "-out", cert, "-keyout", key], check=True, capture_output=True)
    pair = f"ssl_certfile={cert}&ssl_keyfile={key}"
    for options, said in {
        "ssl_ca_certs=/none": "ssl_ca_certs: No such file",
        f"ssl_certfile=/none&ssl_keyfile={key}": "ssl_certfile: No such file",
        f"ssl_certfile={cert}&ssl_keyfile={tmp_path}": "ssl_keyfile: Is a directory",
        f"ssl_ca_certs={other}": "cannot be used: NO_CERTIFICATE",
        f"ssl_certfile={cert}&ssl_keyfile={other}": "cannot be used",
        f"{pair}&ssl_password=hidden": "wrong or missing ssl_password",
        pair: "wrong or missing ssl_password",
        f"ssl_keyfile={key}": "ssl_keyfile needs ssl_certfile",
        f"ssl_certfile={cert}": "missing .*ssl_keyfile",
        "ssl_ciphers=bogus": "invalid .*ssl_ciphers",
    }.items():
        with pytest.raises(ValueError, match=said) as caught:
            Connection(f"{scheme}?{options}", 1.0)
        assert "hidden" not in str(caught.value)
    Connection(f"{scheme}?{pair}&ssl_password=p&ssl_ca_certs={cert}", 1.0)
    given = []
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda _, **options: given.append(options["password"]))
    Connection(f"{scheme}?{pair}", 1.0)
    assert {""} == {*given}


async def test_certificates_are_read_again_only_when_they_have_changed(tmp_path, monkeypatch):
    """To read those of the system takes longer than a prediction; renewed ones are taken without a restart."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while words := await next_command(reader):
                writer.write(f"{answers.get(words[0], '+OK')}\r\n".encode())

    def issue() -> None:
        ca = trustme.CA()
        ca.cert_pem.write_to_path(str(tmp_path / "new.pem"))
        (tmp_path / "new.pem").replace(trusted)
        ca.issue_cert("127.0.0.1").configure_cert(served)

    answers = {b"HELLO": "%1\r\n$5\r\nproto\r\n:3", b"SENTINEL": "*0", b"CLUSTER": "*0"}
    made, trusted, served = [], tmp_path / "ca.pem", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issue()
    monkeypatch.setattr(
        ssl, "create_default_context", lambda: made.append(1) or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    async with listening(talk, tls=served) as port:
        for scheme, path in (("rediss", ""), ("rediss+sentinel", "store"), ("rediss+cluster", "")):
            made.clear()
            async with connected(f"{scheme}://127.0.0.1:{port}/{path}?ssl_ca_certs={trusted}") as connection:
                for _ in range(3):
                    with contextlib.suppress(*servers._FAILED):  # these servers know neither a service nor slots
                        await connection.topology._find([])
                if scheme == "rediss":
                    for quick in (False, True, False):
                        assert b"OK" == (await connection.run([GET], quick=quick))[0]
                        connection.topology.sole.renew()
                        monkeypatch.setattr(node, "RENEW_S", 0.0)
                    assert 1 == len(made)
                    issue()
                    await connection.one(GET)
                    assert 2 == len(made)
            assert len(made) == (2 if scheme == "rediss" else 0)


@pytest.mark.parametrize("renewed", ["cert", "key"])
def test_a_renewed_certificate_of_its_own_is_taken_without_a_restart(tmp_path, renewed):
    """Or its key: whichever file of the two has been replaced."""
    own, files = trustme.CA().issue_cert("client"), {name: tmp_path / name for name in ("cert", "key")}
    own.cert_chain_pems[0].write_to_path(files["cert"])
    own.private_key_pem.write_to_path(files["key"])
    options = {f"ssl_{name}file": str(path) for name, path in files.items()}
    first = TlsConnection(**options).ssl_context
    assert first is TlsConnection(**options).ssl_context
    os.utime(files[renewed], (1, 1))
    assert first is not TlsConnection(**options).ssl_context


async def test_closing_ends_a_look_up_that_takes_its_end_for_an_error():
    """As the client library may: it would go on for ever."""
    looks = []

    async def find(_):
        looks.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if looks[1:]:
                raise
            raise ConnectionError from None

    topology = servers.Topology(find, node.Node, [None], 60.0)
    topology.failed(ConnectionError())
    await asyncio.sleep(0.01)
    await asyncio.wait_for(topology.close(), 1.0)


SENTINELS = "redis+sentinel://u:p@a,b:7/store/2?sentinel_username=su&sentinel_password=sp"
TLS = {"connection_class": TlsConnection, "ssl_ca_certs": "/c.pem"}


@pytest.mark.parametrize(
    ("url", "kind", "seeds", "where"),
    [
        ("redis://h", "single", (), {"host": "h"}),
        ("redis://u:p@h:1/2", "single", (), {"host": "h", "port": 1, "username": "u", "password": "p", "db": 2}),
        ("unix:///a/b?db=3", "single", (), {"path": "/a/b", "db": 3}),
        (SENTINELS, "sentinel", (("a", 26379), ("b", 7)), {"username": "u", "password": "p", "db": 2}),
        ("redis+cluster://u:p@a:1,b", "cluster", (("a", 1), ("b", 6379)), {"username": "u", "password": "p"}),
        ("rediss+sentinel://a:1,b:2/store?ssl_ca_certs=/c.pem", "sentinel", (("a", 1), ("b", 2)), TLS),
        ("rediss+cluster://a:1,b:2/?ssl_ca_certs=/c.pem", "cluster", (("a", 1), ("b", 2)), TLS),
    ],
)
def test_where_a_store_is(url, kind, seeds, where):
    """Host or path, or the servers that know it; credentials, database and certificates, told once for all servers."""
    found = parse(url)
    assert (kind, seeds) == (found.kind, found.seeds)
    assert where == {name: found.where.get(name) for name in where}
    assert kind == "single" or where == found.where
    if url == SENTINELS:  # they are asked for a service, with credentials of their own
        assert ("store", {"username": "su", "password": "sp"}) == (found.service, found.sentinel)


@pytest.mark.parametrize(
    "url", ["redis://h/abc", "rediss://h:1/1x", "redis://h/1/2", "redis+sentinel://h/store/abc", "redis://h?db=abc"]
)
def test_a_database_is_a_number(url):
    """The library would silently use 0 instead."""
    with pytest.raises(ValueError, match="ONEPASS_REDIS_URL"):
        parse(url)


async def test_a_server_that_fails_beside_others_is_logged_once(connection, monkeypatch, caplog):
    """With the reason, and again when that changes or recurs: its models alone get 503, the service is ready."""
    replies = [*2 * ["WRONGPASS invalid pair"], *2 * ["LOADING it is"]]
    send = AsyncMock(side_effect=map(reply_error, [*replies, replies[-1]]))
    (there,) = await connection.topology.nodes()
    nodes = [there, SimpleNamespace(send=send)]
    monkeypatch.setattr(connection.topology, "nodes", AsyncMock(return_value=nodes))
    for _ in replies:
        await connection.durability()
    assert [
        f"1 of 2 servers of the store cannot be used: the store {said}"
        for said in ("rejects the credentials", "is loading its data")
    ] == [record.message for record in caplog.records if record.levelname == "WARNING"]
    connection.topology.nodes.return_value = [there]
    await connection.durability()
    connection.topology.nodes.return_value = nodes
    await connection.durability()
    assert 3 == sum(record.levelname == "WARNING" for record in caplog.records)
