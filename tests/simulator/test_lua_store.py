"""The store in memory gives the same replies as real servers, to commands and for Lua values."""

import random

from service.store.redis.connection import Call, Script
from tests.service.store_fixtures import connection, server  # noqa: F401  fixtures
from tests.simulator.lua_store import LuaStore

SEQUENCES, COMMANDS = 20, 100
ANY_ORDER = {"HGETALL", "HKEYS", "HVALS"}
ASK = Script("return redis.call(unpack(ARGV))")
VALUES = Script("""
local found = redis.call('HMGET', KEYS[1], 'there', 'missing')
return {found[1], found[2], found[2] == false, true, 2.9, -2.9, 'text', '', {1, {false, 2}}, tonumber(ARGV[1]) + 1,
  ARGV[1] * 1000, redis.call('TIME')[1] * 0, #redis.call('XRANGE', KEYS[2], '-', '+'), redis.pcall('GET', 'no'), nil, 3}
""")


def _commands(draw):
    """Commands on a few keys; every stream entry comes after the last one."""
    names, ids = [*"abcd"], [f"{left}-{right}" for left in range(1, 400) for right in range(2)][::-1]

    def name():
        return draw.choice(names)

    def bound():
        return draw.choice(("-inf", "+inf", "3", "(3", "7", "(7"))

    def entry():
        return draw.choice(("-", "+", "5-0", "9-1", "20-0"))

    kinds = [
        lambda: ("HSET", "h", name(), draw.randrange(99), name(), "x"),
        lambda: ("HINCRBY", "n", name(), 3),
        lambda: ("HDEL", "h", name(), name()),
        lambda: (draw.choice(("HGET", "HEXISTS", "HSTRLEN")), "h", name()),
        lambda: ("HMGET", "h", name(), name(), name()),
        lambda: (draw.choice(("HGETALL", "HKEYS", "HVALS", "HLEN", "EXISTS", "PERSIST", "PTTL")), draw.choice("hn")),
        lambda: ("PEXPIRE", draw.choice("hzx"), 100_000),
        lambda: ("SET", "s", name(), *draw.choice(((), ("NX", "PX", 100_000)))),
        lambda: (draw.choice(("GET", "EXISTS", "UNLINK")), "s"),
        lambda: ("ZADD", "z", draw.randrange(10), name(), draw.randrange(10), name()),
        lambda: (draw.choice(("ZSCORE", "ZREM")), "z", name()),
        lambda: (draw.choice(("ZCOUNT", "ZRANGEBYSCORE", "ZREMRANGEBYSCORE")), "z", bound(), bound()),
        lambda: ("ZRANGEBYSCORE", "z", bound(), bound(), "WITHSCORES", "LIMIT", draw.randrange(2), draw.randrange(3)),
        lambda: ("ZCARD", "z"),
        lambda: ("ZMSCORE", "z", name(), name()),
        lambda: ("ZPOPMIN", "z", draw.randrange(3)),
        lambda: ("ZADD", "lex", 0, name()),
        lambda: ("ZRANGEBYLEX", "lex", draw.choice(("-", "[b", "(b")), "+", "LIMIT", 0, draw.randrange(4)),
        lambda: ("XADD", "x", *draw.choice(((), ("MAXLEN", "=", 4))), ids.pop(), "f", name()),
        lambda: ("XRANGE", "x", entry(), entry(), *draw.choice(((), ("COUNT", 2)))),
        lambda: ("XREVRANGE", "x", entry(), entry(), "COUNT", draw.randrange(1, 3)),
        lambda: ("XTRIM", "x", "MINID", f"{draw.randrange(1, 20)}-0"),
        lambda: ("XLEN", "x"),
        lambda: ("DEL", draw.choice("hnszx"), "lex") if draw.random() < 0.2 else ("PING",),
        lambda: ("PUBSUB", "NUMSUB", name()),
    ]  # fmt: skip
    return [draw.choice(kinds)() for _ in range(COMMANDS)]


def _comparable(command, reply):
    if command[0] in ANY_ORDER:
        return sorted(reply)
    return reply > 0 if command[0] == "PTTL" and reply > 0 else reply


async def test_commands_have_the_replies_of_a_server(connection):  # noqa: F811  the fixture
    """Sent by a client and by a script."""
    for seed in range(SEQUENCES):
        draw, store = random.Random(seed), LuaStore(lambda: 10**12)
        await connection.ask(("FLUSHALL",))
        for command in _commands(draw):
            script = draw.random() < 0.5 and command[0] != "PING"
            call = Call(ASK, (command[1],), command) if script else Call(None, command[1:2], command)
            real = (await connection.run([call]))[0]
            assert _comparable(command, real) == _comparable(command, store.call(call)), (seed, call)


async def test_values_of_a_script_match_a_server(connection):  # noqa: F811  the fixture
    """Nil and false, numbers with a fraction, nested lists, values after a nil."""
    store, call = LuaStore(lambda: 10**12), Call(VALUES, ("h", "x"), ("41",))
    for command in (("HSET", "h", "there", "1"), ("XADD", "x", "1-0", "f", "v")):
        await connection.ask(command)
        store.command(command)
    assert await connection.run([call]) == [store.call(call)]
