"""Calls that are refused, and what they are refused for."""

import pytest

from core.problems import Invalid


def problems(call, *given, **named):
    """Each thing that is wrong with what a call was given."""
    with pytest.raises(Invalid) as refused:
        call(*given, **named)
    return refused.value.problems


def fields(call, *given, **named):
    """The paths of what is wrong."""
    return [problem.field for problem in problems(call, *given, **named)]
