"""API keys: who may do what, and that nobody else may do anything."""

import re
from hashlib import sha256

import pytest

from service.api.http import problems
from service.api.http.keys import SCOPES, Keys
from service.api.routes import ROUTES
from service.app import build
from service.errors import Forbidden, TooManyRequests, Unauthorized
from service.settings import Settings
from service.settings_validation import validated
from tests.service.api_fixtures import DFOP, problem
from tests.service.route_table import id_of

SECRETS = {"reader": "s3cret-read", "learner": "s3cret-learn", "boss": "s3cret-admin", "tenant": "s3cret-tenant"}
ALLOWED = {"reader": "read", "learner": "learn", "boss": "admin", "tenant": "admin:t-*+shared"}
KEYS = ",".join(f"{name}:{SECRETS[name]}:{allowed}" for name, allowed in ALLOWED.items())
GUARDED = [route for route in ROUTES if route.scope != "public"]
ROW = {"features": {"a": 1, "b": 2}}


def as_(name):
    return {"headers": {"Authorization": f"Bearer {SECRETS[name]}"}}


@pytest.fixture(scope="module")
async def locked(start):
    """A service with keys, and a model of everybody's."""
    api = await start(api_keys=KEYS)
    await api.ask("PUT", "/models/common", json=DFOP, **as_("boss"))
    await api.ask("PUT", "/models/t-one", json=DFOP, **as_("tenant"))
    return api


STRANGERS = [
    {}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}, {"Authorization": "Basic czNjcmV0LWFkbWlu"},
    {"Authorization": SECRETS["boss"]}, {"X-API-Key": ""}, {"X-API-Key": SECRETS["boss"] + "x"},
    {"X-API-Key": SECRETS["boss"].upper()}, {"Authorization": "Bearer wrong", "X-API-Key": SECRETS["boss"]},
]  # fmt: skip
"""Headers without a key."""


@pytest.mark.parametrize("route", GUARDED, ids=id_of)
async def test_nobody_without_a_key_gets_in(locked, route):
    """Every route but the public ones: 401, whatever else is wrong with the request, and nothing is echoed."""
    for name, headers in (*(("common", each) for each in STRANGERS), ("nobody", STRANGERS[1]), ("-bad", {})):
        answer = await locked.ask(route.method, route.path.replace("{name}", name), headers=headers)
        problem(answer, 401, secret="s3cret")
        assert "Bearer" == answer.headers["www-authenticate"]


async def test_a_key_can_be_asked_what_it_allows(locked):
    """Its name, its highest scope, and the models it may touch."""
    own = ("tenant", "admin", ["t-*", "shared"])
    for who, scope, models in (("reader", "read", []), ("learner", "learn", []), ("boss", "admin", []), own):
        expected = {"name": who, "scope": scope, "models": models}
        assert expected == (await locked.ask("GET", "/key", **as_(who))).json()


async def test_a_key_is_sent_in_either_header(locked):
    """As a bearer token, in any case of the word, or as X-API-Key."""
    for headers in (
        {"Authorization": f"Bearer {SECRETS['reader']}"},
        {"Authorization": f"bearer  {SECRETS['reader']} "},
        {"X-API-Key": SECRETS["reader"]},
        {"X-API-Key": SECRETS["reader"] + " "},
    ):
        assert 200 == (await locked.ask("GET", "/models/common", headers=headers)).status_code


@pytest.mark.parametrize("route", GUARDED, ids=id_of)
async def test_a_key_is_looked_at_first(locked, route):
    """Below the scope of a route, and of models beyond its patterns, 403 whatever the name and the body are."""
    weak = [
        who for who in ("reader", "learner") if SCOPES[route.scope] > SCOPES["read" if who == "reader" else "learn"]
    ]
    for who in (*weak, *(["tenant"] if "{name}" in route.path else [])):
        for name in ("common", "nobody", "T-one", "xt-one", "-bad"):
            path = route.path.replace("{name}", name)
            problem(await locked.ask(route.method, path, content=b"no json", **as_(who)), 403)


async def test_too_many_requests_are_429(start):
    """Over the rate a key has to wait, and is told how long; each request counts once, and keys count apart."""
    slow = await start(api_keys=KEYS, rate_per_s=0.001)
    assert 200 == (await slow.ask("GET", "/models", **as_("reader"))).status_code
    answer = await slow.ask("GET", "/models", **as_("reader"))
    problem(answer, 429, secret="s3cret")
    assert 1 <= int(answer.headers["retry-after"])
    assert "4" == problems.problem(TooManyRequests("", 3.3)).headers["retry-after"], "3 s would be too early"
    told = await slow.post("/models/common/predict", {**ROW, "track": True}, **as_("learner"))
    assert told["prediction_id"]
    assert 200 == (await slow.ask("GET", "/healthz", **as_("reader"))).status_code


def test_a_rate_is_a_request_per_day_at_least(own_settings):
    """Less would tell clients to wait for longer than a number can say."""
    validated(Settings(rate_per_s=1 / 86_400))
    with pytest.raises(ValueError, match="ONEPASS_RATE_PER_S: less than a request per day"):
        validated(Settings(rate_per_s=1e-320))


@pytest.mark.parametrize("text", ["", " , "])
def test_without_keys_everybody_may_do_everything(text):
    """Nothing is configured, or a list of nothing: nothing is asked."""
    keys = Keys(text, 0, lambda: 0.0)
    keys.check({}, "admin", "any")
    assert (None, False, True) == (keys.caller({}), keys.required, Keys(KEYS, 0, lambda: 0.0).required)


@pytest.mark.parametrize(
    "text",
    [
        *("name", ":hunter2:read", "name::read", "name:sha256$hunter2:read", "name:hunter2", "name:hunter2:"),
        *(f"name:hunter2:{scopes}" for scopes in ("write", "read+write")),
        *(f"name:hunter2:read:m*:{expires}" for expires in ("more", "2027-02-30", "2027-01-31:x")),
        f"one:hunter2:read,two:sha256${sha256(b'hunter2').hexdigest()}:read",
        "ok:fine:read,name:hunter2:root",
        *(f"name:hunter2:admin:{models}" for models in ("+", " :2999-12-31", "+:2999-12-31")),
        "one:hunter2:read,two:hunter2:admin",
    ],
)
def test_keys_that_cannot_be_are_refused_at_the_start(text, tmp_path):
    """With what is wrong, and without the secret; the service does not start half open."""
    with pytest.raises(ValueError) as refused:
        Keys(text, 0, lambda: 0.0)
    assert "hunter2" not in str(refused.value)
    assert "ONEPASS_API_KEYS" in str(refused.value)
    with pytest.raises(ValueError):
        build(Settings(api_keys=text, data_dir=tmp_path))


@pytest.mark.parametrize("left", ["sha256", f"sha256{'a' * 63}", "sha256$", f"sha256$$1{'a' * 63}"])
def test_what_a_shell_leaves_of_a_digest_is_no_secret(left):
    """In double quotes it replaces $ and what follows; the rest would let everybody in who guesses it."""
    with pytest.raises(ValueError, match="use single quotes"):
        Keys(f"app:{left}:admin", 0, lambda: 0.0)


def test_scopes_and_models_are_joined_by_plus():
    """The highest scope counts; any pattern lets a model in; blanks and empty items are passed over."""
    keys = Keys(" a:1:read+learn:x-*+y , ,b:2:read", 0, lambda: 0.0)
    keys.check({b"x-api-key": b"1"}, "learn", "x-9")
    keys.check({b"x-api-key": b"1"}, "learn", "y")
    keys.check({b"x-api-key": b"2"}, "read", "anything")
    for secret, scope, model in (("1", "admin", "y"), ("1", "read", "yy"), ("2", "learn", "y")):
        with pytest.raises(Forbidden):
            keys.check({b"x-api-key": secret.encode()}, scope, model)
    with pytest.raises(Unauthorized):
        keys.check({b"x-api-key": b"3"}, "read", None)


def test_the_rate_is_a_bucket_of_one_second():
    """Full at the start, whatever the clock says; it refills with time and never overflows; a refusal costs nothing."""
    now = 0.0
    keys = Keys("a:1:read", 4, lambda: now)
    headers = {b"x-api-key": b"1"}
    for _ in range(4):
        keys.check(headers, "read", None)
    for _ in range(3):
        with pytest.raises(TooManyRequests) as refused:
            keys.check(headers, "read", None)
    assert 0.25 == refused.value.retry_after_s
    now = 0.5
    for _ in range(2):
        keys.check(headers, "read", None)
    with pytest.raises(TooManyRequests):
        keys.check(headers, "read", None)
    now = 1000.0
    for _ in range(4):
        keys.check(headers, "read", None)
    with pytest.raises(TooManyRequests):
        keys.check(headers, "read", None)


@pytest.mark.parametrize(
    "path", ["models/shared", "models/shared/predict", "models/shared/features", "v2/models/shared"]
)
async def test_an_unknown_model_lists_only_models_that_the_key_covers(locked, path):
    """On ordinary routes, those of rows and those of the Open Inference Protocol."""
    await locked.ask("PUT", "/models/t-two", json=DFOP, **as_("tenant"))
    sent = ("POST", {"json": ROW}) if "predict" in path else ("GET", {})
    answer = await locked.ask(sent[0], f"/{path}", **sent[1], **as_("tenant"))
    assert 404 == answer.status_code
    if path.startswith("v2"):
        assert answer.json()["error"].endswith("(allowed: t-one, t-two)")
    else:
        assert ["t-one", "t-two"] == problem(answer, 404, "name")["errors"][0]["allowed"]


async def test_metrics_name_only_models_that_the_key_may_touch(locked):
    """Of the models that lag a key of some models only sees and counts its own, and another key sees all of them."""
    engine = locked.engine
    engine.follower._compare = lambda *_: None  # the sweep would find the truth
    for name in ("common", "t-one"):
        replica = await engine.models.get(name)
        replica.progress.note_head(replica.version + 5)
    for who, seen in (("tenant", ["t-one"]), ("reader", ["common", "t-one"])):
        told = (await locked.ask("GET", "/metrics", **as_(who))).text
        assert seen == sorted(re.findall(r'onepass_model_lag_entries{model="([^"]*)"} 5.0', told))
        assert ("common" in seen) == ("common" in told)
        assert f"onepass_models_lagging {len(seen)}.0" in told
