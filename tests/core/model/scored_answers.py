"""The answers of a classifier alone, without a model around them."""

from core.config import Config
from core.features.labels import LabelSet
from core.model.class_answers import ClassAnswers
from core.model.rows import BlockRows

NO_ROWS = 10**12
"""So many rows that smoothing adds only 1e-6."""


def answers_of(seen, **fields):
    """Answers over these classes with more configuration fields; the labels are declared unless ``labels`` is given."""
    body = {"algorithm": "dfop", "task": "classification", "labels": [*seen], **fields}
    return ClassAnswers(
        Config.parse({name: value for name, value in body.items() if value is not None}), LabelSet(seen)
    )


def answered(answers, prediction, rows=NO_ROWS):
    """The answer after this many rows."""
    before, answers.metrics.rows = answers.metrics.rows, rows
    found = answers.of(prediction)
    answers.metrics.rows = before
    return found


def scored(answers, prediction, truth, weights=None, **more):
    """Score rows; the calibration learns from them."""
    return answers.absorb(prediction, truth, BlockRows(None, None, weights=weights), **more)
