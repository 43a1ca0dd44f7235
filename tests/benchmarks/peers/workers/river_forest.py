"""A forest of river on a stream, each row predicted first: STREAM.npz MODEL SECONDS.

STREAM.npz holds rows X (n, d) and labels y (n,). MODEL: ARFClassifier, SRPClassifier, ARFRegressor. Where the seconds
of processor time are over first, the figures are of the rows until then.
"""

import json
import math
import sys
from time import process_time

import numpy as np
from river import ensemble, forest

MODELS = {
    "ARFClassifier": lambda: forest.ARFClassifier(n_models=10, seed=1),
    "SRPClassifier": lambda: ensemble.SRPClassifier(n_models=10, seed=1),
    "ARFRegressor": lambda: forest.ARFRegressor(n_models=10, seed=1),
}
LEAST = 1e-6

stream = np.load(sys.argv[1])
model, seconds_max = MODELS[sys.argv[2]](), float(sys.argv[3])
names = [f"x{column}" for column in range(stream["X"].shape[1])]
rows, score, loss, begin = 0, 0.0, 0.0, process_time()
for values, label in zip(stream["X"].tolist(), stream["y"].tolist(), strict=True):
    row = dict(zip(names, values, strict=True))
    if "Regressor" in sys.argv[2]:
        score += (model.predict_one(row) - label) ** 2
    else:
        p = model.predict_proba_one(row)
        score += bool(p) and max(p, key=p.get) == label
        loss -= math.log(min(max(p.get(label, 0.0), LEAST), 1.0))
    model.learn_one(row, label)
    rows += 1
    if process_time() - begin > seconds_max:
        break
print(
    json.dumps({"rows": rows, "score": score / rows, "log_loss": loss / rows, "rate": rows / (process_time() - begin)})
)
