"""MLServer with one logistic regression of scikit-learn: PORT FOLDER. It becomes the server."""

import json
import os
import sys
from pathlib import Path

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression

port, folder = int(sys.argv[1]), Path(sys.argv[2])
X = np.random.default_rng(1).normal(size=(1000, 10))
joblib.dump(LogisticRegression().fit(X, X.sum(axis=1) > 0), folder / "model.joblib")
settings = {
    "host": "127.0.0.1", "http_port": port, "grpc_port": port + 1, "metrics_port": port + 2, "parallel_workers": 0,
    "debug": False,
}  # fmt: skip
(folder / "settings.json").write_text(json.dumps(settings))
model = {"name": "m0", "implementation": "mlserver_sklearn.SKLearnModel", "parameters": {"uri": "./model.joblib"}}
(folder / "model-settings.json").write_text(json.dumps(model))
for told in (1, 2):  # it tells of every step, there
    os.dup2(os.open(os.devnull, os.O_WRONLY), told)
program = str(Path(sys.executable).parent / "mlserver")
os.execv(program, [program, "start", str(folder)])
