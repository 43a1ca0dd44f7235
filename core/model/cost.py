"""Estimates of work on a model before it is done: floating-point operations and memory, from the catalogue."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from core.config import Config
from core.config.challengers import challenging
from core.config.changes import CATEGORIES
from core.drift.detector import detector_bytes
from core.entry import Challenge, Configure, Overlap, Reset, Restore, Rows, Segment, Switch
from core.features import Schema
from core.features.feature import width_of
from core.metrics.confidence_sequence import loaded
from core.model.model import LearnerParts, Model
from core.problems import Invalid
from core.switching.feature_recovery import MappingKind
from core.switching.overlap import OverlapPeriod
from core.switching.phases import mapping_bytes

EXPERTS = 3  # models that learn in parallel after a change of features
ROW_FLOPS = 400.0
"""Cost of learning, scoring and answering a row in addition to its learner, in floating-point operations."""
OUTSIDE_FLOPS = 1e4  # cost of scoring a prediction of a model outside, which is done row by row
LOAD_BYTES = 10**7  # assumed cost of importing the kernels of an algorithm, in bytes: some hundredths of a second
BUILD_FLOPS = 20.0  # cost of building or loading one byte of a state, in floating-point operations
FEW_FLOPS, FEW_NUMBERS = 5e4, 10_000
"""A row of so few operations, or so few rows x classes x columns, are cheap even if each row brings a class."""


def flops_to_predict(parts: LearnerParts, rows: int, new: int = 0) -> float:
    """Operations of predicting, or of learning, some rows by one learner; ``new``: classes that they bring."""
    switching, classes = parts.switching, len(parts.answers.seen.labels) + new
    now = switching.now
    steady = now is None or now.recovery is None
    width = 1 if now is None else now.schema.width
    if not steady:
        width = max(route.schema.width for route in switching.routes.values())
    known_width, known_classes, row = parts.row_cost
    if width != known_width or classes != known_classes:
        spec = parts.config.spec(width + parts.config.lag_width(width))
        row = parts.config.algorithm.row_cost(spec, max(2, classes))
        parts.row_cost = width, classes, row
    return rows * (row if steady else EXPERTS * row + switching.flops_to_recover)


def flops_to_keep(model: Model) -> float:
    """Operations of predicting a tracked row, by all learners."""
    return sum([flops_to_predict(parts, 1) for parts in model.learners])


def flops_to_learn(model: Model, rows: int, mapped: int = 0, solved: bool = False) -> float:
    """Operations of applying some rows, of learning a mapping from unlabelled ones, and of solving it."""
    flops = _flops_of_rows(model.own, rows, mapped, solved)
    for one in model.challengers.values():
        flops += _flops_of_rows(one.parts, rows, mapped, solved)
    return flops if model.outside is None else flops + OUTSIDE_FLOPS * rows


def flops_to_apply(model: Model, segments: Sequence[Segment]) -> float:
    """Operations of applying some segments."""
    first = segments[0]
    if len(segments) == 1 and isinstance(first, Rows) and model.own.switching.now is not None:
        rows = len(first.X)
        flops = flops_to_learn(model, rows)
        if rows == 1 and flops < FEW_FLOPS and first.outside is None and first.served is None:
            return flops
        return flops + _flops_of_classes(model, segments, rows) + _flops_to_compare(model, [first])
    learned = mapped = built = 0
    solved, compared = False, list[Rows]()
    for segment in segments:
        if isinstance(segment, Rows):
            learned += len(segment.X)
            if segment.outside is not None or segment.served is not None:
                compared.append(segment)
            if model.own.switching.now is not None:  # rows build nothing in a model that has a space
                continue
        elif isinstance(segment, Overlap):
            mapped += len(segment.X)
        solved = solved or isinstance(segment, Switch)
        built += _bytes_to_build(model, segment)
    flops = BUILD_FLOPS * built + flops_to_learn(model, learned, mapped, solved)
    return flops + _flops_of_classes(model, segments, learned) + _flops_to_compare(model, compared)


def _flops_to_compare(model: Model, rows: Sequence[Rows]) -> float:
    """What the first predictions of a model outside cost in addition; an import, too, unless that has been done."""
    if not rows or model.outside is not None:
        return 0.0
    sent = [one for one in rows if one.outside is not None or (one.served and one.served.outside is not None)]
    flops = OUTSIDE_FLOPS * sum(len(one.X) for one in sent)
    return flops if loaded() or not sent else flops + BUILD_FLOPS * LOAD_BYTES


def _flops_of_classes(model: Model, segments: Sequence[Segment], rows: int) -> float:
    """What these rows cost in addition because of the classes that they bring: each one copies the arrays of all."""
    now, seen = model.own.switching.now, model.own.answers.seen
    if now is None or model.own.regression:
        return 0.0
    known, width = len(seen), now.schema.width
    if rows * (known + rows) * width <= FEW_NUMBERS or 0 < known == len(model.config.labels or ()):
        return 0.0
    labels: list[Any] = [*chain.from_iterable(each.y for each in segments if isinstance(each, Rows))]
    if seen.knows(labels):
        return 0.0
    new, flops = len({label for label in labels if seen.index(label) < 0}), 0.0
    for parts in model.learners:
        copied = detector_bytes(parts.config.watch.tests, width, known + new, False) + 8 * width * (known + new)
        flops += new * copied + flops_to_predict(parts, rows, new) - flops_to_predict(parts, rows)
    return flops


def _flops_of_rows(parts: LearnerParts, learned: int, mapped: int = 0, solved: bool = False) -> float:
    """As ``flops_to_learn``, by one learner."""
    flops, now = flops_to_predict(parts, learned) + ROW_FLOPS * learned, parts.switching.now
    if now is None or now.recovery is None:  # checked first: isinstance is slow for a class with an abstract base
        return flops
    if isinstance(now, OverlapPeriod) and (learned or mapped or solved):
        flops += now.flops_to_map(learned + mapped)
    return flops


def row_exact(model: Model) -> bool:
    """Whether a block gives the same bits as its rows one by one, for the challengers as well."""
    phases = [parts.switching.now for parts in model.learners]
    return all(now is not None and now.row_exact for now in phases)


def rows_to_merge(model: Model, flops: float) -> int:
    """How many rows of neighbouring entries may be learned as one block of at most these operations; 0: none."""
    return int(flops / flops_to_learn(model, 1)) if row_exact(model) else 0


def _bytes_to_build(model: Model, segment: Segment) -> int:
    """Bytes of state that applying a segment builds, besides the cost of its rows: a part of the model, or all."""
    match segment:
        case Rows() if segment.features is not None:
            width, classes = width_of(segment.features), 0 if model.own.regression else len({*segment.y})
            return sum(config.state_bytes(width, max(2, classes)) for config in model.configs)
        case Restore():
            return len(segment.state)
        case Reset():
            return model.nbytes
        case Configure():
            tests = [parts.drift_response for parts in model.learners]
            watch_bytes = sum(response.detector.nbytes for response in tests if response is not None)
            return model.nbytes if CATEGORIES in segment.changes else watch_bytes
        case Switch() if segment.features is not None:
            width = width_of(segment.features)
            mapping = mapping_bytes(width, width, "linear")
            return sum(config.state_bytes(width, _classes(model)) + mapping for config in model.configs)
        case Challenge():
            return _bytes_to_challenge(model, segment)
    return 0


def _bytes_to_challenge(model: Model, segment: Challenge) -> int:
    with suppress(Invalid):  # the model has changed meanwhile: the challenger will be refused
        config, space = challenging(model.config, segment.config), model.prediction_schema
        built = 0 if space is None else config.state_bytes(space.width, max(2, len(model.labels)))
        return built if config.algorithm.loaded and loaded() else built + LOAD_BYTES
    return 0


def bytes_to_switch(model: Model, following: Schema, mapping: MappingKind) -> int:
    """Most bytes of memory that the model will hold during a change to a feature space."""
    return sum(parts.switching.bytes_to_switch(following, mapping, _classes(model)) for parts in model.learners)


def bytes_with(learners: Sequence[LearnerParts], configs: Sequence[Config], width: int, classes: int) -> int:
    """Most bytes of memory that learners with these configurations take; see ``Switching.bytes_with``."""
    return sum(one.switching.bytes_with(own, width, classes) for one, own in zip(learners, configs, strict=True))


def _classes(model: Model) -> int:
    """The classes declared, or seen, at least two."""
    return max(2, len(model.own.answers.labels))
