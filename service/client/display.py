"""What people read: tables as wide as the terminal, numbers, times, words."""

import re
import shutil
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any

WIDE = 1000  # width of output that does not go to a terminal
NUMBERS = 20  # most numbers listed below each other
_NUMBER = re.compile(r"[-+<>]?\d")
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def table(rows: Sequence[Mapping[str, object]], spare: Sequence[str] = ()) -> str:
    """Lay out rows of cells under their heads; columns of numbers are aligned right.

    There is at least one row. On a narrow terminal the columns of ``spare`` are dropped, in this order.
    """
    heads = dict.fromkeys(head for row in rows for head in row)
    columns = {head: [clean(row.get(head, "")) for row in rows] for head in heads}
    sizes = {head: max(len(head), *map(len, cells)) for head, cells in columns.items()}
    for head in spare:
        if sum(2 + sizes[each] for each in columns) > width():
            columns.pop(head, None)
    lines = [[*columns], ["─" * sizes[head] for head in columns], *zip(*columns.values(), strict=True)]
    return grid(lines, right=[at for at, cells in enumerate(columns.values()) if at and any(map(_NUMBER.match, cells))])


def grid(lines: Iterable[Sequence[object]], right: Container[int] = ()) -> str:
    """Lay out lines of cells in columns; those of ``right`` are aligned right."""
    padded = []
    for at, column in enumerate(zip_longest(*lines, fillvalue="")):
        cells = [*map(clean, column)]
        pad, size = str.rjust if at in right else str.ljust, max(map(len, cells))
        padded.append([pad(cell, size) for cell in cells])
    return "\n".join(f"  {'  '.join(line)}".rstrip() for line in zip(*padded, strict=True))


def described(document: Mapping[str, Any]) -> str:
    """Lay out a JSON object: a line per value, numbers by name from the largest down, lists of objects as tables."""
    lines: list[tuple[str, str]] = []
    tables: list[str] = []
    for name, value in document.items():
        head = name.replace("_", " ")
        if isinstance(value, dict) and all(isinstance(each, int | float) for each in value.values()):
            by_size = sorted(value.items(), key=lambda one: -abs(one[1]))
            form = percent if name == "probabilities" else figure
            texts = shortened([f"{each} {form(size)}" for each, size in by_size], NUMBERS)
            lines += zip([head, *[""] * len(texts)], texts, strict=False)
        elif isinstance(value, dict):
            tables.append(described(value))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            cells = [{key.replace("_", " "): _as_text(each) for key, each in one.items()} for one in value]
            tables.append(f"{head}\n{table(cells)}")
        else:
            lines.append((head, _as_text(value)))
    return "\n\n".join([grid(lines), *tables])


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    if isinstance(value, dict):  # of probabilities, the largest first
        return ", ".join([f"{name} {percent(share)}" for name, share in sorted(value.items(), key=lambda one: -one[1])])
    return figure(value) if isinstance(value, float) else "-" if value is None else spelt(value)


def width() -> int:
    """Width of the terminal; output to a pipe or a file is never cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE


def clean(value: object) -> str:
    """A value as text, without control characters."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(value))


def spelt(value: object) -> str:
    """A label or category as text; true and false as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def percent(share: float) -> str:
    """A share in per cent, never rounded to 0 or 100."""
    if 0 < share < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"


def figure(value: float | None) -> str:
    """A number with four significant digits; empty for None."""
    return "" if value is None else f"{value:.4g}"


def lead(difference: Mapping[str, Any], unit: float) -> str:
    """A paired difference and its interval, such as ``+1.2 (+0.5 to +1.9)``; empty if no row was compared."""
    known = [difference[at] for at in ("mean", "low", "high") if difference.get(at) is not None]
    mean, *ends = [f"{unit * one + 0.0:+.3g}" for one in known] or [""]  # + 0.0 turns -0 into 0
    return f"{mean} ({' to '.join(ends if unit > 0 else ends[::-1])})" if ends else mean


def ago(time: str) -> str:
    """How long ago a time (RFC 3339) was, in the largest unit."""
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds())
    return next((f"{seconds // size} {unit} ago" for size, unit in _UNITS if seconds >= size), "now")


def counted(number: int, what: str = "row") -> str:
    """A number of rows, or of something else, in words."""
    return f"{number:,} {what}" + "s" * (number != 1)


def shortened(texts: Sequence[str], most: int) -> list[str]:
    """The first texts, and the number of the others."""
    return [*texts] if len(texts) <= most else [*texts[:most], f"and {len(texts) - most:,} more"]


def suggested(given: str, known: Iterable[str]) -> str:
    """``; did you mean 'load'?`` if a known name is similar, else nothing."""
    by_letters = {name.lower(): name for name in known}
    near = get_close_matches(given.lower(), by_letters, 1)
    return f"; did you mean {by_letters[near[0]]!r}?" if near else ""
