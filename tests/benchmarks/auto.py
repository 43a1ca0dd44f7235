"""`auto` beside every other algorithm and river's forests: ``python -m tests.benchmarks.auto``.

Mean a-priori accuracy in per cent, of ``Model``, over the first rows of every stream; beside it no-change, majority,
the best of all other algorithms with their defaults (picked per stream in hindsight), and river's ARFClassifier of ten
trees, which is installed into an environment of its own when it is first asked for. For numbers: squared error over the
variance of the labels, last value, ``dfop``, and ARFRegressor.

`auto` was made on the streams of MADE_ON, and its design was fixed before the others were looked at, stream by stream.

    --rows N        rows of each stream (5000)
    --streams a,b   some of them
    --half made|held  one half
    --no-river      without the forests
    --srp           SRPClassifier, too (slow)
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from core.config import Config
from core.contract import Floats
from core.entry import Entry, Rows
from core.learners.catalogue import ALGORITHMS
from core.model import Model, read
from core.model.apply import apply
from core.numerics.linalg import single_threaded
from tests.benchmarks import generators, streams
from tests.benchmarks.peers.__main__ import RIVER
from tests.benchmarks.peers.environments import Unavailable
from tests.benchmarks.series import ROWS as SERIES_ROWS
from tests.benchmarks.series import streams as series

BLOCK, FOREST_SECONDS = 500, 60.0
SIZES = ("small", "medium", "large")
SINGLES = [one.id for one in ALGORITHMS.values() if one.id != "auto" and not one.sparse]
Stream = tuple[Floats, Any]


def _papers(name: str, rows: int) -> Stream:
    X, y = streams.classification(name)
    return X[:rows], y[:rows]


def _sea(rows: int) -> Stream:
    """All four stages, thinned out."""
    X, y = streams.classification("SEA")
    step = len(y) // rows
    return X[::step][:rows], y[::step][:rows]


def _static(name: str, rows: int) -> Stream:
    X, y = streams.multiclass(name)
    return X[:rows], y[:rows]


def _generated(make: Callable[..., Stream], rows: int, **settings: Any) -> Stream:
    return make(1, rows, **settings)


MADE_ON: dict[str, Callable[[int], Stream]] = {
    "SEA": _sea,
    **{name: partial(_papers, name) for name in ("GEARS_2C_2D", "electricity", "usenet1")},
    "letter": partial(_static, "static/letter"),
    "hyperplane": lambda rows: _generated(generators.hyperplane, rows, change=1e-3, columns=10),
    "rbf": partial(_generated, generators.rbf),
    "random tree": partial(_generated, generators.random_tree),
    "mixed kinds": partial(_generated, generators.mixed_kinds),
}
_SHUFFLED = (
    "static/magic static/skin_nonskin static/led7digit static/balance static/contraceptive static/dermatology "
    "static/ionosphere static/tic_tac_toe"
).split()
HELD: dict[str, Callable[[int], Stream]] = {
    **{
        name: partial(_papers, name)
        for name in ("1CDT", "2CDT", "1CHT", "UG_2C_2D", "weather_noaa", "powersupply", "luxembourg")
    },
    **{name.partition("/")[2]: partial(_static, name) for name in _SHUFFLED},
    "german": partial(_static, "fesl/credit_g_german"),
    "agrawal": partial(_generated, generators.agrawal),
    "led": partial(_generated, generators.led),
    "chess board": partial(_generated, generators.chess_board),
    "rbf fast": lambda rows: _generated(generators.rbf, rows, classes=2, speed=1e-3),
    "hyperplane-A": lambda rows: _generated(generators.hyperplane, rows, abrupt=True),
}


class Score(NamedTuple):
    """Of one model on one stream: accuracy in per cent or relative squared error, log loss, rows per second."""

    score: float
    log_loss: float
    rate: float


def learned(algorithm: str, X: Floats, y: Any, **params: Any) -> tuple[Score, dict[str, float]]:
    """A model on a stream, and the baselines."""
    task = "classification" if y.dtype.kind == "i" else "regression"
    body = {"algorithm": algorithm, "task": task, "params": params, "watch": None}
    machine = Model.first(Config.parse({**body, "features": [f"x{j}" for j in range(X.shape[1])]}))
    assert machine.prediction_schema is not None
    space, labels, begin = machine.prediction_schema.id, y.tolist(), time.process_time()
    for at in range(0, len(y), BLOCK):
        truth = y[at : at + BLOCK] if task == "regression" else labels[at : at + BLOCK]
        apply(machine, Entry(1 + at // BLOCK, 0, (Rows(space, None, X[at : at + BLOCK], truth),)))
    took, report = time.process_time() - begin, read.metrics_report(machine)
    overall = report["overall"]
    if task == "regression":
        return Score(overall["mse"] / float(y.var()), 0.0, len(y) / took), {}
    baselines = {name: 100 * report["baselines"][name]["accuracy"] for name in ("no_change", "majority")}
    return Score(100 * overall["accuracy"], overall["log_loss"], len(y) / took), baselines


def forest(model: str, X: Floats, y: Any) -> Score | None:
    """River's, or None where it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.npz"
        np.savez(path, X=X, y=y)
        try:
            told = RIVER.run("river_forest.py", str(path), model, str(FOREST_SECONDS), seconds_max=3 * FOREST_SECONDS)
        except Unavailable as error:
            print(f"{model}: {error}", file=sys.stderr)
            return None
    found = json.loads(told)
    scale = 1.0 / float(y.var()) if "Regressor" in model else 100.0
    return Score(scale * found["score"], found["log_loss"], found["rate"])


def line(name: str, X: Floats, y: Any, asked: argparse.Namespace) -> dict[str, Score]:
    """Print the line of one stream of classes."""
    found: dict[str, Score] = {}
    for size in SIZES:
        found[size], baselines = learned("auto", X, y, size=size)
    singles = {
        own: learned(own, X, y)[0]
        for own in SINGLES
        if "classification" in ALGORITHMS[own].tasks and not (own.startswith("vigo") and X.shape[1] > 64)
    }
    best = max(singles, key=lambda own: singles[own].score)
    found["best"] = singles[best]
    if not asked.no_river:
        for model in ("ARFClassifier", *(("SRPClassifier",) if asked.srp else ())):
            if (score := forest(model, X, y)) is not None:
                found[model] = score
    cells = [*baselines.values(), *(found[size].score for size in SIZES), found["best"].score]
    arf = found.get("ARFClassifier")
    print(
        f"{name:16}{len(y):6}{X.shape[1]:4}{int(y.max()) + 1:4}" + "".join(f"{cell:7.1f}" for cell in cells)
        + f" {best:12}" + (f"{arf.score:6.1f}{found['medium'].log_loss:7.3f}{arf.log_loss:7.3f}" if arf else "")
        + "".join(f"{found[size].rate / (arf.rate if arf else 1.0):8.0f}" for size in SIZES)
        + (f"{found['SRPClassifier'].score:6.1f}" if "SRPClassifier" in found else ""),
        flush=True,
    )  # fmt: skip
    return found


def summary(found: dict[str, dict[str, Score]]) -> None:
    """Print the means, the worst differences, and how many times as fast as the forest."""
    for size in SIZES:
        against = {
            other: {name: own[size].score - own[other].score for name, own in found.items() if other in own}
            for other in ("best", "ARFClassifier")
        }
        text = f"{size:7}{np.mean([own[size].score for own in found.values()]):6.2f}"
        for other, apart in against.items():
            if apart:
                worst = min(apart, key=lambda name: apart[name])
                text += f"   {np.mean([*apart.values()]):+.2f} to {other}, worst {apart[worst]:+.1f} ({worst})"
        forests = [own for own in found.values() if "ARFClassifier" in own]
        if forests:
            losses = [np.mean([own[name].log_loss for own in forests]) for name in (size, "ARFClassifier")]
            faster = [own[size].rate / own["ARFClassifier"].rate for own in forests]
            text += f"   log loss {losses[0]:.3f} / {losses[1]:.3f}   rows/s x {np.median(faster):.0f}"
        print(text, flush=True)


def numbers(asked: argparse.Namespace) -> None:
    """Print the table of regressions."""
    print(f"\n{'error / variance':20}{'last':>9}{'dfop':>9}" + "".join(f"{size:>9}" for size in SIZES) + f"{'ARF':>9}")
    for name, (whole, labels) in series():
        X, y = np.ascontiguousarray(whole[:SERIES_ROWS]), labels[:SERIES_ROWS]
        cells = [(np.diff(y) ** 2).mean() / y.var(), learned("dfop", X, y)[0].score]
        cells += [learned("auto", X, y, size=size)[0].score for size in SIZES]
        if not asked.no_river and (score := forest("ARFRegressor", X, y)) is not None:
            cells.append(score.score)
        print(f"{name:20}" + "".join(f"{cell:9.4f}" for cell in cells), flush=True)


def main() -> int:
    """Print the tables."""
    reader = argparse.ArgumentParser()
    reader.add_argument("--rows", type=int, default=5000)
    reader.add_argument("--streams", default="")
    reader.add_argument("--half", choices=("made", "held"))
    reader.add_argument("--no-river", action="store_true")
    reader.add_argument("--srp", action="store_true")
    asked = reader.parse_args()
    single_threaded()
    if not asked.no_river:
        RIVER.ready()
    halves = {"made": MADE_ON, "held": HELD}
    for half, own in halves.items():
        if asked.half not in {None, half}:
            continue
        heads = ("rows   d   K no-ch. major.  small medium  large   best", "ARF     ll  ARF's   x ARF's rows/s")
        print(f"\n{half:16}  {heads[0]}{'':14}{heads[1]}")
        found = {}
        for name, make in own.items():
            if not asked.streams or name in asked.streams.split(","):
                X, y = make(asked.rows)
                found[name] = line(name, np.ascontiguousarray(X), y, asked)
        summary(found)
    if not asked.streams and asked.half is None:
        numbers(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
