"""What applying an entry gives back."""

from core.model.apply import apply
from tests.core.model.test_machine import ROWS, entries, every_kind, machine, stream


@every_kind
def test_outcomes_are_not_changed_by_later_rows(kind):
    """What was answered for a row is still the same when the stream is over: no array of it is used again."""
    X, y = stream(kind)
    model = machine(kind)
    then, later = [], []
    for entry in entries(model.prediction_schema, X, y, range(ROWS), 1):
        (outcome,) = apply(model, entry)
        later.append(outcome)
        then.append(repr(outcome))
    assert then == [repr(outcome) for outcome in later]
