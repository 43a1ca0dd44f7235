"""Rows per second of CPU time that a peer learns one by one, each predicted first: PEER ROWS.json SECONDS.

It runs in the environment of the peer, and imports that peer, numpy and the standard library.
"""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

Row = dict[str, Any]
Model = tuple[str, Callable[[Any], None], list[Any]]
"""A learner's name, what it does with a row, and the rows in its form."""


def river(rows: list[Row]) -> Iterator[Model]:
    """Logistic regression on standardised rows."""
    from river import linear_model, preprocessing

    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()

    def step(row: tuple[Row, bool]) -> None:
        model.predict_proba_one(row[0])
        model.learn_one(*row)

    yield "logistic regression", step, [(row["features"], row["label"] == "UP") for row in rows]


def vowpalwabbit(rows: list[Row]) -> Iterator[Model]:
    """Logistic loss; rows are lines of text."""
    from vowpalwabbit import Workspace

    workspace = Workspace("--loss_function logistic --link logistic --quiet")

    def step(text: str) -> None:
        workspace.predict(text)
        workspace.learn(text)

    def line(row: Row) -> str:
        features = " ".join(f"{name}:{value}" for name, value in row["features"].items())
        return f"{1 if row['label'] == 'UP' else -1} |f {features}"

    yield "logistic regression", step, [line(row) for row in rows]


def capymoa(rows: list[Row]) -> Iterator[Model]:
    """Two learners of the Java machine, whose own threads count."""
    import numpy as np
    from capymoa.classifier import HoeffdingTree, NaiveBayes
    from capymoa.stream import NumpyStream

    X = np.array([list(row["features"].values()) for row in rows])
    stream = NumpyStream(X, np.array([int(row["label"] == "UP") for row in rows]))
    instances = [stream.next_instance() for _ in rows]
    for name, kind in (("naive Bayes", NaiveBayes), ("tree", HoeffdingTree)):
        model = kind(schema=stream.get_schema())

        def step(instance: Any, model: Any = model) -> None:
            model.predict(instance)
            model.train(instance)

        yield name, step, instances


def rate(step: Callable[[Any], None], rows: list[Any], seconds: float) -> float:
    """Rows a second of CPU time; half a second before counts as warming up."""
    begin, end, learned = process_time(), perf_counter() + 0.5, 0
    for row in cycle(rows):
        step(row)
        learned += 1
        if perf_counter() > end:
            if not seconds:
                break
            begin, end, learned, seconds = process_time(), perf_counter() + seconds, 0, 0.0
    return learned / (process_time() - begin)


peer, path, seconds = sys.argv[1:]
models = {"river": river, "vowpalwabbit": vowpalwabbit, "capymoa": capymoa}[peer](json.loads(Path(path).read_text()))
print(json.dumps({name: rate(step, rows, float(seconds)) for name, step, rows in models}))
