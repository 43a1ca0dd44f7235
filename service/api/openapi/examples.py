"""The request bodies of /openapi.json: one story from creating ``demo`` to deleting it, beside it ``mail``.

``mail`` is a model of named sparse rows; what is an example for it says so in its summary.
"""

from typing import Any, NamedTuple


class Example(NamedTuple):
    """A body that works where it stands in the story."""

    summary: str
    value: Any


ROW = {"load": 0.31, "price": 0.056}
ROWS = {"columns": ["load", "price"], "data": [[0.31, 0.056], [0.44, 0.061]]}
DEMO = {"algorithm": "dfop", "task": "classification", "features": ["load", "price"], "labels": ["UP", "DOWN"]}
FULL = {
    **DEMO,
    "params": {"forgetting_rate": 0.01, "scaling": "standard"},
    "features": [
        {"name": "load", "min": 0, "max": 1},
        "price",
        {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]},
    ],
    "missing": "mean",
    "seed": 1137,
    "watch": {"class_mean": {"delta": 0.01, "batch_size": 500}, "error_rate": {}},
    "on_drift": "forget",
}
SPARSE_ROWS = [{"names": ["cheap", "pills"], "values": [1, 2]}, {"names": ["meeting"], "values": [1]}]
OF_SPARSE = "Named sparse rows, of a model like mail"
BODY: dict[str, tuple[tuple[str, ...], dict[str, Example]]] = {
    "PUT /models/{name}": (
        ("ModelBody",),
        {
            "demo": Example("Two classes; the rest of the story goes with this one", DEMO),
            "regression": Example("Least of all: a number to predict", {"algorithm": "rls", "task": "regression"}),
            "full": Example("With parameters, drift tests and what an alarm does", FULL),
            "vigod": Example("A learner that tests for drift itself", {"algorithm": "vigod", "features": ["load"]}),
            "mail": Example("Named sparse rows; call it mail", {"algorithm": "sparse_dfop", "task": "classification"}),
        },
    ),
    "POST /models/{name}/predict": (
        ("PredictRow",),
        {
            "row": Example("One row", {"features": ROW}),
            "tracked": Example("Kept until its label comes, and explained", {"features": ROW, "track": True}),
            "mail": Example(OF_SPARSE, {"features": {"cheap": 1, "pills": 2}}),
        },
    ),
    "POST /models/{name}/feedback": (
        ("FeedbackRow",),
        {
            "row": Example(
                "One row; sent again it is a duplicate", {"features": ROW, "label": "UP", "id": "order-1137"}
            ),
            "bare": Example("Without an id: learned each time", {"features": {**ROW, "load": 0.44}, "label": "DOWN"}),
            "mail": Example(OF_SPARSE, {"features": {"cheap": 1, "pills": 2}, "label": "spam"}),
        },
    ),
    "POST /models/{name}/predict/batch": (
        ("PredictColumns", "PredictSparse"),
        {
            "columns": Example("By column", ROWS),
            "mail": Example(OF_SPARSE, {"rows": SPARSE_ROWS}),
        },
    ),
    "POST /models/{name}/feedback/batch": (
        ("FeedbackColumns", "FeedbackSparse"),
        {
            "columns": Example("By column", {**ROWS, "labels": ["UP", "DOWN"]}),
            "mail": Example(OF_SPARSE, {"rows": SPARSE_ROWS, "labels": ["spam", "ham"]}),
        },
    ),
    "POST /models/{name}/restore": (
        ("RestoreTo",),
        {"first": Example("A version of GET .../snapshots", {"version": 0})},
    ),
    "POST /models/{name}/features/switch": (
        ("SwitchBody",),
        {
            "begin": Example(
                "begin: load stays, price goes, wind comes", {"action": "begin", "features": ["load", "wind"]}
            ),
            "abort": Example("abort: back, as if nothing had been", {"action": "abort"}),
            "complete": Example("complete: only the new features from now on", {"action": "complete"}),
        },
    ),
    "POST /models/{name}/features/overlap": (
        ("OverlapBody",),
        {
            "row": Example("One row, after begin and before complete", {"features": {**ROW, "wind": 4.2}}),
            "columns": Example(
                "Several", {"columns": ["load", "price", "wind"], "data": [[0.31, 0.056, 4.2], [0.44, 0.061, 3.7]]}
            ),
        },
    ),
}
"""Schemas and JSON examples of each route; ``mail`` is for the model of that name."""
SVMLIGHT = (
    "# only for models of named sparse rows (sparse_dfop), as the example mail of PUT makes one\n"
    "spam cheap:1 pills:2\n"
    "ham meeting:1\n"
)
SVMLIGHT_ROUTES = ("POST /models/{name}/predict/batch", "POST /models/{name}/feedback/batch")
TABLES = {
    "POST /models/{name}/predict/batch": "load,price\n0.31,0.056\n0.44,0.061\n",
    "POST /models/{name}/feedback/batch": "load,price,class\n0.31,0.056,UP\n0.44,0.061,DOWN\n",
    "POST /models/{name}/features/overlap": "load,price,wind\n0.31,0.056,4.2\n0.44,0.061,3.7\n",
}
COLUMN = {"label": "class"}
"""Which column of the CSV example is what."""
NPY = {
    "POST /models/{name}/predict/batch": "features in the order of the model",
    "POST /models/{name}/feedback/batch": "features in the order of the model, the label (a number) last",
    "POST /models/{name}/features/overlap": "old features in their order, then the new names",
}
"""What the columns of an array are."""
