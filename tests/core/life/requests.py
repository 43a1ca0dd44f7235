"""Client requests, as the segments that the service writes to the log."""

import numpy as np
from msgspec.structs import replace

from core.config import Config
from core.entry import Configure, Overlap, Reset, Restore, Rows, Switch
from core.model import Model, save
from tests.core.life.streams import CLASHING, EPISODES, FEATURES, PROPOSALS, space_of_names

CHANGES = (
    {"watch": None, "on_drift": None},
    {"watch": {"error_rate": {"batch_size": 8, "delta": 0.5}, **EPISODES}},
    {"watch": {kind: {"batch_size": 8, "delta": 0.5} for kind in ("class_mean", "error_rate")} | EPISODES},
    {"on_drift": "forget"},
    {"missing": "mean"},
    {"missing": "zero"},
    {"missing": None, "description": "gaps are refused"},
    {"missing": "mean", "on_drift": "reset", "tags": {"step": "seven"}},
    {"on_drift": None, "tags": None, "description": None},
    {"seed": 1},
    {"class_costs": {"UP": 7}, "unknown": "error", "ignore": ["colour"]},
    {"class_costs": None},
    {"add_labels": ["one more"], "missing": "mean"},
    {"retire_labels": ["one more"]},
    {"retire_labels": ["UP"]},
    {"add_labels": ["one more", "UP"]},
    {"add_categories": {"day": ["another"]}},
    {"add_categories": {"day": ["one", "two"]}, "missing": "zero"},
    {"ignore": ["b"]},
)
"""Changes of the configuration."""


class Requests:
    """Requests to a model, checked against its current state.

    ``tracked``: predictions waiting for labels, as space, raw row, served prediction, label; ``saved``: kept states.
    """

    def __init__(self, model):
        self.model = model
        self.tracked, self.saved = [], [model.bytes]

    def rows(self, count, **more):
        """Labelled rows of the current space, or a first row that fixes it."""
        space, proposed = self.model.machine.feedback_schema, None
        if space is None:
            space = space_of_names(PROPOSALS[0])
            proposed = space.features
        return self.of(space, count, proposed, **more)

    def of(self, space, count, proposed=None, **more):
        places = self.model.stream.take(count)
        algorithm, stream = self.model.config.algorithm, self.model.stream
        discounts = stream.discounts(places) if algorithm.row_discounts and count % 2 else None
        weights = stream.weights(places) if algorithm.row_weights and count % 7 == 0 else None
        raw, labels = stream.raw(space, places), stream.labels(places)
        return Rows(space.id, proposed, raw, labels, discounts, weights=weights, **more)

    def proposal(self, which):
        """Rows of a client that assumes the model has no features yet."""
        space = space_of_names(PROPOSALS[which])
        return self.rows(2) if self.model.config.algorithm.sparse else self.of(space, 2, space.features)

    def some_seen(self, count):
        """Labelled rows, every second of which was learned before."""
        return self.rows(count, skip=tuple(range(0, count, 2)))

    def served(self, count):
        """Labelled rows, every second of which a model outside has predicted, and rightly."""
        rows = self.rows(count)
        if self.model.config.task == "regression":
            return replace(rows, outside=np.where(np.arange(count) % 2, rows.y, np.nan))
        return replace(rows, outside=[label if at % 2 else None for at, label in enumerate(rows.y)])

    def late(self, at):
        """The label of a tracked prediction."""
        if not self.tracked:
            return self.rows(1)
        space, raw, served, label = self.tracked.pop(at % len(self.tracked))
        y = np.array([label]) if self.model.config.task == "regression" else [label]
        return Rows(space, None, raw, y, None, served, ("late",))

    def begin(self, space, mapping):
        return Switch("begin", FEATURES[space], mapping)

    def overlap(self, count, skip=()):
        """Rows of both spaces without labels."""
        space = self.model.machine.feedback_schema
        if space is None:
            return self.rows(count)
        return Overlap(space.id, self.model.stream.raw(space, self.model.stream.take(count)), (), skip)

    def complete(self):
        return Switch("complete")

    def abort(self):
        return Switch("abort")

    def reset(self):
        return Reset()

    def restore(self, at, source="restore"):
        return Restore(self.saved[at % len(self.saved)], source)

    def configure(self, which):
        """A change of the configuration; not every model allows it."""
        return Configure(CHANGES[which])

    def clash(self):
        """A label whose JSON key equals that of another label."""
        return self.strange([False, CLASHING])

    def classes(self):
        """More labels than the algorithm supports."""
        bound = self.model.config.algorithm.class_bound
        return self.strange([f"class {at}" for at in range(bound + 1)])

    def strange(self, labels):
        """Rows with labels that are refused; for regression, another refused request."""
        if self.model.config.task == "regression":
            return self.torn()
        segment = self.rows(len(labels))
        segment.y[:] = labels
        return segment

    def torn(self):
        """Truncated bytes of a state."""
        return Restore(self.model.bytes[:-7])

    def foreign(self):
        other = Model.first(Config.parse({"algorithm": "rls", "task": "regression", "seed": 99}))
        return Restore(save.to_bytes(other), "import")
