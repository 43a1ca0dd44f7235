"""A model in a client's terms: the only part of tests.benchmarks.state_digests that knows core.

A commit that changes core's surface changes this file too. The file then also drives the old surface
(``try`` the new import, else the old one) as long as the other commit in a comparison may still have it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from core.config import Config
from core.drift.outbox import Drift
from core.entry import Configure, Entry, Overlap, Promote, Reset, Restore, Rows, ServedPrediction, Switch, Withdraw
from core.features import Schema, parse_features, propose
from core.model import Model as CoreModel
from core.model import plans, read, save
from core.model.apply import apply
from tests.core.digests.streams import Request

LEVELS = (0.5, 0.9, 0.95)
OUTCOME = ("predictions", "losses", "p_true", "rows", "learned", "mapped", "joined", "phase", "overlap_rows", "taught")


def _answered(segment: Any, outcome: Any) -> dict[str, Any]:
    """The fields of ``OUTCOME`` that the answer to this kind of segment has."""
    if outcome.refusal is not None:
        return {}
    if isinstance(segment, Rows):
        losses = np.array(outcome.losses, dtype=np.float64)
        joined = tuple(outcome.joined)
        return {**{name: getattr(outcome, name) for name in OUTCOME[:6]}, "losses": losses, "joined": joined}
    found = {"rows": outcome.rows}
    if isinstance(segment, Switch):
        found |= {"phase": outcome.phase, "overlap_rows": outcome.overlap_rows}
    if isinstance(segment, Overlap):
        found |= {"overlap_rows": outcome.overlap_rows, "taught": len(segment.X) - len(segment.skip)}
    return found


class Late(NamedTuple):
    """A tracked prediction: its row as it was read, and the prediction that was returned."""

    space: str
    raw: Any
    served: ServedPrediction


class Model:
    """What a client does with a model, in the client's terms; nothing else in this program knows core."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._machine = CoreModel.first(Config.parse(config))
        self._version = 0

    def _commit(self, *segments: Any) -> list[dict[str, Any]]:
        """Apply one entry and return its answers; the answer to a refusal is empty."""
        self._version += 1
        outcomes = apply(self._machine, Entry(self._version, 1000 * self._version, segments))
        return [_answered(*each) for each in zip(segments, outcomes, strict=True)]

    def _read(self, rows: list[dict[str, Any]], space: Any) -> Any:
        missing = self._machine.config.missing != "error"
        return np.concatenate([space.row(row, missing) for row in rows])

    def learn(self, *requests: "Request") -> list[dict[str, Any]]:
        """Learn labelled rows as one entry."""
        space, features = self._machine.feedback_schema or self._machine.config.space, None
        if space is None:
            first = requests[0].rows[0]
            features = propose([*first], [*first.values()], False, (), "features", lambda _, name: name)
            space = Schema(features)
        return self._commit(
            *(
                Rows(space.id, features, self._read(one.rows, space), one.labels, one.discounts, weights=one.weights)
                for one in requests
            )
        )

    def predict(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        machine = self._machine
        found = read.predict(machine.own, self._read(rows, machine.prediction_schema))
        told = {"predictions": machine.own.answers.named(found.value), "std": found.std}
        if machine.regression:
            return {**told, "intervals": [read.intervals_of(machine.own, found, level) for level in LEVELS]}
        answers = machine.own.answers
        labels = answers.labels if hasattr(answers, "labels") else answers.said  # an older checkout
        return {**told, "probabilities": found.probabilities, "labels": labels.labels}

    def track(self, row: dict[str, Any]) -> Late:
        """Make a prediction whose label comes later."""
        space = self._machine.prediction_schema
        raw = self._read([row], space)
        return Late(space.id, raw, read.predict_to_keep(self._machine, raw)[1][0])

    def label(self, late: Late, labels: Any) -> list[dict[str, Any]]:
        """Send the label of a tracked prediction."""
        return self._commit(Rows(late.space, None, late.raw, labels, served=late.served))

    def switch(self, action: Any, features: tuple[Any, ...] | None = None, mapping: Any = None) -> list[dict[str, Any]]:
        return self._commit(Switch(action, None if features is None else parse_features([*features]), mapping))

    def overlap(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send unlabelled rows that have old and new features."""
        space = self._machine.feedback_schema
        return self._commit(Overlap(space.id, self._read(rows, space)))

    def challenge(self, name: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        return self._commit(plans.plan_challenge(self._machine, name, body, 8)[0])

    def promote(self, name: str) -> list[dict[str, Any]]:
        """Make a challenger the model, and remove the former model."""
        return self._commit(Promote(name)) + self._commit(Withdraw("previous"))

    def configure(self, changes: Mapping[str, Any]) -> list[dict[str, Any]]:
        return self._commit(Configure(changes))

    def reset(self) -> list[dict[str, Any]]:
        return self._commit(Reset())

    def snapshot(self) -> bytes:
        """The state, for ``restore``."""
        return bytes(save.to_bytes(self._machine))

    def restore(self, state: bytes) -> list[dict[str, Any]]:
        return self._commit(Restore(state, size=len(state)))

    def restart(self) -> None:
        """Save the model and continue with the loaded copy."""
        self._machine, _ = save.from_bytes(save.to_bytes(self._machine))

    @property
    def rows(self) -> int:
        return self._machine.rows

    def metrics(self) -> list[Any]:
        """Metrics, phase and experts, and the same for each challenger."""
        machine = self._machine
        beside = [
            [name, one.promote, read.learner_metrics(one.parts), one.difference.report()]
            for name, one in machine.challengers.items()
        ]
        phase = [
            machine.phase,
            machine.own.switching.overlap_rows,
            machine.own.switching.mapping_error,
            machine.own.switching.report(),
        ]
        return [read.metrics_report(machine), read.coverage(machine.own), phase, beside]

    def drift(self) -> list[dict[str, Any]]:
        """The events, oldest first."""
        return [self._event(one) for one in self._machine.outbox.after((0, 0, 0))]

    @staticmethod
    def _event(drift: Drift) -> dict[str, Any]:
        later = {"held_back": drift.held_back, "joined": drift.joined, "time_ms": drift.time_ms}
        return {**drift.to_json(), **later, "alarms": [alarm.to_json() for alarm in drift.alarms]}
