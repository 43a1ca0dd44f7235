"""The HTTP API of two services on one store against a simple model of it: any requests, in any order, at either."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.service.api_fixtures import DFOP, features, running

RETRIES = 50
LABELS = st.sampled_from(["UP", "DOWN"])
IDS = st.sampled_from("abcdef")
SERVICES = st.integers(0, 1)
_names = (f"s{number}" for number in range(10**9))


class Pair:
    """Two services in this process, asked one request at a time."""

    def __init__(self, store_url):
        self.loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self.clients = [self.loop.run_until_complete(self._started(store_url)) for _ in range(2)]

    async def _started(self, store_url):
        return (await self._stack.enter_async_context(running(store_url))).client

    def ask(self, at, method, path, body=None):
        """One request; where a name was given to a new model unnoticed, sent again as its 503 says."""
        for _ in range(RETRIES):
            answer = self.loop.run_until_complete(
                self.clients[at].request(method, path, **({} if body is None else {"json": body}))
            )
            if answer.status_code != 503:
                break
            assert "recreated" in answer.json()["type"], answer.text
        return answer

    def end(self):
        self.loop.run_until_complete(self._stack.aclose())
        self.loop.close()


@pytest.fixture(scope="module")
def pair(store_url):
    """On this module's store."""
    made = Pair(store_url)
    yield made
    made.end()


class Known:
    """What a client may know of a model: all that the model below holds against the answers."""

    def __init__(self):
        self.version, self.rows = 0, 0
        self.told = {}
        self.kept = {}


class Story(RuleBasedStateMachine):
    """One name, created, taught, asked, put back and deleted."""

    def __init__(self, pair):
        super().__init__()
        self.pair, self.path = pair, f"/models/{next(_names)}"
        self.model = None

    def _ask(self, at, method, what="", body=None):
        return self.pair.ask(at, method, self.path + what, body)

    @rule(at=SERVICES)
    def create(self, at):
        """New, or there already with the same configuration."""
        answer = self._ask(at, "PUT", "", DFOP)
        assert (201 if self.model is None else 200) == answer.status_code, answer.text
        self.model = self.model or Known()

    @precondition(lambda self: self.model is not None)
    @rule(at=SERVICES)
    def create_another(self, at):
        """The name is taken by another configuration."""
        assert 409 == self._ask(at, "PUT", "", {**DFOP, "seed": 7}).status_code

    @rule(at=SERVICES)
    def delete(self, at):
        """204, then 404."""
        assert (404 if self.model is None else 204) == self._ask(at, "DELETE").status_code
        self.model = None

    @rule(at=SERVICES, row=st.integers(0, 20), label=LABELS, identity=st.none() | IDS)
    def feedback(self, at, row, label, identity):
        """Learned once per id; the same answer again; 409 with another label."""
        body = {"features": features(row), "label": label, **({} if identity is None else {"id": identity})}
        answer = self._ask(at, "POST", "/feedback", body)
        if self.model is None:
            assert 404 == answer.status_code
            return
        known = self.model.told.get(identity)
        if known is not None and known[0] != label:
            assert 409 == answer.status_code
            return
        assert 200 == answer.status_code, answer.text
        told = answer.json()
        assert (known is not None) == told["duplicate"]
        if known is None:
            self.model.version, self.model.rows = self.model.version + 1, self.model.rows + 1
            assert (self.model.version, self.model.rows) == (told["version"], told["rows"])
            if identity is not None:
                self.model.told[identity] = (label, told["prediction"], told["version"], told["rows"])
        else:
            assert known == (label, told["prediction"], told["version"], told["rows"])

    @rule(at=SERVICES, rows=st.lists(st.tuples(st.integers(0, 20), LABELS), min_size=1, max_size=4))
    def batch(self, at, rows):
        """All of it is one entry."""
        data = [[*features(row).values()] for row, _ in rows]
        body = {"columns": ["a", "b"], "data": data, "labels": [label for _, label in rows]}
        answer = self._ask(at, "POST", "/feedback/batch", body)
        assert (404 if self.model is None else 200) == answer.status_code, answer.text
        if self.model is not None:
            self.model.version, self.model.rows = self.model.version + 1, self.model.rows + len(rows)
            told = answer.json()
            assert (self.model.version, self.model.rows) == (told["version"], told["rows"])
            assert len(rows) == len(told["predictions"])

    @rule(at=SERVICES, body=st.sampled_from([{"label": "UP"}, {"features": {"a": 1.0}, "label": "UP"}, {"x": 1}]))
    def wrong_feedback(self, at, body):
        """Refused, and nothing changes."""
        answer = self._ask(at, "POST", "/feedback", body)
        assert answer.status_code == 422 or (self.model is None and answer.status_code == 404)

    @rule(at=SERVICES, row=st.integers(0, 20))
    def predict(self, at, row):
        """The same at both, and nothing changes."""
        answers = [
            self._ask(one, "POST", "/predict?consistency=strong", {"features": features(row)}) for one in (at, 1 - at)
        ]
        if self.model is None:
            assert [404, 404] == [answer.status_code for answer in answers]
            return
        assert answers[0].json() == answers[1].json()
        assert self.model.version == answers[0].json()["version"]

    @precondition(lambda self: self.model is not None)
    @rule(at=SERVICES)
    def reset(self, at):
        """Rows begin anew, the version goes on, ids stay seen."""
        assert 200 == self._ask(at, "POST", "/reset").status_code
        self.model.version, self.model.rows = self.model.version + 1, 0

    @precondition(lambda self: self.model is not None)
    @rule(at=SERVICES)
    def snapshot(self, at):
        """Kept, the newest three of them."""
        assert 200 == self._ask(at, "GET", "?consistency=strong").status_code
        assert 201 == self._ask(at, "POST", "/snapshots").status_code
        self.model.kept[self.model.version] = self.model.rows
        self.model.kept = dict(sorted(self.model.kept.items())[-3:])
        listed = self._ask(1 - at, "GET", "/snapshots").json()["snapshots"]
        assert self.model.kept == {one["version"]: one["rows"] for one in listed}

    @precondition(lambda self: self.model is not None)
    @rule(at=SERVICES, data=st.data())
    def restore(self, at, data):
        """Back to a snapshot that is kept, as a new version."""
        version = data.draw(st.sampled_from([*self.model.kept, 10**6]))
        answer = self._ask(at, "POST", "/restore", {"version": version})
        assert (200 if version in self.model.kept else 404) == answer.status_code, answer.text
        if version in self.model.kept:
            self.model.version, self.model.rows = self.model.version + 1, self.model.kept[version]

    @invariant()
    def both_say_what_is_known(self):
        """Version and rows, at either service."""
        for at in (0, 1):
            answer = self._ask(at, "GET", "?consistency=strong")
            if self.model is None:
                assert 404 == answer.status_code
            else:
                shown = answer.json()
                assert (self.model.version, self.model.rows) == (shown["version"], shown["rows"])

    def teardown(self):
        self._ask(0, "DELETE")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stories", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_both_services_do_what_the_simple_model_does(pair, stories):
    """Random stories of requests; a failing one is shrunk to the shortest that fails."""
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    limits = settings(max_examples=stories, stateful_step_count=25, deadline=None, suppress_health_check=checks)
    run_state_machine_as_test(lambda: Story(pair), settings=limits)
