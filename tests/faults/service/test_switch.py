"""A change of features while services die, others follow, and clients go on."""

import pytest

from tests.faults.load import Client, Load, Row, rows
from tests.faults.rebuild import judge

OLD, NEW, LATER = ["x0", "x1", "x2"], ["x2", "y0", "y1"], ["y1", "z"]
BEGIN = {"action": "begin", "features": NEW}
PHASES = ("steady", "overlap", "ensemble")
STEPS = {"steady": (), "overlap": (BEGIN,), "ensemble": (BEGIN, {"action": "complete"})}
NAMES = {"steady": OLD, "overlap": [*OLD, "y0", "y1"], "ensemble": NEW}


def whole(count, seed, prefix):
    """Rows with a value for every name of every space."""
    table = rows(count, seed, prefix, columns=3)
    return [row._replace(features=_all_names(row.features)) for row in table]


def _all_names(x):
    return {**x, "y0": x["x0"] + x["x1"], "y1": x["x1"] - x["x2"], "z": 0.5 * x["x0"]}


def cut(table, names):
    """The same rows with only these names."""
    return [Row(row.id, {name: row.features[name] for name in names}, row.label) for row in table]


def switch(service, body, **headers):
    answer = service.request("POST", "/models/m/features/switch", body, **headers)
    assert 200 == answer.status, answer.body
    return answer.json


def lead_to(service, phase):
    """Bring a model into a phase, with rows in every phase before it; return the rows."""
    service.create(features=OLD)
    fed = cut(whole(40, 1, "steady"), OLD)
    Load([service], fed).run()
    for step, reached in zip(STEPS[phase], PHASES[1:], strict=False):
        switch(service, step)
        table = cut(whole(40, 2, reached), NAMES[reached])
        Load([service], table).run()
        fed += table
    return fed


class Following(Client):
    """A client that asks for the wanted features when its rows are refused or do not train the mapping."""

    def __init__(self, service, model="m"):
        super().__init__(service, model)
        self._service, self._wanted = service, OLD

    def send(self, row):
        for _ in range(50):
            answer = super().send(cut([row], self._wanted)[0])
            unmapped = answer.status == 200 and answer.json.get("mapped") is False
            if answer.status == 422 or unmapped:
                found = self._service.get("/models/m/features?consistency=strong")
                self._wanted = list(dict.fromkeys([*found["current"], *(found["next"] or [])]))
            if answer.status != 422:
                return answer
        return answer


@pytest.mark.slow_but("ensemble")
@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_service_continues_in_the_same_phase(serve, phase):
    """Killed under load in each phase: the phase is the same afterwards, and every acknowledged row is in once."""
    service = serve(SNAPSHOT_MIN_KB=10**6).start()
    fed = lead_to(service, phase)
    if phase == "overlap":
        body = {
            "columns": NAMES[phase],
            "data": [[*row.features.values()] for row in cut(whole(9, 3, "o"), NAMES[phase])],
        }
        assert 49 == service.request("POST", "/models/m/features/overlap", body).json["overlap_rows"]
    before = service.get("/models/m/features")
    table = cut(whole(300, 4, "load"), NAMES[phase])
    load = Load([service], table).start()
    load.acknowledged(100)
    service.restart()
    load.finish()
    after = service.get("/models/m/features")
    assert [before[name] for name in ("phase", "current", "next")] == [
        after[name] for name in ("phase", "current", "next")
    ]
    assert phase == after["phase"] == service.get("/models/m")["phase"]
    judge(service, [*fed, *table], load)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_snapshot_holds_the_phase(serve, phase):
    """A snapshot in each phase, a tail after it, a kill: state and phase are the same as before, bit by bit."""
    service = serve(SNAPSHOT_MIN_KB=10**6, SNAPSHOTS_KEPT=1).start()
    lead_to(service, phase)
    assert 201 == service.request("POST", "/models/m/snapshots").status
    Load([service], cut(whole(20, 5, "tail"), NAMES[phase])).run()
    before = service.get("/models/m/features"), service.state()
    service.restart()
    assert before == (service.get("/models/m/features"), service.state())
    assert (0, 0) == (service.metric("corrupt_snapshots"), service.metric("down_models"))


@pytest.mark.slow_but("1")
@pytest.mark.parametrize("services", [1, 2])
def test_switches_under_load_lose_nothing(serve, store, services):
    """Clients adapt to six steps among their rows: every row is learned once, as the log says.

    It also works if the rows go to another service, which notices each step when it is about to refuse a row.
    """
    all_of_them = [serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6).start() for _ in range(services)]
    first, last = all_of_them[0], all_of_them[-1]
    first.create(features=OLD)
    table = whole(900, 10, "r")
    load = Load([last], table, client=Following).start()
    _six_steps(first, load)
    load.finish()
    assert first.state() == last.state()
    judge(first, table, load)
    assert services > 1 or {True} == {answer["learned"] for answer in load.answers.values()}
    for service in all_of_them:
        assert (0, 0) == (service.metric("lost_tails"), service.metric("down_models"))
        assert ["z"] == service.get("/models/m/features?consistency=strong")["current"]


def _six_steps(service, load):
    """Begin, complete, begin, abort, begin, complete, each after some hundred rows."""
    steps = ({"action": "begin", "features": to} for to in (NEW, LATER, ["z"]))
    ends = ("complete", "abort", "complete")
    for number, (step, end) in enumerate(zip(steps, ends, strict=True)):
        load.acknowledged(100 + 260 * number)
        switch(service, step)
        load.acknowledged(230 + 260 * number)
        # Rows with only the old names are learned as well, but do not train the mapping.
        switch(service, {"action": end, "force": True} if end == "complete" else {"action": end})


@pytest.mark.slow
def test_a_wrong_row_is_still_refused_without_a_store(serve, store):
    """Before a refusal the log is read; if it cannot be, predictions are answered or refused as usual."""
    service = serve(REDIS_URL=store.url).start()
    service.create(features=OLD)
    Load([service], cut(whole(10, 15, "a"), OLD)).run()
    store.kill()
    row = cut(whole(1, 16, "p"), OLD)[0].features
    for features, status in ((row, 200), ({**row, "y0": 1}, 422), ({"x0": 1}, 422)):
        assert status == service.request("POST", "/models/m/predict", {"features": features}).status
    assert 503 == service.request("POST", "/models/m/features/switch", BEGIN).status
    store.start()


def test_a_second_service_dies_and_the_first_completes(pair):
    """One service begins the change and the other completes it, with the rows that both have learned."""
    first, second = pair
    first.create(features=OLD)
    Load([first], cut(whole(30, 12, "a"), OLD)).run()
    switch(second, BEGIN)
    Load([first, second], cut(whole(30, 13, "b"), NAMES["overlap"])).run()
    second.kill()
    done = switch(first, {"action": "complete"})
    assert ("ensemble", 30, 60) == (done["phase"], done["overlap_rows"], done["rows"])
    second.start()
    found = second.get("/models/m/features")
    assert done["ensemble"] == found["ensemble"]
    assert 61 == Client(second).learn(cut(whole(1, 14, "n"), NEW)[0])["rows"]
