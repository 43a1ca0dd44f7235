"""One model as one deterministic state machine: features + labels + learner + drift watch + metrics.

    state(v+1) = apply(state(v), entry v+1)

``apply`` sees no clock, no ambient randomness and no I/O. Segments of an entry are applied in order. Neighbouring
row segments that need no special care are learned as one block. That depends on the entry and the state only, so
every replica does the same; and a block is its rows, bit for bit for most learners, to round-off for the wide ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.contract import Floats, Header
from core.drift.outbox import Outbox, of_alarm
from core.entry import (
    Entry,
    Learned,
    Mapped,
    Outcome,
    Overlap,
    Refused,
    Replaced,
    Reset,
    Restore,
    Rows,
    ServedPrediction,
    Switch,
    Switched,
)
from core.features import Space
from core.features.labels import LabelSet
from core.machine.acceptance import check_labels, check_space, group_into_blocks, known
from core.machine.drift_response import DriftResponse
from core.machine.reading import Readable
from core.machine.training import TrainingBlock, learn_classes, learn_numbers, scored_as_served, without_predictions
from core.metrics import ClassificationMetrics, RegressionMetrics
from core.metrics.scored import Scored, squared
from core.state import envelope
from core.state.nesting import flatten, unflatten
from core.switching.overlap import OverlapPeriod
from core.switching.phases import Switching
from core.switching.structure import build, describe, spaces_of


class Machine(Readable):
    """The state of one model.

    Args:
        config: the model's configuration.

    Attributes:
        switching: the feature spaces and what reads and learns their rows.
        rows: rows learned.
        outbox: alarms on their way out; resets and restores leave it alone, since versions go on.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.outbox = Outbox()
        self._first_state()

    def _first_state(self) -> None:
        self.rows = 0
        self.labels = LabelSet()
        self.switching = Switching(self.config, self.config.space)
        classify = self.config.task == "classification"
        self.metrics: ClassificationMetrics | RegressionMetrics = (
            ClassificationMetrics() if classify else RegressionMetrics()
        )
        self.drift_response: DriftResponse | None = None
        self._watch()

    def _watch(self) -> None:
        """A watch for the space in force, which has seen nothing."""
        self.drift_response = (
            None if self.prediction_schema is None else DriftResponse(self.config, self.prediction_schema)
        )

    def info(self) -> Header:
        """What a person wants to see of the state."""
        labels = list(self.labels.labels)
        return {"features": self._features(), "labels": labels, "state_bytes": self.nbytes, **self.learner_info()}

    # ---------------------------------------------------------------- the state machine

    def apply(self, entry: Entry) -> list[Outcome]:
        """Apply one log entry; one outcome per segment, in order."""
        outcomes: list[Outcome] = []
        for run in group_into_blocks(entry.segments, self._plain):
            first = run[0]
            if isinstance(first, Rows):
                outcomes.extend(self._apply_rows([rows for rows in run if isinstance(rows, Rows)]))
                self._report(entry)
            elif isinstance(first, Reset):
                outcomes.append(self._reset())
            elif isinstance(first, Restore):
                outcomes.append(self._restore(first))
            elif isinstance(first, Switch):
                outcomes.append(self._switch(first))
            else:
                outcomes.append(self._map(first))
        return outcomes

    def _plain(self, rows: Rows) -> bool:
        """Whether the rows are of the space of feedback, with known labels only, none of them to be skipped."""
        if self.feedback_schema is None or rows.space != self.feedback_schema.id or rows.skip:
            return False
        return self.config.task == "regression" or known(rows.y, self.labels)  # type: ignore[arg-type]

    def _apply_rows(self, run: Sequence[Rows]) -> list[Outcome]:
        if len(run) == 1 and (refused := self._admit(run[0])) is not None:
            return [refused]
        raw = run[0].X if len(run) == 1 else np.concatenate([rows.X for rows in run])
        labels = run[0].y if len(run) == 1 else [label for rows in run for label in rows.y]
        discounts = None
        if run[0].discounts is not None:
            discounts = np.concatenate([rows.discounts for rows in run if rows.discounts is not None])
        served = [rows.served for rows in run for _ in range(len(rows.X))] if any(rows.served for rows in run) else None
        if len(run) == 1 and run[0].skip:
            keep = np.setdiff1d(np.arange(len(raw)), run[0].skip)
            raw, discounts = raw[keep], None if discounts is None else discounts[keep]
            labels = [labels[i] for i in keep]
        scored = self._learn(run[0].space, np.ascontiguousarray(raw), labels, discounts, served)
        learned = self.switching.route(run[0].space) is not None
        return self._outcomes(run, scored, served, learned=learned)

    def _admit(self, rows: Rows) -> Refused | None:
        """Fix the space if this segment proposes it; refuse what earlier entries have made impossible."""
        gone = rows.served is not None and rows.space in self.switching.retired
        if self.switching.route(rows.space) is None and not gone:
            space = check_space(rows, self.prediction_schema)
            if isinstance(space, Refused):
                return space
            if (refused := check_labels(rows, self.labels, self.config)) is not None:
                return refused
            self.switching = Switching(self.config, space)
            self._watch()
            return None
        return check_labels(rows, self.labels, self.config)

    def _learn(
        self,
        space: str,
        raw: Floats,
        labels: Any,
        discounts: Floats | None,
        served: list[ServedPrediction | None] | None,
    ) -> Scored:
        route = self.switching.route(space)
        if route is None or self.drift_response is None:
            scored = self._only_scored(labels)
        elif raw.shape != (len(labels), route.schema.raw_width):
            raise ValueError(f"rows of shape {raw.shape} with {len(labels)} labels are not of this feature space")
        elif self.config.task == "regression":
            block = TrainingBlock(route, self.drift_response, raw, discounts, self.rows)
            scored = learn_numbers(block, np.asarray(labels, dtype=np.float64))
        else:
            block = TrainingBlock(route, self.drift_response, raw, discounts, self.rows)
            scored = learn_classes(block, self.labels, labels)
        if served is not None:
            scored = scored_as_served(scored, served, self.labels if self.config.task == "classification" else None)
        self._score(scored)
        self.rows += len(raw)
        return scored

    def _report(self, entry: Entry) -> None:
        """What the watch saw goes into the outbox, and is marked beside the metrics."""
        for row, alarm, action in [] if self.drift_response is None else self.drift_response.take():
            label = None if self.config.task == "regression" else self.labels.labels[alarm.cls]
            last = self.outbox.last
            place = entry.version, last[1] + 1 if last[0] == entry.version else 0
            columns = (
                [] if self.prediction_schema is None else [self.prediction_schema.columns[at] for at in alarm.columns]
            )
            drift = of_alarm(alarm, place, row, entry.time_ms, label, columns, action)
            self.outbox.put(drift)
            self.metrics.mark(row, "drift", test=alarm.kind, label=label, action=drift.action)

    def _score(self, scored: Scored) -> None:
        if isinstance(self.metrics, RegressionMetrics):
            self.metrics.absorb(scored.predicted, scored.truth)
        else:
            self.metrics.absorb(scored.predicted, scored.truth, scored.p_true, len(self.labels.labels))

    def _only_scored(self, labels: Sequence[Any]) -> Scored:
        """Tracked rows of a space that is gone: the labels, to be scored by what was served."""
        if self.config.task == "regression":
            return without_predictions(np.asarray(labels, dtype=np.float64))
        for label in labels:
            if self.labels.index(label) < 0:
                self.labels.add(label)
                if self.pipeline is not None and self.drift_response is not None:
                    self.pipeline.add_class()
                    self.drift_response.add_class()
        return without_predictions(self.labels.indices(labels))

    def _outcomes(
        self, run: Sequence[Rows], scored: Scored, served: list[ServedPrediction | None] | None, *, learned: bool
    ) -> list[Outcome]:
        names, losses = self.named(scored.predicted), self._losses(scored)
        if served is not None:
            names = [name if answer is None else answer.prediction for name, answer in zip(names, served, strict=True)]
        outcomes: list[Outcome] = []
        start, rows = 0, self.rows - len(names)
        for segment in run:
            stop = start + len(segment.X) - len(segment.skip)
            rows += stop - start
            chunk = slice(start, stop)
            outcomes.append(Learned(names[chunk], losses[chunk], rows, learned, scored.p_true[chunk].tolist()))
            start = stop
        return outcomes

    def _losses(self, scored: Scored) -> Floats:
        if self.config.task == "classification":
            return np.asarray(scored.predicted != scored.truth, dtype=np.float64)
        return squared(scored.predicted, scored.truth)

    # ---------------------------------------------------------------- change of features

    def _switch(self, segment: Switch) -> Switched | Refused:
        if (refusal := self.switching.refusal(segment)) is not None:
            return Refused(refusal)
        warning = self.switching.step(segment, self.rows, len(self.labels))
        if segment.action == "complete" and self.drift_response is not None and self.prediction_schema is not None:
            self.drift_response.move(self.prediction_schema)
        self.metrics.mark(self.rows, "switch", action=segment.action)
        return Switched(self.phase, self.overlap_rows, self.rows, warning)

    def _map(self, segment: Overlap) -> Mapped | Refused:
        now = self.pipeline
        if (refusal := self.switching.refusal(segment)) is not None or not isinstance(now, OverlapPeriod):
            return Refused(refusal or "")
        raw = np.delete(segment.X, segment.skip, axis=0) if segment.skip else segment.X
        now.map(np.ascontiguousarray(raw))
        return Mapped(len(raw), self.overlap_rows, self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return sum(part.nbytes for part in self._parts().values())

    # ---------------------------------------------------------------- reset, save, load

    def _reset(self) -> Replaced:
        switching = self.switching
        self._first_state()
        switching.reset()
        self.switching = switching
        self._watch()
        self.metrics.mark(0, "reset")
        return Replaced(0)

    def _restore(self, segment: Restore) -> Outcome:
        try:
            loaded, _ = Machine.from_bytes(segment.state)
        except ValueError as error:
            return Refused(str(error))
        if loaded.config.canonical != self.config.canonical:
            return Refused("the state is of a model with another configuration")
        loaded.outbox = self.outbox
        self.__dict__.update(loaded.__dict__)
        self.metrics.mark(self.rows, segment.source)
        return Replaced(self.rows)

    def to_bytes(self, stamp: Mapping[str, Any] | None = None) -> bytes:
        """The whole state, sealed; equal states give equal bytes.

        Args:
            stamp: JSON-able facts about where the state was taken (version, incarnation), kept in the header.
        """
        arrays, parts = flatten(self._parts())
        state: Header = {"rows": self.rows, "labels": self.labels.to_header(), **parts}
        state["switching"] = describe(self.switching)
        return envelope.dump(arrays, {"config": self.config.to_json(), "stamp": dict(stamp or {}), "state": state})

    def _parts(self) -> dict[str, Any]:
        held = {"metrics": self.metrics, "outbox": self.outbox, "watch": self.drift_response, "pipeline": self.pipeline}
        return {name: part for name, part in held.items() if part is not None}

    def _features(self) -> list[Any]:
        return (
            [] if self.prediction_schema is None else [feature.to_json() for feature in self.prediction_schema.features]
        )

    @classmethod
    def from_bytes(
        cls, data: bytes, admit: Callable[[Config, Space], None] = lambda _config, _schema: None
    ) -> "tuple[Machine, dict[str, Any]]":
        """A machine and its stamp from sealed bytes.

        Args:
            data: what ``to_bytes`` gave.
            admit: asked before anything is allocated for a feature space; raises what it wants where it is too large.

        Raises:
            ValueError: corrupt, of another format version, or not a state that this configuration can have.
        """
        arrays, header = envelope.load(data)
        try:
            config, state = Config.parse(header["config"]), header["state"]
            for space in spaces_of(config, state["switching"]):
                admit(config, space)
            machine = cls(config)
            machine._load(arrays, state)
            return machine, dict(header["stamp"])
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"state is not one of a model: {error!r}") from error

    def _load(self, arrays: Mapping[str, NDArray[Any]], state: Header) -> None:
        self.switching = build(self.config, state["switching"])
        self._watch()
        self.labels = LabelSet.from_header(state["labels"])
        unflatten(self._parts(), arrays, state)
        self.rows = state["rows"]
        self._check_together()

    def _check_together(self) -> None:
        """Parts that are each a state of their own must be of one and the same model."""
        rows, classes = self.metrics.rows, len(self.labels)
        if type(self.rows) is not int or self.rows != rows or (rows > 0 and self.pipeline is None):
            raise ValueError("the rows of the parts differ")
        declared = self.config.labels
        if declared is not None and any(LabelSet(declared).index(label) < 0 for label in self.labels.labels):
            raise ValueError("a class is not one of the declared labels")
        if self.config.task == "regression" and classes:
            raise ValueError("a regression has no classes")
        if self.pipeline is None or self.drift_response is None or not isinstance(self.metrics, ClassificationMetrics):
            return
        watched = self.drift_response.detector.classes
        if {self.metrics.classes, watched} != {classes} or self.pipeline.classes_differ(classes):
            raise ValueError("the classes of the parts differ")
