"""The table of the papers' equations in core/README.md: a reader of a paper finds each equation where it says."""

import ast
import re
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "core"
ROW = re.compile(r"^\|[^|]*\| \[([^\]]*)\]\(([^)]*)\) \| ?(\d*) \|([^|]*)\|$", re.MULTILINE)
TABLE = (CORE / "README.md").read_text().split("## The papers, equation by equation")[1].split("\n## ")[0]
ROWS = ROW.findall(TABLE)


def _beside_code(path: Path) -> str:
    """The text of a module without its docstring."""
    text = path.read_text()
    docstring = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[docstring.end_lineno :])


def test_every_row_of_the_table_is_read() -> None:
    """No row is skipped because it looks different."""
    assert TABLE.count("| [") == len(ROWS) > 10


@pytest.mark.parametrize(("shown", "path", "found"), [(shown, path, found) for shown, path, _, found in ROWS])
def test_equations_stand_beside_the_code_that_computes_them(shown: str, path: str, found: str) -> None:
    """Each file exists and mentions, outside its docstring, what the table lists; "(2)" does not match "f(2)"."""
    text = _beside_code(CORE / path)
    listed = re.findall(r"`([^`]+)`", found)
    assert shown == path
    assert listed
    assert [] == [name for name in listed if not re.search(rf"(?<!\w){re.escape(name)}(?!\d)", text)]


@pytest.mark.parametrize(("path", "lines"), [(path, int(lines)) for _, path, lines, _ in ROWS if lines])
def test_the_table_has_the_length_of_each_paper_s_file(path: str, lines: int) -> None:
    """Within a tenth."""
    assert lines == pytest.approx(len((CORE / path).read_text().splitlines()), rel=0.1)


@pytest.mark.parametrize("family", ["dfop/kernels", "dfop/sparse", "odm/steps", "fesl/kernels", "vigo/kernels"])
def test_deviations_are_listed_at_the_end(family: str) -> None:
    """The docstring of each paper's file ends with its deviations."""
    docstring = ast.get_docstring(ast.parse((CORE / "learners" / f"{family}.py").read_text()))
    assert docstring is not None
    last = docstring.rpartition("\n\n")[2]
    assert last.startswith("Deviations")
    assert last.count("\n- ") >= 3
