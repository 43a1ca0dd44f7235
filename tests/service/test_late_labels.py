"""Labels that come late, over HTTP: model and baselines are judged by what was said when the prediction was served."""

import pytest

from tests.service.api_fixtures import features

LATE = 8


def label_of(row):
    return "UP" if features(row)["a"] > 0 else "DOWN"


async def test_labels_that_come_late_are_scored_by_what_was_served(api):
    """Every label comes eight rows late; accuracy and baselines are those of a list kept by hand."""
    path = await api.new(labels=["UP", "DOWN"], watch=None)
    told, known, come, losses = [], [], [], []
    for row in range(40 + LATE):
        if row < 40:
            told.append(await api.post(f"{path}/predict", {"features": features(row), "track": True}))
            known.append(len(come))
        if row >= LATE:
            late = row - LATE
            body = {"prediction_id": told[late]["prediction_id"], "label": label_of(late)}
            answer = await api.post(f"{path}/feedback", body)
            assert told[late]["prediction"] == answer["prediction"]
            losses.append(answer["loss"])
            come.append(label_of(late))
    found = await api.get(f"{path}/metrics")
    scored = [row for row in range(40) if told[row]["prediction"] is not None]
    assert [
        None if row not in scored else float(told[row]["prediction"] != label_of(row)) for row in range(40)
    ] == losses
    assert 40 - len(scored) == found["unscored"]
    right = [losses[row] == 0.0 for row in scored]
    assert sum(right) / len(scored) == pytest.approx(found["overall"]["accuracy"])
    repeated = [["UP", *come[: known[row]]][-1] == label_of(row) for row in scored]
    assert sum(repeated) / len(scored) == pytest.approx(found["baselines"]["no_change"]["accuracy"])
