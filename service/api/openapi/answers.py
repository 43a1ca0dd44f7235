"""The answers of /openapi.json: what each means, and one as the service gives it."""

from typing import Any, NamedTuple

from core.learners.catalogue import ALGORITHMS


class Answer(NamedTuple):
    """A success: its status, what has happened, the schema's name and an example (None: there is none)."""

    status: int
    says: str
    schema: str | None
    example: Any


_SCORES = {"accuracy": 0.84, "kappa": 0.66, "kappa_temporal": 0.12, "log_loss": 0.41}
_METRICS: dict[str, Any] = {
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
_STAND: dict[str, Any] = {"version": 18, "incarnation": "5f3a9c0d1e2b4a68"}
_SPACES = {
    "phase": "overlap",
    "current": ["load", "price"],
    "next": ["load", "wind"],
    "overlap_rows": 0,
    "mapping_error": None,
    "ensemble": None,
    **_STAND,
}
_WATCHED = {"delta": 0.05, "batch_size": 200}
_TIMES = {"created": "2026-01-31T11:20:00.000Z", "updated": "2026-01-31T12:00:00.000Z"}
_MODEL = {
    "name": "demo",
    "incarnation": _STAND["incarnation"],
    "config": {
        "algorithm": "dfop",
        "task": "classification",
        "params": {"forgetting_rate": "auto", "initial_variance": 1000.0, "bias": True, "scaling": "none"},
        "features": ["load", "price"],
        "labels": ["UP", "DOWN"],
        "missing": "error",
        "seed": 0,
        "watch": {"class_mean": _WATCHED, "error_rate": _WATCHED},
        "on_drift": "report",
    },
    "version": 18,
    "rows": 18,
    "phase": "steady",
    "metrics": {name: _METRICS[name] for name in ("overall", "window", "fading", "baselines", "history", "marks")}
    | {"rows": 18},
    "info": {"features": ["load", "price"], "labels": ["UP", "DOWN"], "state_bytes": 15356, **_METRICS["learner"]},
    **_TIMES,
}
_NO_SCORE = dict.fromkeys(_SCORES)
_NEW = _MODEL | {
    "version": 0,
    "rows": 0,
    "metrics": {
        "rows": 0,
        "overall": _NO_SCORE,
        "window": {"size": 1000, **_NO_SCORE},
        "fading": {"factor": 0.999, **_NO_SCORE},
        "baselines": {"no_change": {"accuracy": None}, "majority": {"accuracy": None}},
        "history": [],
        "marks": [],
    },
    "info": {"features": ["load", "price"], "labels": [], "state_bytes": 15068, **_METRICS["learner"], "rows": 0},
    "updated": _TIMES["created"],
}
_SNAPSHOT = {"version": 18, "rows": 18, "bytes": 6096, "time": _TIMES["updated"]}
_SUMMARY = {
    "name": "demo",
    "algorithm": "dfop",
    "task": "classification",
    "version": 18,
    "rows": 18,
    "score": 0.83,
    "phase": "steady",
}
_PENDING = {"prediction_id": "1U_YueguCgy6HMQRlrBf", "prediction": "UP", "version": 18}
_READY = {"ready": True, "store": "up", "durability": "everysec", "lag": 0, "checks": {"store": True, "tasks": True}}
_LEARNT = {"duplicate": False, "learned": True, "durability": "everysec", **_STAND}
_TAUGHT = {"overlap_rows": 1, "rows": 18, "duplicate": False, "duplicates": 0, "durability": "everysec", **_STAND}
_PROMETHEUS = (
    "# TYPE onepass_requests_total counter\n"
    'onepass_requests_total{method="POST",route="/models/{name}/feedback",status="200"} 18.0\n'
)
ANSWER: dict[str, Answer] = {
    "GET /healthz": Answer(200, "The process answers", None, {"alive": True}),
    "GET /readyz": Answer(200, "It takes traffic", "Ready", _READY),
    "GET /metrics": Answer(200, "Prometheus' text format", None, _PROMETHEUS),
    "GET /algorithms": Answer(
        200,
        "Every algorithm, with the JSON Schema of its params",
        "AlgorithmList",
        {"algorithms": [ALGORITHMS["rls"].describe()]},
    ),
    "GET /models": Answer(200, "A page, in order of the names", "ModelList", {"models": [_SUMMARY], "next": None}),
    "PUT /models/{name}": Answer(201, "It did not exist and was created; its configuration is complete", "Model", _NEW),
    "GET /models/{name}": Answer(200, "Configuration, metrics, and what the learner says of itself", "Model", _MODEL),
    "DELETE /models/{name}": Answer(204, "It is gone, with its log, snapshots and ids", None, None),
    "POST /models/{name}/predict": Answer(
        200,
        "What the model says; nothing has changed",
        "Predicted",
        {"prediction": "UP", "probabilities": {"UP": 0.83, "DOWN": 0.17}, **_STAND},
    ),
    "POST /models/{name}/feedback": Answer(
        200,
        "The row is in the log and learned; `prediction` is what was said before",
        "Learnt",
        {"prediction": "UP", "loss": 0.0, "rows": 18, **_LEARNT},
    ),
    "POST /models/{name}/predict/batch": Answer(
        200,
        "In the order of the rows; nothing has changed",
        "PredictedBatch",
        {
            "predictions": ["UP", "DOWN"],
            "classes": ["UP", "DOWN"],
            "probabilities": [[0.83, 0.17], [0.31, 0.69]],
            **_STAND,
        },
    ),
    "POST /models/{name}/feedback/batch": Answer(
        200,
        "All rows are in the log and learned, in their order",
        "LearntBatch",
        {
            "predictions": ["UP", "UP"],
            "losses": [0.0, 1.0],
            "rows": 20,
            "metrics": {"rows": 2, "accuracy": 0.5, "kappa": 0.0, "log_loss": 0.7},
            "duplicates": 0,
            **_LEARNT,
        },
    ),
    "GET /models/{name}/metrics": Answer(200, "Scores beside their baselines", None, _METRICS),
    "GET /models/{name}/drift": Answer(
        200, "A page of its events", "ModelDriftList", {"events": [_DRIFT], "next": None, **_STAND, "version": 1204}
    ),
    "GET /drift": Answer(200, "A page of events", "DriftList", {"events": [_DRIFT], "next": None}),
    "GET /drift/stream": Answer(200, "Events for as long as the client stays", None, _STREAM),
    "GET /models/{name}/weights": Answer(
        200,
        "One set of weights per class; of a regression one, named `value`",
        "WeightsAnswer",
        {
            "weights": {"UP": {"load": 0.4, "price": -1.2}, "DOWN": {"load": -0.4, "price": 1.2}},
            "bias": {"UP": 0.1, "DOWN": -0.1},
            **_STAND,
        },
    ),
    "GET /models/{name}/features": Answer(200, "The phase, and the features in force", "FeatureSpaces", _SPACES),
    "POST /models/{name}/features/switch": Answer(
        200,
        "The step is in the log; this is where the model stands after it",
        "SwitchedSpaces",
        {**_SPACES, "rows": 18, "duplicate": False, "durability": "everysec"},
    ),
    "POST /models/{name}/features/overlap": Answer(200, "The rows have taught the mapping", "Taught", _TAUGHT),
    "GET /models/{name}/pending": Answer(
        200,
        "A page of them, and how many have expired without a label",
        "PendingList",
        {
            "pending": [{**_PENDING, "expires": "2026-02-01T12:00:00.000Z"}],
            "expired": 0,
            "next": None,
            "incarnation": _STAND["incarnation"],
        },
    ),
    "POST /models/{name}/reset": Answer(
        200, "It is as new; the version went on", "Replaced", {"name": "demo", "rows": 0, **_STAND}
    ),
    "GET /models/{name}/snapshots": Answer(
        200,
        "The kept ones, newest first",
        "SnapshotList",
        {"snapshots": [_SNAPSHOT], "incarnation": _STAND["incarnation"]},
    ),
    "POST /models/{name}/snapshots": Answer(201, "It is written; this is its version", "SnapshotEntry", _SNAPSHOT),
    "POST /models/{name}/restore": Answer(
        200, "The snapshot's state is in force; the version went on", "Replaced", {"name": "demo", "rows": 18, **_STAND}
    ),
    "GET /models/{name}/state": Answer(200, "A safetensors file", None, None),
    "PUT /models/{name}/state": Answer(
        200, "The model has the state; the version went on", "Replaced", {"name": "demo", "rows": 18, **_STAND}
    ),
}
PROBLEM = {
    "type": "urn:onepass:problem:invalid",
    "title": "Unprocessable Entity",
    "status": 422,
    "detail": "features.price: is missing",
    "errors": [{"field": "features.price", "problem": "is missing", "allowed": None}],
}
