"""The answers of a classifier by themselves, without a model around them."""

from core.config import Config
from core.features.labels import LabelSet
from core.model.class_answers import ClassAnswers
from core.model.rows import BlockRows

NO_ROWS = 10**12
"""So many rows that nothing is smoothed but by 1e-6."""


def answers_of(seen, **fields):
    """Those over classes, with more fields of the configuration; their labels are declared unless told."""
    body = {"algorithm": "dfop", "task": "classification", "labels": [*seen], **fields}
    return ClassAnswers(
        Config.parse({name: value for name, value in body.items() if value is not None}), LabelSet(seen)
    )


def answered(answers, prediction, rows=NO_ROWS):
    """What is answered after so many rows."""
    before, answers.metrics.rows = answers.metrics.rows, rows
    found = answers.of(prediction)
    answers.metrics.rows = before
    return found


def scored(answers, prediction, truth, weights=None, **more):
    """Rows scored, from which the calibration learns."""
    return answers.absorb(prediction, truth, BlockRows(None, None, weights=weights), **more)
