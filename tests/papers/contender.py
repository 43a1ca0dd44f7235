"""Per cent right of another program's methods on a stream: PROGRAM STREAM.npz, with X (n, d), classes y (n,).

It runs in the environment of the program, and imports that, numpy and the standard library. Each row is predicted, then
learned; columns come as the tables have them.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

SLOW_ROWS_MAX = 10_000  # river's forest learns some 100 rows a second


def river(X: Any, y: Any) -> Iterator[tuple[str, float]]:
    """A tree that adapts, and where there are not many rows a forest of ten."""
    from river import forest, tree

    methods = {"HAT": tree.HoeffdingAdaptiveTreeClassifier(seed=1)}
    if len(y) <= SLOW_ROWS_MAX:
        methods["ARF(10)"] = forest.ARFClassifier(n_models=10, seed=1)
    rows, names = X.tolist(), [*range(X.shape[1])]
    for name, model in methods.items():
        hits = 0
        for row, label in zip(rows, y.tolist(), strict=True):
            features = dict(zip(names, row, strict=True))
            hits += model.predict_one(features) == label
            model.learn_one(features, label)
        yield name, 100.0 * hits / len(y)


def capymoa(X: Any, y: Any) -> Iterator[tuple[str, float]]:
    """The same tree in the Java machine, and a forest of a hundred."""
    from capymoa.classifier import AdaptiveRandomForestClassifier, HoeffdingAdaptiveTree
    from capymoa.evaluation import prequential_evaluation
    from capymoa.stream import NumpyStream

    stream = NumpyStream(X, y)
    schema = stream.get_schema()
    for name, model in (
        ("HAT", HoeffdingAdaptiveTree(schema=schema)),
        ("ARF(100)", AdaptiveRandomForestClassifier(schema=schema, ensemble_size=100)),
    ):
        stream.restart()
        yield name, float(prequential_evaluation(stream, model, window_size=1000).cumulative.accuracy())


program, path = sys.argv[1:]
given = np.load(path)
print(json.dumps(dict({"river": river, "capymoa": capymoa}[program](given["X"], given["y"]))))
