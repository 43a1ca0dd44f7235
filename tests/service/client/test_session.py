"""One service over HTTP: where it is, what is sent, and what becomes of a bad network."""

from pathlib import Path

import httpx
import pytest
import trustme

from service.client.failures import Failed, Misused
from service.client.session import Refused, Service, Session
from tests.service.client.fixtures import Shell, answering, stream

ROWS = 230


@pytest.mark.parametrize(
    ("error", "named"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "--ca"),
        ("Server disconnected without sending a response.", "https://"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] certificate required", "--client-cert"),
    ],
)
def test_trouble_with_tls_names_the_option(error, named):
    """What OpenSSL and httpx say, with what to do about it."""
    assert named in str(Session("http://nobody.invalid").unreachable(httpx.ConnectError(error)))


def test_where_a_service_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for, else the port of onepass serve on this machine; what is no port is refused."""
    for port, address in (("8123", "8123"), ("", "8000"), ("0", "8000"), ("tcp://10.0.0.1:80", "8000")):
        monkeypatch.setenv("ONEPASS_PORT", port)
        assert f"http://127.0.0.1:{address}" == Service().address
        assert "http://there" == Service("http://there").address
    monkeypatch.setenv("ONEPASS_PORT", "81x7")
    with pytest.raises(Misused, match="ONEPASS_PORT: '81x7' is not a port"):
        Service().address  # noqa: B018


def test_a_service_that_is_not_there(shell: Shell) -> None:
    """One line says how to start one, or how to name another."""
    status, _, complained = shell("models", "--url", "http://127.0.0.1:9")
    assert (1, 1) == (status, len(complained.splitlines()))
    assert "onepass serve" in complained
    assert "--url or ONEPASS_URL" in complained


def test_a_page_of_a_proxy_is_no_answer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said where an answer of the service was expected, whatever its status."""
    monkeypatch.setattr("service.client.session.PATIENCE_S", 0.0)
    for status in (200, 502):
        with answering(lambda _, status=status: (status, b"<html>")) as there:
            complained = f"onepass delete: {there}/models/m answers HTTP {status}, and not like Onepass\n"
            assert (1, "", complained) == shell("delete", "m", "--url", there)


def test_a_key_is_sent(shell: Shell, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By --key or ONEPASS_API_KEY, as a bearer token in UTF-8."""
    sent = []
    monkeypatch.setattr(
        Session,
        "send",
        lambda self, request, **_: sent.append(dict(request.headers.raw)[b"Authorization"].decode()) or 1 / 0,
    )
    monkeypatch.setenv("ONEPASS_API_KEY", "from-variable")
    for arguments in ([], ["--key", "from-flag"], ["--key", "schlüssel"], ["--key", "of-a-file \n"]):
        with pytest.raises(ZeroDivisionError):
            shell("models", *arguments)
    assert ["Bearer from-variable", "Bearer from-flag", "Bearer schlüssel", "Bearer of-a-file"] == sent


def test_a_key_that_cannot_be_sent_is_not_printed(shell: Shell) -> None:
    """With a line break in its midst it is refused in words."""
    status, said, complained = shell("models", "--key", "my\nsecret")
    assert (2, "", 1, False) == (status, said, len(complained.splitlines()), "secret" in complained)


def test_proxies(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be reached or used is named, without its password; to this machine the way is without it."""
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for variable, proxy, status, named in (
        ("HTTP_PROXY", "http://me:secret@127.0.0.1:9", 1, "the proxy 127.0.0.1:9; to bypass it, list there.invalid"),
        ("ALL_PROXY", "socks5://127.0.0.1:9", 2, "SOCKS"),
        ("HTTP_PROXY", "http://me:secret@host:port", 2, "HTTP_PROXY"),
    ):
        monkeypatch.setenv(variable, proxy)
        ended, said, complained = shell("models", "--url", "http://there.invalid")
        assert (status, "", 1, True) == (ended, said, len(complained.splitlines()), named in complained), complained
        assert "secret" not in complained
        assert 0 == shell("models")[0]
        monkeypatch.delenv(variable)


# ------------------------------------------------------------------------------------------------ a bad network


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[tuple[str, str, bytes]]]:
    """What happens to the next POSTs (a status or problem, ``lose`` the answer, or nothing), and what was sent."""
    plan, seen, real = list[str](), list[tuple[str, str, bytes]](), httpx.HTTPTransport.handle_request

    def handle(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        fault = ""
        if request.method == "POST":
            seen.append((request.headers["Idempotency-Key"], request.headers.get("Authorization"), request.content))
            fault = plan.pop(0) if plan else ""
        if fault.startswith("model-"):
            return httpx.Response(503, headers={"Retry-After": "0"}, json={"type": f"/problems/{fault}"})
        if fault.isdecimal():
            return httpx.Response(int(fault), headers={"Retry-After": "0"}, content=b"<html>")
        response = real(self, request)
        if fault == "lose":
            response.read()
            raise httpx.RemoteProtocolError("the answer is lost")
        return response

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    return plan, seen


def test_nothing_is_learned_twice(tmp_path: Path, replay: Shell, url: str, network: tuple) -> None:
    """A batch that met 502 to 504, or whose answer was lost, is sent again under the same key, with the API key."""
    plan, seen = network
    plan[:] = ["503", "502", "504", "", "lose", ""]
    options = ["--algorithm", "dfop", "--drop", "day", "--key", "mine", "--batch", 100]
    status, said, _ = replay(stream(tmp_path / "shaky.csv"), *options)
    assert (0, True, False) == (status, f"{ROWS} rows in" in said, "learned before" in said)
    assert ROWS == httpx.get(f"{url}/models/shaky").json()["rows"]
    assert [1, 1, 1] == [len(set(tries)) for tries in (seen[:4], seen[4:6], seen[6:])]
    assert (3, {"Bearer mine"}) == (len({key for key, *_ in seen}), {sent for _, sent, _ in seen})


def test_patience_ends(tmp_path: Path, replay: Shell, network: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that stays busy is given up; a model that is out of service or lost at once."""
    plan, seen = network
    monkeypatch.setattr("service.client.session.PATIENCE_S", 0.1)
    for fault, tries in (("503", {*range(2, 100_000)}), ("model-down", {1}), ("model-lost", {1})):
        plan[:], seen[:] = [fault] * 100_000, []
        assert 1 == replay(stream(tmp_path / "stuck.csv"), "--drop", "day")[0]
        assert len(seen) in tries


def test_authorities_of_the_machine_are_read_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that names no file is named; with --ca it does not matter."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    Service("https://127.0.0.1:9", ca=tmp_path / "ca.pem").session().close()
    with pytest.raises(Failed, match="SSL_CERT_FILE: No such file"):
        Service("https://127.0.0.1:9").session()


def test_what_was_waited_for_in_vain_is_not_waited_for_again() -> None:
    """Of many models each would take the patience of one."""
    seen: list[str] = []
    away = httpx.MockTransport(
        lambda request: seen.append(request.url.path) or httpx.Response(503, headers={"Retry-After": "0"})
    )
    with Session("http://service", patience_s=0.5, transport=away) as unlucky:
        for name in ("a", "b"):
            with pytest.raises(Refused):
                unlucky.found(name)
    assert seen.count("/models/a") > seen.count("/models/b") == 1


def test_a_rate_limit_and_a_restart_end_no_command(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States, deletions and scores are asked for again, each until it is there."""
    file, met, real = stream(tmp_path / "calm.csv"), set[object](), httpx.HTTPTransport.handle_request
    shell("create", "calm", "--task", "classification", "--features", "a,b", "--labels", "UP,DOWN")

    def handle(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        tried = (request.method, str(request.url))
        if tried in met:
            return real(self, request)
        met.add(tried)
        return httpx.Response(429 if len(met) % 2 else 503, headers={"Retry-After": "0"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    for arguments in (
        ("export", "--all", tmp_path / "all.tar"),
        ("export", "calm", tmp_path / "state"),
        ("import", "calmer", tmp_path / "state"),
        ("import", tmp_path / "all.tar"),
        ("evaluate", file, "--label", "y", "--drop", "day", "--model", "calm"),
        ("delete", "calmer", "calm", "--yes"),
    ):
        assert (0, "") == shell(*arguments)[::2], arguments


@pytest.mark.parametrize(("before", "status"), [(504, 0), (429, 1)])
def test_a_deletion_whose_answer_is_lost(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, before: int, status: int
) -> None:
    """The retry finds no model: the first try deleted it, unless that was refused."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    plan = [(before, b"{}"), (404, b'{"detail": "there is no model m"}')]
    with answering(lambda _: plan.pop(0)) as there:
        assert status == shell("delete", "m", "--yes", "--url", there)[0]
    assert [] == plan
