"""What the catalogue derives from an algorithm's learner and parameters."""

import pytest

from core.contract import Forgetful, Spec
from core.learners.catalogue import ALGORITHMS, find
from core.learners.dfop.learner import Dfop


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.id)
def test_the_abilities_of_a_learner_are_read_from_it(algorithm):
    """``forgets`` is true exactly if the learner has ``forget``, for every task."""
    for task in algorithm.tasks:
        assert algorithm.forgets == isinstance(algorithm.build(Spec(task, 3, algorithm.complete({}))), Forgetful)


def test_parameters_decide_the_kind_of_model():
    """Only FESL's parameters say how a switch is made, only sparse_dfop's say that rows are sparse."""
    assert ["fesl_c", "fesl_s"] == [one.id for one in ALGORITHMS.values() if one.evolves]
    assert ["sparse_dfop"] == [one.id for one in ALGORITHMS.values() if one.sparse]
    assert (True, False) == (find("rls").forgets, find("fesl_c").forgets)


def test_costs_follow_from_a_declared_state():
    """The layout gives the bytes; without ``row_cost`` each of their numbers costs some operations."""
    rls = find("rls")
    spec = Spec("regression", 9, rls.complete({}))
    assert rls.state_bytes(spec, 0) == rls.build(spec).nbytes
    assert 0.2 < super(Dfop, Dfop).row_cost(spec, 0) / rls.row_cost(spec, 0) < 5.0
