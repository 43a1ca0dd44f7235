"""The request bodies of /openapi.json: the story of ``demo``, from creating to deleting it, and ``mail``.

``mail`` is a model of named sparse rows; the summaries of its examples mention it. Every example works at its place in
the story. The first examples of all routes also work if each is executed once, in the order of /docs; the version to
restore is the one that the model has at that point.
"""

from typing import Any

from fastapi.openapi.models import Example

ROW = {"load": 0.31, "price": 0.056}
ROWS = {"columns": ["load", "price"], "data": [[0.31, 0.056], [0.44, 0.061]]}
DEMO = {"algorithm": "dfop", "task": "classification", "features": ["load", "price"], "labels": ["UP", "DOWN"]}
FULL = {
    **DEMO,
    "params": {"forgetting_rate": 0.01, "scaling": "standard"},
    "features": [
        {"name": "load", "min": 0, "max": 1, "outside": "clip"},
        "price",
        {"name": "day", "categories": ["mon", "tue", "wed"]},
        {"name": "plant", "type": "categorical", "buckets": 64},
        {"name": "holiday", "type": "boolean"},
        {"name": "sent", "type": "time"},
    ],
    "missing": "mean",
    "unknown": "other",
    "ignore": ["note"],
    "seed": 1137,
    "lags": 2,
    "watch": {
        "class_mean": {"delta": 0.01, "batch_size": 500},
        "error_rate": {},
        "episode_rows": 2000,
        "cooldown_rows": 10_000,
        "unlabelled": True,
    },
    "on_drift": "forget",
    "class_costs": {"DOWN": 3},
    "labels_due": {"after_s": 86400, "then": "drop"},
    "metrics": {"window": 500, "fading": 0.99},
    "description": "predicts the price of the next half hour",
    "tags": {"team": "pricing"},
}
SPARSE_ROWS = [{"names": ["cheap", "pills"], "values": [1, 2]}, {"names": ["meeting"], "values": [1]}]
OF_SPARSE = "Named sparse rows, for a model like mail"


def _examples(**shown: tuple[str, Any]) -> dict[str, Example]:
    return {name: Example(summary=summary, value=value) for name, (summary, value) in shown.items()}


MODELS = _examples(
    demo=("Two classes; the later examples use this model", DEMO),
    regression=("The shortest: predict a number with the default algorithm", {"task": "regression"}),
    full=("All kinds of features, parameters, drift tests and the response to alarms", FULL),
    vigod=("A learner that tests for drift itself", {"algorithm": "vigod", "features": ["load"]}),
    mail=("Named sparse rows; name it mail", {"algorithm": "sparse_dfop", "task": "classification"}),
)
CHANGES = _examples(
    drift=("Alarms reset the learner from now on; a note says why", {"on_drift": "reset", "description": "since May"}),
    tests=(
        "Another drift test; null restores a default",
        {"watch": {"error_rate": {"delta": 0.01}}, "description": None},
    ),
    tags=("Tags to find it by", {"tags": {"team": "pricing"}}),
    labels=("A third class", {"add_labels": ["SAME"]}),
    retired=("A class has vanished", {"retire_labels": ["SAME"]}),
)
CHALLENGERS = _examples(
    candidate=("Compare another algorithm", {"algorithm": "vigod"}),
    automatic=("Promoted automatically once it is proven to be better", {"algorithm": "vigod", "promote": "auto"}),
)
PROMOTIONS = _examples(forced=("Promote it even if it is not proven to be better", {"force": True}))
PREDICT = _examples(
    row=("One row", {"features": ROW}),
    tracked=("Kept until its label arrives", {"features": ROW, "track": True}),
    mail=(OF_SPARSE, {"features": {"cheap": 1, "pills": 2}}),
)
INFER = _examples(
    matrix=(
        "Two rows of numbers",
        {"inputs": [{"name": "features", "datatype": "FP64", "shape": [2, 2], "data": [0.31, 0.056, 0.44, 0.061]}]},
    ),
    tracked=(
        "One input per feature; kept until its label arrives",
        {
            "parameters": {"track": True},
            "inputs": [
                {"name": "load", "datatype": "FP32", "shape": [1], "data": [0.31]},
                {"name": "price", "datatype": "FP32", "shape": [1], "data": [0.056]},
            ],
            "outputs": [{"name": "prediction"}],
        },
    ),
)
FEEDBACK = _examples(
    row=("One row; the second time it is a duplicate", {"features": ROW, "label": "UP", "id": "order-1137"}),
    bare=("Without an id: learned each time", {"features": {**ROW, "load": 0.44}, "label": "DOWN"}),
    mail=(OF_SPARSE, {"features": {"cheap": 1, "pills": 2}, "label": "spam"}),
)
OTHER_ROW = {**ROW, "load": 0.44}
PREDICT_BATCH = _examples(
    columns=("By column", ROWS),
    records=("By name; the bare list works as well", {"rows": [{"features": ROW}, {"features": OTHER_ROW}]}),
    mail=(OF_SPARSE, {"rows": SPARSE_ROWS}),
)
FEEDBACK_BATCH = _examples(
    columns=("By column", {**ROWS, "labels": ["UP", "DOWN"]}),
    records=(
        "By name",
        [
            {"features": ROW, "label": "UP", "id": "order-1140"},
            {"features": OTHER_ROW, "label": "DOWN", "id": "order-1141"},
        ],
    ),
    mail=(OF_SPARSE, {"rows": SPARSE_ROWS, "labels": ["spam", "ham"]}),
)
RESTORE = _examples(
    version=(
        "The snapshot taken above if each example ran once; otherwise a version from GET .../snapshots",
        {"version": 7},
    )
)
NO_FIELDS = _examples(none=("Nothing, as without a body", {}))
COPY = _examples(copy=("A copy under another name", {"name": "demo-2"}))
SWITCHES = _examples(
    begin=("begin: keep load, replace price by wind", {"action": "begin", "features": ["load", "wind"]}),
    abort=("abort: go back and drop the overlap", {"action": "abort"}),
    complete=("complete: only the new features from now on", {"action": "complete", "force": True}),
)
OVERLAP = _examples(
    row=("One row, after begin and before complete", {"features": {**ROW, "wind": 4.2}}),
    columns=("Several", {"columns": ["load", "price", "wind"], "data": [[0.31, 0.056, 4.2], [0.44, 0.061, 3.7]]}),
    records=("Several, by name", {"rows": [{"features": {**ROW, "wind": 4.2}}, {"features": {**ROW, "wind": 3.7}}]}),
)
OVERLAP_LINES = (
    '{"features":{"load":0.31,"price":0.056,"wind":4.2}}\n{"features":{"load":0.44,"price":0.061,"wind":3.7}}\n'
)
FEEDBACK_LINES = (
    '{"features":{"load":0.31,"price":0.056},"label":"UP","id":"order-1138"}\n'
    '{"features":{"load":0.44,"price":0.061},"label":"DOWN","id":"order-1139"}\n'
)
PREDICT_LINES = '{"features":{"load":0.31,"price":0.056}}\n{"features":{"load":0.44,"price":0.061}}\n'
PREDICT_CSV = "load,price\n0.31,0.056\n0.44,0.061\n"
FEEDBACK_CSV = "load,price,class\n0.31,0.056,UP\n0.44,0.061,DOWN\n"
OVERLAP_CSV = "load,price,wind\n0.31,0.056,4.2\n0.44,0.061,3.7\n"
SVMLIGHT = (
    "# only for models of named sparse rows (sparse_dfop), such as the one of the example mail of PUT\n"
    "spam cheap:1 pills:2\n"
    "ham meeting:1\n"
)
