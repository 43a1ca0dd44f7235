"""A model to bytes and back, including its challengers.

A saved state is one envelope (core.state.envelope) of all parts' arrays, with a header that also describes the models
of the phase (core.switching.structure). Parts keep the names they had when the format was fixed. The challengers' parts
follow, "challengers.0.metrics.ring" for example, each with a header; a model that never had any has none in its state.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from numpy.typing import NDArray

from core.config import Config
from core.config.challengers import PromotionPolicy, challenging, own_fields
from core.contract import Buffer, Header
from core.drift.outbox import Episodes, Outbox
from core.features import Space
from core.features.labels import LabelSet
from core.metrics.difference import PairedDifference
from core.metrics.outside import OutsideScores
from core.model.class_answers import ClassAnswers
from core.model.model import Challenger, LearnerParts, Model
from core.state import envelope
from core.state.envelope import flatten, unflatten
from core.switching.feature_recovery import MappingKind
from core.switching.structure import build, describe, spaces_of

CHALLENGERS, OUTSIDE = "challengers", "outside"
Arrays = dict[str, NDArray[Any]]


class LearnerSpaces(NamedTuple):
    """A learner of a state: configuration, feature spaces and mappings as ``spaces_of`` gives them, and classes."""

    config: Config
    spaces: Sequence[Space]
    mappings: Sequence[MappingKind | int]
    classes: int


# ---------------------------------------------------------------- save


def to_bytes(model: Model, stamp: Mapping[str, Any] | None = None, copied: bool = False) -> bytes:
    """The whole state with a digest; equal states give equal bytes.

    ``stamp``: JSON-able facts about the origin of the state (version, incarnation), kept in the header. ``copied``:
    whether another model starts with this state at version 0; it then has no alarms, which are events of this model's
    log, and has new learner ids.
    """
    outside = {} if model.outside is None else {OUTSIDE: model.outside}
    more = {"outbox": Outbox() if copied else model.outbox, **outside}
    arrays, state = _packed(model.own, "" if copied else None, more)
    if model.unknown:
        state["unknown"] = dict(model.unknown)
    if model.due_rows:
        state["due_rows"] = model.due_rows
    others: list[Header] = []
    for at, (name, one) in enumerate(model.challengers.items()):
        own, header = _packed(one.parts, f"0.{at + 1}" if copied else None, {"difference": one.difference})
        arrays.update({f"{CHALLENGERS}.{at}.{part}": array for part, array in own.items()})
        fields = own_fields(one.parts.config)
        others.append({"name": name, "promote": one.promote, "config": fields, "state": header})
    if others:
        state[CHALLENGERS] = others
    return envelope.dump(arrays, {"config": model.config.to_json(), "stamp": dict(stamp or {}), "state": state})


def _packed(parts: LearnerParts, copy_id: str | None, more: Mapping[str, Any]) -> tuple[Arrays, Header]:
    """A learner as arrays and a header, with ``more`` parts.

    ``copy_id``: its id in a copy, whose episodes are new; None: it is not a copy.
    """
    held, learner_id = parts.parts(), parts.learner_id if copy_id is None else copy_id
    if copy_id is not None and "episodes" in held:
        held["episodes"] = Episodes()
    arrays, headers = flatten({**held, **more})
    state: Header = {"rows": parts.rows, "labels": parts.labels.to_header(), **headers}
    if parts.rows_before_start:
        state["before"] = parts.rows_before_start
    if learner_id:
        state["born"] = learner_id
    if parts.answers.retired:
        state["retired"] = {"labels": [*parts.answers.retired]}
    if parts.answers.reset_row:
        state["reset_row"] = parts.answers.reset_row
    state["switching"] = describe(parts.switching)
    return arrays, state


# ---------------------------------------------------------------- load


def from_bytes(
    data: Buffer, check_fits: Callable[[Sequence[LearnerSpaces]], None] = lambda _learners: None
) -> tuple[Model, dict[str, Any]]:
    """A model and its stamp from the bytes of ``to_bytes``; calls ``check_fits`` before it allocates anything.

    ``ValueError`` if they are corrupt, of another format version, or not a state that this configuration can have.
    """
    arrays, header = envelope.load(data)
    try:
        config, state = Config.accepted(header["config"]), header["state"]
        others = [(challenging(config, raw["config"]), raw) for raw in state.get(CHALLENGERS, ())]
        learners = [(config, state), *((own, raw["state"]) for own, raw in others)]
        classes = max(2, len(config.labels or state["labels"]["labels"]))
        prefixes = ["", *(f"{CHALLENGERS}.{at}." for at in range(len(others)))]
        ways = [spaces_of(own, one["switching"], arrays, at) for (own, one), at in zip(learners, prefixes, strict=True)]
        check_fits([LearnerSpaces(own, *way, classes) for (own, _), way in zip(learners, ways, strict=True)])
        challengers: dict[str, Challenger] = {}
        for at, (own, raw) in enumerate(others):
            name, challenger = _load_challenger(own, raw, _taken(arrays, f"{CHALLENGERS}.{at}."))
            if name in challengers:
                raise ValueError("two challengers have the same name")
            challengers[name] = challenger
        outbox, outside = Outbox(), OutsideScores(*config.metrics.spans) if OUTSIDE in state else None
        more = {"outbox": outbox} | ({} if outside is None else {OUTSIDE: outside})
        parts = _load_parts(config, arrays, state, more)
        model = Model(parts, challengers, outbox, _unknown(state.get("unknown", {})), outside)
        model.due_rows = state.get("due_rows", 0)
        if type(model.due_rows) is not int or not 0 <= model.due_rows <= model.rows:
            raise ValueError("the number of due rows is invalid")
        _check_challengers(model)
        return model, dict(header["stamp"])
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError("the state is not one of a model: a part is missing, or has another form") from error


def _load_challenger(config: Config, raw: Header, arrays: Arrays) -> tuple[str, Challenger]:
    name, promote, difference = raw["name"], raw["promote"], PairedDifference()
    if not isinstance(name, str) or not name or promote not in get_args(PromotionPolicy):
        raise ValueError("a challenger is invalid")
    parts = _load_parts(config, arrays, raw["state"], {"difference": difference})
    return name, Challenger(parts, promote, difference)


def _load_parts(config: Config, arrays: Arrays, state: Header, more: Mapping[str, Any]) -> LearnerParts:
    """Load a learner that ``_packed`` wrote; ``more`` is loaded with its parts."""
    seen = LabelSet.from_header(state["labels"])
    parts = LearnerParts.first(config, build(config, state["switching"]), state.get("born", ""), seen)
    parts.rows_before_start = state.get("before", 0)
    parts.answers.reset_row = state.get("reset_row", 0)
    if "retired" in state and isinstance(parts.answers, ClassAnswers):
        parts.answers.retire(LabelSet.from_header(state["retired"]).labels)
    unflatten({**parts.parts(), **more}, arrays, state)
    _check_together(parts, state["rows"])
    return parts


def _check_together(parts: LearnerParts, rows: object) -> None:
    """Check that parts, each a valid state, belong to the same learner."""
    before, reset_row, now = parts.rows_before_start, parts.answers.reset_row, parts.switching.now
    if {type(rows), type(before), type(reset_row)} != {int} or before < 0 or not _is_learner_id(parts.learner_id):
        raise ValueError("the numbers of rows are invalid")
    if not 0 <= reset_row <= parts.metrics.rows:
        raise ValueError("the row of the last reset is invalid")
    if rows != parts.rows or (parts.metrics.rows > 0 and now is None):
        raise ValueError("the rows of the parts differ")
    parts.answers.check()
    if now is None or parts.drift_response is None or parts.regression:
        return
    classes = len(parts.labels)
    if parts.drift_response.detector.classes != classes or now.classes_differ(classes):
        raise ValueError("the classes of the parts differ")


def _is_learner_id(saved: object) -> bool:
    """Whether a saved id is valid: numbers between dots, or empty."""
    return isinstance(saved, str) and all(part.isdecimal() for part in saved.split(".") if saved)


def _unknown(counts: Any) -> dict[str, int]:
    """Counts of unknown categories, checked."""
    if not isinstance(counts, dict) or any(type(count) is not int or count < 1 for count in counts.values()):
        raise ValueError("the counts of unknown categories are invalid")
    return counts


def _check_challengers(model: Model) -> None:
    """Check that each challenger learns the rows of this model."""
    for one in model.challengers.values():
        now, parts = one.parts.switching.now, one.parts
        same_space = (None if now is None else now.feedback_schema) == model.feedback_schema
        same_labels = parts.labels.labels == model.labels.labels and parts.answers.retired == model.own.answers.retired
        if parts.rows != model.rows or not same_labels or not same_space:
            raise ValueError("a challenger is not one of this model")


def _taken(arrays: Arrays, prefix: str) -> Arrays:
    """Remove and return the arrays whose names begin with a prefix, without the prefix."""
    return {name[len(prefix) :]: arrays.pop(name) for name in [*arrays] if name.startswith(prefix)}
