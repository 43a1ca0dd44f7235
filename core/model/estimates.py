"""What work on a model takes, before it is done: floating-point operations, memory, and how it may be cut."""

from collections.abc import Sequence
from contextlib import suppress

from core.challenger_config import challenging
from core.config_changes import CATEGORIES
from core.entry import Challenge, Configure, Overlap, Reset, Restore, Rows, Segment, Switch
from core.features import Schema
from core.features.feature import width_of
from core.metrics.confidence_sequence import loaded
from core.model.state import ModelState
from core.problems import Invalid
from core.switching.feature_recovery import Kind
from core.switching.overlap import OverlapPeriod
from core.switching.phases import mapping_bytes

EXPERTS = 3
"""Models that learn side by side after a change of features."""
ROW_FLOPS = 400.0
"""What learning, scoring and answering a row costs beside its learner, in floating-point operations."""
LOAD_BYTES = 10**7
"""What importing the kernels of an algorithm counts as: some hundredths of a second."""
BUILD_FLOPS = 20.0
"""What building, or taking over, one byte of a state costs, in floating-point operations."""


class Estimates(ModelState):
    """The state of one model with what learning, predicting and switching takes: the catalogue's estimates, coarse."""

    def flops_to_predict(self, rows: int) -> float:
        """Floating-point operations of predicting, or of learning, some rows: the catalogue's estimate, coarse.

        Without those of the challengers, which are not asked for predictions.
        """
        now, routes = self.switching.now, self.switching.routes
        if now is None or now.phase == "steady":
            return rows * self._flops_of_row(1 if now is None else now.schema.width)
        row = self._flops_of_row(max(route.schema.width for route in routes.values()))
        return rows * (EXPERTS * row + self.switching.flops_to_recover)

    def flops_to_keep(self) -> float:
        """Floating-point operations of predicting a row whose label will come later, by all learners."""
        beside = sum(one.member.flops_to_predict(1) for one in self.challengers.values())
        return self.flops_to_predict(1) + beside

    def rows_to_merge(self, flops: float) -> int:
        """How many rows of neighbouring entries may be learned as one block of so many operations; 0: none may."""
        return int(flops / self.flops_to_learn(1)) if self.row_exact else 0

    @property
    def row_exact(self) -> bool:
        """Whether a block of rows is learned, by the challengers as well, as its rows are one by one, bit for bit."""
        now = self.switching.now
        exact = now is not None and now.row_exact
        if self.challengers:
            return exact and all(one.member.row_exact for one in self.challengers.values())
        return exact

    def flops_to_learn(self, rows: int) -> float:
        """Floating-point operations of applying some rows."""
        flops = self.flops_to_predict(rows) + ROW_FLOPS * rows
        now = self.switching.now
        if isinstance(now, OverlapPeriod):
            flops += now.flops_to_map(rows)
        if self.challengers:
            flops += sum(one.member.flops_to_learn(rows) for one in self.challengers.values())
        return flops

    def flops_to_apply(self, segments: Sequence[Segment]) -> float:
        """Floating-point operations of applying some segments."""
        learned = mapped = steps = built = 0
        now = self.switching.now
        for segment in segments:
            if isinstance(segment, Rows):
                learned += len(segment.X)
                if now is not None:  # its space is fixed: it builds nothing
                    continue
            elif isinstance(segment, Overlap):
                mapped += len(segment.X)
            elif isinstance(segment, Switch):
                steps += 1
            built += self._bytes_to_build(segment)
        flops = self.flops_to_predict(learned) + ROW_FLOPS * learned + BUILD_FLOPS * built
        if isinstance(now, OverlapPeriod) and (learned or mapped or steps):
            flops += now.flops_to_map(learned + mapped)
        if self.challengers:
            flops += sum(one.member.flops_to_apply(segments) for one in self.challengers.values())
        return flops

    def _bytes_to_build(self, segment: Segment) -> int:
        """Bytes of state that applying a segment builds anew, whatever its rows cost: some of the model, or all.

        Rows are asked for only before there is a space.
        """
        if isinstance(segment, Rows):
            return 0 if segment.features is None else self.config.state_bytes(width_of(segment.features))
        if isinstance(segment, Restore):
            return len(segment.state)
        if isinstance(segment, Reset):
            return self.nbytes
        if isinstance(segment, Configure):
            return self.nbytes if CATEGORIES in segment.changes else self._watch_bytes
        if isinstance(segment, Switch) and segment.features is not None:
            width = width_of(segment.features)
            return self.config.state_bytes(width) + mapping_bytes(width, width, "linear")
        if isinstance(segment, Challenge):
            with suppress(Invalid):  # the model has changed meanwhile: it will be refused
                config, space = challenging(self.config, segment.config), self.prediction_schema
                built = 0 if space is None else config.state_bytes(space.width, max(2, len(self.labels)))
                return built if config.algorithm.loaded and loaded() else built + LOAD_BYTES
        return 0

    @property
    def _watch_bytes(self) -> int:
        return 0 if self.drift_response is None else self.drift_response.detector.nbytes

    def _flops_of_row(self, width: int) -> float:
        classes = max(2, len(self.labels.labels))
        known_width, known_classes, flops = self._row_cost
        if width == known_width and classes == known_classes:
            return flops
        spec = self.config.spec(width + self.config.lag_width(width))
        self._row_cost = width, classes, self.config.algorithm.row_cost(spec, classes)
        return self._row_cost[2]

    def bytes_to_switch(self, following: Schema, mapping: Kind) -> int:
        """Bytes of memory that the model will hold at most during a change to a feature space."""
        beside = sum(one.member.bytes_to_switch(following, mapping) for one in self.challengers.values())
        return self.switching.bytes_to_switch(following, mapping) + beside
