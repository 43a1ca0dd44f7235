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
from tests.papers.rows import Measured, Row, Size, Table, contenders, quoted, why


def _paper(X: Any, y: Any) -> float:
    rows = float(len(y))
    known = {"horizon": rows, "bound": 40.0, "variation": 1.0 / rows}
    return right("dynamic_odm", X, y, variant="paper", scaling="standard", **known)


def _table2(name: str, size: Size) -> Measured:
    return classified(parts(*stream(name), size.runs), _paper, partial(right, "dynamic_odm"), size=size)


def table2() -> Table:
    """Accuracy on drifting streams."""
    rows = [
        Row(name, "dynamic_odm", cells["D-ODM"], partial(_table2, STREAMS[name][0]) if name in STREAMS else None,
            why("odm2", name, "dynamic_odm"))
        for name, cells in quoted("odm2").items()
    ]  # fmt: skip
    note = "SEA and hyperplane are other draws than the paper's; we picked V_T = 1/T. Contenders are quoted."
    return Table("odm2", "Dynamic ODM, Table 2", "% right", True, rows, note, contenders("odm2", ("D-ODM",)))


TABLES: dict[str, Callable[[], Table]] = {"odm2": table2}
