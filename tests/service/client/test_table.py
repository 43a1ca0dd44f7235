"""Files of rows: how they are read, what their columns hold, and what is said of both. No service is started."""

import csv
import gzip
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.client.failures import Failed
from service.client.replay.columns import CLASSES_MAX, columns_of, described
from service.client.replay.table import Batch, ReadOptions, Table


def read(file: Path, **options: Any) -> Table:
    """A file whose label is y."""
    return Table(ReadOptions(file=file, label="y", **options))


def rows(table: Table) -> list[list[str]]:
    """The header and all rows as the service reads them."""
    batches = [*table.batches(100)]
    bodies = [[*csv.reader(batch.body.decode().splitlines(keepends=True))] for batch in batches]
    return [bodies[0][0], *(row for body in bodies for row in body[1:])]


@pytest.mark.parametrize(
    ("kind", "words", "cells"),
    [
        ("number", "", "1 2.5 -3e4 .5 NA 0".split()), ("number", "", ["0", "1", "", "1"]),
        ("number", "", ["1"] * 9 + ["odd"]), ("string", "", ["1"] * 8 + ["odd"]), ("number", "", ["", "NA", "null"]),
        ("number", "decimal comma", ["1,5", "1.234,50", "NA", "-7"]), ("string", "", ["1,5,2", "1.23,5"]),
        ("boolean", "", ["true", "False", "TRUE", "nan"]),
        ("time", "", ["2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31 12:00", "2026-01-31t12:00:00.25+01:00"]),
        ("time", "DD.MM.YYYY", ["31.01.2026", "1.2.2026", "31.12.2025 23:59"]), ("string", "", ["2026-13-31"] * 3),
        ("string", "", ["31.13.2026"] * 3), ("string", "", ["mon", "tue", "1", "2"]),
        ("string", "", ["1_000", "٣", "inf"]),
    ],
)  # fmt: skip
def test_how_a_column_is_written(kind: str, words: str, cells: list[str]) -> None:
    """Nine in ten of its cells decide; missing ones do not count."""
    found = columns_of({"x": cells})["x"].notation
    assert (kind, words) == (found.kind, found.words)


def test_kinds_are_those_of_the_service() -> None:
    """What is taken for a number, a boolean, a time or a missing value, the service takes so."""
    from core.features import Schema, parse_features
    from core.problems import Invalid
    from service.client.replay.columns import BOOLEAN, NUMBER, TIME, is_missing

    texts = ["1", "-2.5e3", "inf", "1_0", "٣", "true", "False", "TRUE", "tRue", "yes", "2026-01-31", "2026-1-31"]
    texts += ["2026-01-31T12:00:00Z", "2026-01-31 12:00:00+01:00", "2026-01-31T25:00", "x", "NA", "null", "None", "-"]
    for notation, kind in ((NUMBER, "numeric"), (BOOLEAN, "boolean"), (TIME, "time")):
        space = Schema(parse_features([{"name": "a", "type": kind}]))
        for text in texts:
            try:
                space.block(["a"], [[text]], missing_allowed=False, texts=True)
                said = ""
            except Invalid as refused:
                said = str(refused)
            assert not (notation.fits(text) and said), (kind, text)
            assert kind == "boolean" or is_missing(text) == ("is missing" in said), (kind, text)


def test_the_label_tells_the_task() -> None:
    """Numbers that cannot be classes are to be predicted."""
    few, many = ([str(number) for number in range(number)] for number in (CLASSES_MAX, CLASSES_MAX + 1))
    classes = (["UP", "DOWN", "3"], ["1", "2.0", "1"], ["true", "false"], few, [""])
    for task, columns in (("classification", classes), ("regression", (many, ["1.5", "2", "", "na"], ["1,5", "2"]))):
        assert [task] * len(columns) == [columns_of({"y": cells})["y"].task for cells in columns]


def test_one_run_reads_a_german_file(tmp_path: Path) -> None:
    """Semicolons, Latin-1, decimal commas, points that part thousands, dates and gaps; each is said."""
    file = tmp_path / "german.csv"
    lines = ["Datum;Größe;Betrag;Stück;Ort;y"]
    lines += [f"{at:02}.03.2025;1,{at};1.23{at % 10},50;1.000;Köln;ja" for at in range(1, 29)]
    lines += ["29.03.2025;NA;;950;Bonn;nein"]
    file.write_text("\n".join(lines), encoding="latin-1")
    table = read(file)
    said = described(table.columns, {"y": "label"}, [])
    assert "semicolons between cells, cp1252" == table.form
    for words in ("time", "Datum (DD.MM.YYYY)", "Betrag (decimal comma)", "Größe (1), Betrag (1)", "string", "Ort"):
        assert words in said
    found = rows(table)
    assert ["2025-03-01", "1.1", "1231.50", "1000", "Köln", "ja"] == found[1]
    assert ["2025-03-29", "NA", "", "950", "Bonn", "nein"] == found[-1]


def test_what_cannot_be_found_out_is_told(tmp_path: Path) -> None:
    """Decimal commas of few rows, words for gaps, dates of another form; a file that is not so is read as strings."""
    file = tmp_path / "told.csv"
    file.write_text("day;x;n;y\n03/31/2025;1.234,5;-;1\n04/01/2025;2.000;7;0\n", encoding="latin-1")
    table = read(file, decimal=",", na="-", date_format="%m/%d/%Y")
    assert ["2025-03-31T00:00:00", "1234.5", "", "1"] == rows(table)[1]
    assert ["2025-04-01T00:00:00", "2000", "7", "0"] == rows(table)[2]
    assert "day (%m/%d/%Y)" in described(table.columns, {"y": "label"}, [])
    other = read(file, decimal=".")
    assert ["string", "string", "string"] == [other.columns[name].notation.kind for name in ("day", "x", "n")]


def test_commas_that_may_part_thousands_are_not_guessed() -> None:
    """Unless some cell has a decimal comma for certain, ``--decimal`` has to be given; by then 0.117 is a fraction."""
    cells = {"income": ["500", "1,037", "-1,074"], "share": ["0.1", "0.117", "1.134"]}
    with pytest.raises(Failed, match="column income: '1,037' may be 1.037 or 1037; --decimal , or --decimal ."):
        columns_of(cells)
    for decimal, income in ((".", ["500", "1037", "-1074"]), (",", ["500", "1.037", "-1.074"])):
        found = columns_of(cells, decimal)
        read = {name: [*map(column.notation.plain, column.given)] for name, column in found.items()}
        assert {**cells, "income": income} == read
    for certain in ("1,5", "0,117", "1234,567", "1.234,567", "1.234.567"):
        assert "decimal comma" == columns_of({"x": ["1,037", certain]})["x"].notation.words
    assert "number" == columns_of({"x": ["\uff11\uff12", "\uff13"]})["x"].notation.kind  # digits that are not ASCII
    parted = columns_of({"x": ["1,234,567", "1,037.50", "7", "1e3", "12,34"] + ["1,037"] * 9}, ".")["x"].notation
    assert ("number", "1234567", "1037.50", "12,34") == (
        parted.kind, parted.plain("1,234,567"), parted.plain("1,037.50"), parted.plain("12,34"),
    )  # fmt: skip


def test_what_is_said_of_columns() -> None:
    """Each kind with its columns, then what is no feature; strings that nearly always differ look like ids."""
    cells = {"x": ["1", "2"] * 15, "shop": ["a", "b"] * 15, "key": [f"k{at}" for at in range(30)], "y": ["UP"] * 30}
    said = described(columns_of(cells), {"y": "label"}, ["note"]).splitlines()
    expected = ["number x", "string shop, key", "label y", "left out note"]
    expected.append("an id? key: nearly every row has a different one; --drop key leaves it out")
    assert expected == [" ".join(line.split()) for line in said]
    few = {"key": [f"k{at}" for at in range(10)]}
    assert "an id?" not in described(columns_of(few), {}, [])


@pytest.mark.parametrize("packed", [False, True])
def test_other_forms_of_csv(packed: bool, tmp_path: Path) -> None:
    """Separator and encoding are found, also in gzip."""
    for separator, encoding, form in (
        (";", "utf-8", "semicolons between cells, utf-8"),
        ("\t", "utf-8-sig", "tabs between cells, utf-8"),
        ("|", "latin-1", "bars between cells, cp1252"),
        (",", "utf-16", "commas between cells, utf-16"),
    ):
        lines = [["größe", "b", "y"], ["1", "früh", "2"]]
        content = "".join(f"{separator.join(line)}\n" for line in lines).encode(encoding)
        (file := tmp_path / "file.csv").write_bytes(gzip.compress(content) if packed else content)
        table = read(file)
        assert (form, lines) == (table.form, rows(table))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no rows"),
        (b"a,y\n", "has no rows"),
        (b"a,b,c\n1,2,3\n", "has no column 'y'; its columns are 'a', 'b', 'c'"),
        (b"a,b, Y\n1,2,3\n", "its columns are 'a', 'b', ' Y'; did you mean ' Y'?"),
        (b"yy,yy\n1,2\n", "has no column 'y'; its columns are 'yy', 'yy'; did you mean 'yy'?"),
        (b"y,y\n1,2\n", "has several columns 'y'; its columns are 'y', 'y'\n"),
        (b"a,a,y\n1,2,3\n", "has several columns 'a'"),
        (b"a,,y\n1,2,3\n", "column 2 has no name in the header"),
        (b"a,y\n1,0\n1,0,7\n", "line 3: not 2 cells, as the header has"),
        (b"A title\na,y\n1,0\n", "no column 'y'; its columns are 'A title'"),
        (gzip.compress(b"a,y\n1,0\n", mtime=0)[:-9], "cannot be read"),
        (b'a,y\n"1,0\n', "cannot be read"),
        (b"a,y\n" + b"1,0\n" * 400_000 + b"\xff,0\n", "--encoding names another one"),
        (b"PAR1 and more", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read(content: bytes, reason: str, tmp_path: Path) -> None:
    """One line says what is wrong with it."""
    file = tmp_path / "broken.csv"
    file.write_bytes(content)
    with pytest.raises(Failed) as failed:
        rows(read(file))
    assert reason in f"{failed.value}\n"
    assert 1 == len(str(failed.value).splitlines())


def test_parquet_needs_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read from its end, which standard input may not have."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"PAR1\x15\x81"))))
    with pytest.raises(Failed, match="Parquet cannot be read from standard input: give a path"):
        read(Path("-"))


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    (tmp_path / "some.parquet").write_bytes(b"PAR1 and more")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Failed, match=r"pip install '\.\[parquet\]'"):
        read(tmp_path / "some.parquet")


def test_a_parquet_column_of_lists_is_dropped_or_refused(tmp_path: Path) -> None:
    """It has no text; the refusal says what leaves it out."""
    pa = pytest.importorskip("pyarrow", reason="the extra onepass[parquet] is not installed: Parquet is NOT tested")
    from pyarrow import parquet

    parquet.write_table(
        pa.table({"a": [1.5, None], "tags": [["x"], []], "y": [True, False]}), tmp_path / "some.parquet"
    )
    with pytest.raises(Failed, match="list.* --drop leaves a column out"):
        read(tmp_path / "some.parquet")
    assert [["a", "y"], ["1.5", "true"], ["", "false"]] == rows(read(tmp_path / "some.parquet", drop="tags"))


def test_quoted_cells_survive(tmp_path: Path) -> None:
    """Commas, quotes and line ends in a cell arrive as they are; lines are counted as an editor does."""
    file = tmp_path / "quoted.csv"
    file.write_bytes(b'\xef\xbb\xbfa,b,y\r\n"1;5","x ""y""\r\nz",0\r\n"",2,1\r\n')
    (batch,) = read(file).batches(10)
    found = [*csv.reader(batch.body.decode().splitlines(keepends=True))]
    assert [["a", "b", "y"], ["1;5", 'x "y"\r\nz', "0"], ["", "2", "1"]] == found
    assert ["line 3", "line 4"] == [place for _, place in batch.rows]


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\ufeff\n"])
def test_blank_lines_before_the_header_are_no_header(blank: str, tmp_path: Path) -> None:
    """They are counted as an editor does, and the separator is that of the header."""
    file = tmp_path / "blank.csv"
    file.write_bytes(f"{blank}a;y\n1,5;UP\n".encode())
    (batch,) = read(file).batches(10)
    assert b"a,y\r\n1.5,UP\r\n" == batch.body
    assert [f"line {blank.count(chr(10)) + 2}"] == [place for _, place in batch.rows]


def test_rows_without_a_label_are_left_out(tmp_path: Path) -> None:
    """Empty cells, and words for a missing value where labels are numbers; a file of none is refused."""
    file = tmp_path / "gaps.csv"
    for labels, left in ((["", "UP", " ", "NA"], ["UP", "NA"]), (["", "1.5", "nan", "NA", "2"], ["1.5", "2"])):
        file.write_text("x,y\n" + "".join(f"{at},{label}\n" for at, label in enumerate(labels)))
        table = read(file, skip_unlabelled=True)
        assert left == [row[1] for row in rows(table)[1:]]
        assert len(labels) - len(left) == table.skipped
    file.write_text("x,y\n1,\n2,\n")
    with pytest.raises(Failed, match="none of its first 2 rows has a label in column 'y'"):
        read(file, skip_unlabelled=True)


def test_errors_are_told_by_lines_and_cells() -> None:
    """Of the file, as it has them; what is of no row stays as it is."""
    batch = Batch([({"a": "1", "b": "x" * 100}, "line 10"), ({"a": "odd", "b": "y"}, "line 12")], 1, b"")
    fields = ["row 2, column a", "row 1, column b", "row 2: label", "row 2", "row 7, column a", "header[1]"]
    assert [
        "column a, 'odd' in line 12", f"column b, {'x' * 40!r} in line 10", "line 12: label", "line 12",
        "row 7, column a", "header[1]",
    ] == [one["field"] for one in batch.located([{"field": field} for field in fields])]  # fmt: skip


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Of a file of ten megabytes a batch is held, and the first rows: a process of its own tells its peak."""
    file = tmp_path / "long.csv"
    code = (
        "import resource, sys; from pathlib import Path; from service.client.replay.table import ReadOptions, Table; "
        "table = Table(ReadOptions(file=Path(sys.argv[1]), label='b', as_json=True)); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "rows = sum(len(batch.rows) for batch in table.batches(500)); "
        "print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    file.write_text("a,b\n" + "0.123456789,abcdefghijklmnopqrst\n" * 300_000)
    told = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    total, grown_kib = map(int, told.stdout.split())
    assert 300_000 == total
    assert 8_192 > grown_kib
