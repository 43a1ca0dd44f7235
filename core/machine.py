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

from core.admission import known, labels_of, runs, space_of
from core.config import Config
from core.entry import Entry, Learned, Outcome, Refused, Replaced, Reset, Restore, Rows, Told
from core.features import Schema, Space, parse_features
from core.labels import LabelSet
from core.lesson import Lesson, as_told, learn_classes, learn_numbers
from core.lookout import Lookout
from core.model import Floats, Header, Prediction, Weights
from core.outbox import Outbox, of_alarm
from core.pipeline import Pipeline, gather, scatter
from core.prequential import ClassificationMetrics, RegressionMetrics
from core.scored import Scored, squared
from core.seal import seal, unseal


class Machine:
    """The state of one model.

    Args:
        config: the model's configuration.

    Attributes:
        pipeline: what reads and learns rows, or None until the first row fixes the features.
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
        self.pipeline: Pipeline | None = None
        self.lookout: Lookout | None = None
        classify = self.config.task == "classification"
        self.metrics: ClassificationMetrics | RegressionMetrics = (
            ClassificationMetrics() if classify else RegressionMetrics()
        )
        if (space := self.config.space) is not None:
            self._fix_space(space)

    def _fix_space(self, schema: Space) -> None:
        self.pipeline = Pipeline(self.config, schema)
        self.lookout = Lookout(self.config, schema)

    # ---------------------------------------------------------------- reading

    @property
    def schema(self) -> Space | None:
        """The feature space, or None until the first row fixes it."""
        return None if self.pipeline is None else self.pipeline.schema

    @property
    def phase(self) -> str:
        """Where the model stands in a change of features."""
        return "steady"

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return sum(part.nbytes for part in self._parts().values())

    def predict(self, raw: Floats) -> Prediction:
        """Predict raw rows (n, F) of the current space; changes nothing.

        Raises:
            RuntimeError: the space is not fixed yet (callers ask ``schema`` first).
        """
        if self.pipeline is None:
            raise RuntimeError("no feature space yet")
        return self.pipeline.predict(raw)

    def told(self, prediction: Prediction, row: int) -> Told:
        """One row of a prediction as it is told to a client."""
        if self.config.task == "regression":
            return Told(float(prediction.value[row]))
        if prediction.value[row] < 0:
            return Told(None)
        shares = prediction.probabilities
        pairs = None if shares is None else tuple(zip(self.labels.labels, shares[row].tolist(), strict=True))
        return Told(self.labels.labels[prediction.value[row]], pairs)

    def named(self, values: NDArray[Any]) -> list[Any]:
        """Predicted values in the client's terms: labels, None before the first class, or numbers."""
        if self.config.task == "regression":
            return list(values.tolist())
        labels = self.labels.labels
        return [labels[index] if index >= 0 else None for index in values.tolist()]

    def weights(self) -> Weights | None:
        """The linear model in use over the encoded columns, or None."""
        return None if self.pipeline is None else self.pipeline.weights()

    def explain(self, raw: Floats) -> Header | None:
        """What a learner without weights knows about one raw row (1, F), classes as their labels.

        None where it has nothing to say; weights explain a linear one.
        """
        found = None if self.pipeline is None else self.pipeline.explain(raw)
        if found is None:
            return None
        labels, ambiguity = self.labels.labels, found["ambiguity"]
        if ambiguity is not None:
            ambiguity = {**ambiguity, "nearest": labels[ambiguity["nearest"]]}
        return {**found, "classes": [labels[index] for index in found["classes"]], "ambiguity": ambiguity}

    def info(self) -> Header:
        """What a person wants to see of the state."""
        labels = list(self.labels.labels)
        return {"features": self._features() or [], "labels": labels, "state_bytes": self.nbytes, **self.learner_info()}

    def learner_info(self) -> Header:
        """What the learner says of itself."""
        return {} if self.pipeline is None else self.pipeline.info()

    # ---------------------------------------------------------------- the state machine

    def apply(self, entry: Entry) -> list[Outcome]:
        """Apply one log entry; one outcome per segment, in order."""
        outcomes: list[Outcome] = []
        for run in runs(entry.segments, self._plain):
            first = run[0]
            if isinstance(first, Rows):
                outcomes.extend(self._apply_rows([rows for rows in run if isinstance(rows, Rows)]))
                self._report(entry)
            elif isinstance(first, Reset):
                outcomes.append(self._reset())
            elif isinstance(first, Restore):
                outcomes.append(self._restore(first))
            else:
                outcomes.append(Refused(f"{self.config.algorithm} takes no change of features"))
        return outcomes

    def _plain(self, rows: Rows) -> bool:
        """Whether the rows are of this space with known labels only, none of them to be skipped."""
        if self.schema is None or rows.space != self.schema.id or rows.skip:
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
        told = [rows.told for rows in run for _ in range(len(rows.X))] if any(rows.told for rows in run) else None
        if len(run) == 1 and run[0].skip:
            keep = np.setdiff1d(np.arange(len(raw)), run[0].skip)
            raw, discounts = raw[keep], None if discounts is None else discounts[keep]
            labels = [labels[i] for i in keep]
        scored = self._learn(np.ascontiguousarray(raw), labels, discounts, told)
        return self._outcomes(run, scored, told)

    def _admit(self, rows: Rows) -> Refused | None:
        """Fix the space if this segment proposes it; refuse what earlier entries have made impossible."""
        space = space_of(rows, self.schema)
        if isinstance(space, Refused):
            return space
        if (refused := labels_of(rows, self.labels, self.config)) is not None:
            return refused
        if self.pipeline is None:
            self._fix_space(space)
        return None

    def _learn(self, raw: Floats, labels: Any, discounts: Floats | None, told: list[Told | None] | None) -> Scored:
        pipeline, lookout = self.pipeline, self.lookout
        if pipeline is None or lookout is None or raw.shape != (len(labels), pipeline.schema.raw_width):
            raise ValueError(f"rows of shape {raw.shape} with {len(labels)} labels are not of this feature space")
        lesson = Lesson(raw, discounts, self.rows)
        if self.config.task == "regression":
            scored = learn_numbers(pipeline, lookout, lesson, np.asarray(labels, dtype=np.float64))
        else:
            scored = learn_classes(pipeline, lookout, self.labels, lesson, labels)
        if told is not None:
            scored = as_told(scored, told, self.labels if self.config.task == "classification" else None)
        self._score(scored)
        self.rows += len(raw)
        return scored

    def _report(self, entry: Entry) -> None:
        """What the watch saw goes into the outbox, and is marked beside the metrics."""
        for row, alarm in [] if self.lookout is None else self.lookout.take():
            label = None if self.config.task == "regression" else self.labels.labels[alarm.cls]
            last = self.outbox.last
            place = entry.version, last[1] + 1 if last[0] == entry.version else 0
            columns = [] if self.schema is None else [self.schema.columns[at] for at in alarm.columns]
            drift = of_alarm(alarm, place, row, entry.time_ms, label, columns, self.config.on_drift)
            self.outbox.put(drift)
            self.metrics.mark(row, "drift", test=alarm.kind, label=label, action=drift.action)

    def _score(self, scored: Scored) -> None:
        if isinstance(self.metrics, RegressionMetrics):
            self.metrics.absorb(scored.predicted, scored.truth)
        else:
            self.metrics.absorb(scored.predicted, scored.truth, scored.p_true, len(self.labels.labels))

    def _outcomes(self, run: Sequence[Rows], scored: Scored, told: list[Told | None] | None) -> list[Outcome]:
        names, losses = self.named(scored.predicted), self._losses(scored)
        if told is not None:
            names = [name if answer is None else answer.prediction for name, answer in zip(names, told, strict=True)]
        outcomes: list[Outcome] = []
        start, rows = 0, self.rows - len(names)
        for segment in run:
            stop = start + len(segment.X) - len(segment.skip)
            rows += stop - start
            chunk = slice(start, stop)
            outcomes.append(Learned(names[chunk], losses[chunk], rows, p_true=scored.p_true[chunk].tolist()))
            start = stop
        return outcomes

    def _losses(self, scored: Scored) -> Floats:
        if self.config.task == "classification":
            return np.asarray(scored.predicted != scored.truth, dtype=np.float64)
        return squared(scored.predicted, scored.truth)

    # ---------------------------------------------------------------- reset, save, load

    def _reset(self) -> Replaced:
        self._first_state()
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
        arrays, parts = gather(self._parts())
        state: Header = {"rows": self.rows, "labels": self.labels.to_header(), "features": self._features(), **parts}
        return seal(arrays, {"config": self.config.to_json(), "stamp": dict(stamp or {}), "state": state})

    def _parts(self) -> dict[str, Any]:
        held = {"metrics": self.metrics, "outbox": self.outbox, "watch": self.lookout, "pipeline": self.pipeline}
        return {name: part for name, part in held.items() if part is not None}

    def _features(self) -> list[Any] | None:
        return None if self.schema is None else [feature.to_json() for feature in self.schema.features]

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
        arrays, header = unseal(data)
        try:
            config, state = Config.parse(header["config"]), header["state"]
            schema = config.space
            if schema is None and state["features"] is not None:
                schema = Schema(parse_features(state["features"]))
            if schema is not None:
                admit(config, schema)
            machine = cls(config)
            machine._load(arrays, state, schema)
            return machine, dict(header["stamp"])
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"state is not one of a model: {error!r}") from error

    def _load(self, arrays: Mapping[str, NDArray[Any]], state: Header, schema: Space | None) -> None:
        if self.pipeline is None and schema is not None:
            self._fix_space(schema)
        if state["features"] != self._features():
            raise ValueError("the state is of another feature space")
        self.labels = LabelSet.from_header(state["labels"])
        scatter(self._parts(), arrays, state)
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
        if self.pipeline is None or self.lookout is None or not isinstance(self.metrics, ClassificationMetrics):
            return
        watched = self.lookout.watch.classes
        if {self.metrics.classes, watched} != {classes} or self.pipeline.classes_differ(classes):
            raise ValueError("the classes of the parts differ")
