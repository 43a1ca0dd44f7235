"""What the catalogue derives of an algorithm's learner and parameters."""

import pytest

from core.contract import Forgetful, Spec
from core.learners.catalogue import ALGORITHMS, find
from core.learners.dfop.learner import Dfop


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.id)
def test_what_a_learner_can_do_is_read_from_it(algorithm):
    """``forgets`` is true of those whose learners, of any columns and task, have ``forget``."""
    for task in algorithm.tasks:
        assert algorithm.forgets == isinstance(algorithm.build(Spec(task, 3, algorithm.complete({}))), Forgetful)


def test_parameters_say_what_a_model_is():
    """Only FESL's say how a switch is made, only those of sparse_dfop that rows are sparse."""
    assert ["fesl_c", "fesl_s"] == [one.id for one in ALGORITHMS.values() if one.evolves]
    assert ["sparse_dfop"] == [one.id for one in ALGORITHMS.values() if one.sparse]
    assert (True, False) == (find("rls").forgets, find("fesl_c").forgets)


def test_costs_follow_from_a_declared_state():
    """The layout says the bytes, and without ``row_cost`` each of their numbers costs some operations."""
    rls = find("rls")
    spec = Spec("regression", 9, rls.complete({}))
    assert rls.state_bytes(spec, 0) == rls.build(spec).nbytes
    assert 0.2 < super(Dfop, Dfop).row_cost(spec, 0) / rls.row_cost(spec, 0) < 5.0
