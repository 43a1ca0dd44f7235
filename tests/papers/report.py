"""The report of a run: one page as HTML and as Markdown, and an SVG per figure."""

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from tests.papers.charts import Figure, svg
from tests.papers.contenders.contending import told, versions
from tests.papers.rows import EXPLAINED, MISSING, OUTSIDE, REPEATED, SHOWN, Result, Table, compared

VERDICTS = (REPEATED, EXPLAINED, OUTSIDE, MISSING, SHOWN)
MARKED = {OUTSIDE: f"**{OUTSIDE}**", MISSING: f"*{MISSING}*"}
COLUMNS = (
    "set", "algorithm", "paper", "ours (paper's form)", "default", "auto", "no change", "majority", "s", "verdict",
)  # fmt: skip
LEGEND = (
    "A row is repeated within one standard deviation of the paper or half a point; explained if it is not but the "
    "reason is below the table; outside if there is none. The default and auto are Onepass's own settings; "
    "auto and contenders run on the first repetition only. No change repeats the last label or value. "
    "All figures are a-priori. Contenders are quoted from the papers or run with --contenders; + marks those "
    "that the paper calls significantly worse than its method, - better."
)
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #8884}"
    "td:first-child,td:nth-child(2),th{text-align:left}strong{color:#d55e00}em{color:#888}img{max-width:60rem;width:100%}"
)


class Ran(NamedTuple):
    """A table and the results of its rows."""

    table: Table
    results: Sequence[Result]


def counts(ran: Iterable[Ran]) -> Counter[str]:
    """The number of rows per verdict."""
    return Counter(result.verdict for one in ran for result in one.results)


def summary(ran: Sequence[Ran]) -> str:
    """The counts as one line."""
    found = counts(ran)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS)


def cells(result: Result) -> list[str]:
    """The cells of a row."""
    row, measured = result.row, result.measured
    ours = "" if result.mean is None else f"{_number(result.mean)} ± {_number(result.sd)}"
    more = (measured.default, measured.auto, measured.no_change, measured.majority)
    shown = ["" if figure is None else _number(figure) for figure in more]
    seconds = "" if result.verdict == MISSING else f"{result.seconds:.1f}"
    verdict = MARKED.get(result.verdict, result.verdict)
    return [row.name, row.algorithm, "" if row.paper is None else str(row.paper), ours, *shown, seconds, verdict]


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def remarks(one: Ran) -> list[str]:
    """The remarks below a table: reasons, tests between our algorithms."""
    said = [
        f"{_named(result)}: {result.reason}" for result in one.results if result.reason and result.verdict != MISSING
    ]
    missing = sorted({result.row.name for result in one.results if result.verdict == MISSING})
    if missing:
        said.append(f"Missing: {', '.join(missing)}.")
    for first, second, test in one.table.pairs:
        marks = compared(one.results, first, second, test, one.table.lower)
        if marks:
            won = [[name for name, mark in marks.items() if mark == kind] for kind in "+=-"]
            told = (
                f"{first} against {second}, {test} test: {len(won[0])} wins, {len(won[1])} ties, {len(won[2])} losses"
            )
            said.append(f"{told}{'; loses on ' + ', '.join(won[2]) if won[2] else ''}.")
    return said


def _named(result: Result) -> str:
    return result.row.name if result.row.algorithm == "-" else f"{result.row.name}, {result.row.algorithm}"


def markdown(ran: Sequence[Ran], figures: Sequence[Figure], head: str) -> str:
    """The page as Markdown."""
    parts = ["# The papers' tables, repeated", head, summary(ran) + ".", LEGEND]
    for one in ran:
        parts.append(f"## {one.table.title}\n\n{one.table.unit}. {one.table.note}".rstrip())
        lines = [COLUMNS, ["---"] * len(COLUMNS), *map(cells, one.results)]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        parts += [_bullets(remarks(one))] if remarks(one) else []
        here = told(one.table.key, one.table.lower)
        quoted = [f"{name}: {text}" for name, text in one.table.contenders.items() if text]
        parts += [_folded(f"Contenders, run here: {versions(one.table.key)}", here)] if here else []
        parts += [_folded("Contenders, quoted from the paper", quoted)] if quoted else []
    parts += [f"## {one.title}\n\n![{one.title}]({one.key}.svg)\n\n{_held(one)}{one.note}" for one in figures]
    return "\n\n".join(parts) + "\n"


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _folded(summary: str, lines: Iterable[str]) -> str:
    return f"<details><summary>{summary}</summary>\n\n{_bullets(lines)}\n\n</details>"


def _held(figure: Figure) -> str:
    return "" if figure.holds is None else "The bound holds. " if figure.holds else "The bound does not hold. "


def html(page: str, figures: Sequence[Figure]) -> str:
    """The Markdown page as HTML, including the drawings."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(page)
    for token in (own for block in tokens for own in block.children or () if own.type == "image"):
        drawn = next(svg(figure) for figure in figures if token.attrs["src"] == f"{figure.key}.svg")
        token.attrs["src"] = f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"
    body = parser.renderer.render(tokens, parser.options, {})
    top = '<!doctype html><html lang="en"><meta charset="utf-8"><title>The papers repeated</title>'
    return f"{top}<style>{STYLE}</style>{body}</html>\n"


def write(folder: Path, ran: Sequence[Ran], figures: Sequence[Figure], head: str) -> None:
    """Write report.html, report.md and KEY.svg of every figure."""
    folder.mkdir(parents=True, exist_ok=True)
    page = markdown(ran, figures, head)
    (folder / "report.md").write_text(page)
    (folder / "report.html").write_text(html(page, figures))
    for figure in figures:
        (folder / f"{figure.key}.svg").write_text(svg(figure))
