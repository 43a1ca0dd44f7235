"""The digests of tests.benchmarks.state_digests: what a client sees of lives that are always the same."""

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from core.drift.outbox import NO_ALARM
from core.entry import Overlap, Rows, Switch
from core.learners.catalogue import ALGORITHMS
from core.model import read
from tests.core.life.life import Contested, Life
from tests.core.life.logs import Written
from tests.core.life.steps import WHOLE_LIFE
from tests.core.life.streams import COSTS, KINDS, LABELS, SPACES, WIDE, plain_body

LEVELS = (0.5, 0.9, 0.95)
OUTCOME = ("predictions", "losses", "p_true", "rows", "learned", "mapped", "joined")
ACTIONS = {"vigow": "forget", "dfop": "report", "odm": "report", "rls": "report", "gdfop": "forget"}


class Stream(NamedTuple):
    """A model, as the body that makes it; whether it has challengers."""

    body: Mapping[str, Any]
    contested: bool = False

    def live(self) -> str:
        """Run the whole life and return its rows, events and digests."""
        life = (Contested if self.contested else Life)(self.body, True, Counter(), Digested)
        for step in WHOLE_LIFE:
            life.take(step)
        return life.model.told()


def _of(algorithm: str, task: str = "classification", *, contested: bool = False, **more: Any) -> Stream:
    body = plain_body(ALGORITHMS[algorithm], task, ACTIONS.get(algorithm, "reset"))
    params = {**body["params"], **more.pop("params", {})}
    return Stream({**body, **more, "params": params}, contested)


STREAMS = {
    **{f"{one.id} {task}": _of(one.id, task) for one in ALGORITHMS.values() for task in one.tasks},
    "dfop robust": _of("dfop", params={"scaling": "robust"}, on_drift="reset"),
    "dfop gaps": _of("dfop", "regression", missing="mean", lags=2),
    "dfop random features": _of("dfop", params={"random_features": 16}),
    "dfop wide": _of("dfop", "regression", features=[*WIDE], params={"forgetting_rate": 0.01}),
    "kinds": _of("dfop", features=KINDS, missing="mean"),
    "class costs": _of("fesl_c", features=SPACES[0], labels=[*LABELS], class_costs=COSTS),
    "challengers": _of("rls", contested=True),
    "challengers of numbers": _of("dfop", "regression", contested=True),
}


class Digested(Written):
    """A model whose answers are digested and not checked."""

    def __init__(self, body: Any, counts: Any) -> None:
        super().__init__(body, counts)
        self._said, self._scored = (hashlib.blake2b(digest_size=6) for _ in range(2))

    def commit(self, *segments: Any) -> Any:
        """The answers to one entry, and what is read of the model behind it."""
        outcomes = super().commit(*segments)
        self._said.update(canonical([*map(_answered, segments, outcomes)]))
        own, space = self.machine.own, self.machine.prediction_schema
        if space is not None:
            found = read.predict(own, self.stream.raw(space, np.arange(self.stream.at, self.stream.at + 3)))
            regression = self.config.task == "regression"
            more = [read.intervals_of(own, found, level) for level in LEVELS] if regression else found.probabilities
            self._said.update(canonical([own.answers.named(found.value), found.std, more]))
        beside = [[name, read.learner_metrics(one.parts)] for name, one in self.machine.challengers.items()]
        change = [self.phase, own.switching.overlap_rows, own.switching.mapping_error, own.switching.report()]
        self._scored.update(canonical([read.metrics_report(self.machine), read.coverage(own), change, beside]))
        return outcomes

    def told(self) -> str:
        """Rows, events, and the digests of predictions, of metrics and of events."""
        events = [self._event(one) for one in self.machine.outbox.after(NO_ALARM)]
        drift = hashlib.blake2b(canonical(events), digest_size=6)
        digests = " ".join(one.hexdigest() for one in (self._said, self._scored, drift))
        return f"{self.stream.at:5} {len(events):3} {digests}"

    @staticmethod
    def _event(drift: Any) -> dict[str, Any]:
        later = {"held_back": drift.held_back, "joined": drift.joined, "time_ms": drift.time_ms}
        return {**drift.to_json(), **later, "alarms": [alarm.to_json() for alarm in drift.alarms]}


def _answered(segment: Any, outcome: Any) -> list[Any]:
    """What a client is told of a segment; of a refusal only that it is one."""
    if outcome.refusal is not None:
        return []
    names = OUTCOME if isinstance(segment, Rows) else ("phase", "overlap_rows") * isinstance(segment, Switch | Overlap)
    return [outcome.rows, *(getattr(outcome, name) for name in names)]


def canonical(value: Any) -> bytes:
    """A value as bytes: floats by their bits, objects by their sorted keys, arrays as lists."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return struct.pack("<cd", b"f", math.nan if math.isnan(value) else value)
    if value is None or isinstance(value, bool | int | str):
        return f"{value!r},".encode()
    if isinstance(value, Mapping):
        value = [[name, value[name]] for name in sorted(value)]
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value)} has no canonical bytes")
    return b"[" + b"".join(map(canonical, value)) + b"]"
