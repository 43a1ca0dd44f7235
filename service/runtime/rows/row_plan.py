"""Reads plain rows fast: a strict decoder, and a plan per model that is prepared once for its present state.

Most rows are plain: each feature is a number, none is missing, and the model knows the label. The model's
``RowValidator`` reads every other row, and says what is wrong with it.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from core.contract import Label
from core.features import Schema
from core.model import Model, cost
from service.runtime.threads import THREAD_FLOPS

OBJECT_BYTES, ROW_BYTES = 1000, 100
"""Bytes of a waiting request besides its values; bytes of a row besides its values (a label, perhaps an id)."""
WHOLE_MAX = 2**53  # integers up to this one convert to floats exactly; some larger ones do not


Read = Callable[[Mapping[str, float]], tuple[float, ...] | None]


def _nothing(_: Mapping[str, float]) -> None:
    """No row is plain."""


class PlainFeedback(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A labelled row of numbers."""

    features: dict[str, float]
    label: str | int | float | bool
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None


class PlainPredict(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A row of numbers to predict, without options."""

    features: dict[str, float]


_feedback, _predict = msgspec.json.Decoder(PlainFeedback).decode, msgspec.json.Decoder(PlainPredict).decode
_OTHER = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def labelled(body: bytes) -> PlainFeedback | None:
    """Decode a labelled row; None: the body has another form, or repeats a name (it has one colon per name)."""
    try:
        found = _feedback(body)
    except _OTHER:
        return None
    names = 2 + len(found.features) + (found.id is not None)
    return found if body.count(b":") == names else None


def asked(body: bytes) -> PlainPredict | None:
    """Decode a row to predict; None: see ``labelled``."""
    try:
        found = _predict(body)
    except _OTHER:
        return None
    return found if body.count(b":") == 1 + len(found.features) else None


class RowPlan:
    """How to read plain rows of a model in its present state.

    Attributes:
        space: the id of the feature space of feedback; "" if there is none.
        size: bytes of memory that a labelled row takes while it waits.
        flops: floating-point operations of learning a row.
        to_learn, to_predict: turn numbers by name into a raw row (F,); None: the row is not plain.
        is_long: whether predicting a row takes so long that it needs a thread.
    """

    def __init__(self, model: Model) -> None:
        own, now = model.own, model.own.switching.now
        self._now, self._config, self._labels = now, own.config, own.answers.seen
        self._retired = () if own.config.labels is None else own.answers.retired
        self._classes, self._learners = len(self._labels), len(model.challengers)
        self._asked: Schema | None = None
        self.to_learn: Read = _nothing
        self.to_predict: Read = _nothing
        sent: Schema | None = None
        if now is not None and not own.config.algorithm.observes:
            self._asked = now.schema if isinstance(now.schema, Schema) else None
            sent = now.feedback_schema if isinstance(now.feedback_schema, Schema) else None
        if self._asked is not None:
            self.to_predict = self._asked.numbers_of
        self.space, self.size, self.flops, self.is_long = "", 0, 0.0, True
        if sent is not None:
            self.to_learn = sent.numbers_of
            self.space, self.flops = sent.id, cost.flops_to_learn(model, 1)
            self.is_long = cost.flops_to_predict(own, 1) > THREAD_FLOPS
            self.size = OBJECT_BYTES + 16 * sent.raw_width + ROW_BYTES

    def is_of(self, model: Model) -> bool:
        """Whether the plan still fits the model."""
        own = model.own
        now = own.switching.now
        return (
            now is self._now
            and own.config is self._config
            and own.answers.seen is self._labels
            and len(self._labels.labels) == self._classes
            and len(model.challengers) == self._learners
            and (now is None or self._asked is None or now.schema is self._asked)
        )

    def label(self, given: str | float | bool) -> Label | float | None:
        """The label as the model learns it; None: the row is not plain."""
        label: Any = given
        if self._config.task == "regression":
            fits = type(label) is float or (type(label) is int and -WHOLE_MAX <= label <= WHOLE_MAX)
            return float(label) if fits else None
        return label if self._labels.index(label) >= 0 and label not in self._retired else None
