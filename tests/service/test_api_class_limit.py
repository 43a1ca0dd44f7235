"""The model limit holds where classes appear by themselves as it does where they are declared."""

from tests.service.api_fixtures import features, problem

NAMES = [f"x{at}" for at in range(60)]
VIGO = {"algorithm": "vigo", "task": "classification", "features": NAMES}
"""A matrix per class."""
MANY = 40


def row(label, at=0):
    """A row of so many columns."""
    return {"features": {name: features(at + column)["a"] for column, name in enumerate(NAMES)}, "label": label}


def batch(labels):
    """A table of rows with these labels."""
    rows = [[*row(None, at)["features"].values()] for at in range(len(labels))]
    return {"columns": NAMES, "data": rows, "labels": labels}


async def most_declared(small):
    """How many classes may be declared at most."""
    for classes in range(2, MANY):
        answer = await small.ask("PUT", f"/models/of-{classes}", json={**VIGO, "labels": [*range(classes)]})
        if answer.status_code != 201:
            problem(answer, 422, "features")
            return classes - 1
    return MANY


async def test_the_class_that_would_pass_the_limit_is_refused(start):
    """As many classes are learned one by one as may be declared; then new ones are refused, and known ones learned."""
    small = await start(model_limit_mb=1)
    path, most = await small.new(VIGO), await most_declared(small)
    assert 5 < most < 20
    for label in range(most):
        await small.post(f"{path}/feedback", row(label, label))
    found = await small.refuses(f"{path}/feedback", 422, "label", json=row(most))
    assert "<= 1 MiB of state" == found["errors"][0]["allowed"]
    await small.refuses(f"{path}/feedback/batch", 422, "labels[2]", json=batch([0, 1, most, most + 1, 0]))
    assert 2 == len((await small.post(f"{path}/feedback/batch", batch([0, most - 1])))["predictions"])
    assert most + 3 == (await small.post(f"{path}/feedback", row(most - 1)))["rows"]
    assert [*range(most)] == (await small.get(path))["info"]["labels"]
    told = await small.post(f"{path}/predict", {"features": row(0)["features"], "track": True})
    label = {"prediction_id": told["prediction_id"], "label": most}
    await small.refuses(f"{path}/feedback", 422, "label", json=label)
    await small.post(f"{path}/feedback", {**label, "label": 0})


async def test_the_classes_of_a_first_batch_are_counted(start):
    """The columns it proposes and the classes it brings are reckoned together."""
    small = await start(model_limit_mb=1)
    path = await small.new(VIGO, features=None)
    await small.refuses(f"{path}/feedback/batch", 422, "labels[0]", json=batch([*range(MANY)]))
    assert 2 == (await small.post(f"{path}/feedback/batch", batch([0, 1])))["rows"]


async def test_known_labels_are_not_reckoned_again(start, monkeypatch):
    """Only a new class costs the question whether it fits."""
    small = await start(model_limit_mb=1)
    path, models, asked = await small.new(VIGO), small.engine.models, []
    monkeypatch.setattr(models, "admit", lambda demand: asked.append((demand.field, demand.what)))
    for label in (0, 0, 1, 0, 1):
        await small.post(f"{path}/feedback", row(label))
    await small.post(f"{path}/feedback/batch", batch([0, 1, 2, 3, 1]))
    assert ["label", "label", "labels[2]"] == [field for field, _ in asked]
    assert ["with 1", "with 2", "with 4"] == [what.split("; ")[1][:6] for _, what in asked]
