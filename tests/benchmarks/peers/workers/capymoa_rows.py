"""Rows per second of CPU time that CapyMOA learns one by one, each predicted first: ROWS.json SECONDS."""

import json
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from capymoa.classifier import HoeffdingTree, NaiveBayes
from capymoa.stream import NumpyStream

rows = json.loads(Path(sys.argv[1]).read_text())
X = np.array([list(row["features"].values()) for row in rows])
stream = NumpyStream(X, np.array([int(row["label"] == "UP") for row in rows]))


def rate(kind: type, seconds: float) -> float:
    """Rows a second of CPU time, the Java machine's own threads included, of a new model of a kind."""
    model = kind(schema=stream.get_schema())
    learned, begin, end = 0, process_time(), perf_counter() + seconds
    while perf_counter() < end:
        if not stream.has_more_instances():
            stream.restart()
        instance = stream.next_instance()
        model.predict(instance)
        model.train(instance)
        learned += 1
    return learned / (process_time() - begin)


rate(NaiveBayes, 0.5)  # the Java machine compiles
print(
    json.dumps({"naive Bayes": rate(NaiveBayes, float(sys.argv[2])), "tree": rate(HoeffdingTree, float(sys.argv[2]))})
)
