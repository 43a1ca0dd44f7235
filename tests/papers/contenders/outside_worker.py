"""Per cent right of another program's method on a stream: PROGRAM METHOD STREAM.npz, with X (n, d), classes y (n,).

It runs in the environment of the program and only imports the program, numpy and the standard library. Each row is
predicted, then learned; columns are not preprocessed.
"""

import json
import sys
from typing import Any

import numpy as np


def river(method: str, X: Any, y: Any) -> float:
    """An adaptive tree, a forest of ten of them, or an aggregated Mondrian forest of ten."""
    from river import forest, tree

    model = {
        "HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
        "ARF(10)": lambda: forest.ARFClassifier(n_models=10, seed=1),
        "AMF(10)": lambda: forest.AMFClassifier(n_estimators=10, seed=1),
    }[method]()
    names, hits = [*range(X.shape[1])], 0
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        features = dict(zip(names, row, strict=True))
        hits += model.predict_one(features) == label
        model.learn_one(features, label)
    return 100.0 * hits / len(y)


def capymoa(method: str, X: Any, y: Any) -> float:
    """The same tree in Java; a forest, random patches or boosted trees, each with a hundred members."""
    from capymoa import classifier
    from capymoa.evaluation import prequential_evaluation
    from capymoa.stream import NumpyStream

    name, size = {
        "HAT": ("HoeffdingAdaptiveTree", {}),
        "ARF(100)": ("AdaptiveRandomForestClassifier", {"ensemble_size": 100}),
        "SRP(100)": ("StreamingRandomPatches", {"ensemble_size": 100}),
        "SGBT(100)": ("StreamingGradientBoostedTrees", {"boosting_iterations": 100}),
    }[method]
    stream = NumpyStream(X, y)
    model = getattr(classifier, name)(schema=stream.get_schema(), **size)
    return float(prequential_evaluation(stream, model, window_size=1000).cumulative.accuracy())


program, method, path = sys.argv[1:]
given = np.load(path)
print(json.dumps({"river": river, "capymoa": capymoa}[program](method, given["X"], given["y"])))
