"""Without keys a page of another site, opened on the same machine, can change nothing and learn nothing."""

import re

import pytest

from service.api.http.cross_site import Guard, is_known, origins_of
from service.api.routes import ROUTES
from service.app import build
from service.errors import Forbidden
from service.settings import Settings
from service.settings_validation import is_local, validated
from tests.service.api_fixtures import DFOP, problem

OTHERS = [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://onepass:81"},
    {"Origin": "http://onepass.evil.example"}, {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://onepass", "Sec-Fetch-Site": "cross-site"},
]  # fmt: skip
UNSAFE = [route for route in ROUTES if route.method != "GET"]
TYPES = ("application/x-www-form-urlencoded", "text/plain", "application/json")


@pytest.mark.parametrize("headers", OTHERS)
async def test_another_site_changes_nothing(api, headers):
    """Every route that is no GET: 403, whatever the media type of its body is, and the model is as it was."""
    path = await api.shared()
    before = await api.standing(path)
    for route in UNSAFE:
        url = route.path.replace("/models/{name}", path).replace("{challenger}", "c").replace("{version}", "3")
        for kind in TYPES[: None if headers is OTHERS[0] else 1]:
            problem(await api.ask(route.method, url, content=b"{}", headers={**headers, "Content-Type": kind}), 403)
    assert before == await api.standing(path)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example"],
)
async def test_a_name_that_may_be_anybodys(api, host):
    """DNS rebinding: a page whose own name leads here reads nothing either."""
    path = await api.shared()
    for url in (path, "/models", "/metrics", "/drift", f"{path}/state", f"/v2{path}"):
        problem(await api.ask("GET", url, headers={"Host": host}), 403)
    body = {"features": {"a": 1, "b": 2}}
    problem(await api.ask("POST", f"{path}/predict", json=body, headers={"Host": host}), 403)


async def test_a_host_that_is_no_name_is_not_kept(api):
    """Verdicts of long ones would be memory for good."""
    is_known.cache_clear()
    problem(await api.ask("GET", "/models", headers={"Host": "x" * 60_000}), 403)
    assert 0 == is_known.cache_info().currsize
    longest = {"Host": "x" * 253 + ".:65535"}
    assert 200 == (await api.ask("GET", "/models", headers=longest)).status_code


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8000", "LOCALHOST.", "127.0.0.1:8000", "[::1]:8000", "10.1.2.3", "onepass", "a.localhost"],
)
async def test_names_and_addresses_of_this_service(api, host):
    """What nobody can have registered is let in."""
    assert 200 == (await api.ask("GET", "/models", headers={"Host": host})).status_code


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Origin": "http://onepass"}, {"Origin": "HTTP://ONEPASS"}, {"Origin": "https://onepass"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://seen.through.a.proxy"}, {"Sec-Fetch-Site": "none"},
    ],
)  # fmt: skip
async def test_own_pages_and_programs_are_let_in(api, headers):
    """The pages' own requests, those that a user makes, and those of clients that are no browsers."""
    path = await api.new()
    row = {"features": {"a": 1, "b": 2}, "label": "UP"}
    assert 200 == (await api.ask("POST", f"{path}/feedback", json=row, headers=headers)).status_code
    assert 200 == (await api.ask("POST", f"{path}/reset", headers=headers)).status_code


async def test_a_browser_names_the_media_type(api):
    """A body without one, or with a form's, is 415 from a browser; programs may leave it out."""
    path, own = await api.shared(), {"Origin": "http://onepass"}
    row = b'{"features": {"a": 1, "b": 2}}'
    problem(await api.ask("POST", f"{path}/predict", content=row, headers=own), 415)
    assert 200 == (await api.ask("POST", f"{path}/predict", content=row)).status_code
    form = {**own, "Content-Type": "application/x-www-form-urlencoded"}
    problem(await api.ask("POST", f"{path}/reset", content=b"{}", headers=form), 415)


async def test_keys_stand_for_themselves(start):
    """With keys no header of a browser matters: none of its own accord sends a key."""
    api = await start(api_keys="ad:adm1n:admin")
    headers = {"Authorization": "Bearer adm1n", "Origin": "https://evil.example", "Host": "evil.example"}
    assert 201 == (await api.ask("PUT", "/models/keyed", json=DFOP, headers=headers)).status_code
    del headers["Authorization"]
    problem(await api.ask("DELETE", "/models/keyed", headers=headers), 401)


async def test_names_that_are_listed(start):
    """ONEPASS_ALLOWED_HOSTS: with any port or with one, and * for any name."""
    api = await start(allowed_hosts="ml.example, other.example:8443")
    listed = {"ml.example": 200, "ML.example:81": 200, "other.example": 403, "other.example:8443": 200}
    for host, status in listed.items():
        assert status == (await api.ask("GET", "/models", headers={"Host": host})).status_code
    api = await start(allowed_hosts="*")
    assert 200 == (await api.ask("GET", "/models", headers={"Host": "evil.example"})).status_code


# ------------------------------------------------------------------------------------------------ CORS


async def test_cors_is_off(api):
    """No answer lets pages of another origin read it."""
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    for method, url in (("GET", "/models"), ("OPTIONS", "/models"), ("OPTIONS", f"{await api.shared()}/predict")):
        answer = await api.ask(method, url, headers=asked)
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_origins_that_are_listed(start):
    """May do what anybody may, by the short way of rows as well; others see no difference."""
    api = await start(cors_origins="https://app.example, http://localhost:3000/")
    path, row = await api.new(), {"features": {"a": 1, "b": 2}}
    own = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
    for method, url, body in (("POST", f"{path}/predict", row), ("GET", path, None), ("POST", f"{path}/predict", {})):
        answer = await api.ask(method, url, json=body, headers=own)
        assert "https://app.example" == answer.headers["access-control-allow-origin"]
        assert "Origin" in answer.headers["vary"]
        assert "*" == answer.headers["access-control-expose-headers"]
    asked = {**own, "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization"}
    answer = await api.ask("OPTIONS", path, headers=asked)
    assert 200 == answer.status_code
    assert "PATCH" in answer.headers["access-control-allow-methods"]
    assert "x-request-id" in answer.headers
    other = {**asked, "Origin": "https://evil.example"}
    assert "access-control-allow-origin" not in (await api.ask("OPTIONS", path, headers=other)).headers
    problem(await api.ask("POST", f"{path}/predict", json=row, headers={"Origin": "https://evil.example"}), 403)


@pytest.mark.parametrize("odd", ["app.example", "ftp://a", "https://a/b", "https://user@a", "https://"])
def test_origins_that_are_none(odd):
    """A start fails, and names it."""
    with pytest.raises(ValueError, match="ONEPASS_CORS_ORIGINS"):
        origins_of(odd)


@pytest.mark.parametrize("odd", ["*.example.com", ".example.com", "https://a.example.com", "a.example.com/", "a b"])
def test_hosts_that_are_none(odd):
    """A start fails, and names it: no host that a client sends would ever match."""
    with pytest.raises(ValueError, match=f"ONEPASS_ALLOWED_HOSTS: '{re.escape(odd)}'"):
        validated(Settings(allowed_hosts=f"ml.example, {odd}"))
    validated(Settings(allowed_hosts="ml.example:8443, [::1]:8000, *"))


def test_origins_are_read_as_browsers_send_them():
    """Which leave the port out where it is that of the scheme: with it, no page would ever match."""
    listed = "https://App.example:443/, http://app.example:80, https://app.example:80, http://[::1]:8080"
    expected = ("https://app.example", "http://app.example", "https://app.example:80", "http://[::1]:8080")
    assert expected == origins_of(listed)


def test_any_origin_needs_keys(own_settings):
    """With * and no keys every page would be let in."""
    with pytest.raises(ValueError, match="without keys"):
        build(Settings(cors_origins="*"))
    build(Settings(cors_origins="*", api_keys="a:b:read"))


def test_verdicts_are_bounded():
    """A client that names a new host each time takes no memory."""
    guard = Guard()
    for at in range(3000):
        with pytest.raises(Forbidden):
            guard.check({"method": "GET", "headers": [(b"host", b"h%d.example" % at)]})
    assert 1000 >= is_known.cache_info().currsize


# ------------------------------------------------------------------------------------------------ binding


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_alone(host, own_settings):
    """Without keys the service may be reached from here."""
    assert is_local(host)
    validated(Settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "", "my-host", "fe80::1%eth0"])
def test_other_machines_need_keys(host, own_settings):
    """From elsewhere only with keys, or where it is wanted."""
    with pytest.raises(ValueError, match="ONEPASS_INSECURE=1"):
        validated(Settings(host=host))
    validated(Settings(host=host, api_keys="a:b:read"))
    validated(Settings(host=host, insecure=True))
