"""The forgetting rates of the bank's members."""

from dataclasses import replace

from core.contract import Spec

RATES = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.5)
"""Forgetting rates of the members; 0 is RLS."""
RATE_COLUMNS_MAX = 30.0
"""Largest rate times columns: beyond it refreshes would cost more than rows, for windows of few rows per column."""


def member_rates(spec: Spec) -> tuple[float, ...]:
    """The forgetting rates for a number of columns."""
    columns = spec.dimension + bool(spec.params["bias"])
    return tuple(rate for rate in RATES if rate * columns <= RATE_COLUMNS_MAX)


def member_specs(spec: Spec) -> list[Spec]:
    """The spec of every member: RLS for the rate 0."""
    shared = {name: value for name, value in spec.params.items() if name != "forgetting_rate"}
    given = [{"forgetting_rate": rate} if rate else {} for rate in member_rates(spec)]
    return [replace(spec, params=shared | own) for own in given]
