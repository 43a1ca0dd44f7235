"""What people read: tables as wide as the terminal, numbers, times, a curve in a line, words."""

import shutil
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any

WIDE = 1000
"""Columns where no terminal bounds them."""
BLOCKS = "▁▂▃▄▅▆▇█"
POINTS, NUMBERS = 60, 20
"""Most points of a curve, and most numbers below each other."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def table(rows: Sequence[Mapping[str, object]], left: Sequence[str] = (), spare: Sequence[str] = ()) -> str:
    """Cells by their heads, a line for each row: the first column and those of ``left`` as words, others as numbers.

    There is at least one row. A narrow terminal goes without the columns of ``spare``, in this order.
    """
    heads = dict.fromkeys(head for row in rows for head in row)
    columns = {head: [head, *(clean(row.get(head, "")) for row in rows)] for head in heads}
    sizes = {head: max(map(len, cells)) for head, cells in columns.items()}
    for head in spare:
        if sum(2 + sizes[each] for each in columns) > width():
            columns.pop(head, None)
    first, *others = zip(*columns.values(), strict=True)
    lines = [first, ["─" * sizes[head] for head in columns], *others]
    return grid(lines, right=[at for at, head in enumerate(columns) if at and head not in left])


def grid(lines: Iterable[Sequence[object]], right: Container[int] = ()) -> str:
    """Lines of some cells each, below each other; the columns of ``right`` are numbers."""
    columns = [[clean(cell) for cell in column] for column in zip_longest(*lines, fillvalue="")]
    padded = []
    for at, column in enumerate(columns):
        pad, size = str.rjust if at in right else str.ljust, max(map(len, column))
        padded.append([pad(cell, size) for cell in column])
    return "\n".join(f"  {'  '.join(line)}".rstrip() for line in zip(*padded, strict=True))


def described(document: Mapping[str, Any]) -> str:
    """A JSON object: a line for each value, numbers by name from the largest on, a table for a list of objects."""
    lines: list[tuple[str, str]] = []
    tables: list[str] = []
    for name, value in document.items():
        head = name.replace("_", " ")
        if isinstance(value, dict) and all(isinstance(each, int | float) for each in value.values()):
            by_size = sorted(value.items(), key=lambda one: -abs(one[1]))
            form = percent if name == "probabilities" else figure
            said = shortened([f"{each} {form(size)}" for each, size in by_size], NUMBERS)
            lines += zip([head, *[""] * len(said)], said, strict=False)
        elif isinstance(value, dict):
            tables.append(described(value))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables.append(table([{key.replace("_", " "): _said(each) for key, each in one.items()} for one in value]))
        else:
            lines.append((head, _said(value)))
    return "\n\n".join([grid(lines), *tables])


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    return figure(value) if isinstance(value, float) else "-" if value is None else spelt(value)


def width() -> int:
    """Columns of the terminal; in a pipe or a file nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE


def clean(value: object) -> str:
    """A value as text, without what a terminal would obey."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(value))


def spelt(value: object) -> str:
    """A label or category as text: true and false as JSON has them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def percent(share: float) -> str:
    """A share in per cent; never 0 or 100 where it is only near."""
    if 0 < share < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"


def figure(value: float | None) -> str:
    """Any other number; empty where there is none."""
    return "" if value is None else f"{value:.4g}"


def score(task: str, value: float | None) -> str:
    """An accuracy in per cent, or a mean squared error; empty where there is none yet."""
    return "" if value is None else percent(value) if task == "classification" else f"mse {value:.4g}"


def lead(difference: Mapping[str, Any], form: str, unit: float) -> str:
    """A paired difference and its interval, such as ``+1.2 (+0.5 to +1.9)``; empty where no row has been compared."""
    ends = ("mean", "low", "high") if unit > 0 else ("mean", "high", "low")
    known = [difference[at] for at in ends if difference.get(at) is not None]
    said = [form.format(unit * one + 0.0) for one in known]  # + 0.0: none is -0
    return f"{said[0]} ({said[1]} to {said[2]})" if len(said) == 3 else "".join(said[:1])


def ago(time: str) -> str:
    """How long a time (RFC 3339) is past, in the largest unit."""
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds())
    return next((f"{seconds // size} {unit} ago" for size, unit in _UNITS if seconds >= size), "now")


def sparkline(values: Sequence[float]) -> str:
    """A curve of at most POINTS points, each the mean of its part of the values.

    The scale leaves out the extreme twentieths: a model's first few rows would flatten all others.
    """
    size = -(-len(values) // POINTS) or 1
    means = [sum(part := values[at : at + size]) / len(part) for at in range(0, len(values), size)]
    in_order, few = sorted(means), len(means) // 20
    least, most = (in_order[few], in_order[-1 - few]) if means else (0.0, 0.0)
    span = most - least or 1.0
    return "".join(BLOCKS[round(min(max((mean - least) / span, 0.0), 1.0) * (len(BLOCKS) - 1))] for mean in means)


def counted(number: int, what: str = "row") -> str:
    """So many rows, or other things."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else many}"


def shortened(texts: Sequence[str], most: int) -> list[str]:
    """The first texts, and how many more there are."""
    return [*texts] if len(texts) <= most else [*texts[:most], f"and {len(texts) - most:,} more"]


def suggested(given: str, known: Iterable[str]) -> str:
    """``; did you mean load?`` where one of the known names is like a given one, else nothing."""
    by_letters = {name.lower(): name for name in known}
    near = get_close_matches(given.lower(), by_letters, 1)
    return f"; did you mean {by_letters[near[0]]}?" if near else ""
