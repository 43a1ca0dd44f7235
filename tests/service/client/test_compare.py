"""``onepass compare``: real files through a real service, several algorithms at once; and what the figures mean."""

import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest
from typer import BadParameter

from core.learners.catalogue import ALGORITHMS
from service.client import options
from service.client.replay import chart, report
from service.client.replay.commands import USUAL, entrants_of
from service.client.replay.file_pass import FileOptions
from service.client.replay.report import Entrant
from tests.service.client.fixtures import Shell, stream

ROWS = 230


def entrant(name: str, score: float | None, **params: object) -> Entrant:
    """One with few metrics."""
    overall = {"accuracy": score, "balanced_accuracy": score, "log_loss": 0.5, "per_class": {}}
    baselines = {"no_change": {"accuracy": 0.5, "balanced_accuracy": 0.5}, "majority": {"accuracy": 0.6}}
    window = {"size": 1000, "accuracy": score, "baselines": baselines}
    metrics = {"rows": 5, "overall": overall, "window": window, "baselines": baselines, "history": []}
    return Entrant(name, name, params, metrics)


def of_classes(name: str, score: float, recall: float, costs: dict | None = None, **supports: int) -> Entrant:
    """One whose last class is found so often, with costs if they are given."""
    one, last = entrant(name, score), [*supports][-1]
    one.metrics["overall"] |= {"costs": costs} if costs else {}
    one.metrics["overall"]["per_class"] = {
        label: {"support": rows, "recall": recall if label == last else 0.9, "precision": None}
        for label, rows in supports.items()
    }
    return one


@pytest.mark.slow
def test_each_does_as_it_does_alone(tmp_path: Path, compare: Shell, shell: Shell, url: str) -> None:
    """The result names the best; the request that creates it makes a model that a replay brings to the same score."""
    file = stream(tmp_path / "my stream.csv")
    asked = "rls,dfop:forgetting_rate=0.05:scaling=standard,dfop"
    status, said, _ = compare(file, "--algorithms", asked, "--drop", "day", "--json", "--batch", 50)
    result = json.loads(said)
    assert (0, ROWS, "classification") == (status, result["rows"], result["task"])
    lines = {line["name"]: line for line in result["algorithms"]}
    assert {"rls", "dfop", "dfop-2"} == {*lines}
    scores = [line["accuracy"] for line in result["algorithms"]]
    assert sorted(scores, reverse=True) == scores
    assert result["winner"] == result["algorithms"][0]["name"]
    assert ["rls"] == [name for name, line in lines.items() if line["difference"] is None]
    assert all(line["difference"]["rows"] > 0 for name, line in lines.items() if name != "rls")
    assert ET.parse(result["chart"]).getroot().tag.endswith("svg")
    create = result["create"]
    assert {"UP", "DOWN"} == {*create["body"]["labels"]}, "a mistyped label would be a class"
    assert 201 == httpx.put(f"{url}{create['path']}-2", json=create["body"]).status_code
    for name, line in lines.items():
        params = [f"--param={key}={json.dumps(value)}" for key, value in line.get("params", {}).items()]
        own = ["--label", "y", "--algorithm", line["algorithm"], *params, "--drop", "day", "--url", url]
        assert 0 == shell("replay", file, *own, "--name", f"alone-{name}", "--batch", "50")[0]
        alone = httpx.get(f"{url}/models/alone-{name}/metrics").json()
        assert alone["overall"] == line["metrics"]["overall"]


def test_lag_columns_are_for_all_of_them(tmp_path: Path, compare: Shell, url: str) -> None:
    """The order of the names decides nothing: each predicts from the last label, and so does what is created."""
    file, y = tmp_path / "lags.csv", 0.0
    rng, lines = random.Random(0), ["x,y"]
    for _ in range(200):
        x = rng.gauss(0, 1)
        y = 0.95 * y + rng.gauss(0, 0.1) + 0.2 * x
        lines.append(f"{x:.4f},{y:.5f}")
    file.write_text("\n".join(lines) + "\n")
    found = []
    for names in ("rls,dfop", "dfop,rls"):
        status, said, _ = compare(file, "--lags", 1, "--algorithms", names, "--no-plot", "--json")
        assert 0 == status
        found.append(json.loads(said))
        httpx.delete(f"{url}/models/lags").raise_for_status()
    one, other = ({line["name"]: line["mse"] for line in result["algorithms"]} for result in found)
    assert one == other
    assert max(one.values()) < 0.1
    assert {1} == {result["create"]["body"]["lags"] for result in found}


def test_a_model_outside_stays_beside_the_best(tmp_path: Path, compare: Shell, url: str) -> None:
    """Its figures do not depend on which algorithm wins; its line names the one that it is compared with."""
    file, rng = tmp_path / "beside.csv", random.Random(0)
    lines = [(at % 9, "UP" if at % 9 > 4 else "DOWN", rng.choice(["UP", "DOWN"])) for at in range(600)]
    file.write_text("\n".join(["x,y,theirs", *(",".join(map(str, line)) for line in lines)]) + "\n")
    for names in ("dfop,vigo", "vigo,dfop"):
        status, said, told = compare(file, "--served", "theirs", "--algorithms", names, "--no-plot", "--json")
        result = json.loads(said)
        assert (0, "vigo") == (status, result["winner"])
        assert {"no_change", "majority", "served"} == {*result["baselines"]}
        assert any(line.split()[:1] == ["served"] for line in told.splitlines())
        assert f", {names.partition(',')[0]} " in next(line for line in told.splitlines() if "your model " in line)
        httpx.delete(f"{url}/models/beside").raise_for_status()


def test_the_line_of_a_model_outside_has_the_errors_of_the_table(tmp_path: Path, compare: Shell) -> None:
    """Neither has the first row: it is predicted before anything is known, and here far off."""
    file = tmp_path / "far.csv"
    file.write_text("\n".join(["x,y,theirs", *(f"{at % 9},{1e5 + at % 9},{1e5 + at % 8}" for at in range(60))]) + "\n")
    options = ["--task", "regression", "--served", "theirs", "--algorithms", "rls,dfop", "--no-plot"]
    status, told, _ = compare(file, *options)
    table = next(line.split()[1] for line in told.splitlines() if line.split()[:1] == ["rls"])
    assert (0, True) == (status, f", rls {table};" in told)
    assert "errors leave out the first row, which last value cannot predict, except your model's\n" in told


def test_numbers_by_the_usual_algorithms(tmp_path: Path, compare: Shell) -> None:
    """Without algorithms the usual ones; any numbers are a regression; the table, and the last line to copy."""
    file = stream(tmp_path / "load.csv", regression=True)
    status, said, complained = compare(file, "--drop", "day", "--no-plot")
    assert (0, "") == (status, complained)
    assert [] == [*tmp_path.glob("*.svg")]
    table = said.replace("last value", "last_value").splitlines()
    first = next(at for at, line in enumerate(table) if "──" in line) + 1
    lines = [line.split() for line in table[first:] if line.startswith("  ")]
    expected = [one.algorithm for one in entrants_of(USUAL["regression"])]
    assert sorted([*expected, "last_value"]) == sorted(line[0].partition(":")[0] for line in lines)
    assert sorted(float(line[1]) for line in lines) == [float(line[1]) for line in lines]
    assert f"{lines[0][0]} was the best algorithm; this creates it:" in said
    assert "caps each squared error at 4 times the variance of the labels" in said
    last = said.rstrip().splitlines()[-1]
    assert last.startswith("curl -X PUT 127.0.0.1:8000/models/load --json '{")
    body = json.loads(last.partition(" --json ")[2].strip("'"))
    assert (lines[0][0].partition(":")[0], "regression") == (body["algorithm"], body["task"])
    assert ["a", "b"] == body["features"], "a mistyped name would be a feature"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--algorithms", "rls,forest"], "forest: "),
        (["--algorithms", "rls,dfop:rate=3"], "params.rate"),
        (["--algorithms", "rls,observer"], "observer predicts nothing that could be compared"),
        (["--task", "regression"], "is not a number"),
    ],
)
def test_what_is_refused_is_said(tmp_path: Path, compare: Shell, arguments: list[str], problem: str) -> None:
    """With the algorithm at fault, or the line; no page is named of the service that has ended with the command."""
    file = stream(tmp_path / f"{arguments[-1].translate(str.maketrans(',:=', '---'))}.csv")
    status, _, complained = compare(file, "--drop", "day", *arguments)
    assert (1, True) == (status, complained.startswith("onepass compare: "))
    assert problem in complained
    assert "/problems/" not in complained


def test_costs_decide_table_and_chart(
    tmp_path: Path, compare: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What answers cost is the score, the curves and the request, which leaves out what has no effect and is accepted;
    the cheapest constant answer is beside it.
    """
    monkeypatch.setenv("ONEPASS_URL", "https://models.example/onepass")
    monkeypatch.setenv("ONEPASS_API_KEY", "hush-hush")
    file = tmp_path / "dear.csv"
    file.write_text("x,y\n" + "".join(f"{at % 7},{'fail' if at % 7 == 6 else 'ok'}\n" for at in range(210)))
    dear = ["--cost", "fail=20", "--cost", "fial=3"]
    status, said, complained = compare(file, "--algorithms", "dfop,rls", *dear)
    assert (0, "") == (status, complained)
    assert "no row is labelled `fial`: its cost has no effect; did you mean 'fail'?" in said
    table = said[said.index("mean cost") :].splitlines()
    assert ["always", "dfop", "rls"] == sorted(line.split()[0] for line in table[2:5])
    drawn = (tmp_path / "compare-dear.svg").read_text()
    assert all(words in drawn for words in ("mean cost of an answer", "dfop", "cheapest constant answer"))
    assert "accuracy" not in drawn
    last = said.rstrip().splitlines()[-1]
    address = "https://models.example/onepass/models/dear"
    assert last.startswith(f'curl -X PUT {address} -H "Authorization: Bearer $ONEPASS_API_KEY" --json ')
    body = json.loads(last.partition(" --json ")[2].strip("'"))
    assert {"fail": 20} == body["class_costs"]
    assert 201 == httpx.put(f"{url}/models/dear-2", json=body).status_code


def test_where_no_algorithm_beats_a_constant_answer(
    tmp_path: Path, compare: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last words do not praise the best of them; how much of a rare class each finds has a column.

    Without matplotlib no chart is drawn, as nobody has asked for one.
    """
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    file = tmp_path / "noise.csv"
    file.write_text("x,y\n" + "".join(f"{at * at % 11},{'fail' if at % 20 == 7 else 'ok'}\n" for at in range(200)))
    status, said, complained = compare(file, "--algorithms", "vigo,rls")
    assert (0, "") == (status, complained)
    assert "no chart is drawn; a chart needs matplotlib: pip install" in said
    assert "recall of fail" in said
    assert "is no better than majority (accuracy 9" in said
    assert "no algorithm is better than the best baseline; " in said
    assert "was the best algorithm" not in said
    assert "finds only 0.0% of the rows labelled `fail`\n" in said


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_usual_algorithms_learn_the_task(task: str) -> None:
    """With the parameters that they are given, as the catalogue has them."""
    for one in entrants_of(USUAL[task]):
        own = ALGORITHMS[one.algorithm]
        assert task in own.tasks
        assert {*one.params} <= {*own.describe()["params"]["properties"]}


def test_the_better_is_first() -> None:
    """What has no score is last; errors are of the rows of the baseline: a first row far from 0 decides nothing."""
    given = [entrant("none", None), entrant("worse", 0.7), entrant("better", 0.8)]
    assert ["better", "worse", "none"] == [one.name for one in sorted(given, key=lambda one: one.loss)]

    def of(name: str, first: float, later: float) -> Entrant:
        paired = {"overall": {"mse": later, "mae": later}}
        baselines = {"last_value": {"mse": 0.5, "mae": 0.5}}
        metrics = {"overall": {"mse": first + later, "mae": 1.0, "r2": 0.0}, "paired": paired, "baselines": baselines}
        return Entrant(name, name, {}, metrics)

    better, worse = sorted([of("worse", 1e6, 0.7), of("better", 3e6, 0.4)], key=lambda one: one.loss)
    assert ("better", "worse") == (better.name, worse.name)
    assert [[], ["last value (mse 0.5)"]] == [report.not_beaten(one) for one in (better, worse)]
    shown = [line.split()[:1] for line in report.scores([better, worse]).splitlines()[2:]]
    assert [["better"], ["last"], ["worse"]] == shown


def test_baselines_that_are_as_good_are_said() -> None:
    """Of the best algorithm; equal is not better."""
    both = ["no change", "majority"]
    for score, rivals in ((0.4, both), (0.5, both), (0.55, both[1:]), (0.7, [])):
        found = report.not_beaten(entrant("one", score))
        assert rivals == [one.partition(" (")[0] for one in found]


def test_a_rare_class_that_is_missed_is_told() -> None:
    """In plain words, with the label and its cost; a class of many rows, or one that is found, is not."""
    missed = of_classes("dfop", 0.7, 0.0, ok=951, fail=49)
    missed.metrics["overall"]["roc_auc"] = 0.7
    said = report.notes([missed], {})
    proposed = "--cost fail=19 makes missing one 19 times as costly"
    assert [f"dfop finds only 0.0% of the rows labelled `fail`; {proposed}"] == said
    for fine in (of_classes("a", 0.9, 0.1, ok=60, fail=40), of_classes("a", 0.9, 0.4, ok=99, fail=1)):
        assert [] == report.notes([fine], {})
    many = of_classes("a", 0.9, 0.1, **{f"c{at}": 10 for at in range(report.CLASSES_SHOWN + 1)})
    table = report.classes(many.metrics).splitlines()
    assert (report.CLASSES_SHOWN, f"c{report.CLASSES_SHOWN}") == (len(table) - 2, table[2].split()[0])


@pytest.mark.parametrize(
    ("recall", "precision", "auc", "advised"),
    [
        (0.0, None, None, False),
        (0.0, None, 0.51, False),
        (0.0, None, 0.7, True),
        (0.04, 0.5, None, False),
        (0.08, 0.5, None, False),
        (0.2, 0.08, None, False),
        (0.2, 0.3, None, True),
    ],
)
def test_a_cost_is_proposed_only_if_the_class_is_told_apart(
    recall: float, precision: float | None, auc: float | None, advised: bool
) -> None:
    """By the area under the curve of two classes; else by enough hits, twice as often as by chance."""
    one = of_classes("dfop", 0.7, recall, ok=951, fail=49)
    one.metrics["overall"]["per_class"]["fail"]["precision"] = precision
    one.metrics["overall"] |= {} if auc is None else {"roc_auc": auc}
    (said,) = report.notes([one], {})
    assert advised == ("--cost" in said)
    assert said.startswith(f"dfop finds only {recall:.1%} of the rows labelled `fail`")


def test_a_tie_is_said() -> None:
    """Between the model's own algorithm and another, whichever is the best, where the interval holds 0."""
    own = entrant("own", 0.9)
    for low in (-0.1, 0.1):
        other = replace(own, name="other", algorithm="other", difference={"mean": 0.2, "low": low, "high": 0.5})
        for best, next_ in ((own, other), (other, own)):
            said = [f"{best.name} is not distinguishable from {next_.name}: the interval contains 0"]
            assert (said if low < 0 else []) == report.notes([best, next_], {})


@pytest.mark.parametrize(("mean", "warned"), [(0.3, False), (0.95, True)])
def test_with_costs_these_are_what_counts(mean: float, warned: bool) -> None:
    """Neither a low accuracy, nor a class that is not found, nor a tie of errors: only what a row has cost."""
    one, other = (
        of_classes(name, 0.1, 0.0, {"mean": cost, "constant": 0.9, "label": "ok"}, ok=951, fail=49)
        for name, cost in (("own", mean), ("other", 0.2))
    )
    other = replace(other, difference={"mean": 0.0, "low": -1.0, "high": 1.0})
    said = report.notes([one, other], {"fail": 2})
    assert (["own is no better than always ok (mean cost 0.9)"] if warned else []) == said
    assert ["other", "own"] == [each.name for each in sorted([one, other], key=lambda one: one.loss)]


@pytest.mark.slow_but("1-accuracy", "300-mse")
@pytest.mark.parametrize("measure", ["accuracy", "mse", "mean_cost"])
@pytest.mark.parametrize("points", [1, 300])
def test_charts_of_any_length(measure: str, points: int, tmp_path: Path) -> None:
    """One point or many, more curves than colours, undefined scores, marks, names that look like formulas."""
    curve: list[tuple[int, Any]] = [
        (10 * at, None if at < 2 and points > 1 else at / 300) for at in range(1, points + 1)
    ]
    marks = [{"row": at, "kind": kind} for kind in ("drift", "switch", "import") for at in range(points // 10)]
    curves = {f"number {at} $x_1^2$": curve for at in range(20)}
    for suffix in (".svg", ".png"):
        path = tmp_path / f"chart{suffix}"
        chart.write(path, ("$x_1^2$ & <b>: " + "long " * 40, "below"), measure, curves, {"known": curve}, marks)
        assert path.stat().st_size > 10_000
    assert all(f"number {at} " in (tmp_path / "chart.svg").read_text() for at in range(20))


def test_algorithms_are_named_with_their_parameters() -> None:
    """As the table names them."""
    asked = entrants_of("dfop:forgetting_rate=0.01:scaling=robust,auto,dfop")
    assert [("dfop", {"forgetting_rate": 0.01, "scaling": "robust"}), ("auto", {}), ("dfop", {})] == [
        (one.algorithm, one.params) for one in asked
    ]
    assert ["dfop", "auto", "dfop-2"] == [one.name for one in asked]
    assert "dfop:forgetting_rate=0.01:scaling=robust" == asked[0].line
    for wrong in ("a,,b", "a:b", ""):
        with pytest.raises(BadParameter):
            entrants_of(wrong)


@pytest.mark.parametrize(
    "asked", [["replay", "--algorithm", "sparse_dfop"], ["compare", "--algorithms", "rls,sparse_dfop:sparsity=5"]]
)
def test_an_algorithm_of_sparse_rows_learns_no_file(asked: list[str], shell: Shell) -> None:
    """It is refused before the file is read."""
    status, _, complained = shell(*asked, "none.csv", "--label", "y")
    assert 2 == status
    assert "is not for files: it learns named sparse rows" in " ".join(complained.replace("│", " ").split())


def test_costs_are_named_by_labels() -> None:
    """A label may hold a sign of equality; a cost is a finite number above 0."""
    assert {"fail": 20.0, "a=b": 0.5, "": 1.0} == dict(map(options.cost_of, ["fail=20", "a=b=.5", "=1"]))
    for wrong in ("fail", "fail=", "fail=0", "fail=-1", "fail=nan", "fail=1e999", "fail=dear"):
        with pytest.raises(BadParameter):
            options.cost_of(wrong)


def test_default_names() -> None:
    """A file's name makes a name that a model can have."""
    files = ("data/my stream.csv.gz", "electricity.csv", "__x__.csv", "é.csv", f"{'n' * 80}.csv")
    names = [FileOptions(file=Path(file), label="y").model for file in files]
    assert ["my-stream", "electricity", "x", "replay", "n" * 64] == names
