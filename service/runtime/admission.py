"""How much memory a model would need, before anything is built; ``ModelCache.admit`` compares it with the limit.

    of_columns    features are declared, or proposed by the first row
    of_classes    a row has a label that none had before
    of_change     the configuration changes
    of_switch     a change of features begins
    of_state      a state is imported

Each adds up the learners of all given configurations: the model's own and its challengers.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from core.config import Config
from core.features import Schema
from core.model import LearnerSpaces, bytes_to_switch


class Demand(NamedTuple):
    """The memory that a model would take after a request."""

    bytes: int  # that its state would take
    field: str  # the request field that asks for it
    what: str  # the beginning of the sentence that refuses it, up to the number of bytes


def of_columns(configs: Sequence[Config], width: int) -> Demand:
    """The demand of ``width`` input columns."""
    need = sum(config.state_bytes(width) for config in configs)
    field = "params.compressed_dim" if configs[0].algorithm.sparse else "features"
    own = " and their lag columns" if any(config.lags for config in configs) else ""
    random = max(config.params.get("random_features", 0) for config in configs)
    own += f" and {random} random features" if random else ""
    return Demand(need, field, f"make {width} input columns{own}; the state of {_named(configs)} would take")


def of_classes(configs: Sequence[Config], need: int, width: int, classes: int, field: str) -> Demand:
    """The demand, ``need`` bytes, of ``classes`` classes; ``field`` holds the first new one."""
    what = f"is a new class; with {classes} classes and {width} input columns the state of {_named(configs)} would take"
    return Demand(need, field, what)


def of_change(configs: Sequence[Config], need: int, field: str) -> Demand:
    """The demand, ``need`` bytes, of changed configurations; ``field`` is the changed field that takes memory."""
    return Demand(need, field, f"would make the state of {_named(configs)} take")


def of_switch(following: Schema, need: int) -> Demand:
    """A change to another feature space, during which the state takes ``need`` bytes."""
    return Demand(
        need,
        "features",
        f"make {following.width} input columns; during the change the old model, two new ones and the mapping would "
        "take",
    )


def of_state(learners: Sequence[LearnerSpaces]) -> Demand:
    """A state with these learners; a second space is the one after a switch."""
    width = max([space.width for one in learners for space in one.spaces], default=0)
    return of_columns([one.config for one in learners], width)._replace(bytes=sum(map(_most, learners)))


def _most(learner: LearnerSpaces) -> int:
    """The most bytes that a learner takes on its way through its spaces."""
    config, spaces, mappings, classes = learner
    changes = zip(pairwise([space for space in spaces if isinstance(space, Schema)]), mappings, strict=True)
    switches = [bytes_to_switch(config, *both, mapping, classes) for both, mapping in changes]
    return max([config.state_bytes(space.width, classes) for space in spaces] + switches, default=0)


def _named(configs: Sequence[Config]) -> str:
    """The algorithms, in words."""
    beside = len(configs) - 1
    return configs[0].algorithm_id + (f" and {beside} challenger{'s' * (beside > 1)}" if beside else "")
