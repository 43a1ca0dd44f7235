"""What is checked of drift detection when an algorithm is known: which tests it has, and how it can respond."""

from collections.abc import Mapping
from typing import Any

from core.drift.config import KINDS, OnDrift, Tests, Watch
from core.learners.algorithm import Algorithm
from core.problems import Invalid, suggestion


def kinds(algorithm: Algorithm) -> tuple[str, ...]:
    """The tests of an algorithm. Columns of sparse rows mix all names, so their means are not tested."""
    return KINDS[1:] if algorithm.sparse else KINDS


def with_tests(given: object, algorithm: Algorithm) -> dict[str, Any]:
    """A body's ``watch``, with every test that it means.

    Raises:
        Invalid: neither an object nor null, or with a name that the algorithm has no test or setting of.
    """
    known = kinds(algorithm)
    allowed = [*known, *(name for name in Watch.names() if name not in KINDS)]
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Invalid.of("", "must be an object or null", allowed)
    for name in given:
        if name not in allowed:
            problem = f"is not a test or setting that {algorithm.id} is watched with{suggestion(name, allowed)}"
            raise Invalid.of(f".{name}", problem, allowed)
    names_none = given and not any(kind in given for kind in known)
    return {**({kind: {} for kind in known} if names_none else {}), **given}


def check_on_drift(action: OnDrift, tests: Tests, algorithm: Algorithm) -> OnDrift:
    """What happens at an alarm.

    Raises:
        Invalid: no such action, one that nothing would ever ask for, or one that the algorithm does not have.
    """
    allowed: list[OnDrift] = ["report"]
    if tests:
        allowed += ["reset", "forget"] if algorithm.forgets else ["reset"]
    if action in allowed:
        return action
    if action == "forget" and not algorithm.forgets:
        raise Invalid.of("", f"is not something {algorithm.id} can do", allowed)
    if action in ("reset", "forget"):
        raise Invalid.of("", "has nothing to act on: the model is not watched for drift", allowed)
    raise Invalid.of("", "is not one of the choices", allowed)
