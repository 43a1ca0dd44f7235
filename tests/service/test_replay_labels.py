"""Labels of a file: costs of missing them, numbers, and rows that have none."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from service import cli
from service.replay import Failed, private
from service.replay.source import Source
from tests.service.client.fixtures import Shell
from tests.service.test_replay import stream

GAPS = "x,y\n1,\n2,UP\n3, \n4,DOWN\n5,NA\n6,UP\n"


def test_costs_change_what_is_said(tmp_path: Path, run: Callable, url: str) -> None:
    """They are in the configuration; the table tells what a row has cost, and a cost of no label."""
    file = tmp_path / "rare.csv"
    file.write_text("x,y\n" + "".join(f"{at % 7},{'fail' if at % 7 == 6 else 'ok'}\n" for at in range(210)))
    dear = ["--cost", "fail=20", "--cost", "Ok=2"]
    status, said, _ = run(file, "--algorithm", "rls", *dear, "--url", url)
    assert 0 == status
    model = httpx.get(f"{url}/models/rare").json()
    assert {"fail": 20, "Ok": 2} == model["config"]["class_costs"]
    costs = model["metrics"]["overall"]["costs"]
    assert f"cost a row: {costs['mean']:.4g}; {costs['constant']:.4g} with fail as the answer to all" in said
    assert "rls (cost of fail = 20, cost of Ok = 2)" in said
    assert "no row is labelled `Ok`, so its cost has had no effect; did you mean ok?" in said


def test_create_takes_costs_too(shell: Shell, url: str, tmp_path: Path) -> None:
    """Beside those of a file, which they change one by one; as a parameter they are refused with the flag."""
    (tmp_path / "body.json").write_text(json.dumps({"task": "classification", "class_costs": {"a": 2, "b": 3}}))
    assert 0 == shell("create", "dear", "--config", tmp_path / "body.json", "--cost", "b=4")[0]
    assert {"a": 2, "b": 4} == httpx.get(f"{url}/models/dear").json()["config"]["class_costs"]
    status, _, complained = shell("create", "dear", "--param", 'class_costs={"a":2}')
    assert (2, True) == (status, "is not a parameter of an algorithm: --cost LABEL=COST sets it" in complained)


def test_labels_that_are_numbers_are_taken_as_in_a_comparison(tmp_path: Path, run: Callable, url: str) -> None:
    """Any numbers are predicted as such, a few whole ones are classes; how, and how otherwise, is said."""
    options = ["--algorithm", "rls", "--drop", "day", "--url", url]
    status, said, _ = run(stream(tmp_path / "any.csv", regression=True), *options)
    assert (0, True) == (status, "column y: numbers, predicted as such (regression); --task classification" in said)
    assert "regression" == httpx.get(f"{url}/models/any").json()["config"]["task"]
    whole = tmp_path / "whole.csv"
    whole.write_text("x,y\n" + "".join(f"{at},{at % 3}\n" for at in range(9)))
    status, said, _ = run(whole, *options[:2], *options[4:])
    assert (0, True) == (status, "column y: whole numbers, taken as classes; --task regression" in said)
    assert [0, 1, 2] == httpx.get(f"{url}/models/whole").json()["info"]["labels"]


def test_a_model_that_is_there_says_the_task(tmp_path: Path, run: Callable, url: str) -> None:
    """Whole numbers are what a regression predicts, if the model is one."""
    file = tmp_path / "counts.csv"
    file.write_text("x,y\n1,2\n3,4\n")
    options = ["--algorithm", "rls", "--url", url]
    assert 0 == run(file, *options, "--task", "regression")[0]
    assert 0 == run(file, *options)[0]
    assert 4 == httpx.get(f"{url}/models/counts").json()["rows"]


def test_rows_without_a_label(tmp_path: Path, run: Callable, url: str) -> None:
    """They are refused with the flag that leaves them out; then their number is told, here and in JSON."""
    file = tmp_path / "gaps.csv"
    file.write_text(GAPS)
    options = ["--algorithm", "rls", "--url", url]
    assert "--skip-unlabelled" in run(file, *options, "--name", "strict")[2]
    status, said, complained = run(file, *options, "--skip-unlabelled", "--json")
    found = json.loads(said)
    assert (0, 4, 2) == (status, found["rows"], found["skipped"]), complained
    assert ["DOWN", "NA", "UP"] == sorted(found["metrics"]["overall"]["per_class"])
    assert "2 rows without a label left out" in run(file, *options, "--skip-unlabelled", "--name", "again")[1]


def test_a_comparison_leaves_them_out_too(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where labels are numbers, words for missing values as well."""
    monkeypatch.setattr(private, "service", lambda **_: nullcontext(url))
    file = tmp_path / "holes.csv"
    file.write_text("x,y\n1,\n2,0.5\n3,nan\n4,1.5\n5,NA\n6,2.5\n")
    options = ["--label", "y", "--algorithms", "rls,dfop", "--no-plot", "--skip-unlabelled"]
    assert 0 == cli.main(["compare", str(file), *options])
    said = capsys.readouterr().out
    assert "3 rows without a label left out" in said
    assert "regression" == httpx.get(f"{url}/models/holes").json()["config"]["task"]


def test_decimal_commas_are_told(tmp_path: Path, run: Callable, url: str) -> None:
    """They are strings to the service, and neither an id nor a reason to drop the column."""
    file = tmp_path / "european.csv"
    file.write_text("x;z;y\n" + "".join(f"{at},5;{at};{'ab'[at % 2]}\n" for at in range(30)))
    status, said, _ = run(file, "--sep", ";", "--algorithm", "rls", "--url", url)
    assert (0, False) == (status, "--drop" in said)
    assert "warning: decimal commas are not read: x would hold numbers if 0,5 were written 0.5" in said


def test_a_file_of_no_labels(tmp_path: Path) -> None:
    """It is said before a service is started."""
    file = tmp_path / "none.csv"
    file.write_text("x,y\n1,\n2,\n")
    with pytest.raises(Failed, match="none of its first 2 rows has a label in column 'y'"):
        Source(file).skip_unlabelled("y", None)
