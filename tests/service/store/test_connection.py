"""The connection: a store that is down is said to be down at once, and nothing is sent twice; what its URL says."""

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from redis import exceptions

from service.errors import StoreDown, StoreFull
from service.store.catalog import Catalog
from service.store.keys import ModelKeys
from service.store.log.log import Head, Log
from service.store.pending import Pending
from service.store.redis.connection import Call, Connection, Script
from service.store.redis.redis_errors import reply_error, translated, unavailable
from service.store.states.snapshots import Snapshots
from tests.listening import listening
from tests.service.store_fixtures import INCARNATION, Model, next_command

ECHO = Script("return ARGV[1]")
SECRET = "secret-host"
KINDS = r"\(ONEPASS_REDIS_URL\) is of an unknown kind: .*redis://.*unix://.*redis\+sentinel://.*redis\+cluster://"


@asynccontextmanager
async def counting(hangs_up: bool) -> AsyncIterator[tuple[str, list[str]]]:
    """A URL and the names of the commands sent there; it answers only what a client sends to introduce itself."""
    got: list[str] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while words := await next_command(reader):
                if words[0] == b"CLIENT":
                    writer.write(b"+OK\r\n")
                    continue
                got.append(words[0].decode())
                if hangs_up:
                    break

    async with listening(talk) as port:
        yield f"redis://127.0.0.1:{port}", got


@asynccontextmanager
async def connected(url: str, timeout_s: float = 5.0, connections_max: int = 4) -> AsyncIterator[Connection]:
    connection = Connection(url, timeout_s, connections_max)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("hangs_up", [True, False])
async def test_nothing_is_sent_twice(hangs_up):
    """Whether the store hangs up or never answers, it has seen every command once."""
    async with counting(hangs_up) as (url, got), connected(url, 0.2) as connection:
        for large_bytes in (0, 1):  # nothing is raised: the fate of an append is not known
            (answer,) = await Log(connection).append([Model(connection).asks()], large_bytes=large_bytes)
            assert isinstance(answer, StoreDown)
        with pytest.raises(StoreDown):
            await connection.ping()
        (answer,) = await connection.run([Call(None, ("x",), ("SET", "x", "y"))], large_bytes=1)
        assert isinstance(answer, StoreDown)
        assert ["EVALSHA", "EVALSHA", "DEL", "SET"] == got


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("ERR max number of clients reached", "the store has no free connection: raise its maxclients"),
        ("ERR something new", "the store gave an unexpected answer"),
    ],
)
async def test_an_error_of_the_store_is_none_of_a_model(error, said, caplog):
    """It has nothing for anybody, which every way of asking reports alike; an error that is not known is its cause."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            writer.write(f"-{error}\r\n".encode())
            await reader.read()

    async with listening(refuse) as port, connected(f"redis://127.0.0.1:{port}") as connection:
        call = Call(None, ("x",), ("GET", "x"))
        found = [(await connection.run([call], quick=quick, large_bytes=large))[0] for quick, large in ((1, 0), (0, 1))]
        asked = [
            connection.ask(call.args), connection.ping(), Catalog(connection).read("m"),
            Log(connection).read_after("m", INCARNATION, 0, INCARNATION, 1, 1),
        ]  # fmt: skip
        found += await asyncio.gather(*asked, return_exceptions=True)
    assert [(StoreDown, said)] * 6 == [(type(each), each.detail) for each in found]
    known = unavailable(reply_error(error)) is not None
    assert [known] * 6 == [each.__cause__ is None for each in found]
    # Three of the six have the same key: they failed within a minute or at its turn.
    assert caplog.text.count("unexpected answer from the store: ERR something new") in ([0] if known else [4, 5])


async def test_a_store_that_is_down_is_found_out_at_once():
    """Every part says StoreDown, none waits, and none tells where the store is."""
    async with connected("redis://127.0.0.1:1", 2.0) as connection:
        started = time.monotonic()
        asked = [
            connection.ping(), connection.durability(), connection.eviction_ok(), Log(connection).heads(["m"]),
            Log(connection).read_after("m", INCARNATION, 0, INCARNATION, 1, 1),
            Catalog(connection).create("m", INCARNATION, b""), Catalog(connection).names(1),
            Snapshots(connection).list("m", INCARNATION), Pending(connection).list("m", INCARNATION, 1),
        ]  # fmt: skip
        errors = await asyncio.gather(*asked, return_exceptions=True)
        errors += await Log(connection).append([Model(connection).asks()] * 2)
        assert [(StoreDown, "the store cannot be reached")] * 11 == [(type(e), e.detail) for e in errors]
        assert 2.0 > time.monotonic() - started


async def test_a_read_only_replica_is_no_store(server):
    """It answers and can be read, but no label would be learned; reads that wait end; later it may be used again."""
    async with connected(server.url) as connection:
        waiting = asyncio.create_task(connection.ask(("XREAD", "BLOCK", "4000", "STREAMS", "nothing", "0")))
        while not (waiting.done() or re.search(rb"flags=\w*b.* cmd=xread", *await connection.ask(("CLIENT", "LIST")))):
            await asyncio.sleep(0.01)
        try:
            await connection.ask(("REPLICAOF", "127.0.0.1", "1"))
            with pytest.raises(StoreDown, match="has become a replica"):
                await waiting
            await asyncio.sleep(0.1)  # the server closes the connection of the reader
            with pytest.raises(StoreDown, match="is a read-only replica"):
                await connection.ping()
        finally:
            await connection.ask(("REPLICAOF", "NO", "ONE"))
        await connection.ping()


async def test_a_store_that_comes_back_is_used_again(server, model):
    """Broken connections are replaced and lost scripts sent again, without anybody's doing."""
    await model.append()
    server.stop()
    down = await model.append()
    server.start()
    assert isinstance(down, StoreDown)
    assert 2 == (await model.again()).made


async def test_a_late_answer_reaches_nobody(server):
    """A connection whose command timed out or was cancelled does no harm; the next command gets its own answer."""
    async with connected(server.url, 0.5, 1) as connection:
        with pytest.raises(StoreDown, match="did not answer in time"):
            await connection.ask(("BLPOP", "nothing", "1.5"))
        assert b"mine" == await connection.one(Call(ECHO, (), ("mine",)))
    async with connected(server.url, 2.0, 1) as connection:
        for _ in range(5):
            task = asyncio.create_task(connection.ask(("BLPOP", "nothing", "0.02")))
            await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert b"mine" == await connection.one(Call(ECHO, (), ("mine",)))


async def test_the_pool_is_bounded_and_so_is_the_wait_for_it(server):
    """With all connections busy a command waits, and gives up in time."""
    async with connected(server.url, 5.0, 2) as connection:
        await connection.ping()
        (before,) = await connection.ask(("CLIENT", "LIST"))
        taken = [asyncio.create_task(connection.ask(("BLPOP", f"nothing{k}", "0.3"))) for k in range(2)]
        await asyncio.sleep(0.05)
        waiting = [asyncio.create_task(connection.one(Call(ECHO, (), (k,)))) for k in range(50)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in waiting)
        assert [[None]] * 2 == await asyncio.gather(*taken)
        assert [b"%d" % k for k in range(50)] == await asyncio.gather(*waiting)
        (after,) = await connection.ask(("CLIENT", "LIST"))
        assert before.count(b"\n") + 1 == after.count(b"\n")
    async with connected(server.url, 0.3, 1) as connection:
        taken = [connection.ask(("BLPOP", "nothing", "5")) for _ in range(3)]
        errors = await asyncio.gather(*taken, return_exceptions=True)
        assert [(StoreDown, "the store did not answer in time")] * 3 == [(type(e), e.detail) for e in errors]


async def test_calls_are_answered_in_order_and_fail_alone(connection):
    """An error of one script is the answer of that call; lost scripts are loaded for those that miss them."""
    broken = Script("redis.call('INCR', KEYS[1]) return redis.call('NO SUCH COMMAND')")
    calls = [Call(ECHO, (), ("a",)), Call(broken, ("runs",), ()), Call(ECHO, (), ("b",))]
    for run in (1, 2, 3):
        first, error, last = await connection.run(calls)
        assert (b"a", b"b") == (first, last)
        assert isinstance(error, StoreDown)
        assert isinstance(error.__cause__, exceptions.ResponseError)
        assert [b"%d" % run] == await connection.ask(("GET", "runs"))
        if run == 2:
            await connection.ask(("SCRIPT", "FLUSH"))


async def test_durability_is_what_the_server_says(connection):
    """Nothing written, every second, before every answer."""
    found = []
    for on, sync in (("yes", "everysec"), ("yes", "always"), ("yes", "no"), ("no", "always"), ("yes", "everysec")):
        await connection.ask(("CONFIG", "SET", "appendfsync", sync), ("CONFIG", "SET", "appendonly", on))
        found.append(await connection.durability())
    for unsynced in ("yes", "no"):  # during rewrites of the file
        await connection.ask(("CONFIG", "SET", "no-appendfsync-on-rewrite", unsynced))
        found.append(await connection.durability())
    assert ["everysec", "always", "none", "none", "everysec", "none", "everysec"] == found


async def test_eviction_is_seen(connection):
    """A store that may forget keys under pressure is no store."""
    assert await connection.eviction_ok() is True
    await connection.ask(("CONFIG", "SET", "maxmemory", "1gb"))
    assert await connection.eviction_ok() is True
    await connection.ask(("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"))
    assert await connection.eviction_ok() is False
    await connection.ask(("CONFIG", "SET", "maxmemory-policy", "noeviction"))


async def test_where_config_is_denied_nothing_is_known(server, connection):
    """Managed stores deny it; that is no failure. Other denials are."""
    await connection.ask(("ACL", "SETUSER", "low", "on", ">pw", "~*", "+@all", "-config", "-get"))
    async with connected(f"unix://low:pw@{server.socket}") as low:
        assert ("unknown", None) == (await low.durability(), await low.eviction_ok())
        with pytest.raises(StoreDown, match="lacks a permission"):
            await low.ask(("GET", "x"))
    async with connected(f"unix://low:wrong@{server.socket}") as wrong:
        with pytest.raises(StoreDown, match="credentials"):
            await wrong.durability()


@pytest.mark.parametrize(
    ("detail", "error"),
    [
        ("the store cannot be reached", ConnectionResetError(SECRET)),
        ("the store cannot be reached", FileNotFoundError(2, "No such file", f"/{SECRET}/socket")),
        ("the store cannot be reached", ssl.SSLEOFError(8, f"EOF occurred in violation of protocol, {SECRET}")),
        ("the store's certificate is not accepted", ssl.SSLCertVerificationError(1, f"it is not valid for {SECRET}")),
        ("no TLS connection to the store can be made", ssl.SSLError(1, f"wrong version number, {SECRET}")),
        ("the store did not answer in time", TimeoutError(f"Timeout reading from {SECRET}:6379")),
        ("the store is loading its data", "LOADING Redis is loading the dataset in memory"),
        ("the store is a read-only replica", "READONLY You can't write against a read only replica."),
        ("the store's cluster is down", "CLUSTERDOWN The cluster is down"),
        ("the store is moving its data", "TRYAGAIN Multiple keys request"),
        ("the store is moving its data", f"ASK 3999 {SECRET}:6381"),
        ("the store has lost its primary", "MASTERDOWN Link with MASTER is down"),
        ("the store is part of a cluster", f"MOVED 3999 {SECRET}:6381"),
        ("the store rejects the credentials", "WRONGPASS invalid username-password pair or user is disabled."),
        ("the store rejects the credentials", "ERR AUTH <password> called without any password configured"),
        ("the store requires credentials", "NOAUTH Authentication required."),
        ("the store's user lacks a permission", "ERR The user executing the script can't run this command script: 1"),
        ("the store's user lacks a permission", "@user_script: 1: The user executing the script can't run this"),
        ("the store has too few replicas to write", "NOREPLICAS Not enough good replicas to write."),
        ("the store is busy", "BUSY Redis is busy running a script."),
    ],
)
def test_what_the_store_cannot_do_is_said_without_its_address(detail, error):
    """Messages of servers and of the system name hosts and paths; clients get ours."""
    meant = unavailable(reply_error(error) if isinstance(error, str) else error)
    assert (StoreDown, detail) == (type(meant), meant.detail)
    assert SECRET not in str(meant)


async def test_a_server_that_lets_nobody_in_says_why():
    """Redis in protected mode says so to every client that connects, and hangs up."""

    async def denies(reader, writer):
        writer.write(b"-DENIED Redis is running in protected mode because protected mode is enabled\r\n")
        writer.close()

    async with listening(denies) as port, connected(f"redis://127.0.0.1:{port}", 1.0) as connection:
        for quick in (True, False) * 10:
            (refused,) = await connection.run([Call(None, ("x",), ("GET", "x"))], quick=quick)
            assert isinstance(refused, StoreDown)
            assert "protected mode" in refused.detail


async def test_writing_to_a_connection_that_is_closed_is_a_lost_one(connection):
    """The loop, uvloop, says it by a RuntimeError."""

    def refuse(_):
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    await connection.ping()
    (line,) = connection.topology.sole._pool._free
    line._transport.abort()
    line._transport = SimpleNamespace(write=refuse, abort=lambda: None)
    with pytest.raises(StoreDown, match="cannot be reached"):
        await connection.ask(("GET", "x"))
    await connection.ping()


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("memory", "OOM command not allowed when used memory > 'maxmemory'. script: 1"),
        (
            "memory",  # as Redis 6.2 wraps it
            "ERR Error running script (call to f_0): @user_script:3: @user_script: 3: -OOM command not allowed",
        ),
        ("disk", "MISCONF Redis is configured to save RDB snapshots, but"),
        ("disk", "MISCONF Errors writing to the AOF file: No space left on device"),
    ],
)
def test_a_store_without_room_is_not_down(what, error):
    """It answers and can be read: another error, which says what it lacks and what to do."""
    meant = unavailable(reply_error(error))
    assert isinstance(meant, StoreFull)
    assert what in meant.detail
    assert not isinstance(meant, StoreDown)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
        exceptions.ResponseError("ERR unknown command 'BUSYBODY'"),
        exceptions.DataError("Invalid input of type"),
        asyncio.CancelledError(),
        ValueError("MISCONF"),
    ],
)
def test_nothing_else_is_known(error):
    """A bug is the cause of what a caller gets."""
    assert unavailable(error) is None
    assert error is translated(error).__cause__


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+sentinel://:hidden@a:1,b:2", "cannot be read"),
        ("redis+sentinel://:hidden@a:1,b:port/x", "cannot be read"),
        ("redis+cluster://:hidden@a:1/0", "cannot be read"),
        ("redis+cluster://:hidden@a:1/?no_such_option=1", "an unknown option"),
        *((url, KINDS) for url in ("", "foo", "localhost:6379", "http://:hidden@a", "hidden://a")),
        ("redis://:hidden@a:port", "cannot be read"),
        *(
            (f"redis+{kind}", "cannot be read")
            for kind in ("cluster://:hidden@a,:7001", "cluster://", "sentinel://,/x")
        ),
        *((f"redis://a?{one}=hidden", "cannot be read") for one in ("connection_class", "credential_provider")),
        *((f"rediss://:hidden@a?{one}", "invalid value") for one in ("ssl_cert_reqs=bogus", "protocol=9", "retry=1")),
        ("redis://:hidden@a:1/0?no_such_option=1", "an unknown option"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_at_the_start(url, said):
    """The operator is told why and what would be allowed, without the password."""
    with pytest.raises(ValueError, match=said) as caught:
        Connection(url, 1.0)
    assert "hidden" not in str(caught.value)


async def test_options_in_the_url_change_no_behaviour(server):
    """It may not switch on retries, decoding, another protocol, or waiting for ever."""
    extras = "?decode_responses=true&protocol=3&socket_timeout=99&health_check_interval=1&retry_on_timeout=true&db=1"
    async with connected(server.url + extras, 0.3) as connection:
        assert b"x" == await connection.one(Call(ECHO, (), ("x",)))
        (clients,) = await connection.ask(("CLIENT", "LIST"))
        assert b" db=1 " in clients
        with pytest.raises(StoreDown, match="did not answer in time"):
            await connection.ask(("BLPOP", "nothing", "5"))


async def test_a_user_and_a_database_are_those_of_the_url(server):
    """Also on the connection that carries rows: what it appends is read in that database, and nobody else gets in."""
    url = f"unix://app:{{}}@{server.socket}?db=1"
    async with connected(server.url) as admin:
        await admin.ask(("FLUSHALL",), ("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"))
        async with connected(url.format("secret")) as mine, connected(url.format("wrong")) as stranger:
            await Catalog(mine).create("m", INCARNATION, b"{}")
            (answer,) = await Log(mine).append([Model(mine).asks()])
            assert ("ok", 1) == (answer.code, answer.made)
            assert [Head(INCARNATION, 1, answer.head_uid)] == await Log(mine).heads(["m"])
            assert [0] == await admin.ask(("EXISTS", ModelKeys("m", INCARNATION).log))
            (refused,) = await Log(stranger).append([Model(stranger).asks()])
            assert (StoreDown, True) == (type(refused), "credentials" in refused.detail)
        await admin.ask(("FLUSHALL",), ("ACL", "DELUSER", "app"))


async def test_no_calls_are_answered_at_once() -> None:
    """Nothing is sent where there is nothing to ask: waiting for its answer would end in a timeout."""
    async with counting(hangs_up=False) as (url, got), connected(url, 600.0) as connection, asyncio.timeout(30):
        assert ([], []) == (await connection.run([]), await connection.ask())
        assert [] == got
