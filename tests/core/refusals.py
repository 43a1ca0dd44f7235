"""Calls that are refused, and the reasons."""

import pytest

from core.problems import Invalid


def problems(call, *given, **named):
    """The problems that a refused call reports."""
    with pytest.raises(Invalid) as refused:
        call(*given, **named)
    return refused.value.problems


def fields(call, *given, **named):
    """The paths of the problems."""
    return [problem.field for problem in problems(call, *given, **named)]
