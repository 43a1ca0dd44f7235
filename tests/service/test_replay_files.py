"""``onepass replay`` and files: what their columns hold, other forms of CSV, standard input, Parquet, JSON out."""

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from service.replay import Failed, refusals
from service.replay.kinds import KINDS, is_missing, kind_of
from service.replay.source import SAMPLE_ROWS, Batch, Source

ROWS = 60
HEADER = ["load", "plan", "open", "at", "y"]


def cells(at: int) -> list[str]:
    """A row of numbers, strings, booleans and times, with its label."""
    plan = ("basic", "gold", "3")[at % 3]
    time = f"2026-01-{1 + at % 28:02}T{at % 24:02}:30:00Z"
    return [str(at % 7 / 7), plan, "True" if at % 2 else "False", time, "yes" if plan == "gold" else "no"]


def written(path: Path, rows: int = ROWS, separator: str = ",", encoding: str = "utf-8") -> Path:
    """A file of such rows."""
    lines = [separator.join(HEADER), *(separator.join(cells(at)) for at in range(rows))]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("number", "1 2.5 -3e4 .5 NA 0".split()),
        ("number", ["0", "1", "", "1"]),
        ("number", ["1"] * 9 + ["odd"]),
        ("string", ["1"] * 8 + ["odd"]),
        ("number", ["", "NA", "null"]),
        ("boolean", ["true", "False", "TRUE", "nan"]),
        ("time", ["2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31 12:00", "2026-01-31t12:00:00.25+01:00"]),
        ("string", ["2026-13-31"] * 3),
        ("string", ["mon", "tue", "1", "2"]),
        ("string", ["1_000", "٣", "inf", "1,5"]),
    ],
)
def test_the_kind_of_a_column(kind: str, column: list[str]) -> None:
    """Nine in ten of its cells decide; missing ones do not count."""
    assert kind == kind_of(column)


def test_kinds_are_those_of_the_service() -> None:
    """What a replay takes for a number, a boolean or a time, the service takes so."""
    from core.features import Schema, parse_features
    from core.problems import Invalid

    types = {"number": "numeric", "boolean": "boolean", "time": "time"}
    texts = ["1", "-2.5e3", "inf", "1_0", "٣", "true", "False", "TRUE", "tRue", "yes", "2026-01-31", "2026-1-31"]
    texts += ["2026-01-31T12:00:00Z", "2026-01-31 12:00:00+01:00", "2026-01-31T25:00", "x", "NA", "null", "None", "-"]
    for kind, fits in KINDS.items():
        space = Schema(parse_features([{"name": "a", "type": types[kind]}]))
        for text in texts:
            try:
                space.block(["a"], [[text]], missing_allowed=False, texts=True)
                said = ""
            except Invalid as refused:
                said = str(refused)
            assert not (fits(text) and said), (kind, text)
            assert kind == "boolean" or is_missing(text) == ("is missing" in said), (kind, text)


def test_columns_are_declared_by_what_they_hold(tmp_path: Path, run: Callable, url: str) -> None:
    """Numbers, strings, booleans and times in one file."""
    status, _, complained = run(written(tmp_path / "kinds.csv"), "--algorithm", "dfop", "--url", url)
    assert (0, "") == (status, complained)
    config = httpx.get(f"{url}/models/kinds").json()["config"]
    kinds = [feature if isinstance(feature, str) else feature["type"] for feature in config["features"]]
    assert ["load", "categorical", "boolean", "time"] == kinds
    assert 0.9 < httpx.get(f"{url}/models/kinds/metrics").json()["window"]["accuracy"]


def test_the_first_row_need_not_tell(tmp_path: Path, run: Callable, url: str) -> None:
    """A column of numbers is one, though its first cell is missing or a text, which is refused."""
    for name, cell, status in (("holes", "NA", 0), ("words", "odd", 1)):
        file = tmp_path / f"{name}.csv"
        file.write_text(f"a,b,y\n{cell},1,0\n" + "1,2,1\n2,1,0\n" * 10)
        ended, _, complained = run(file, "--algorithm", "dfop", "--url", url, "--missing", "mean")
        assert (status, status == 1) == (ended, "column a: 'odd' in line 2: is not a number" in complained)
        assert ["a", "b"] == httpx.get(f"{url}/models/{name}").json()["config"]["features"]


@pytest.mark.parametrize(
    ("separator", "encoding", "options"),
    [
        (";", "utf-8", ["--sep", ";"]),
        ("\t", "utf-8-sig", ["--sep", "tab"]),
        ("|", "latin-1", ["--sep", "|", "--encoding", "latin-1"]),
        (",", "utf-16", ["--encoding", "utf-16"]),
    ],
)
def test_other_forms_of_csv(
    separator: str, encoding: str, options: list[str], tmp_path: Path, run: Callable, url: str
) -> None:
    """Any separator, any encoding that Python knows."""
    file = written(tmp_path / "other.csv", separator=separator, encoding=encoding)
    text = file.read_text(encoding=encoding).replace("plan", "größe").replace("basic", "früh")
    file.write_text(text, encoding=encoding)
    name = f"form-{ord(separator)}"
    status, _, complained = run(file, "--algorithm", "dfop", "--url", url, "--name", name, *options)
    assert (0, "") == (status, complained)
    shown = httpx.get(f"{url}/models/{name}").json()
    assert (ROWS, "größe") == (shown["rows"], shown["config"]["features"][1]["name"])


@pytest.mark.parametrize(
    "option",
    [["--sep", ";;"], ["--sep", ""], ["--encoding", "nonsense"], ["--encoding", "gzip"], ["--encoding", "hex"]],
)
def test_what_is_no_separator_or_encoding(option: list[str], tmp_path: Path, run: Callable) -> None:
    """Said before anything is read."""
    with pytest.raises(SystemExit) as ended:
        run(written(tmp_path / "some.csv"), "--algorithm", "dfop", *option)
    assert 2 == ended.value.code


def test_the_result_as_json(tmp_path: Path, run: Callable, url: str) -> None:
    """One object on standard output and nothing else; progress goes to the other one."""
    file = written(tmp_path / "json.csv")
    status, said, complained = run(file, "--algorithm", "dfop", "--url", url, "--name", "json", "--json")
    found = json.loads(said)
    assert (0, 1) == (status, said.count("\n"))
    assert (ROWS, 0, "json", "classification") == tuple(found[name] for name in ("rows", "known", "model", "task"))
    assert httpx.get(f"{url}/models/json/metrics").json()["overall"] == found["metrics"]["overall"]
    assert "accuracy" not in complained or "rows/s" in complained


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Iterator[bytes]], None]]:
    """Makes standard input of what comes bit by bit, for as long as somebody reads it."""
    with ExitStack() as ends:

        def begin(content: Iterator[bytes]) -> None:
            ours, theirs = os.pipe()
            thread = threading.Thread(target=write, args=(theirs, content))
            ends.callback(thread.join)
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=ends.enter_context(os.fdopen(ours, "rb"))))
            thread.start()

        def write(end: int, content: Iterator[bytes]) -> None:
            with suppress(BrokenPipeError), os.fdopen(end, "wb", buffering=0) as file:
                for piece in content:
                    file.write(piece)

        yield begin


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input(packed: bool, run: Callable, url: str, pipe: Callable) -> None:
    """Read once, as it comes, plain or gzip; how far it is nobody knows."""
    text = "\n".join([",".join(HEADER), *(",".join(cells(at)) for at in range(ROWS))]).encode()
    name = f"piped-{packed}"
    pipe(iter([gzip.compress(text) if packed else text]))
    status, said, complained = run("-", "--algorithm", "dfop", "--url", url, "--name", name)
    assert (0, "") == (status, complained)
    assert "standard input: dfop" in said
    assert ROWS == httpx.get(f"{url}/models/{name}").json()["rows"]


def test_an_endless_input_is_read_no_further_than_asked(run: Callable, url: str, pipe: Callable) -> None:
    """The first rows tell the kinds; what is held does not grow with what comes."""

    def endless() -> Iterator[bytes]:
        yield (",".join(HEADER) + "\n").encode()
        at = 0
        while True:
            yield (",".join(cells(at)) + "\n").encode()
            at += 1

    pipe(endless())
    status, _, complained = run(
        "-", "--algorithm", "dfop", "--url", url, "--name", "endless", "--limit", 2 * SAMPLE_ROWS
    )
    assert (0, "") == (status, complained)
    assert 2 * SAMPLE_ROWS == httpx.get(f"{url}/models/endless").json()["rows"]


def test_standard_input_cannot_be_read_twice(run: Callable, url: str, pipe: Callable) -> None:
    """Categories are listed by reading all of it first."""
    pipe(iter([b"a,y\n1,0\n2,1\n"]))
    status, _, complained = run("-", "--algorithm", "dfop", "--url", url, "--categorical", "a")
    assert (1, True) == (status, "can be read only once" in complained)


def test_parquet(tmp_path: Path, run: Callable, url: str) -> None:
    """The same rows teach the same; refusals count rows."""
    pa = pytest.importorskip("pyarrow", reason="the extra onepass[parquet] is not installed: Parquet is NOT tested")
    from pyarrow import parquet

    columns = dict(zip(HEADER, zip(*map(cells, range(ROWS)), strict=True), strict=True))
    table = pa.table(
        {
            "load": [float(cell) for cell in columns["load"]],
            "plan": pa.array(columns["plan"]).dictionary_encode(),
            "open": [cell == "True" for cell in columns["open"]],
            "at": pa.array([cell[:-1] for cell in columns["at"]]).cast(pa.timestamp("ns")),
            "y": columns["y"],
        }
    )
    parquet.write_table(table, tmp_path / "rows.parquet")
    options = ["--algorithm", "dfop", "--url", url]
    assert (0, "") == run(tmp_path / "rows.parquet", *options)[::2]
    assert (0, "") == run(written(tmp_path / "same.csv"), *options)[::2]
    shown = [httpx.get(f"{url}/models/{name}").json() for name in ("rows", "same")]
    assert shown[0]["config"]["features"] == shown[1]["config"]["features"]
    assert shown[0]["metrics"]["overall"] == shown[1]["metrics"]["overall"]
    assert ("row", 1.0) == (Source(tmp_path / "rows.parquet").unit, Source(tmp_path / "rows.parquet").read)
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "rows.parquet").read_bytes()[:-20])
    assert "cannot be read" in run(tmp_path / "broken.parquet", *options)[2]


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    (tmp_path / "some.parquet").write_bytes(b"PAR1 and more")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Failed, match=r"pip install '\.\[parquet\]'"):
        Source(tmp_path / "some.parquet")


def test_errors_are_grouped_by_column() -> None:
    """The first cells at fault with their lines, and how many more there are; what is of no cell stands alone."""
    rows = [["1", "x" * 100], ["odd", "y"], ["odder", "z"]]
    batch = Batch(b"", ["a", "b"], rows, [10, 12, 13], "line", 1, None)
    errors = [
        {"field": "row 2, column a", "problem": "is not a number", "allowed": "a finite number"},
        {"field": "row 3, column a", "problem": "is not a number", "allowed": "a finite number"},
        {"field": "row 1, column b", "problem": "is no label", "allowed": ["y", "z"]},
        {"field": "row 3", "problem": "has 1 cells", "allowed": None},
        {"field": "header[1]", "problem": "is not a feature", "allowed": None},
    ]
    assert [
        "column a: 'odd' in line 12, 'odder' in line 13: is not a number (a finite number)",
        f"column b: {'x' * 40 + '...'!r} in line 10: is no label (y, z)",
        "line 13: has 1 cells",
        "header[1]: is not a feature",
    ] == refusals.lines_of(errors, batch)
    many = [{**errors[0], "field": f"row {1 + at % 3}, column a"} for at in range(refusals.NAMED_MAX)]
    cells = "'1' in line 10, 'odd' in line 12, 'odder' in line 13"
    assert [f"column a: {cells}, and at least 17 more: is not a number (a finite number)"] == (
        refusals.lines_of(many, batch)
    )


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Of a file of forty megabytes a batch is held, and the first rows: a process of its own tells its peak."""
    file = tmp_path / "long.csv"
    code = (
        "import resource, sys; from pathlib import Path; from service.replay.source import Source; "
        "source = Source(Path(sys.argv[1])); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "rows = sum(batch.rows for batch in source.batches(500)); "
        "print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    file.write_text("a,b\n" + "0.123456789,abcdefghijklmnopqrst\n" * 1_200_000)
    told = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    rows, grown_kib = map(int, told.stdout.split())
    assert 1_200_000 == rows
    assert 8_192 > grown_kib
