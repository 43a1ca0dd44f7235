"""`auto` beside every other algorithm and two baselines, stream by stream: ``python -m tests.benchmarks.auto``.

Mean a-priori accuracy in per cent, of ``Model``, over the first rows of every stream, for the three sizes of `auto`;
beside it no-change, majority, and the best of all other algorithms with their defaults, picked per stream in hindsight.
For numbers: squared error over the variance of the labels, with the last value, ``dfop`` and ``ga2m`` beside it.

`auto` was made on the streams of MADE_ON, and its design was fixed before the others were looked at, stream by stream.
Streams whose files are not in PAPERS_DATA are named and left out. ``--contenders`` adds forests and boosted trees of
river and CapyMOA (Java) on the same rows, each installed when first asked for: an hour.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from core.config import Config
from core.contract import Floats
from core.entry import Entry, Rows
from core.learners.catalogue import ALGORITHMS
from core.model import Model, read
from core.model.apply import apply
from core.numerics.linalg import single_threaded
from tests.benchmarks.streams import generators
from tests.papers.contenders.outside import Method, contended
from tests.papers.sets import files

BLOCK, WIDE = 500, 64
SIZES = ("small", "medium", "large")
SINGLES = [one.id for one in ALGORITHMS.values() if one.id != "auto" and not one.sparse]
CONTENDERS: tuple[Method, ...] = (
    ("capymoa", "ARF(100)"), ("capymoa", "SRP(100)"), ("capymoa", "SGBT(100)"), ("river", "AMF(10)"),
)  # fmt: skip
Stream = tuple[Floats, Any]


def _thinned(rows: int) -> Stream:
    """All four stages of SEA."""
    X, y = files.drifting("SEA")
    step = max(1, len(y) // rows)
    return X[::step], y[::step]


def _each(read: Callable[[str], Stream], names: str, folder: str = "") -> dict[str, Callable[[int], Stream]]:
    return {name: lambda _, path=folder + name: read(path) for name in names.split()}


MADE_ON: dict[str, Callable[[int], Stream]] = {
    "SEA": _thinned,
    **_each(files.drifting, "GEARS_2C_2D electricity usenet1"),
    **_each(files.static, "letter", "static/"),
    "hyperplane": lambda rows: generators.hyperplane(1, rows, change=1e-3, columns=10),
    **{make.__name__: partial(make, 1) for make in (generators.rbf, generators.random_tree, generators.mixed_kinds)},
}
STATIC = "magic skin_nonskin led7digit balance contraceptive dermatology ionosphere tic_tac_toe"
HELD: dict[str, Callable[[int], Stream]] = {
    **_each(files.drifting, "1CDT 2CDT 1CHT UG_2C_2D weather_noaa powersupply luxembourg"),
    **_each(files.static, STATIC, "static/"),
    **_each(files.static, "credit_g_german", "fesl/"),
    **{make.__name__: partial(make, 1) for make in (generators.led, generators.chess_board)},
    "rbf fast": lambda rows: generators.rbf(1, rows, classes=2, speed=1e-3),
    "hyperplane-A": lambda rows: generators.hyperplane(1, rows, abrupt=True),
}

NUMBERS: dict[str, Callable[[int], Stream]] = {
    **{name: lambda _, name=name: files.regression(name) for name in ("sru y1", "sru y2", "price")},
    **{make.__name__: partial(make, 1) for make in (generators.friedman, generators.planes)},
    **{make.__name__: partial(make, 1) for make in (generators.stairs, generators.kinks)},
}


def learned(algorithm: str, X: Floats, y: Any, **params: Any) -> dict[str, float]:
    """What a model scores on a stream: per cent right and the baselines', or the relative squared error."""
    task = "classification" if y.dtype.kind == "i" else "regression"
    body = {"algorithm": algorithm, "task": task, "params": params, "watch": None}
    model = Model.first(Config.parse({**body, "features": [f"x{j}" for j in range(X.shape[1])]}))
    space, labels = model.prediction_schema.id, y if task == "regression" else y.tolist()
    for at in range(0, len(y), BLOCK):
        rows = Rows(space, None, np.ascontiguousarray(X[at : at + BLOCK]), labels[at : at + BLOCK])
        apply(model, Entry(1 + at // BLOCK, 0, (rows,)))
    report = read.metrics_report(model)
    if task == "regression":
        return {"score": report["overall"]["mse"] / float(y.var())}
    before = {name: 100 * report["baselines"][name]["accuracy"] for name in ("no_change", "majority")}
    return {"score": 100 * report["overall"]["accuracy"], **before}


def line(name: str, X: Floats, y: Any, asked: Sequence[Method]) -> dict[str, float]:
    """Print the line of one stream of classes; accuracies by size, of the best single one, and of contenders."""
    sizes = {size: learned("auto", X, y, size=size) for size in SIZES}
    singles = {
        own: learned(own, X, y)["score"]
        for own in SINGLES
        if "classification" in ALGORITHMS[own].tasks and not (own.startswith("vigo") and X.shape[1] > WIDE)
    }
    best = max(singles, key=lambda own: singles[own])
    before = [sizes["medium"][baseline] for baseline in ("no_change", "majority")]
    found = {**{size: sizes[size]["score"] for size in SIZES}, "best": singles[best]}
    others = {method: right for method, right, _ in contended(X, y, asked)}
    cells = "".join(f"{cell:9.1f}" for cell in (*before, *found.values()))
    print(f"{name:16}{len(y):6}{X.shape[1]:4}{int(y.max()) + 1:4}{cells}  {best}", flush=True)
    if others:
        print(f"{'':17}{', '.join(f'{method} {right:.1f}' for method, right in others.items())}", flush=True)
    return found | others


def summary(found: dict[str, dict[str, float]]) -> None:
    """Print the means and the worst differences."""
    for size in SIZES:
        apart = {name: own[size] - own["best"] for name, own in found.items()}
        worst = min(apart, key=lambda name: apart[name])
        mean, behind = np.mean([own[size] for own in found.values()]), np.mean([*apart.values()])
        print(f"{size:7}{mean:6.2f}   {behind:+.2f} to the best, worst {apart[worst]:+.1f} ({worst})", flush=True)
    methods = [f"{program} {method}" for program, method in CONTENDERS]
    for size, method in product(SIZES[1:], methods):
        if behind := {name: own[size] - own[method] for name, own in found.items() if method in own}:
            worst, ahead = min(behind, key=behind.__getitem__), sum(value > 0 for value in behind.values())
            mean = np.mean([*behind.values()])
            told = f"ahead on {ahead} of {len(behind)}, worst {behind[worst]:+.1f} ({worst})"
            print(f"{size:7}{mean:+6.2f} to {method}, {told}", flush=True)


def numbers(name: str, X: Floats, y: Floats) -> None:
    """Print the line of one regression."""
    cells = [(np.diff(y) ** 2).mean() / y.var(), *(learned(own, X, y)["score"] for own in ("dfop", "ga2m"))]
    cells += [learned("auto", X, y, size=size)["score"] for size in SIZES]
    print(f"{name:20}" + "".join(f"{cell:9.4f}" for cell in cells), flush=True)


def there(names: Iterable[str], make: Callable[[str], Stream]) -> Iterator[tuple[str, Floats, Any]]:
    """The streams whose files are there."""
    for name in names:
        try:
            yield name, *make(name)
        except FileNotFoundError as error:
            print(f"{name}: {error.filename} is not there", file=sys.stderr)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000, help="of each stream of classes")
    every = [*MADE_ON, *HELD, *NUMBERS]
    parser.add_argument("--streams", type=lambda text: text.split(","), default=every, help="some of them")
    parser.add_argument("--contenders", action="store_true", help="also run river and CapyMOA")
    given = parser.parse_args()
    single_threaded()
    for half, streams in {"made": MADE_ON, "held": HELD}.items():
        heads = "".join(f"{head:>9}" for head in ("no-change", "majority", *SIZES, "best"))
        print(f"\n{half:16}{'rows':>6}{'d':>4}{'K':>4}{heads}")
        asked = [name for name in streams if name in given.streams]
        wanted = there(asked, lambda name, streams=streams: streams[name](given.rows))
        beside = CONTENDERS if given.contenders else ()
        found = {name: line(name, X[: given.rows], y[: given.rows], beside) for name, X, y in wanted}
        if found:
            summary(found)
    print(f"\n{'error / variance':20}" + "".join(f"{head:>9}" for head in ("last", "dfop", "ga2m", *SIZES)))
    for stream in there(
        [name for name in NUMBERS if name in given.streams], lambda name: NUMBERS[name](2 * given.rows)
    ):
        numbers(*stream)


if __name__ == "__main__":
    main()
