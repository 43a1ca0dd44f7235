"""The report of a run: one page as HTML and as Markdown, and an SVG per figure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from tests.papers.charts import Figure, svg
from tests.papers.contending import told, versions
from tests.papers.rows import EXPLAINED, MISSING, OUTSIDE, REPEATED, SHOWN, Result, Table, compared

VERDICTS = (REPEATED, EXPLAINED, OUTSIDE, MISSING, SHOWN)
COLUMNS = (
    "set",
    "algorithm",
    "paper",
    "ours (paper's form)",
    "default",
    "auto",
    "no change",
    "majority",
    "s",
    "verdict",
)
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
    "td:first-child,td:nth-child(2),th{text-align:left}.outside{color:#d55e00;font-weight:600}.missing{color:#888}"
    "figure{margin:1rem 0}svg{max-width:45rem;width:100%}"
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
    return [row.name, row.algorithm, "" if row.paper is None else str(row.paper), ours, *shown, seconds, result.verdict]


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
        parts += ["\n".join(f"- {text}" for text in remarks(one))] if remarks(one) else []
        quoted = [f"- {name}: {text}" for name, text in one.table.contenders.items() if text]
        if ran_here := told(one.table.key, one.table.lower):
            lines = "\n".join(f"- {line}" for line in ran_here)
            parts.append(f"Contenders, run here: {versions(one.table.key)}:\n\n{lines}")
        parts += ["Contenders, quoted from the paper:\n\n" + "\n".join(quoted)] if quoted else []
    parts += [f"## {one.title}\n\n![{one.title}]({one.key}.svg)\n\n{_held(one)}{one.note}" for one in figures]
    return "\n\n".join(parts) + "\n"


def _held(figure: Figure) -> str:
    return "" if figure.holds is None else "The bound holds. " if figure.holds else "The bound does not hold. "


def html(ran: Sequence[Ran], figures: Sequence[Figure], head: str) -> str:
    """The page as HTML, including the drawings."""
    body = ["<h1>The papers' tables, repeated</h1>", *map(_paragraph, (head, summary(ran) + ".", LEGEND))]
    for one in ran:
        body += [f"<h2>{escape(one.table.title)}</h2>", _paragraph(f"{one.table.unit}. {one.table.note}")]
        lines = "".join(
            f'<tr class="{result.verdict}">{"".join(f"<td>{escape(cell)}</td>" for cell in cells(result))}</tr>'
            for result in one.results
        )
        body.append(f"<table><tr>{''.join(f'<th>{name}</th>' for name in COLUMNS)}</tr>{lines}</table>")
        body.append(f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in remarks(one))}</ul>")
        if any(one.table.contenders.values()):
            quoted = "".join(f"<li>{escape(f'{name}: {text}')}</li>" for name, text in one.table.contenders.items())
            body.append(f"<details><summary>Contenders, quoted from the paper</summary><ul>{quoted}</ul></details>")
        if ran_here := told(one.table.key, one.table.lower):
            lines = "".join(f"<li>{escape(line)}</li>" for line in ran_here)
            who = f"Contenders, run here: {versions(one.table.key)}"
            body.append(f"<details><summary>{escape(who)}</summary><ul>{lines}</ul></details>")
    for figure in figures:
        body += [
            f"<h2>{escape(figure.title)}</h2><figure>{svg(figure)}</figure>",
            _paragraph(_held(figure) + figure.note),
        ]
    top = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>The papers repeated</title><style>{STYLE}</style>'
    )
    return f"{top}{''.join(body)}</html>\n"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def write(folder: Path, ran: Sequence[Ran], figures: Sequence[Figure], head: str) -> None:
    """Write report.html, report.md and KEY.svg of every figure."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(html(ran, figures, head))
    (folder / "report.md").write_text(markdown(ran, figures, head))
    for figure in figures:
        (folder / f"{figure.key}.svg").write_text(svg(figure))
