"""The examples of /openapi.json: one story from creating ``demo`` to deleting it, and the forms of sparse rows."""

from typing import Any

ROW = {"load": 0.31, "price": 0.056}
DEMO = {"algorithm": "dfop", "task": "classification", "features": ["load", "price"], "labels": ["UP", "DOWN"]}
BODY: dict[str, tuple[str, Any]] = {
    "PUT /models/{name}": ("ModelBody", DEMO),
    "POST /models/{name}/predict": ("PredictRow", {"features": ROW}),
    "POST /models/{name}/feedback": ("FeedbackRow", {"features": ROW, "label": "UP", "id": "order-1137"}),
    "POST /models/{name}/predict/batch": (
        "PredictColumns",
        {"columns": ["load", "price"], "data": [[0.31, 0.056], [0.44, 0.061]]},
    ),
    "POST /models/{name}/feedback/batch": (
        "FeedbackColumns",
        {"columns": ["load", "price"], "data": [[0.31, 0.056], [0.44, 0.061]], "labels": ["UP", "DOWN"]},
    ),
    "POST /models/{name}/restore": ("RestoreTo", {"version": 0}),
    "POST /models/{name}/features/switch": ("SwitchBody", {"action": "begin", "features": ["load", "wind"]}),
    "POST /models/{name}/features/overlap": ("OverlapBody", {"features": {**ROW, "wind": 4.2}}),
}
SPARSE_ROWS = [{"names": ["cheap", "pills"], "values": [1, 2]}, {"names": ["meeting"], "values": [1]}]
SPARSE: dict[str, tuple[str, Any]] = {
    "POST /models/{name}/predict/batch": ("PredictSparse", {"rows": SPARSE_ROWS}),
    "POST /models/{name}/feedback/batch": ("FeedbackSparse", {"rows": SPARSE_ROWS, "labels": ["spam", "ham"]}),
}
"""What models of named sparse rows take instead."""
SVMLIGHT = "spam cheap:1 pills:2\nham meeting:1 # a comment\n"
TABLES = {
    "POST /models/{name}/predict/batch": "load,price\n0.31,0.056\n0.44,0.061\n",
    "POST /models/{name}/feedback/batch": "load,price,class\n0.31,0.056,UP\n0.44,0.061,DOWN\n",
    "POST /models/{name}/features/overlap": "load,price,wind\n0.31,0.056,4.2\n0.44,0.061,3.7\n",
}
_SCORES = {"accuracy": 0.84, "kappa": 0.66, "kappa_temporal": 0.12, "log_loss": 0.41}
_METRICS = {
    "rows": 1040,
    "overall": _SCORES,
    "window": {"size": 1000, **_SCORES},
    "fading": {"factor": 0.999, **_SCORES},
    "baselines": {"no_change": {"accuracy": 0.82}, "majority": {"accuracy": 0.58}},
    "history": [{"row": 1000, "accuracy": 0.84}],
    "marks": [],
    "learner": {"rows": 1040, "forgetting_rates": [0.0, 0.01, 0.1], "forgetting_weights": [0.1, 0.7, 0.2]},
    "version": 40,
    "incarnation": "5f3a9c0d1e2b4a68",
}
_DRIFT = {
    "id": "5f3a9c0d1e2b4a68-1204-0",
    "model": "demo",
    "time": "2026-01-31T12:00:00.000Z",
    "kind": "class_mean",
    "class": "UP",
    "version": 1204,
    "row": 1204,
    "features": [{"name": "price", "before": 0.056, "after": 0.081}],
    "before": None,
    "after": None,
    "epsilon_cut": 0.018,
    "windows": {"before": 900, "after": 300},
    "action": "report",
}
_STREAM = (
    'event: start\nid: 1769860800000-16\ndata: {"position":"1769860800000-16"}\n\n'
    'event: drift\nid: 1769860801234-17\ndata: {"id":"5f3a9c0d1e2b4a68-1204-0","model":"demo",...}\n\n'
)
_STAND = {"version": 18, "incarnation": "5f3a9c0d1e2b4a68"}
_SPACES = {
    "phase": "overlap",
    "current": ["load", "price"],
    "next": ["load", "wind"],
    "overlap_rows": 0,
    "mapping_error": None,
    "ensemble": None,
    **_STAND,
}
ANSWER: dict[str, tuple[int, str | None, Any]] = {
    "GET /healthz": (200, None, {"alive": True}),
    "GET /readyz": (
        200,
        "Ready",
        {"ready": True, "store": "up", "durability": "everysec", "lag": 0, "checks": {"store": True, "tasks": True}},
    ),
    "GET /metrics": (200, None, None),
    "GET /algorithms": (200, "AlgorithmList", None),
    "GET /models": (
        200,
        "ModelList",
        {
            "models": [
                {
                    "name": "demo",
                    "algorithm": "dfop",
                    "task": "classification",
                    "version": 18,
                    "rows": 18,
                    "score": 0.83,
                    "phase": "steady",
                }
            ],
            "next": None,
        },
    ),
    "PUT /models/{name}": (201, "Model", None),
    "GET /models/{name}": (200, "Model", None),
    "DELETE /models/{name}": (204, None, None),
    "POST /models/{name}/predict": (
        200,
        "Predicted",
        {"prediction": "UP", "probabilities": {"UP": 0.83, "DOWN": 0.17}, **_STAND},
    ),
    "POST /models/{name}/feedback": (
        200,
        "Learnt",
        {
            "prediction": "UP",
            "loss": 0.0,
            "rows": 18,
            "duplicate": False,
            "learned": True,
            "durability": "everysec",
            **_STAND,
        },
    ),
    "POST /models/{name}/predict/batch": (
        200,
        "PredictedBatch",
        {
            "predictions": ["UP", "DOWN"],
            "classes": ["UP", "DOWN"],
            "probabilities": [[0.83, 0.17], [0.31, 0.69]],
            **_STAND,
        },
    ),
    "POST /models/{name}/feedback/batch": (
        200,
        "LearntBatch",
        {
            "predictions": ["UP", "UP"],
            "losses": [0.0, 1.0],
            "rows": 20,
            "metrics": {"rows": 2, "accuracy": 0.5, "kappa": 0.0, "log_loss": 0.7},
            "duplicate": False,
            "duplicates": 0,
            "learned": True,
            "durability": "everysec",
            **_STAND,
        },
    ),
    "GET /models/{name}/metrics": (200, None, _METRICS),
    "GET /models/{name}/drift": (200, "ModelDriftList", {"events": [_DRIFT], "next": None, **_STAND, "version": 1204}),
    "GET /drift": (200, "DriftList", {"events": [_DRIFT], "next": None}),
    "GET /drift/stream": (200, None, _STREAM),
    "GET /models/{name}/weights": (
        200,
        "WeightsAnswer",
        {
            "weights": {"UP": {"load": 0.4, "price": -1.2}, "DOWN": {"load": -0.4, "price": 1.2}},
            "bias": {"UP": 0.1, "DOWN": -0.1},
            **_STAND,
        },
    ),
    "GET /models/{name}/features": (200, "FeatureSpaces", _SPACES),
    "POST /models/{name}/features/switch": (
        200,
        "SwitchedSpaces",
        {**_SPACES, "rows": 18, "duplicate": False, "durability": "everysec"},
    ),
    "POST /models/{name}/features/overlap": (
        200,
        "Taught",
        {"overlap_rows": 1, "rows": 18, "duplicate": False, "duplicates": 0, "durability": "everysec", **_STAND},
    ),
    "GET /models/{name}/pending": (200, "PendingList", None),
    "POST /models/{name}/reset": (200, "Replaced", {"name": "demo", "rows": 0, **_STAND}),
    "GET /models/{name}/snapshots": (200, "SnapshotList", None),
    "POST /models/{name}/snapshots": (201, "SnapshotEntry", None),
    "POST /models/{name}/restore": (200, "Replaced", {"name": "demo", "rows": 18, **_STAND}),
    "GET /models/{name}/state": (200, None, None),
    "PUT /models/{name}/state": (200, "Replaced", {"name": "demo", "rows": 18, **_STAND}),
}
PROBLEM = {
    "type": "urn:onepass:problem:invalid",
    "title": "Unprocessable Entity",
    "status": 422,
    "detail": "features.price: is missing",
    "errors": [{"field": "features.price", "problem": "is missing", "allowed": None}],
}
