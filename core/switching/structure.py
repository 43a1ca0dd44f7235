"""The structure of a change of features in a saved state: described, checked, and built again, empty.

Arrays say what models have learned (core.state.nesting); what they are built of stands here, since a model that has
lived through switches is no longer what its configuration alone says.

    {"phase": "none" | "steady" | "ensemble", ... | "overlap", "old": a steady one or an ensemble, "next", "mapping",
     "aborted": features of a union, "retired": ids, "switches"}
    steady: "model": {"features", "front", "ranges"}      ensemble: "model", "next": features, "experts", "front"
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from core.config import Config
from core.contract import Floats, Header
from core.features import Space
from core.features.feature import Feature, parse_features
from core.features.feature_space import parse_next, union
from core.features.schema import Schema
from core.switching.ensemble import Ensemble
from core.switching.expert import Expert
from core.switching.feature_recovery import FeatureRecovery
from core.switching.overlap import OverlapPeriod
from core.switching.phases import RETIRED_MAX, Switching
from core.switching.steady import Pipeline


def describe(switching: Switching) -> Header:
    """What the phase is built of, as ``rebuilt`` reads it."""
    described: Header = {
        "phase": "none" if switching.now is None else switching.now.phase,
        "aborted": None if switching.aborted is None else _json(switching.aborted),
        "retired": list(switching.retired),
        "switches": switching.switches,
    }
    now = switching.now
    if isinstance(now, OverlapPeriod):
        old = {"phase": now.old.phase, **_in_force(now.old)}
        return described | {"old": old, "next": _json(now.next_schema), "mapping": now.kind}
    return described if now is None else described | _in_force(now)


def _in_force(now: Pipeline | Ensemble) -> Header:
    if isinstance(now, Pipeline):
        return {"model": _model(now)}
    experts = {"experts": list(now.experts), "front": now.input_mapping.describe()}
    return {"model": _model(now.old), "next": _json(now.schema), **experts}


def build(config: Config, described: Header) -> Switching:
    """An empty one of the same structure, whose ``now`` is then loaded.

    Raises:
        ValueError, KeyError, TypeError: no such structure.
    """
    made = Switching(config, None)
    phase, aborted = described["phase"], described["aborted"]
    made.aborted = None if aborted is None else Schema(parse_features(aborted))
    made.retired, made.switches = _checked_memory(described)
    if phase == "none":
        return made
    if phase == "overlap":
        old = _rebuilt(config, described["old"], not made.switches)
        features = parse_next(described["next"], _dense(old))
        made.now = OverlapPeriod(config, old, features, described["mapping"], made.paper)
    else:
        made.now = _rebuilt(config, described, not made.switches)
    return made


def _rebuilt(config: Config, described: Header, first: bool) -> Pipeline | Ensemble:
    old = _built(config, described["model"], first)
    if described["phase"] == "steady":
        return old
    if described["phase"] == "ensemble":
        return _ensemble(config, old, parse_next(described["next"], _dense(old)), described)
    raise ValueError("no such phase")


def spaces_of(config: Config, described: Header) -> Sequence[Space]:
    """The spaces that a state will take memory for, before any of it is built."""
    if described["phase"] == "none":
        return []
    old = described["old"] if described["phase"] == "overlap" else described
    model = old["model"]["features"]
    found: list[Space | None] = [config.space if config.algorithm.sparse else Schema(parse_features(model))]
    following = [part["next"] for part in (old, described) if "next" in part]
    found += [Schema(parse_features(features)) for features in following[: 1 if old is described else 2]]
    return [space for space in found if space is not None]


def _ensemble(config: Config, old: Pipeline, features: tuple[Feature, ...], described: Header) -> Ensemble:
    names = tuple(described["experts"])
    if names not in {("new",), ("recovered", "new"), ("recovered", "new", "carried")}:
        raise ValueError("no such experts")
    new = Pipeline(config, Schema(features))
    input_mapping = _front(new.schema, described["front"])
    if input_mapping.targets != old.expert.columns:
        raise ValueError("what is recovered is not what the old model reads")
    return Ensemble(config, old, new, input_mapping, union(_dense(old), features), names)


def _json(schema: Space) -> list[Any]:
    return [feature.to_json() for feature in schema.features]


def _model(pipeline: Pipeline) -> Header:
    input_mapping = pipeline.expert.input_mapping
    if input_mapping is None:
        return {"features": _json(pipeline.schema), "front": None}
    return {
        "features": _json(pipeline.schema),
        "front": input_mapping.describe(),
        "ranges": _pairs(pipeline.expert.ranges),
    }


def _dense(pipeline: Pipeline | Ensemble) -> Schema:
    if not isinstance(pipeline.schema, Schema):
        raise ValueError("a model of sparse rows has no change of features")  # noqa: TRY004 - a state that cannot be
    return pipeline.schema


def _built(config: Config, described: Header, first: bool) -> Pipeline:
    """An empty model of a space; before any switch of the space that the configuration declares, if it does."""
    space: Space | None = config.space
    if space is None or not first:
        space = Schema(parse_features(described["features"]))
    if _json(space) != described["features"]:
        raise ValueError("the state is of another feature space")
    if described["front"] is None:
        return Pipeline(config, space)
    input_mapping = _front(space, described["front"])
    expert = Expert(config, input_mapping.targets, _ranges(described["ranges"], len(input_mapping.targets)))
    return Pipeline(config, space, expert=expert.with_input_mapping(input_mapping))


def _pairs(ranges: Floats) -> list[Any]:
    """Ends (2, d) as JSON knows them: null where there is none."""
    return [[None if np.isnan(end) else end for end in pair] for pair in ranges.T.tolist()]


def _ranges(described: Sequence[Any], columns: int) -> Floats:
    ends = np.array([[np.nan if end is None else end for end in pair] for pair in described], dtype=np.float64)
    if ends.shape != (columns, 2) or np.isinf(ends).any():
        raise ValueError("no such ranges")
    return np.ascontiguousarray(ends.T)


def _front(schema: Space, described: Mapping[str, Any]) -> FeatureRecovery:
    if described["kind"] not in {"linear", "kernel"} or type(described["paper"]) is not bool:
        raise ValueError("no such mapping")
    return FeatureRecovery(schema.columns, described["targets"], described["kind"], described["paper"])


def _checked_memory(described: Header) -> tuple[list[str], int]:
    retired, switches = described["retired"], described["switches"]
    if not isinstance(retired, list) or any(not isinstance(space, str) for space in retired):
        raise ValueError("no such memory of spaces")
    if type(switches) is not int or switches < 0:
        raise ValueError("no such number of switches")
    return retired[-RETIRED_MAX:], switches
