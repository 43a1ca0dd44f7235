"""Converts published files to one form of CSV, digit for digit.

ASCII, a header ``f0,f1,...,y`` (``y1,y2`` for two labels), labels last, rows in the order of the files, lines that end
in LF, no quotes. A missing cell, ``?``, is empty. Numbers keep their text, except in LIBSVM, where an absent column
is 0 and whole numbers lose their point.
"""

import bz2
import lzma
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tests.papers.sets.manifest import DataSet, Source

Row = list[str]
ABOVE = "labels of the rows above"


def converted(one: DataSet, raws: Sequence[bytes]) -> bytes:
    """The CSV of a set, from the content of its sources."""
    rows: list[Row] = []
    for source, raw in zip(one.sources, raws, strict=True):
        own = _arranged(source, READERS[source.format](raw), one.columns)
        rows = [[*row, *label] for row, label in zip(rows, own, strict=True)] if source.layout == ABOVE else rows + own
    labels = len(rows[0]) - one.columns
    header = [f"f{j}" for j in range(one.columns)] + (["y"] if labels == 1 else [f"y{k + 1}" for k in range(labels)])
    return "".join(",".join(row) + "\n" for row in (header, *rows)).encode("ascii")


def _arranged(source: Source, rows: list[Row], columns: int) -> list[Row]:
    """Rows with the label last; columns that a LIBSVM file leaves out are 0."""
    if source.format.startswith("libsvm") or source.layout == "label first":
        return [[*cells, *["0"] * (columns - len(cells)), label.removeprefix("+")] for label, *cells in rows]
    return rows


def separated(kept: Callable[[list[str]], list[str]], separator: str | None = ",") -> Callable[[bytes], list[Row]]:
    """A reader of text with one row per line; ``kept`` selects the lines, empty ones are dropped."""

    def read(raw: bytes) -> list[Row]:
        lines = [line for line in kept(raw.decode("ascii").splitlines()) if line.strip()]
        return [["" if (bare := cell.strip()) == "?" else bare for cell in line.split(separator)] for line in lines]

    return read


def _all(lines: list[str]) -> list[str]:
    return lines


def _headless(lines: list[str]) -> list[str]:
    return lines[1:]


def _titled(lines: list[str]) -> list[str]:
    """Lines of numbers."""
    return [line for line in lines if line.lstrip()[:1] in {*"-0123456789"}]


def _keel(lines: list[str]) -> list[str]:
    """The lines after the head, whose lines start with @."""
    return [line for line in lines if not line.startswith("@")]


def _arff(lines: list[str]) -> list[str]:
    """The lines after @data, without comments."""
    return [line for line in lines[lines.index("@data") + 1 :] if not line.startswith("%")]


def libsvm(raw: bytes) -> list[Row]:
    """``label index:value ...``, indices from 1: rows with the label first, up to their last index."""
    rows = []
    for line in filter(str.strip, raw.decode("ascii").splitlines()):
        label, *pairs = line.split()
        row = [_whole(label)]
        for index, _, value in (pair.partition(":") for pair in pairs):
            row += ["0"] * (int(index) - len(row)) + [_whole(value)]
        rows.append(row)
    return rows


def _whole(text: str) -> str:
    return str(int(value)) if (value := float(text)).is_integer() else text


class _Saved:
    """R objects in XDR form, version 2: vectors as lists, with their attributes; no environments, no code."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at, self._symbols = raw, 0, list[str]()

    def _take(self, size: int) -> bytes:
        self._at += size
        if size < 0 or self._at > len(self._raw):
            raise ValueError("the R file ends too early")
        return self._raw[self._at - size : self._at]

    def integers(self, count: int = 1) -> list[int]:
        return list(struct.unpack(f">{count}i", self._take(4 * count)))

    def read(self) -> Any:
        """The next object: text, a list of pairs ``(tag, value)``, or a vector ``(values, attributes)``."""
        flags = self.integers()[0]
        kind = flags & 0xFF
        if kind == 254:  # NULL
            return []
        if kind == 255:  # a symbol seen before
            return self._symbols[(flags >> 8) - 1]
        if kind == 1:  # a symbol
            self._symbols.append(self.read())
            return self._symbols[-1]
        if kind == 9:  # characters
            size = self.integers()[0]
            return "" if size < 0 else self._take(size).decode("ascii")
        if kind == 2:  # pairs
            return self._pairs(flags)
        values = self._vector(kind)
        return values, dict(self.read()) if flags & 0x200 else {}

    def _pairs(self, flags: int) -> list[tuple[str, Any]]:
        found = []
        while flags & 0xFF == 2:
            found.append((self.read() if flags & 0x400 else "", self.read()))
            flags = self.integers()[0]
        return found

    def _vector(self, kind: int) -> list[Any]:
        size = self.integers()[0]
        if kind in {10, 13}:  # logical, integer
            return self.integers(size)
        if kind == 14:  # numbers
            return list(struct.unpack(f">{size}d", self._take(8 * size)))
        if kind in {16, 19}:  # text, any objects
            return [self.read() for _ in range(size)]
        raise ValueError(f"the R file has an object of type {kind}, which a data frame of factors cannot contain")


def rda(raw: bytes) -> list[Row]:
    """A data frame of factors, the only object in a saved R file: the text of each level."""
    saved = lzma.decompress(raw)
    if not saved.startswith(b"RDX2\nX\n"):
        raise ValueError("not an R file of version 2")
    reader = _Saved(saved.removeprefix(b"RDX2\nX\n"))
    reader.integers(3)  # the versions of the format and of R
    [(_, (factors, _))] = reader.read()
    columns = [[attributes["levels"][0][code - 1] for code in codes] for codes, attributes in factors]
    return [list(row) for row in zip(*columns, strict=True)]


READERS: dict[str, Callable[[bytes], list[Row]]] = {
    "csv": separated(_all), "csv header": separated(_headless), "tabs header": separated(_headless, "\t"),
    "blanks": separated(_all, None), "blanks titled": separated(_titled, None), "keel": separated(_keel),
    "arff": separated(_arff), "libsvm": libsvm, "libsvm bz2": lambda raw: libsvm(bz2.decompress(raw)), "rda": rda,
}  # fmt: skip
"""By the format names in manifest.csv."""
