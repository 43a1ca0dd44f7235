"""Conditional reads: what depends on a model's version only carries an ETag, and may be 304."""

import pytest

from core.learners.catalogue import ALGORITHMS
from service.api.models.documents import RELEASE, matches
from tests.service.api_fixtures import features, problem
from tests.service.sparse_rows import SPAM, lists

ROW = {"features": features(0), "label": "UP"}
TAGGED = ("", "/metrics", "/features", "/weights", "/posterior", "/effects", "/challengers")
UNTAGGED = ("/pending", "/snapshots", "/log", "/drift", "/state")
ANY = {"If-None-Match": "*"}
TAG = '"5f3a9c0d1e2b4a68-18-0.1.0"'


@pytest.fixture(scope="module")
async def elsewhere(start):
    """Another service on the same store."""
    return await start()


async def tag_of(api, path, **how):
    answer = await api.ask("GET", path, **how)
    assert 200 == answer.status_code, answer.text
    return answer.headers["etag"]


def unchanged(answer, tag):
    """Whether an answer says, and only says, that the client has this version."""
    assert (304, b"", tag) == (answer.status_code, answer.content, answer.headers["etag"])
    assert not {"content-type", "content-length"} & answer.headers.keys()
    return True


SAME = [TAG, f"W/{TAG}", "*", " * ", f'"another", W/"one",{TAG}', f'"a, b" ,\t{TAG} , "c"']
LONGER, SHORTER = (f'"{TAG[1:-1]}x"', f'"x{TAG[1:-1]}"'), (TAG.strip('"'), f'"another", "{TAG[1:-3]}"')
OTHER = ["", '"*"', TAG.upper().replace("A", "a"), *LONGER, *SHORTER]


@pytest.mark.parametrize("given", [*SAME, *OTHER])
async def test_the_forms_of_if_none_match(given):
    """A tag, weak or strong, a list of some, or any; nothing else."""
    assert (given in SAME) == matches(given, TAG)


async def test_what_depends_on_the_version_only_has_its_tag(api):
    """The same at every such address and query, until the version is another one; the rest has none."""
    path = await api.learnt()
    shown = await api.get(path)
    tag = f'"{shown["incarnation"]}-3-{RELEASE}"'
    for below in (*TAGGED, "/metrics?format=csv", "/features?means=true", "/weights?sparsity=1"):
        answer = await api.ask("GET", path + below)
        assert (tag, "private, no-cache") == (answer.headers["etag"], answer.headers["cache-control"])
        for field in (tag, f'"x", W/{tag}', "*"):
            assert unchanged(await api.ask("GET", path + below, headers={"If-None-Match": field}), tag)
        assert unchanged(await api.ask("HEAD", path + below, headers={"If-None-Match": tag}), tag)
        assert 200 == (await api.ask("GET", path + below, headers={"If-None-Match": '"x"'})).status_code
        several = [("If-None-Match", '"x"'), ("If-None-Match", tag)]
        assert unchanged(await api.ask("GET", path + below, headers=several), tag)
    for below in UNTAGGED:
        answer = await api.ask("GET", path + below, headers=ANY)
        assert (200, False) == (answer.status_code, "etag" in answer.headers)
    head, whole = [await api.ask(method, path) for method in ("HEAD", "GET")]
    assert (200, b"") == (head.status_code, head.content)
    assert whole.headers["content-length"] == head.headers["content-length"]
    await api.post(f"{path}/feedback", ROW)
    for below in TAGGED:
        again = await api.ask("GET", path + below, headers={"If-None-Match": tag})
        assert (200, f'"{shown["incarnation"]}-4-{RELEASE}"') == (again.status_code, again.headers["etag"])
        assert 4 == again.json()["version"]


async def test_every_change_has_a_tag_of_its_own_and_what_changes_nothing_has_none(api):
    """Rows, settings, challengers and the state; predictions leave the tag as it is."""
    path = await api.learnt()
    snapshot = (await api.post(f"{path}/snapshots", status=201))["version"]
    tags = [await tag_of(api, path)]
    for method, below, body in [
        ("POST", "/feedback", ROW),
        ("PATCH", "", {"description": "seen"}),
        ("PUT", "/challengers/one", {"algorithm": "rls"}),
        ("PUT", "/challengers/one", {"algorithm": "rls", "promote": "auto"}),
        ("POST", "/challengers/one/promote", {"force": True}),
        ("DELETE", "/challengers/previous", None),
        ("POST", "/features/switch", {"action": "begin", "features": ["b", "c"]}),
        ("POST", "/features/switch", {"action": "abort"}),
        ("POST", "/reset", None),
        ("POST", "/restore", {"version": snapshot}),
    ]:
        assert (await api.ask(method, path + below, **({} if body is None else {"json": body}))).status_code < 300
        tags.append(await tag_of(api, path))
    assert len(tags) == len({*tags})
    predicted = await api.post(f"{path}/predict", {"features": features(0), "track": True})
    assert unchanged(await api.ask("GET", path, headers={"If-None-Match": tags[-1]}), tags[-1])
    await api.post(f"{path}/feedback", {"prediction_id": predicted["prediction_id"], "label": "UP"})
    assert tags[-1] != await tag_of(api, path)


async def test_a_request_is_checked_before_it_is_answered_304(start):
    """Its key, the model's, its queries, and whether there is anything to show."""
    api = await start(api_keys="all:s3cret-all:admin,some:s3cret-some:read:z*")
    own, some = ({"X-API-Key": f"s3cret-{who}"} for who in ("all", "some"))
    body = {"algorithm": "vigo", "task": "classification", "features": ["a", "b"], "labels": ["UP", "DOWN"]}
    await api.ask("PUT", "/models/looked-at", json=body, headers=own)
    tag = await tag_of(api, "/models/looked-at", headers=own)
    for field in (tag, "*"):
        given = {"If-None-Match": field}
        problem(await api.ask("GET", "/models/looked-at", headers=given), 401)
        problem(await api.ask("GET", "/models/looked-at", headers={**given, "X-API-Key": "wrong"}), 401)
        problem(await api.ask("GET", "/models/looked-at", headers={**given, **some}), 403)
        problem(await api.ask("GET", "/models/none", headers={**given, **own}), 404)
        problem(await api.ask("GET", "/models/looked-at?x=1", headers={**given, **own}), 422, "x")
        strange = await api.ask("GET", "/models/looked-at/posterior?features=c", headers={**given, **own})
        problem(strange, 422, "features[0]")
        problem(await api.ask("GET", "/models/looked-at?min_version=-1", headers={**given, **own}), 422, "min_version")
        problem(await api.ask("GET", "/models/looked-at/features?means=no_", headers={**given, **own}), 422, "means")
        problem(await api.ask("GET", "/models/looked-at?incarnation=other", headers={**given, **own}), 409)
        refused = await api.ask("GET", "/models/looked-at/weights", headers={**given, **own})
        assert (409, False) == (refused.status_code, "etag" in refused.headers)
        assert unchanged(await api.ask("GET", "/models/looked-at", headers={**given, **own}), tag)


async def test_an_answer_is_as_fresh_as_it_is_asked_to_be(start):
    """A version that is not reached is 504; one that another service has written is waited for, then compared."""
    api, other = await start(wait_timeout_s=0.05), await start()
    path = await api.learnt()
    tag = await tag_of(api, path)
    given = {"If-None-Match": tag, "Cache-Control": "max-age=60"}
    problem(await api.ask("GET", f"{path}?min_version=4", headers=given), 504)
    for query in ("min_version=3", "consistency=strong", "min_version=3&incarnation=" + tag[1:].partition("-")[0]):
        assert unchanged(await api.ask("GET", f"{path}?{query}", headers=given), tag)
    for version, query in ((4, "min_version=4"), (5, "consistency=strong")):
        await other.post(f"{path}/feedback", ROW)
        answer = await api.ask("GET", f"{path}?{query}", headers=given)
        assert (200, version) == (answer.status_code, answer.json()["version"])


async def _bodies(api, path):
    answers = [await api.ask("GET", path + below) for below in TAGGED]
    return [(answer.status_code, answer.headers.get("etag"), answer.content) for answer in answers]


@pytest.mark.slow_but("auto", "dfop", "odm", "sparse_dfop")
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
async def test_a_version_shows_the_same_wherever_and_whenever(api, elsewhere, algorithm):
    """At another service, and after the model was loaded again, from its log and from a snapshot."""
    task = ALGORITHMS[algorithm].tasks[0]
    labels = ["UP", "DOWN"] if task == "classification" else [1.5, -0.5]
    if ALGORITHMS[algorithm].sparse:
        path = await api.new({**SPAM, "algorithm": algorithm})
        await api.post(f"{path}/feedback/batch", lists(labels=SPAM["labels"] * 2 + ["ham"]))
    else:
        path = await api.new({"algorithm": algorithm, "task": task, "features": ["a", "b"]})
        await api.ask("PUT", f"{path}/challengers/one", json={"algorithm": "dfop"})
        for row in range(12):
            await api.post(f"{path}/feedback", {"features": features(row), "label": labels[row % 2]})
    name, engine = path.rpartition("/")[2], api.engine
    shown = await _bodies(api, path)
    assert (200, True) == (shown[0][0], b'"updated"' in shown[0][2])
    for snapshot in (False, True):
        if snapshot:
            await api.post(f"{path}/snapshots", status=201)
        engine.models._drop(name)
        assert shown == await _bodies(api, path)
    assert shown == await _bodies(elsewhere, path)
