"""The first answers to ids that come again, where neither the store nor the replica has them."""

import pytest

from core.config import Config
from core.entry import Outcome
from core.model import Model
from service.errors import Recreated
from service.runtime.commit.answerer import Answerer
from service.runtime.replicas.replica import Replica
from service.runtime.stats import Stats
from service.store.log import codec
from service.store.log.appends import SeenId

CONFIG = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a"]})


class Forgetful:
    """A log that has no answers, as that of a model that was deleted."""

    async def lookup(self, name, incarnation, ids):
        return [None for _ in ids]


def _replica(incarnation):
    return Replica("m", incarnation, 0, Model.first(CONFIG), 0, incarnation, 0, Stats())


async def test_the_answer_of_a_namesake_is_not_given():
    """The model is deleted and created again while the answer is looked for; the new one knows the id as well."""
    namesake = _replica("new")
    answer = codec.encode_answer(Outcome(1, [0.5], [0.25], version=1))
    namesake.answers.put([("i:a", 1, answer)], own=False)

    async def load(name, before):
        return namesake

    with pytest.raises(Recreated):
        await Answerer(Forgetful(), load, Stats()).first_answers(_replica("old"), [("i:a", SeenId(1, 0, 0, "d", None))])
