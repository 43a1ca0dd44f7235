"""What a new user with a rare class does, by curl: frauds are missed, until missing them costs more."""

from tests.benchmarks.streams.generators import fraud
from tests.service.curl import curl, needs_curl

pytestmark = needs_curl
PIECE = 4000


def learned(url, name, **more):
    """The scores of a model that has learned the stream."""
    X, y = fraud()
    columns = [f"x{column}" for column in range(X.shape[1])]
    body = {"algorithm": "dfop", "task": "classification", "features": columns, "labels": ["ok", "fraud"], **more}
    assert 201 == curl(url, f"/models/{name}", body, "PUT")[0]
    status, first = curl(url, f"/models/{name}/predict", {"features": dict.fromkeys(columns, 0.0)})
    assert (200, {"ok": 0.5, "fraud": 0.5}) == (status, first["probabilities"])
    for start in range(0, len(y), PIECE):
        part = slice(start, start + PIECE)
        labels = ["fraud" if positive else "ok" for positive in y[part]]
        rows = {"columns": columns, "data": X[part].tolist(), "labels": labels}
        assert 200 == curl(url, f"/models/{name}/feedback/batch", rows)[0]
    return curl(url, f"/models/{name}/metrics", method="GET")[1]["overall"]


def test_one_line_of_the_configuration_finds_half_of_the_frauds(url):
    """Recall near 0 without it, .5 and more with it, at three times the precision of chance; by the metrics."""
    plain = learned(url, "fraud-plain")["per_class"]["fraud"]
    assert plain["recall"] < 0.1
    costly = learned(url, "fraud-costly", class_costs={"fraud": 40})
    found = costly["per_class"]["fraud"]
    assert found["recall"] >= 0.5
    assert found["precision"] >= 0.05
    assert costly["ece"] < 0.03


def test_costs_that_cannot_be_are_named(url):
    """A label that is not declared; a regression; and what is wrong is said with its field."""
    body = {"algorithm": "dfop", "task": "classification", "features": ["a"], "labels": ["ok", "fraud"]}
    for more, field in (
        ({"class_costs": {"theft": 5}}, "class_costs.theft"),
        ({"class_costs": {"fraud": 0}}, "class_costs.fraud"),
        ({"task": "regression", "labels": None, "class_costs": {"fraud": 5}}, "class_costs"),
    ):
        status, refused = curl(url, "/models/refused", {**body, **more}, "PUT")
        assert (422, field) == (status, refused["errors"][0]["field"])
