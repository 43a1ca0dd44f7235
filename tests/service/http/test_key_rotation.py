"""Secrets as digests, until a day, two of one name, from a file that is read again; what a key may take of others."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from service.api.drift import event_stream
from service.api.http.keys import BYTES_MAX, KeyFile, Keys, text_of
from service.app import build
from service.client import app
from service.errors import Forbidden, StreamsFull, TooManyRequests, Unauthorized
from service.runtime.broadcast import OWNER, Broadcast
from service.settings_sources import gather
from tests.service.api_fixtures import DFOP, problem
from tests.service.event_client import EventClient
from tests.service.waiting import until


def hashed(secret):
    return f"sha256${sha256(secret.encode()).hexdigest()}"


def sent(secret):
    return {b"x-api-key": secret if isinstance(secret, bytes) else secret.encode("latin-1")}


def test_a_secret_may_stand_there_as_its_digest():
    """The secret lets in, the digest does not; its letters may be of either case."""
    keys = Keys(f"a:{hashed('s1')}:read,b:sha256${sha256(b's2').hexdigest().upper()}:learn", 0, lambda: 0.0)
    assert "a" == keys.caller(sent("s1")).name
    assert "b" == keys.caller(sent("s2")).name
    for odd in (hashed("s1"), sha256(b"s1").hexdigest(), ""):
        with pytest.raises(Unauthorized):
            keys.caller(sent(odd))


def test_secrets_beyond_ascii():
    """As UTF-8 in a header; no other bytes are taken for it."""
    keys = Keys("a:schlüssel:read", 0, lambda: 0.0)
    assert "a" == keys.caller(sent("schlüssel".encode())).name
    for odd in ("schlüssel", b"schl?ssel"):
        with pytest.raises(Unauthorized):
            keys.caller(sent(odd))


def test_a_key_expires_with_its_last_day():
    """In UTC; then it is none, and says why."""
    now = datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    keys = Keys("a:s1:read::2027-01-31,a:s2:read:m*", 0, lambda: 0.0, lambda: now)
    keys.check(sent("s1"), "read", "any")
    now += 1
    with pytest.raises(Unauthorized, match="expired"):
        keys.check(sent("s1"), "read", "any")
    keys.check(sent("s2"), "read", "m1")
    Keys("a:s1:read::9999-12-31", 0, lambda: 0.0).check(sent("s1"), "read", "any")


def test_a_file_without_keys_is_refused():
    """It was named to close the service, which would be open to everybody."""
    with pytest.raises(ValueError, match="ONEPASS_API_KEYS_FILE: there are no keys left"):
        Keys("# none yet\n,\n", 0, lambda: 0.0, from_file=True)


def test_two_secrets_of_one_name_have_one_rate():
    """So that a rotation gives nobody twice as much; and neither does a reload."""
    keys = Keys("a:s1:read,a:s2:read", 2, lambda: 0.0)
    keys.check(sent("s1"), "read", None)
    keys.check(sent("s2"), "read", None)
    for secret in ("s1", "s2"):
        with pytest.raises(TooManyRequests):
            keys.check(sent(secret), "read", None)
    assert 1 == keys.replace("# the new one\n\na:s2:read\n")
    with pytest.raises(TooManyRequests):
        keys.check(sent("s2"), "read", None)
    with pytest.raises(Unauthorized):
        keys.check(sent("s1"), "read", None)


@pytest.mark.parametrize("text", ["", " , ", "a", "a:s:root", "a:s:read:*:soon"])
def test_keys_that_cannot_be_replace_none(text):
    """Least of all by nothing, which would let everybody in."""
    keys = Keys("a:s1:read", 0, lambda: 0.0)
    with pytest.raises(ValueError, match="ONEPASS_API_KEYS"):
        keys.replace(text)
    keys.check(sent("s1"), "read", None)
    with pytest.raises(Unauthorized):
        keys.check(sent("x"), "read", None)


@pytest.mark.parametrize("entry", ["canary", "a:canary:root", "canary:x:root", "a:canary:read:*:soon", "b:s1:read"])
def test_what_is_wrong_in_a_file_is_told_by_its_line(entry):
    """Comments and blank lines count, and are passed over; nothing that may be a secret is repeated."""
    with pytest.raises(ValueError, match="^ONEPASS_API_KEYS_FILE: line 4: ") as refused:
        Keys(f"# of the board\n\n a:s1:read\n{entry}\n", 0, lambda: 0.0, from_file=True)
    assert "canary" not in str(refused.value)


def test_a_service_whose_keys_have_all_expired_says_so(caplog):
    """One that holds is enough to say nothing."""
    Keys("a:s1:read::2020-01-31,b:s2:read", 0, lambda: 0.0).warn_expired()
    assert "" == caplog.text
    Keys("a:s1:read::2020-01-31", 0, lambda: 0.0).warn_expired()
    assert "all 1 keys have expired" in caplog.text


def lets_in(keys, secret):
    try:
        keys.caller(sent(secret))
    except Unauthorized:
        return False
    return True


async def test_a_file_is_read_again(tmp_path, caplog):
    """New keys hold and old ones go; a file that is gone, broken or empty changes nothing, and is said once."""
    caplog.set_level(logging.INFO)
    path = tmp_path / "keys"
    path.write_text("a:s1:read\n\n  b:s2:admin  \n", "utf-8-sig")
    path.chmod(0o600)
    keys = Keys(text_of(path), 0, lambda: 0.0)
    follower = KeyFile(path, keys, 0.01)
    task = asyncio.create_task(follower.run())
    try:
        assert lets_in(keys, "s1")
        assert lets_in(keys, "s2")
        await until(lambda: follower._known is not None)
        path.write_text("# it goes\n\na:s1:read,a:s3:read\nold:s9:read::2020-01-31\n")
        await until(lambda: lets_in(keys, "s3"))
        assert "2 secrets are valid, 1 have expired" in caplog.text
        assert not lets_in(keys, "s2")
        for broken in (b"", b"a:canary:root", b"\xff", b"x" * (BYTES_MAX + 1), None):
            caplog.clear()
            path.unlink() if broken is None else path.write_bytes(broken)
            await until(lambda: caplog.records)
            assert lets_in(keys, "s3")
            assert ["ERROR"] == [record.levelname for record in caplog.records]
            assert "canary" not in caplog.text
        mounted = tmp_path / "..data"
        mounted.write_text("c:s4:read")
        path.symlink_to(mounted)  # as Kubernetes mounts a secret
        await until(lambda: lets_in(keys, "s4"))
    finally:
        task.cancel()


async def test_a_service_takes_new_keys_without_a_restart(tmp_path, store_url):
    """From the file that ONEPASS_API_KEYS_FILE names."""
    path = tmp_path / "keys"
    path.write_text(f"a:{hashed('s1')}:admin")
    found = gather({}, None, {"ONEPASS_API_KEYS_FILE": str(path), "ONEPASS_REDIS_URL": store_url})
    assert path == found.keys_file
    assert None is gather({"api_keys": "a:b:read"}, None, {"ONEPASS_API_KEYS_FILE": str(path)}).keys_file
    app = build(found.settings, keys_file=found.keys_file)
    async with app.router.lifespan_context(app):
        keys = app.context.keys
        assert lets_in(keys, "s1")
        path.write_text(f"a:{hashed('s2')}:admin")
        await until(lambda: lets_in(keys, "s2"))
        assert not lets_in(keys, "s1")


# ------------------------------------------------------------------------------------------------ onepass keys new


def test_a_new_key_lets_in(capsys):
    """The secret that is printed goes with the entry; another one is made each time."""
    for more, model in (
        ([], "any"),
        (["--models", "a*+b", "--expires", "2999-12-31"], "a1"),
        (["--expires", "2999-12-31"], "x"),
    ):
        assert 0 == app.main(["keys", "new", "ci", "--scopes", "read+learn", "--json", *more])
        made = json.loads(capsys.readouterr().out)
        assert made["secret"] not in made["entry"]
        keys = Keys(made["entry"], 0, lambda: 0.0)
        keys.check(sent(made["secret"]), "learn", model)
        with pytest.raises(Forbidden):
            keys.check(sent(made["secret"]), "admin", model)
    assert 0 == app.main(["keys", "new", "ci", "--scopes", "admin"])
    secret, entry = (line.split()[1] for line in capsys.readouterr().out.splitlines())
    assert f"ci:{hashed(secret)}:admin" == entry
    assert secret != made["secret"]


@pytest.mark.parametrize(
    "odd",
    [
        ["a:b", "--scopes", "read"],
        ["a", "--scopes", "root"],
        ["a"],
        ["a", "--scopes", "read", "--models", "a:b"],
        ["a", "--scopes", "read", "--expires", "2020-01-31"],
    ],
)
def test_a_key_that_cannot_be_is_not_made(odd, capsys):
    """With what is allowed, status 2."""
    assert 2 == app.main(["keys", "new", *odd])
    assert "" == capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ audit, streams


async def test_what_needs_admin_is_in_the_audit_log(start, caplog):
    """Who, what, which model, and how it ended, refusals included; reading and learning are not there."""
    api = await start(api_keys="boss:s3:admin,ro:s1:read")
    caplog.set_level(logging.INFO, logger="onepass.audit")
    boss, ro = {"X-API-Key": "s3"}, {"X-API-Key": "s1"}
    assert 201 == (await api.ask("PUT", "/models/audited", json=DFOP, headers=boss)).status_code
    problem(await api.ask("DELETE", "/models/audited", headers=ro), 403)
    problem(await api.ask("DELETE", "/models/audited"), 401)
    await api.ask("GET", "/models/audited", headers=ro)
    await api.ask("POST", "/models/audited/predict", json={"features": {"a": 1, "b": 2}}, headers=ro)
    said = [record for record in caplog.records if record.name == "onepass.audit"]
    expected = [("PUT", 201, "boss"), ("DELETE", 403, "ro"), ("DELETE", 401, None)]
    assert expected == [(record.method, record.status, record.key) for record in said]
    assert {"/models/{name}"} == {record.route for record in said}


async def test_one_key_takes_half_of_the_streams(monkeypatch):
    """The attack: one key opens streams until nobody else can; now the rest is left to others, and comes back."""
    monkeypatch.setattr("service.runtime.broadcast.STREAMS_MAX", 10)
    broadcast = Broadcast(None)
    held = {}

    async def taken(owner):
        OWNER.set(owner)
        held[owner] = []
        while len(held[owner]) < 20:
            try:
                held[owner].append(broadcast.subscribe())
            except StreamsFull:
                break
        return len(held[owner])

    try:
        assert [5, 5, 0] == [await taken("greedy"), await taken("other"), await taken("third")]
        for listener in held["greedy"][:2]:
            broadcast.leave(listener)
            broadcast.leave(listener)
        assert 8 == broadcast.open
        assert [2, 0] == [await taken("third"), await taken(None)]
        monkeypatch.setattr("service.runtime.broadcast.STREAMS_MAX", 1)
        for listener in [listener for owned in held.values() for listener in owned]:
            broadcast.leave(listener)
        assert 1 == await taken("only")
    finally:
        OWNER.set(None)


async def test_one_key_leaves_streams_to_others(start, monkeypatch):
    """They are 503 to it, while others still open theirs."""
    monkeypatch.setattr("service.runtime.broadcast.STREAMS_MAX", 4)
    api = await start(api_keys="one:s1:admin,two:s2:admin")
    context = api.app.context
    OWNER.set("one")
    for _ in range(2):
        context.broadcast.subscribe()
    OWNER.set(None)
    found = problem(await api.ask("GET", "/drift/stream", headers={"X-API-Key": "s1"}), 503)
    assert "key one" in found["detail"]
    assert 200 == (await api.ask("HEAD", "/drift/stream", headers={"X-API-Key": "s2"})).status_code


@pytest.mark.parametrize("text", ["a:s3cret:read", "a:s3cret:root"])
@pytest.mark.parametrize(("mode", "warned"), [(0o644, 1), (0o604, 1), (0o640, 0), (0o600, 0)])
async def test_a_file_of_keys_that_others_may_read_is_warned_of(tmp_path, caplog, mode, warned, text):
    """Once for each content, without a word of it; one that is wrong is mended first."""
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(mode)
    following = asyncio.create_task(KeyFile(path, Keys("a:s3cret:read", 0, lambda: 0.0), look_s=0.01).run())

    def said():
        return [line for line in caplog.messages if f"chmod o-r {path}" in line]

    if text.endswith("root"):
        await until(lambda: caplog.records)
        await asyncio.sleep(0.1)
        assert [] == said()
        path.write_text("a:s3cret:read")
    await until(lambda: warned <= len(said()))
    await asyncio.sleep(0.1)
    following.cancel()
    assert warned == len(said())
    assert "s3cret" not in caplog.text


OPEN = "all:s3cret-all:admin"
ALLOWED = f"{OPEN},one:s3cret-one:read:seen-*:2100-01-01"
CHANGED = {"is removed": OPEN, "is of other models": f"{OPEN},one:s3cret-one:read:hidden", "has expired": ALLOWED}


@pytest.mark.parametrize("change", CHANGED)
async def test_a_stream_ends_when_its_key(start, monkeypatch, change):
    """Of all models and of one; those of another key go on."""
    locked, name = await start(api_keys=ALLOWED), f"seen-{change.replace(' ', '-')}"
    keys, ask = locked.app.context.keys, {"x-api-key": "s3cret-all"}
    for known in (name, "hidden"):
        assert (await locked.ask("PUT", f"/models/{known}", json=DFOP, headers=ask)).status_code in {200, 201}
    paths = ("/drift/stream", f"/drift/stream?model={name}")
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.1)
    async with AsyncExitStack() as stack:
        clients = [
            [await stack.enter_async_context(EventClient(locked.app, path, {"x-api-key": secret})) for path in paths]
            for secret in ("s3cret-one", "s3cret-all")
        ]
        for_one, for_all = clients
        await asyncio.sleep(0.3)
        assert not any(client.task.done() for client in for_one)
        keys.replace(CHANGED[change])
        if change == "has expired":
            monkeypatch.setattr(keys, "_now", lambda: 2.0**53)
        row = {"features": {"a": 1, "b": 2}, "label": "UP"}
        assert 200 == (await locked.ask("POST", f"/models/{name}/feedback", json=row, headers=ask)).status_code
        for client in for_one:
            await client.over()
            assert client.ended
        assert not any(client.task.done() for client in for_all)
