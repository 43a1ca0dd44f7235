"""Rows per second of CPU time that Vowpal Wabbit learns one by one, each predicted first: ROWS.json SECONDS."""

import json
import sys
from itertools import cycle
from pathlib import Path
from time import perf_counter, process_time

import vowpalwabbit


def line(row: dict) -> str:
    """A row in Vowpal Wabbit's text format."""
    features = " ".join(f"{name}:{value}" for name, value in row["features"].items())
    return f"{1 if row['label'] == 'UP' else -1} |f {features}"


lines = [line(row) for row in json.loads(Path(sys.argv[1]).read_text())]
workspace = vowpalwabbit.Workspace("--loss_function logistic --link logistic --quiet")
learned, begin, end = 0, process_time(), perf_counter() + float(sys.argv[2])
for text in cycle(lines):
    workspace.predict(text)
    workspace.learn(text)
    learned += 1
    if perf_counter() > end:
        break
print(json.dumps({"logistic regression": learned / (process_time() - begin)}))
