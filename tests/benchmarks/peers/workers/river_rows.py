"""Rows per second of CPU time that river learns one by one, each predicted first: ROWS.json SECONDS."""

import json
import sys
from itertools import cycle
from pathlib import Path
from time import perf_counter, process_time

from river import linear_model, preprocessing

rows = [(row["features"], row["label"] == "UP") for row in json.loads(Path(sys.argv[1]).read_text())]
model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
learned, begin, end = 0, process_time(), perf_counter() + float(sys.argv[2])
for features, label in cycle(rows):
    model.predict_proba_one(features)
    model.learn_one(features, label)
    learned += 1
    if perf_counter() > end:
        break
print(json.dumps({"logistic regression": learned / (process_time() - begin)}))
