"""A store whose user lacks a right that the scripts need: nothing is appended, since half of it would stay behind."""

import asyncio
import re
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from service.errors import StoreDown
from service.store import permissions
from service.store.keys import NOTHING, ModelKeys
from service.store.log.appends import NamedState, SegmentIn
from service.store.permissions import refused_commands
from service.store.redis.connection import Connection
from tests.service.api_fixtures import features, problem
from tests.service.store_fixtures import Model, Server, one
from tests.service.waiting import until
from tests.stores import ROOT

LACKS = "the store's user lacks a permission"
ROW = {"features": features(0), "label": "UP"}


async def user(admin, url, *rights):
    """The URL of a user that has these rights."""
    await admin.ask(("ACL", "SETUSER", "low", "reset", "on", ">pw", "&*", "+@all", *rights))
    return url.replace("unix://", "unix://low:pw@")


async def test_what_the_scripts_may_not_run_is_named(server, connection):
    """Each of their commands is tried; nothing is left of that."""

    async def refused(*rights):
        low = Connection(await user(connection, server.url, *rights), 5.0)
        found = await refused_commands(low)
        await low.close()
        return found

    assert [] == await refused("~onepass:*")
    assert [0] == await connection.ask(("EXISTS", NOTHING))
    assert ["HSET", "XTRIM", "ZADD"] == await refused("~*", "-zadd", "-hset", "-xtrim", "-lpush")
    assert {"HGET", "XADD"} < {*await refused("~mine:*")}
    await connection.ask(("ACL", "DELUSER", "low"))


async def test_the_documented_rights_are_accepted_and_suffice(server):
    """Also where a new user may use all channels, as by default in Redis 6.2."""
    rights = re.search(r"store's user needs `(.*?)`", (ROOT / "deploy/README.md").read_text())[1].split()
    other = Server(server.binary, "--acl-pubsub-default", "allchannels")
    admin, low = Connection(other.url, 5.0), Connection(other.url.replace("unix://", "unix://low:pw@"), 5.0)
    await admin.ask(("ACL", "SETUSER", "low", "on", ">pw", *rights))
    assert [] == await refused_commands(low)
    await admin.close()
    await low.close()
    other.end()


async def test_renamed_commands_are_named(server):
    """They are missing in every script as if they were forbidden."""
    renamed = ("UNLINK", "AWAY"), ("ZADD", ""), ("ZMSCORE", "")
    other = Server(server.binary, *(word for pair in renamed for word in ("--rename-command", *pair)))
    connection = Connection(other.url, 5.0)
    assert ["UNLINK", "ZADD", "ZMSCORE"] == await refused_commands(connection)
    await connection.close()
    other.end()


def test_what_is_sent_outside_scripts_is_tried_too():
    """Redis 6.0 knows all commands of the scripts, but not ZMSCORE."""
    store = Path(permissions.__file__).parent
    sources = [path.read_text() for path in store.rglob("*.py") if path.parent.name != "redis"]
    sent = {command for source in sources for command in re.findall(r'\("([A-Z]{2,})",', source)}
    assert {"ZADD", "XREAD", "ZMSCORE"} < sent
    assert {"PING", "SUBSCRIBE", "UNSUBSCRIBE"} == sent - {*permissions._COMMANDS}


async def test_each_server_in_charge_is_asked(server, connection, monkeypatch):
    """One that was added later may know the user with other rights, or not be asked for the key that is tried."""
    low = Connection(await user(connection, server.url, "~*", "-zadd"), 5.0)
    (there,), (other,) = await connection.topology.nodes(), await low.topology.nodes()
    monkeypatch.setattr(connection.topology, "nodes", AsyncMock(return_value=[there, other]))
    assert ["ZADD"] == await refused_commands(connection)
    await low.close()


APPENDS = {
    "row": SegmentIn(b"row"),
    "id": one("b"),
    "prediction": one("p", pending="p"),
    "state": SegmentIn(b"row", state=NamedState("ab" * 16, 5)),
}


@pytest.mark.parametrize("kind", APPENDS)
async def test_a_right_that_is_missing_for_a_moment_leaves_no_half_append(server, connection, model, kind):
    """Whichever it is, and however the append goes: sent again when it is back, it is there whole, and once."""
    keys, state = model.keys, model.keys.state("ab" * 16)
    low = Connection(await user(connection, server.url, "~*"), 5.0)
    writer = Model(low, model.writer)
    for command in ("XADD", "HSET", "ZADD", "HDEL", "ZREM", "PERSIST", "HINCRBY"):
        await connection.ask(("HSET", keys.pending, "p", "told", "old", "x"), ("DEL", state))
        await connection.ask(("ZADD", keys.pending_due, "9e12", "p", "1", "old"), ("HSET", state, "0", "state"))
        await connection.ask(("HDEL", keys.idempotency, "b", "p"), ("ZREM", keys.idempotency_expiry, "b", "p"))
        await writer.append(one(command))
        await connection.ask(("HSET", keys.idempotency, "old", "x"), ("ZADD", keys.idempotency_expiry, "1", "old"))
        await connection.ask(("PEXPIRE", state, 60_000))
        await connection.ask(("ACL", "SETUSER", "low", f"-{command}"))
        (told,) = await writer.log.append([writer.asks(APPENDS[kind])])
        assert told.detail == LACKS if isinstance(told, StoreDown) else told.head == writer.version + 1
        await connection.ask(("ACL", "SETUSER", "low", f"+{command}"))
        found = await writer.again()
        assert ("ok", writer.version + 1, "added") == (found.code, found.made, found.segments[0].status), command
        assert found.made == found.head, command
        writer.version, writer.uid = found.head, found.head_uid
        entries, seen, due, *_ = await writer.shape()
        assert (writer.version, seen) == (entries, due), command
        waiting, expiries = await connection.ask(("HLEN", keys.pending), ("ZCARD", keys.pending_due))
        assert waiting == expiries, command
        assert kind != "prediction" or [0] == await connection.ask(("HEXISTS", keys.pending, "p"))
        assert kind != "state" or [-1] == await connection.ask(("PTTL", state))
    await low.close()
    await connection.ask(("ACL", "DELUSER", "low"))


async def test_a_service_appends_nothing_before_it_may_do_all_of_it(start, store_url, caplog):
    """It says what it lacks, and goes on by itself once it may; also where the store comes back with other rights."""
    admin, full = Connection(store_url, 5.0), await start()
    path = await full.learnt()
    log = ModelKeys(path.rpartition("/")[2], (await full.get(path))["incarnation"]).log
    api = await start(redis_url=await user(admin, store_url, "~*", "-hset"))
    for command, rows in (("HSET", 3), ("ZADD", 4)):
        await until(lambda told=f"may not run {command} on onepass:*": told in caplog.text)
        assert 503 == (await api.ask("GET", "/readyz")).status_code
        problem(await api.ask("POST", f"{path}/feedback", json=ROW), 503)
        assert [rows] == await admin.ask(("XLEN", log))
        await api.post(f"{path}/predict", {"features": features(0)})
        await admin.ask(("ACL", "SETUSER", "low", f"+{command}"))
        await until(lambda: ready(api))
        assert rows + 1 == (await api.post(f"{path}/feedback", ROW))["rows"]
        await admin.ask(("ACL", "SETUSER", "low", "-zadd"))
        api.engine.committer.hold()  # as when the store went away
    await admin.close()


async def test_notices_that_never_arrive_are_logged_once(start, store_url, caplog):
    """A user without the right to listen costs neither a line nor a connection at each attempt."""
    admin = Connection(store_url, 5.0)
    api = await start(redis_url=await user(admin, store_url, "~*", "resetchannels"))
    await api.learnt()
    told = f"keeps models current: {LACKS}"
    await until(lambda: told in caplog.text)
    await asyncio.sleep(1)
    assert 1 == caplog.text.count(told)
    await admin.close()


async def ready(api):
    return 200 == (await api.ask("GET", "/readyz")).status_code
