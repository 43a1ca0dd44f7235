"""Dynamic ODM (Zhang, Zhao, Jin: AAAI 2020): Table 2.

The paper prints no lambda, mu, theta, C, V_T or step, so ``variant: "paper"`` uses the defaults of the first three,
C = 4 lambda and V_T = 1/T, which makes the longest epoch the whole stream (picked: T/100 is worse); columns are
standardised online.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.papers.dfop import STREAMS, stream
from tests.papers.measure import classified, parts, right
from tests.papers.rows import Measured, Size, Table, quoted_table


def _paper(X: Any, y: Any) -> float:
    rows = float(len(y))
    known = {"horizon": rows, "bound": 40.0, "variation": 1.0 / rows}
    return right("dynamic_odm", X, y, variant="paper", scaling="standard", **known)


def _table2(known: tuple[str, float], kind: str, size: Size) -> Measured:
    return classified(parts(*stream(known[0]), size.runs), _paper, partial(right, kind), size=size)


def table2() -> Table:
    """Accuracy on drifting streams."""
    note = "SEA and hyperplane are other draws than the paper's; we picked V_T = 1/T. Contenders are quoted."
    return quoted_table("odm2", "Dynamic ODM, Table 2", "% right", {"dynamic_odm": "D-ODM"}, _table2, STREAMS, note)


TABLES: dict[str, Callable[[], Table]] = {"odm2": table2}
