"""The manifest of the papers' data sets, and where their files are.

A set is read from ``GROUP/NAME.csv.gz`` in the first of `folders` that has it. manifest.csv has a line for each file
of a set, in reading order: its address at a fixed commit, its size and SHA-256, the licence its repository states, and
the SHA-256 of the converted file, uncompressed. converters.py explains `format` and `layout`.
"""

import csv
import gzip
import hashlib
import os
import zlib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".papers"


class Source(NamedTuple):
    """A file that is part of a set."""

    url: str
    bytes: int
    sha256: str
    licence: str
    format: str
    layout: str

    @property
    def path(self) -> str:
        """The path of its raw bytes in a folder: sources/OWNER+REPOSITORY/PATH."""
        owner, repository, _, path = self.url.split("/", 3)[3].split("/", 3)
        return f"sources/{owner}+{repository}/{path}"


class DataSet(NamedTuple):
    """A data set: ``columns`` without the label; ``classes`` is None for numbers."""

    name: str
    group: str
    tables: tuple[str, ...]
    rows: int
    columns: int
    classes: int | None
    sources: tuple[Source, ...]
    csv_sha256: str

    @property
    def path(self) -> str:
        """The path of the converted file in its folder."""
        return f"{self.group}/{self.name}.csv.gz"


class Missing(NamedTuple):
    """A set that cannot be read, and the reason."""

    set: str
    why: str


def _parsed(lines: list[dict[str, str]]) -> DataSet:
    one = lines[0]
    sources = tuple(
        Source(line["url"], int(line["bytes"]), *(line[key] for key in ("sha256", "licence", "format", "layout")))
        for line in lines
    )
    counts = int(one["rows"]), int(one["columns"]), int(one["classes"]) if one["classes"] else None
    return DataSet(one["set"], one["group"], tuple(one["tables"].split("; ")), *counts, sources, one["csv_sha256"])


def _manifest() -> dict[str, DataSet]:
    with Path(__file__).with_name("manifest.csv").open(newline="") as lines:
        return {name: _parsed(list(own)) for name, own in groupby(csv.DictReader(lines), lambda line: line["set"])}


SETS = _manifest()


def folders() -> list[Path]:
    """The folders that are searched for sets; fetched sets are written to the first."""
    given = os.environ.get("PAPERS_DATA")
    return [Path(given)] if given else [CACHE, ROOT.parent / "shared" / "data"]


def find(name: str) -> Path | Missing:
    """The converted file of a set, if its content matches the manifest; the name may omit its group."""
    one = SETS[name.rpartition("/")[2]]
    there = [path for folder in folders() if (path := folder / one.path).is_file()]
    for path in there:
        stat = path.stat()
        if one.csv_sha256 == _content_sha256(path, stat.st_mtime_ns, stat.st_size):
            return path
    return Missing(one.name, f"{there[0]} holds other data" if there else f"{folders()[0] / one.path} does not exist")


@cache
def _content_sha256(path: Path, *_version: int) -> str:
    """The SHA-256 of a file's uncompressed content, computed once per version; "" if it is not gzip."""
    try:
        with gzip.open(path) as content:
            return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return ""


def available(name: str) -> bool:
    """Whether a set can be read."""
    return isinstance(find(name), Path)


def missing() -> list[Missing]:
    """The sets that cannot be read, in the order of the manifest."""
    return [found for name in SETS if isinstance(found := find(name), Missing)]
