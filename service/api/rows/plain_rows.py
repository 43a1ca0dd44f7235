"""Fast reading of the usual single row: numbers by name, a label, perhaps an id; ``json_body`` reads all others."""

import msgspec


class PlainFeedback(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A labelled row of numbers."""

    features: dict[str, float]
    label: str | int | float | bool
    id: str | None = None


class PlainPredict(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A row of numbers to predict, without options."""

    features: dict[str, float]


_feedback, _predict = msgspec.json.Decoder(PlainFeedback).decode, msgspec.json.Decoder(PlainPredict).decode
_OTHER = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def labelled(body: bytes) -> PlainFeedback | None:
    """A labelled row; None: the body has another form, or repeats a name (it has a colon per name)."""
    try:
        found = _feedback(body)
    except _OTHER:
        return None
    names = 2 + len(found.features) + (found.id is not None)
    return found if body.count(b":") == names else None


def asked(body: bytes) -> PlainPredict | None:
    """A row to predict; None as for ``labelled``."""
    try:
        found = _predict(body)
    except _OTHER:
        return None
    return found if body.count(b":") == 1 + len(found.features) else None
