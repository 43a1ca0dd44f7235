"""The structure of a change of features in a saved state: described, checked, and built again, empty.

A saved state consists of arrays (core.state.envelope) and this description of the models that hold them, which after a
switch no longer follow from the configuration alone.

    {"phase": "none" | "steady" | "ensemble", ... | "overlap", "old": a steady one or an ensemble, "next", "mapping",
     "aborted": features of ``Switching.in_flight``, "retired": ids, "alike": [[id, id]] if there are any, "switches"}
    steady: "model": {"features", "front", "read": features}    ensemble: "model", "next": features, "experts", "front"
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from core.config import Config
from core.contract import Header
from core.features import Space
from core.features.feature import parse_features
from core.features.feature_space import parse_next, union
from core.features.schema import Schema
from core.switching.expert import SpaceExpert, row_columns
from core.switching.feature_recovery import FeatureRecovery, MappingKind
from core.switching.overlap import OverlapPeriod, new_recovery
from core.switching.phases import RETIRED_MAX, Phase, Switching
from core.switching.space_model import SpaceModel


def describe(switching: Switching) -> Header:
    """The description of a phase that ``build`` reads."""
    described: Header = {
        "phase": "none" if switching.now is None else switching.now.phase,
        "aborted": None if switching.in_flight is None else _json(switching.in_flight),
        "retired": list(switching.retired_spaces),
        "switches": switching.switches,
    }
    if switching.renamed_spaces:
        described["alike"] = [list(pair) for pair in switching.renamed_spaces.items()]
    now = switching.now
    if isinstance(now, OverlapPeriod):
        old = {"phase": now.old.phase, **_in_force(now.old)}
        return described | {"old": old, "next": _json(now.next_schema), "mapping": now.recovery.kind}
    return described if now is None else described | _in_force(now)


def _in_force(now: SpaceModel) -> Header:
    if now.former is None or now.recovery is None:
        return {"model": _model(now)}
    experts = {"experts": list(now.experts), "front": now.recovery.describe()}
    return {"model": _model(now.former), "next": _json(now.schema), **experts}


def build(config: Config, described: Header) -> Switching:
    """An empty ``Switching`` of the same structure, whose ``now`` is then loaded.

    ``ValueError``, ``KeyError`` or ``TypeError`` if there is no such structure.
    """
    built = Switching(config, None)
    built.retired_spaces, built.switches, built.renamed_spaces = _checked_memory(described)
    aborted = None if described["aborted"] is None else Schema(parse_features(described["aborted"]))
    now = _build_phase(config, described, not built.switches)
    if aborted is not None and now is not None:
        _dense(now.schema)
    built.enter(now, aborted)
    return built


def _build_phase(config: Config, described: Header, first: bool) -> Phase | None:
    if described["phase"] == "none":
        return None
    if described["phase"] != "overlap":
        return _build_in_force(config, described, first)
    old = _build_in_force(config, described["old"], first)
    features = parse_next(described["next"], _dense(old.schema))
    return OverlapPeriod(config, old, features, described["mapping"])


def _build_in_force(config: Config, described: Header, first: bool) -> SpaceModel:
    old = _build_model(config, described["model"], first)
    if described["phase"] == "steady":
        return old
    if described["phase"] != "ensemble":
        raise ValueError("no such phase")
    names = tuple(described["experts"])
    if names not in {("new",), ("recovered", "new"), ("recovered", "new", "carried")}:
        raise ValueError("no such experts")
    features = parse_next(described["next"], _dense(old.schema))
    new = SpaceModel(config, Schema(features))
    recovery = _build_mapping(new.row_columns, described["front"])
    if recovery.targets != old.columns:
        raise ValueError("the recovered columns are not those that the old model reads")
    new.join(old, recovery, union(_dense(old.schema), features), dict.fromkeys(names, 1.0 / len(names)), 0)
    return new


def spaces_of(
    config: Config, described: Header, arrays: Mapping[str, NDArray[Any]], prefix: str
) -> tuple[Sequence[Space], Sequence[MappingKind | int]]:
    """The spaces that a state needs memory for, and the mapping from each to the next, before any of it is built.

    A mapping is given by its kind while it learns, afterwards by the bytes of its arrays, whose names have a prefix.
    """
    if described["phase"] == "none":
        return [], []
    overlap = described["phase"] == "overlap"
    parts = [described["old"], described] if overlap else [described]
    changes = [part for part in parts if "next" in part]
    declared = [parts[0]["model"]["features"], *(part["next"] for part in changes)]
    if config.algorithm.sparse and config.space is not None:
        return [config.space], []
    if overlap and described["mapping"] not in {"linear", "kernel"}:
        raise ValueError("no such mapping")
    prefix += "pipeline.old.front." if overlap else "pipeline.front."
    learned = sum(array.nbytes for name, array in arrays.items() if name.startswith(prefix))
    mappings = [described["mapping"] if overlap and part is described else learned for part in changes]
    return [Schema(parse_features(features)) for features in declared], mappings


def _json(schema: Space) -> list[Any]:
    return [feature.to_json() for feature in schema.features]


def _model(model: SpaceModel) -> Header:
    features, own = _json(model.schema), model.own
    if own.input_mapping is None:
        return {"features": features, "front": None}
    return {"features": features, "front": own.input_mapping.describe(), "read": _json(own.schema)}


def _dense(space: Space) -> Schema:
    if not isinstance(space, Schema):
        raise ValueError("a model of sparse rows has no change of features")  # noqa: TRY004 - a state that cannot be
    return space


def _build_model(config: Config, described: Header, first: bool) -> SpaceModel:
    """An empty model of a space; before any switch that is the configuration's space, if it declares one."""
    space: Space | None = config.space
    if space is None or not first:
        space = Schema(parse_features(described["features"]))
    if _json(space) != described["features"]:
        raise ValueError("the state is of another feature space")
    if described["front"] is None:
        return SpaceModel(config, space)
    space, expert = _dense(space), SpaceExpert(config, Schema(parse_features(described["read"])))
    input_mapping = _build_mapping(row_columns(config, space), described["front"])
    if input_mapping.targets != expert.columns:
        raise ValueError("the recovered columns are not those that the model reads")
    return SpaceModel(config, space, expert.with_input_mapping(input_mapping, space))


def _build_mapping(columns: Sequence[str], described: Mapping[str, Any]) -> FeatureRecovery:
    if described["kind"] not in {"linear", "kernel"} or type(described["paper"]) is not bool:
        raise ValueError("no such mapping")
    return new_recovery(described["kind"], columns, described["targets"], described["paper"])


def _checked_memory(described: Header) -> tuple[list[str], int, dict[str, str]]:
    retired, switches, alike = described["retired"], described["switches"], described.get("alike", [])
    if not isinstance(retired, list) or any(not isinstance(space, str) for space in retired):
        raise ValueError("the spaces left behind are invalid")
    if type(switches) is not int or switches < 0:
        raise ValueError("the number of switches is invalid")
    if not isinstance(alike, list) or any(len(pair) != 2 or {*map(type, pair)} != {str} for pair in alike):
        raise ValueError("the spaces with fewer categories are invalid")
    return retired[-RETIRED_MAX:], switches, dict(alike[-RETIRED_MAX:])
