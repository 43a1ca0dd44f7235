"""FESL-c and FESL-s (Hou, Zhang, Zhou: IEEE TKDE 33(6), 2021): Tables 2 to 4.

T1 = T2 = n/2, ten overlap rows, a Gaussian image as the new space, ten runs; columns are standardised, since the paper
does not describe its preparation. 1/c is the paper's. NOGD and ROGD are quoted from the paper.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.papers.measure import majority, mean, no_change
from tests.papers.rows import Measured, Row, Size, Table, quoted_table
from tests.papers.switches import Life, Spaces, mapped, spaces_of, standardised

SETS = {
    "australian": ("australian", 1.0, 29), "credit-g": ("credit_g", 1.0, 14), "diabetes": ("diabetes", 1 / 10, 5),
    "dna": ("dna", 1 / 150, 125), "german": ("credit_g_german", 1 / 50, 41), "kr-vs-kp": ("kr_vs_kp", 1 / 100, 25),
    "svmguide3": ("svmguide3", 1.0, 15),
}  # fmt: skip
"""The set, 1/c of section 6.2, and d2 of Table 1."""
KINDS = {"fesl_c": "FESL-c", "fesl_s": "FESL-s"}
OVERLAP, RUNS, REUTERS = 10, 10, (21_531, 24_892)


def after_switch(stream: Any, algorithm: str, seed: int, **given: Any) -> Any:
    """Losses of a model on the rows after its change of features: (n/2,)."""
    half, life = len(stream.y) // 2, Life(stream, algorithm, seed, **given)
    life.feed(0, half - OVERLAP)
    life.begin()
    life.feed(half - OVERLAP, half)
    life.complete()
    return life.feed(half, len(stream.y))


def _streams(known: tuple[str, float, int], size: Size) -> tuple[list[Any], dict[str, Any]]:
    ours, step, width = known
    X, y = standardised(ours)
    streams = [mapped(X, y, width, np.random.default_rng(seed)) for seed in range(min(RUNS, size.runs))]
    return streams, {"variant": "paper", "learning_rate": step, "horizon": len(y) - len(y) // 2}


def _table2(known: tuple[str, float, int], kind: str, size: Size) -> Measured:
    streams, paper = _streams(known, size)
    forms = [
        tuple(float(100 - 100 * after_switch(one, kind, seed, **given).mean()) for seed, one in enumerate(streams))
        for given in (paper, {})
    ]
    later = [one.y[len(one.y) // 2 :] for one in streams]
    auto = float(100 - 100 * after_switch(streams[0], "auto", 0).mean())
    return Measured(forms[0], mean(forms[1]), auto, mean(map(no_change, later)), mean(map(majority, later)))


def table2() -> Table:
    """Accuracy after a change of features."""
    title = "FESL, Table 2: accuracy after a change of features"
    note = "The paper's B is 5 or 10, it does not say which; it calls its deviations variances."
    return quoted_table("fesl2", title, "% right", KINDS, _table2, SETS, note)


def _sparse(size: int, rng: np.random.Generator) -> Spaces:
    """Generated articles about two topics out of twenty, seen in two languages; a class is half of the topics.

    A topic has 300 words in each language; an article has a fifth of them, each with a Poisson count.
    """
    topics = rng.permuted(np.tile(np.arange(20), (size, 1)), axis=1)[:, :2]
    spaces = []
    for width in REUTERS:
        X = np.zeros((size, width))
        words = rng.integers(0, width, (20, 300))
        for row, pair in zip(X, topics, strict=True):
            drawn = words[pair][rng.random((2, 300)) < 0.2]
            np.add.at(row, drawn, 1.0 + rng.poisson(1.0, len(drawn)))
        spaces.append(np.log1p(X))
    return spaces_of(*spaces, (topics[:, 0] % 2).astype(np.int64))


def _reuters(size: Size) -> Measured:
    """Both variants at the size of the sets, on generated sparse rows, and the memory of the mapping."""
    rows, runs = 400, min(2, size.runs)
    forms, streams = [], [_sparse(rows, np.random.default_rng(seed)) for seed in range(runs)]
    for given in ({"variant": "paper", "horizon": rows // 2}, {}):
        lives = [after_switch(one, "fesl_c", seed, **given) for seed, one in enumerate(streams)]
        forms.append(tuple(float(100 - 100 * losses.mean()) for losses in lives))
    later = [one.y[rows // 2 :] for one in streams]
    whole, factors = (8 * numbers for numbers in (REUTERS[0] * REUTERS[1], OVERLAP * sum(REUTERS)))
    note = (
        f"Generated sparse rows, {rows} a run. The mapping is kept in factors of {factors / 1e6:.1f} MB; as one matrix "
        f"it would take {whole / 1e9:.1f} GB."
    )
    return Measured(forms[0], mean(forms[1]), None, mean(map(no_change, later)), mean(map(majority, later)), note)


def table3() -> Table:
    """The Reuters sets, none of which is available, and generated rows of their size."""
    size = Row("generated, 21 531 x 24 892", "fesl_c", None, _reuters)
    table = quoted_table("fesl3", "FESL, Table 3: Reuters", "% right", KINDS, _table2, {})
    return table._replace(rows=[*table.rows, size])


def _table4(name: str, mapping: str, size: Size) -> Measured:
    streams, paper = _streams(SETS[name], size)
    forms = [
        tuple(
            float(after_switch(one, "fesl_c", k, mapping=mapping, **given).mean() * 100)
            for k, one in enumerate(streams)
        )
        for given in (paper, {})
    ]
    return Measured(forms[0], mean(forms[1]), float(after_switch(streams[0], "auto", 0).mean() * 100))


def table4() -> Table:
    """Linear and kernel mapping; the paper's two sets are not available, so others show the effect of the mapping."""
    rows = [
        Row(f"{name}, {mapping}", "fesl_c", None, partial(_table4, name, mapping))
        for name in ("australian", "svmguide3")
        for mapping in ("linear", "kernel")
    ]
    note = "Losses of the paper's sets are squared errors; ours, which have no figure in the paper, are per cent wrong."
    table = quoted_table("fesl4", "FESL, Table 4: mappings", "loss", KINDS, _table2, {}, note)
    return table._replace(points=False, rows=[*table.rows, *rows])


TABLES: dict[str, Callable[[], Table]] = {"fesl2": table2, "fesl3": table3, "fesl4": table4}
