"""One model as one deterministic state machine: features + labels + learner + metrics.

    state(v+1) = apply(state(v), entry v+1)

``apply`` sees no clock, no ambient randomness and no I/O. Segments of an entry are applied in order. Neighbouring
row segments that need no special care are learned as one block. That depends on the entry and the state only, so
every replica does the same; and a block is its rows, bit for bit for most learners, to round-off for the wide ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.config import Config
from core.entry import Entry, Label, Learned, Outcome, Refused, Replaced, Reset, Restore, Rows, Segment, Told
from core.features import Encoder, Feature, Schema, Space, parse_features
from core.labels import LabelSet
from core.model import Floats, Header, Learner, Prediction, Weights
from core.prequential import ClassificationMetrics, RegressionMetrics
from core.scored import Scored, joined, of_classes
from core.seal import seal, unseal

LOSS_MAX = 1e300
"""Squared errors are reported up to here, so that every number in an answer is finite."""


class Machine:
    """The state of one model.

    Args:
        config: the model's configuration.

    Attributes:
        schema: the feature space, or None until the first row fixes it.
        rows: rows learned.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._first_state()

    def _first_state(self) -> None:
        self.rows = 0
        self.labels = LabelSet()
        self.schema: Space | None = None
        self.encoder: Encoder | None = None
        self.learner: Learner | None = None
        classify = self.config.task == "classification"
        self.metrics: ClassificationMetrics | RegressionMetrics = (
            ClassificationMetrics() if classify else RegressionMetrics()
        )
        if (space := self.config.space) is not None:
            self._fix_space(space)

    def _fix_space(self, schema: Space) -> None:
        self.schema = schema
        self.encoder = Encoder(self.schema, self.config.missing)
        self.learner = self.config.entry.build(self.config.spec(self.schema.width))

    # ---------------------------------------------------------------- reading

    @property
    def phase(self) -> str:
        """Where the model stands in a change of features."""
        return "steady"

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        parts = (self.metrics, self.encoder, self.learner)
        return sum(part.nbytes for part in parts if part is not None)

    def predict(self, raw: Floats) -> Prediction:
        """Predict raw rows (n, F) of the current space; changes nothing.

        Raises:
            RuntimeError: the space is not fixed yet (callers ask ``schema`` first).
        """
        if self.encoder is None or self.learner is None:
            raise RuntimeError("no feature space yet")
        return self.learner.predict(self.encoder.encode(raw))

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
        return None if self.learner is None else self.learner.weights()

    def info(self) -> Header:
        """What a person wants to see of the state."""
        names = [] if self.schema is None else [feature.to_json() for feature in self.schema.features]
        learner = {} if self.learner is None else self.learner.info()
        return {"features": names, "labels": list(self.labels.labels), "state_bytes": self.nbytes, **learner}

    # ---------------------------------------------------------------- the state machine

    def apply(self, entry: Entry) -> list[Outcome]:
        """Apply one log entry; one outcome per segment, in order."""
        outcomes: list[Outcome] = []
        for run in self._runs(entry.segments):
            first = run[0]
            if isinstance(first, Rows):
                outcomes.extend(self._apply_rows(run))
            elif isinstance(first, Reset):
                outcomes.append(self._reset())
            else:
                outcomes.append(self._restore(first))
        return outcomes

    def _runs(self, segments: Sequence[Segment]) -> Iterator[list[Any]]:
        """Cut an entry into runs that are learned as one block.

        The cut is made lazily, while the state moves: whether a segment is plain depends on the classes seen so far.
        """
        run: list[Segment] = []
        for segment in segments:
            plain = isinstance(segment, Rows) and self._plain(segment)
            if run and not (plain and _alike(run[0], segment)):
                yield run
                run = []
                plain = isinstance(segment, Rows) and self._plain(segment)
            run.append(segment)
            if not plain:
                yield run
                run = []
        if run:
            yield run

    def _plain(self, rows: Rows) -> bool:
        """Whether the rows are of this space with known labels only, none of them to be skipped."""
        if self.schema is None or rows.space != self.schema.id or rows.skip:
            return False
        return self.config.task == "regression" or all(self.labels.index(label) >= 0 for label in rows.y)

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
        schema = self.schema
        if schema is None and rows.names is not None:
            schema = Schema([Feature(name) for name in rows.names])
        if schema is None or rows.space != schema.id:
            return Refused("the model's features are no longer those the rows were sent with")
        if self.config.task == "classification":
            skip = set(rows.skip)
            refused = self._admit_labels([label for at, label in enumerate(rows.y) if at not in skip])
            if refused is not None:
                return refused
        if self.schema is None:
            self._fix_space(schema)
        return None

    def _admit_labels(self, labels: Sequence[Any]) -> Refused | None:
        seen = LabelSet.from_header(self.labels.to_header())
        bound = self.config.entry.class_bound
        for label in labels:
            if seen.index(label) >= 0:
                continue
            if seen.clash(label) is not None:
                return Refused("a label shows under the same JSON key as another label of the model")
            if len(seen.labels) >= bound:
                return Refused(f"the model has as many classes as {self.config.algorithm} learns: {bound}")
            seen.add(label)
        return None

    # ---------------------------------------------------------------- test, then train

    def _learn(self, raw: Floats, labels: Any, discounts: Floats | None, told: list[Told | None] | None) -> Scored:
        if self.schema is None or raw.shape != (len(labels), self.schema.raw_width):
            raise ValueError(f"rows of shape {raw.shape} with {len(labels)} labels are not of this feature space")
        if self.config.task == "regression":
            truth = np.asarray(labels, dtype=np.float64)
            predicted = self._train(raw, truth, discounts).value
            scored = Scored(predicted, truth, np.empty(0))
        else:
            scored = self._learn_classes(raw, labels, discounts)
        if told is not None:
            scored = self._as_told(scored, told)
        self._score(scored)
        self.rows += len(raw)
        return scored

    def _train(self, raw: Floats, truth: NDArray[Any], discounts: Floats | None) -> Prediction:
        if self.encoder is None or self.learner is None:
            raise RuntimeError("no feature space yet")
        return self.learner.learn(self.encoder.absorb(raw), truth, discounts)

    def _learn_classes(self, raw: Floats, labels: Sequence[Label], discounts: Floats | None) -> Scored:
        """Learn a block, cut where a class appears for the first time: its own row is tested without it."""
        parts: list[Scored] = []
        truth = self.labels.indices(labels)
        start = 0
        while start < len(raw):
            unseen = np.flatnonzero(truth[start:] < 0)
            stop = start + int(unseen[0]) if len(unseen) else len(raw)
            if stop == start:
                stop += 1
                parts.append(self._learn_first_of_class(raw[start:stop], labels[start], discounts, start))
                truth[stop:] = self.labels.indices(labels[stop:])
            else:
                chunk = slice(start, stop)
                given = None if discounts is None else discounts[chunk]
                prediction = self._train(raw[chunk], truth[chunk], given)
                parts.append(of_classes(prediction, truth[chunk]))
            start = stop
        return parts[0] if len(parts) == 1 else joined(parts)

    def _learn_first_of_class(self, raw: Floats, label: Label, discounts: Floats | None, row: int) -> Scored:
        if self.encoder is None or self.learner is None:
            raise RuntimeError("no feature space yet")
        x = self.encoder.absorb(raw)
        predicted = self.learner.predict(x).value
        self.learner.add_class()
        truth = np.array([self.labels.add(label)], dtype=np.int64)
        self.learner.learn(x, truth, None if discounts is None else discounts[row : row + 1])
        return Scored(predicted, truth, np.array([np.nan]))

    def _as_told(self, scored: Scored, told: list[Told | None]) -> Scored:
        """Score tracked rows by what the client was really told."""
        predicted, p_true = scored.predicted.copy(), scored.p_true.copy()
        for row, answer in enumerate(told):
            if answer is None:
                continue
            if self.config.task == "regression":
                predicted[row] = answer.prediction
                continue
            predicted[row] = -1 if answer.prediction is None else self.labels.index(answer.prediction)  # type: ignore[arg-type]
            shares = {self.labels.index(label): share for label, share in answer.probabilities or ()}
            p_true[row] = shares.get(int(scored.truth[row]), np.nan)
        return Scored(predicted, scored.truth, p_true)

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
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum((scored.predicted - scored.truth) ** 2, LOSS_MAX), dtype=np.float64)

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
        self.__dict__.update(loaded.__dict__)
        self.metrics.mark(self.rows, segment.source)
        return Replaced(self.rows)

    def to_bytes(self, stamp: Mapping[str, Any] | None = None) -> bytes:
        """The whole state, sealed; equal states give equal bytes.

        Args:
            stamp: JSON-able facts about where the state was taken (version, incarnation), kept in the header.
        """
        parts = {"metrics": self.metrics, "encoder": self.encoder, "learner": self.learner}
        arrays: dict[str, NDArray[Any]] = {}
        state: Header = {"rows": self.rows, "labels": self.labels.to_header()}
        state["features"] = self._features()
        for part, holder in parts.items():
            if holder is not None:
                own, state[part] = holder.to_arrays()
                arrays.update({f"{part}.{name}": array for name, array in own.items()})
        return seal(arrays, {"config": self.config.to_json(), "stamp": dict(stamp or {}), "state": state})

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
        if self.schema is None and schema is not None:
            self._fix_space(schema)
        parts = {"metrics": self.metrics, "encoder": self.encoder, "learner": self.learner}
        held = {part: holder for part, holder in parts.items() if holder is not None}
        if state["features"] != self._features() or any(name.partition(".")[0] not in held for name in arrays):
            raise ValueError("the state is of another feature space")
        self.labels = LabelSet.from_header(state["labels"])
        for part, holder in held.items():
            start = len(part) + 1
            own = {name[start:]: array for name, array in arrays.items() if name.startswith(f"{part}.")}
            holder.load_arrays(own, state[part])
        self.rows = state["rows"]
        self._check_together()

    def _check_together(self) -> None:
        """Parts that are each a state of their own must be of one and the same model."""
        rows, classes = self.metrics.rows, len(self.labels)
        if type(self.rows) is not int or self.rows != rows or (rows > 0 and self.learner is None):
            raise ValueError("the rows of the parts differ")
        declared = self.config.labels
        if declared is not None and any(LabelSet(declared).index(label) < 0 for label in self.labels.labels):
            raise ValueError("a class is not one of the declared labels")
        if self.config.task == "regression" and classes:
            raise ValueError("a regression has no classes")
        if self.schema is None or self.config.task == "regression":
            return
        shares = self.predict(np.zeros((1, self.schema.raw_width))).probabilities
        metrics_classes = self.metrics.classes if isinstance(self.metrics, ClassificationMetrics) else 0
        if metrics_classes != classes or (shares is not None and shares.shape[1] != classes):
            raise ValueError("the classes of the parts differ")


def _alike(first: Segment, other: Segment) -> bool:
    """Whether two plain row segments may stand in one block."""
    return (
        isinstance(first, Rows)
        and isinstance(other, Rows)
        and (first.discounts is None) == (other.discounts is None)
        and not first.skip
    )
