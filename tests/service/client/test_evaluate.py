"""``onepass evaluate``: files that are scored and not learned; a model outside beside one that learns."""

import json
import re

import httpx
import pytest

from service.client.replay.commands import combined
from tests.service.client.fixtures import stream


@pytest.mark.parametrize("regression", [False, True])
def test_a_file_is_scored_and_not_learned(replay, shell, url, tmp_path, regression):
    """In one request or in several: what is a mean over rows is the same."""
    file, name = stream(tmp_path / "holdout.csv", 100, regression), f"scored-{regression}".lower()
    assert 0 == replay(stream(tmp_path / "taught.csv", 230, regression), "--name", name)[0]
    before = httpx.get(f"{url}/models/{name}").json()
    told = [shell("evaluate", file, "--label", "y", "--model", name, "--batch", size, "--json") for size in (999, 30)]
    whole, parts = (json.loads(out) for _, out, _ in told)
    assert [0, 0] == [status for status, *_ in told]
    assert "commas between cells" in told[0][2]
    assert [100, 100] == [whole["rows"], parts["rows"]]
    shared = parts["metrics"].keys()
    assert shared == ({"mse", "mae", "bias", "rows"} if regression else {"accuracy", "log_loss", "rows", "unscored"})
    assert {key: pytest.approx(whole["metrics"][key]) for key in shared} == parts["metrics"]
    assert before == httpx.get(f"{url}/models/{name}").json()
    shown = shell("evaluate", file, "--label", "y", "--model", name)[1]
    assert f"{name}, version {before['version']}: 100 rows scored, none learned" in shown


def test_a_model_outside_is_scored_beside_it(replay, shell, tmp_path):
    """What it predicted stands in a column: its figures beside the model's; replay says which of the two is better."""
    file = tmp_path / "served.csv"
    lines = [f"{at % 9},{'UP' if at % 9 > 4 else 'DOWN'},{'UP' if at % 2 else 'DOWN'}" for at in range(900)]
    file.write_text("\n".join(["x,y,theirs", *lines]) + "\n")
    status, out, _ = replay(file, "--served", "theirs", "--name", "beside")
    assert 0 == status
    assert "Onepass is better with 95% confidence since row" in out
    assert "your model 50" in out
    out = replay(file, "--served", "theirs", "--name", "priced", "--cost", "UP=40")[1]
    assert re.search(r"your model 50.*%; yours costs [1-9].* a row more; Onepass is better with 95% confidence", out)
    told = [
        json.loads(shell("evaluate", file, "--label", "y", "--served", "theirs", "--model", "beside", *more)[1])
        for more in (["--json"], ["--json", "--batch", "500"])
    ]
    shares = [one["metrics"]["served"]["accuracy"] for one in told]
    assert [pytest.approx(0.5, abs=0.01)] * 2 == shares
    assert told[0]["metrics"]["accuracy"] > 0.9
    assert "served accuracy" in shell("evaluate", file, "--label", "y", "--served", "theirs", "--model", "beside")[1]


def test_rows_without_a_prediction_do_not_weigh():
    """A part whose rows are all unscored has no accuracy, and takes nothing from that of the others."""
    parts = [(2, 2, None), (4, 1, 2 / 3), (2, 0, 0.5)]
    metrics = [
        {"rows": rows, "unscored": unscored, "accuracy": accuracy, "kappa": 1} for rows, unscored, accuracy in parts
    ]
    assert {"rows": 8, "unscored": 3, "accuracy": pytest.approx(3 / 5)} == combined(metrics)
    assert metrics[1] == combined(metrics[1:2])


@pytest.mark.parametrize("labels", [[True, False], ["True", "False"], None])
def test_labels_as_pandas_writes_booleans(replay, shell, url, tmp_path, labels):
    """They are those of a model with boolean labels; the labels of a model that has these texts stay texts."""
    file, name = tmp_path / "pandas.csv", f"pandas-{labels and type(labels[0]).__name__}"
    file.write_text("x,flag,y\n" + "".join(f"{at % 7},{at % 2 == 1},{at % 7 > 3}\n" for at in range(60)))
    body = {"task": "classification", "algorithm": "dfop", "labels": labels}
    body["features"] = ["x", {"name": "flag", "type": "boolean"}]
    assert 201 == httpx.put(f"{url}/models/{name}", json=body).status_code
    assert (0, "") == replay(file, "--name", name)[::2]
    assert (0, "") == shell("evaluate", file, "--label", "y", "--model", name)[::2]
    found = httpx.get(f"{url}/models/{name}").json()
    assert (60, labels or ["False", "True"]) == (found["rows"], found["config"]["labels"] or found["info"]["labels"])
