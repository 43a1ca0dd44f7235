"""The commands that are clients: a service from a shell."""

import json
import math
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import httpx
import pytest

from service.client import display, models, options, rows
from service.client.display import ago
from tests.service.client.fixtures import Shell

README = Path(__file__).parents[3] / "README.md"


def test_a_model_from_a_shell(shell: Shell, url: str) -> None:
    """Created, taught, asked, shown, listed and deleted, without a line of JSON."""
    create = ["create", "kiln", "--task", "regression", "--algorithm", "dfop", "--param", "forgetting_rate=0.1"]
    for said in ("created", "exists already, as asked"):
        assert (0, f"kiln {said}: regression by dfop\n", "") == shell(*create)
    for at in [*range(8), 7]:
        status, said, _ = shell("feedback", "kiln", f"gas={at}", "air=1e1", "--label", 2 * at + 1, "--id", f"row-{at}")
        assert 0 == status
    assert "true" == said.split("duplicate")[1].split()[0]
    said = shell("predict", "kiln", "gas=7", "air=10", "--track")[1]
    assert 15.0 == pytest.approx(float(said.split()[1]), abs=0.5)
    tracked = said.split("prediction id")[1].strip()
    assert 0 == shell("feedback", "kiln", "--prediction-id", tracked, "--label", 15)[0]
    shown = " ".join(shell("show", "kiln")[1].split())
    for words in ("dfop, regression rows 9 ", "features gas, air", "rows the baseline predicted", "last value", "mse"):
        assert words in shown
    assert "kiln" in shell("models", "--sort", "worst", "--search", "KIL")[1]
    assert 0 == shell("create", "kiln-2", "--task", "regression")[0]
    assert 0 == shell("feedback", "kiln-2", "gas=1", "--label", 1)[0]
    assert "\nexperts, the 6 heaviest of 14\n" in shell("show", "kiln-2")[1]
    assert (2, 0) == (shell("delete", "kiln", stdin=b"")[0], shell("delete", "kiln", "kiln-2", "--yes")[0])
    assert 404 == httpx.get(f"{url}/models/kiln").status_code
    assert "no model's name contains kiln" in shell("models", "--search", "kiln")[1]


def test_a_terminal_that_lacks_characters(shell: Shell, url: str) -> None:
    """Lines of a table that its encoding lacks are spelt out."""
    shell("create", "plain", "--task", "regression")
    command = [sys.executable, "-m", "service.client", "models", "--search", "plain", "--url", url]
    finished = subprocess.run(command, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, text=True)
    assert (0, "") == (finished.returncode, finished.stderr)
    assert r"\u2500" in finished.stdout


def test_the_readme_s_commands(shell: Shell) -> None:
    """As they stand there, one after the other."""
    commands = re.findall(
        r"^    \.venv/bin/onepass ((?:create|feedback|predict|show) .*)$", README.read_text(), re.MULTILINE
    )
    assert ["create", "feedback", "predict", "show"] == [command.split()[0] for command in commands]
    assert [0, 0, 0, 0] == [shell(*command.split())[0] for command in commands]


LISTED = {"name": "m", "algorithm": "dfop", "task": "regression", "rows": 1234, "rows_per_s": 12.5, "score": 0.5}
LISTED |= {"baseline": 1.0, "phase": "steady", "drift": None, "challengers": 2, "ahead": 1}


@pytest.mark.parametrize(
    ("more", "scores"),
    [
        ({}, "mse 0.5|mse 1"),
        ({"score": 1e6, "paired_score": 0.5}, "mse 0.5|mse 1"),
        ({"task": "classification", "mean_cost": 0.16, "baseline_cost": 0.94}, "cost 0.16|cost 0.94"),
    ],
)
def test_the_list_tells_what_happens(more: dict, scores: str) -> None:
    """Score and baseline of the same rows, rows a second, drift, challengers and whether they are ahead."""
    time = (datetime.now(UTC) - timedelta(seconds=61)).isoformat()
    model = LISTED | {"drift": {"time": time}, "updated": time} | more
    assert f"m|dfop|1,234|12.5|{scores}|steady|1 min ago|2, 1 ahead|1 min ago" == "|".join(
        models._listed(model).values()
    )


def test_costs_are_shown(shell: Shell, url: str) -> None:
    """Of a model with class_costs: what a row has cost, beside the cheapest constant answer."""
    body = {"task": "classification", "algorithm": "rls", "labels": ["ok", "bad"], "class_costs": {"bad": 5}}
    httpx.put(f"{url}/models/judged", json=body).raise_for_status()
    httpx.put(f"{url}/models/judged/challengers/other", json={"algorithm": "dfop"}).raise_for_status()
    for at in range(4):
        shell("feedback", "judged", f"x={at}", "--label", ("ok", "bad")[at % 2])
    costs = httpx.get(f"{url}/models/judged/metrics").json()["overall"]["costs"]
    shown = shell("show", "judged")[1]
    assert f"cost per row: {costs['mean']:.4g}; {costs['constant']:.4g} with {costs['label']}" in shown
    assert "challengers\n  challenger  algorithm " in shown


@pytest.mark.parametrize(("width", "without"), [(200, 0), (80, 2), (62, 4), (10, 7)])
def test_a_narrow_terminal_goes_without_some_columns(width: int, without: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is whole, down to the columns that make the list."""
    monkeypatch.setattr(display, "width", lambda: width)
    listed = models._listed(LISTED | {"updated": "2026-01-31T00:00:00Z"})
    head = display.table([listed], models.SPARE).splitlines()[0]
    assert [*models.SPARE[:without]] == [name for name in models.SPARE if f" {name}" not in head]


def test_json_is_the_api_s_document(shell: Shell, url: str) -> None:
    """Byte for byte, as the same request gives it, but for the rate of that moment."""

    def still(document: str) -> str:
        return re.sub(r'"rows_per_s":[^,}]*', "", document)

    shell("create", "plain", "--task", "regression", "--features", "x")
    shell("feedback", "plain", "x=1", "--label", 2)
    for path, command in (
        ("/models/plain", ["show", "plain"]),
        ("/models?search=plain", ["models", "--search", "plain"]),
    ):
        assert still(httpx.get(url + path).text + "\n") == still(shell(*command, "--json")[1])
    asked = httpx.post(f"{url}/models/plain/predict", json={"features": {"x": 3}}).text
    assert asked + "\n" == shell("predict", "plain", "x=3", "--json")[1]
    assert asked + "\n" == shell("predict", "plain", "--json", "-", stdin={"features": {"x": 3}})[1]
    assert {"version", "rows"} <= json.loads(shell("feedback", "plain", "x=1", "--label", 2, "--json")[1]).keys()
    body = [{"features": {"x": at}, "label": at} for at in range(3)]
    assert 5 == json.loads(shell("feedback", "plain", "-", stdin=body)[1])["rows"]
    table = {"columns": ["x"], "data": [[1], [2], [3]]}
    assert 3 == len(json.loads(shell("predict", "plain", "-", stdin=table)[1])["predictions"])


def test_what_was_deleted_is_told_also_if_another_cannot_be(shell: Shell) -> None:
    """As JSON too, where the second model is not there."""
    shell("create", "gone", "--task", "regression")
    status, said, complained = shell("delete", "gone", "never-there", "--yes", "--json")
    assert (1, {"deleted": ["gone"]}, True) == (status, json.loads(said), "never-there" in complained)


def test_what_cannot_be_sent_is_said(shell: Shell, tmp_path: Path) -> None:
    """Numbers that JSON lacks, text that is not UTF-8, a name that is no file: in words, and nothing happens."""
    shell("create", "unsendable", "--task", "classification", "--features", "x", "--labels", "a,b")
    for stdin in ({"features": {"x": math.nan}}, {"features": {"x": math.inf}}):
        status, _, complained = shell("predict", "unsendable", "-", stdin=stdin)
        assert (1, True) == (status, "cannot be read as JSON" in complained)
    for arguments, code, said in (
        (("feedback", "unsendable", "x=1_0", "--label", "a"), 1, "features.x"),
        (("feedback", "unsendable", "x=1", "--label", "\udcff"), 2, "is not UTF-8"),
        (("feedback", "unsendable", "x=1", "--label", "a", "--weight", "nan"), 1, "weight"),
        (("predict", "unsendable", "x=1", "--interval", "inf"), 1, "interval"),
        (("export", "unsendable", "."), 1, "is not a file"),
        (("export", "unsendable", str(tmp_path)), 1, "directory"),
    ):
        status, _, complained = shell(*arguments)
        assert (code, True) == (status, said in complained.lower() or said in complained), arguments
    assert 0 == json.loads(shell("show", "unsendable", "--json")[1])["rows"]


def test_an_interval_of_nothing_is_refused(shell: Shell) -> None:
    """0 is a share that was given, not one that was left out."""
    shell("create", "bounded", "--task", "regression", "--features", "x")
    status, said, complained = shell("predict", "bounded", "x=1", "--interval", "0")
    assert (1, "", True) == (status, said, "interval" in complained)


def test_values_are_what_the_model_declares(shell: Shell, url: str) -> None:
    """The same text is a number, a string or a boolean, as the feature and the labels are declared."""
    features = "size,shop:categorical,new:boolean,at:time"
    assert 0 == shell("create", "mixed", "--task", "classification", "--features", features, "--labels", "0,1")[0]
    typed = ["size=12", "shop=12", "new=TRUE", "at=2026-01-31T12:00:00Z"]
    assert 0 == shell("feedback", "mixed", *typed, "--label", 1)[0]
    config = httpx.get(f"{url}/models/mixed").json()["config"]
    assert [0, 1] == config["labels"]
    assert "size" == config["features"][0]
    body = {"features": {"size": 12, "shop": "12", "new": True, "at": "2026-01-31T12:00:00Z"}}
    asked = httpx.post(f"{url}/models/mixed/predict", json=body).text
    assert asked + "\n" == shell("predict", "mixed", *typed, "--json")[1]
    status, _, complained = shell("predict", "mixed", "size=much", *typed[1:])
    assert 1 == status
    assert "features.size: is not a number" in complained


def test_a_configuration_from_a_file(shell: Shell, tmp_path: Path, url: str) -> None:
    """As JSON from a file or standard input; flags change it."""
    (tmp_path / "model.json").write_text(
        '{"task": "regression", "algorithm": "dfop", "params": {"forgetting_rate": 0.1}}'
    )
    assert 0 == shell("create", "filed", "--config", tmp_path / "model.json", "--param", "scaling=standard")[0]
    params = httpx.get(f"{url}/models/filed").json()["config"]["params"]
    assert (0.1, "standard") == (params["forgetting_rate"], params["scaling"])
    assert 0 == shell("create", "typed", "--config", "-", stdin={"task": "regression"})[0]
    for name, text in (("none", None), ("broken", "{"), ("list", "[]")):
        if text is not None:
            (tmp_path / name).write_text(text)
        assert 1 == shell("create", "never", "--config", tmp_path / name)[0]


def test_refusals_say_what_the_service_says(shell: Shell, url: str) -> None:
    """The sentence, a line for each field, and the page that explains it; status 1, and nothing on standard output."""
    status, said, complained = shell("show", "nobody")
    assert (1, "") == (status, said)
    assert complained.startswith("onepass show: there is no model nobody\n")
    assert f"  more: {url}/problems/" in complained
    shell("create", "strict", "--task", "classification", "--features", "a,b", "--labels", "UP,DOWN")
    assert re.search(r"^  name: is not a model \(.*\bstrict\b", shell("show", "nobody")[2], re.MULTILINE)
    status, _, complained = shell("feedback", "strict", "a=1", "c=2", "--label", "SIDE")
    assert 1 == status
    assert "  features.c: " in complained
    assert (2, "", "onepass feedback: a is given twice\n") == shell("feedback", "strict", "a=1", "a=2", "--label", "UP")
    shell("create", "truth", "--task", "classification", "--features", "a", "--labels", "true,false")
    assert "is not one of the declared labels (true, false)" in shell("feedback", "truth", "a=1", "--label", "no")[2]
    status, _, complained = shell("create", "strict", "--task", "regression", "--missing", "mean")
    assert 1 == status
    assert "  missing: differs from the model's value: PATCH changes it (error)" in complained
    assert "  task: differs from the model's value, and cannot be changed after creation: create ano" in complained


def test_what_is_not_declared_is_guessed() -> None:
    """As JSON has it, or as a shell's user writes a number; what JSON has no number for stays text."""
    given = ["1", "-2.5", "1e3", ".5", "+7", "true", "null", "nan", "inf", "1e999", "mon", ""]
    expected = [1, -2.5, 1000.0, 0.5, 7.0, True, None, "nan", "inf", "1e999", "mon", ""]
    assert repr(expected) == repr([*map(options.json_or_text, given)])


def test_declared_values() -> None:
    """Categories that are numbers, and missing ones."""
    number, boolean = {}, {"name": "b", "type": "boolean"}
    category = {"name": "c", "type": "categorical", "categories": [1, "two"]}
    for feature, texts, expected in (
        (number, ["1", ""], [1, None]),
        (category, ["1", "two", ""], [1, "two", ""]),
        (boolean, ["TRUE", ""], [True, None]),
    ):
        assert repr(expected) == repr([rows.typed_value(feature, text) for text in texts])


def test_labels() -> None:
    """A known label by its text, else what it looks like; a number where numbers are learned."""
    assert 1 == rows.typed_label("regression", [], "1")
    for known, given, expected in ((["1", "2"], "1", "1"), ([True, False], "true", True), ([], "1", 1)):
        assert repr(expected) == repr(rows.typed_label("classification", known, given))
    for given in ("UP", "1.5", "null"):
        assert given == rows.typed_label("classification", [], given)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-3, "now"), (0, "now"), (58, "58 s ago"), (7300, "2 h ago"), (200_000, "2 d ago")]
)
def test_how_long_ago(seconds: int, shown: str) -> None:
    """In the largest unit; a clock that is behind the service's is no matter."""
    assert shown == ago((datetime.now(UTC) - timedelta(seconds=seconds)).isoformat())


def test_an_empty_label_is_seen(shell: Shell, url: str) -> None:
    """Among the others, as on the pages."""
    httpx.put(f"{url}/models/blank", json={"task": "classification", "labels": ["", "x"]}).raise_for_status()
    assert "(empty), x" in shell("show", "blank")[1]


def test_what_a_terminal_would_obey_is_replaced(shell: Shell, url: str) -> None:
    """A description with escape sequences is shown without them."""
    httpx.put(f"{url}/models/sly", json={"task": "regression", "description": "\x1b[2Jgone [bold]x"}).raise_for_status()
    shown = shell("show", "sly")[1]
    assert "\x1b" not in shown
    assert "[2Jgone [bold]x" in shown


SIZES = {"name": "size", "type": "categorical", "categories": ["1,5", "2,5"]}
DAYS = {"name": "day", "type": "categorical", "categories": ["01.02.2026", "02.02.2026"]}
FOUND: dict[str, dict] = {
    "found-bare": {"task": "classification"},
    "found-costly": {"task": "classification", "algorithm": "rls", "missing": "mean", "class_costs": {"c1": 3}},
    "found-declared": {
        "task": "classification",
        "algorithm": "rls",
        "features": [SIZES, DAYS, "x"],
        "unknown": "error",
    },
}
"""Models that replay would create otherwise."""


@pytest.mark.parametrize("name", FOUND)
def test_a_model_that_is_there_goes_on_as_it_is(
    tmp_path: Path, replay: Shell, shell: Shell, url: str, name: str
) -> None:
    """Without options that say otherwise: the task is its own, its categories are the cells as they are."""
    httpx.put(f"{url}/models/{name}", json=FOUND[name]).raise_for_status()
    config, file = httpx.get(f"{url}/models/{name}").json()["config"], tmp_path / "found.csv"
    lines = [f"{one},5;0{one}.02.2026;{at % 7}.25;c{one}\n" for at, one in enumerate(Random(7).choices((1, 2), k=80))]
    file.write_text("size;day;x;y\n" + "".join(lines))
    status, said, complained = replay(file, "--name", name, "--plot", tmp_path / "chart.svg")
    assert (0, "") == (status, complained)
    assert f"found.csv: {config['algorithm']}\n" in said
    model = httpx.get(f"{url}/models/{name}").json()
    assert (80, config) == (model["rows"], model["config"])
    status, told, _ = shell("evaluate", file, "--label", "y", "--model", name, "--json")
    assert (0, True) == (status, json.loads(told)["metrics"]["accuracy"] > 0.9)
    status, _, complained = replay(file, "--name", name, "--algorithm", "dfop")
    assert (1, True) == (status, "exists with another configuration" in complained)
