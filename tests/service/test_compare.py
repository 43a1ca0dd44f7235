"""``onepass compare``: real files through a real service, several algorithms at once."""

import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import pytest

from core.learners.catalogue import ALGORITHMS
from service import cli
from service.replay import advice, comparison_chart, costs, options, private, ranking, report
from service.replay.compare import USUAL, usual
from service.replay.kinds import CLASSES_MAX, task_of
from service.replay.ranking import Entrant
from tests.service.test_replay import ROWS, stream


@pytest.fixture
def shared(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The private service is that of all tests: starting one takes a second."""
    monkeypatch.setattr(private, "service", lambda **_: nullcontext(url))


@pytest.fixture
def compare(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in an empty directory; its status, what it printed, what it complained of."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.main(["compare", *map(str, arguments), "--label", "y"])
        return status, *capsys.readouterr()

    return run


def entrant(name: str, score: float | None, seconds: float = 1e-5, rows: int = 5, **params: object) -> Entrant:
    """One with few metrics."""
    overall = {"accuracy": score, "balanced_accuracy": score, "log_loss": 0.5}
    baselines = {"no_change": {"accuracy": 0.5, "balanced_accuracy": 0.5}, "majority": {"accuracy": 0.6}}
    window = {"size": 1000, "accuracy": score, "baselines": baselines}
    metrics = {"rows": rows, "overall": overall, "window": window, "baselines": baselines, "history": []}
    return Entrant(name, name, params, metrics, None, seconds)


@pytest.mark.slow
def test_each_does_as_it_does_alone(tmp_path: Path, compare: Callable, url: str) -> None:
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
    assert {"no_change", "majority"} == {*result["baselines"]}
    assert ["rls"] == [name for name, line in lines.items() if line["difference"] is None]
    assert all(line["difference"]["rows"] > 0 for name, line in lines.items() if name != "rls")
    assert all(line["us_per_row"] > 0 for line in lines.values())
    assert ET.parse(result["chart"]).getroot().tag.endswith("svg")
    create = result["create"]
    assert {"UP", "DOWN"} == {*create["body"]["labels"]}, "a mistyped label would be a class"
    assert 201 == httpx.put(url + create["path"], json=create["body"]).status_code
    for name, line in lines.items():
        params = [f"--param={key}={json.dumps(value)}" for key, value in line["params"].items()]
        own = ["replay", file, "--label", "y", "--algorithm", line["algorithm"], *params, "--drop", "day", "--json"]
        assert 0 == cli.main([*map(str, own), "--url", url, "--name", name, "--batch", "50"])
        alone = httpx.get(f"{url}/models/{name}/metrics").json()
        assert alone["overall"] == line["metrics"]["overall"]


@pytest.mark.usefixtures("shared")
def test_numbers_by_the_usual_algorithms(tmp_path: Path, compare: Callable) -> None:
    """Without algorithms the usual ones; any numbers are a regression; the table, and the last line to copy."""
    file = stream(tmp_path / "load.csv", regression=True)
    status, said, complained = compare(file, "--drop", "day", "--no-plot")
    assert (0, "") == (status, complained)
    assert [] == [*tmp_path.glob("*.svg")]
    table = said.replace("last value", "last_value").splitlines()
    first = next(at for at, line in enumerate(table) if "\u2500\u2500" in line) + 1
    lines = [line.split() for line in table[first:] if line.startswith("  ") and len(line.split()) > 2]
    expected = [own for own, _ in USUAL if "regression" in ALGORITHMS[own].tasks]
    assert sorted([*expected, "last_value"]) == sorted(line[0].partition(":")[0] for line in lines)
    assert sorted(float(line[1]) for line in lines) == [float(line[1]) for line in lines]
    last = said.rstrip().splitlines()[-1]
    assert last.startswith("curl -X PUT 127.0.0.1:8000/models/load --json '{")
    body = json.loads(last.partition(" --json ")[2].strip("'"))
    assert (lines[0][0].partition(":")[0], "regression") == (body["algorithm"], body["task"])
    assert ["a", "b"] == body["features"], "a mistyped name would be a feature"


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--algorithms", "rls,forest"], "forest: refused with HTTP 422"),
        (["--algorithms", "rls,dfop:rate=3"], "params.rate"),
        (["--algorithms", "rls,sparse_dfop"], "sparse_dfop cannot challenge"),
        (["--task", "regression"], "is not a finite number"),
    ],
)
def test_what_is_refused_is_said(tmp_path: Path, compare: Callable, arguments: list[str], problem: str) -> None:
    """With the algorithm at fault, or the line."""
    file = stream(tmp_path / f"{arguments[-1].translate(str.maketrans(',:=', '---'))}.csv")
    status, _, complained = compare(file, "--drop", "day", *arguments)
    assert 1 == status
    assert complained.startswith("onepass compare: ")
    assert problem in complained


def test_a_column_that_is_not_there(tmp_path: Path, compare: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before a service is started."""
    monkeypatch.setattr(private, "service", None)
    file = tmp_path / "x.csv"
    file.write_text("a,b\n1,2\n")
    assert (1, "onepass compare: x.csv has no column 'y'; its columns are a, b\n") == compare(file)[::2]


@pytest.mark.parametrize(
    ("cells", "task"),
    [
        (["UP", "DOWN", "3"], "classification"),
        (["1", "2.0", "1"], "classification"),
        (["true", "false"], "classification"),
        ([str(number) for number in range(CLASSES_MAX)], "classification"),
        ([str(number) for number in range(CLASSES_MAX + 1)], "regression"),
        (["1.5", "2", "", "na"], "regression"),
        ([""], "classification"),
    ],
)
def test_the_label_tells_the_task(cells: list[str], task: str) -> None:
    """Numbers that cannot be classes are to be predicted."""
    assert task == task_of(cells)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_usual_algorithms_are_in_the_catalogue(task: str) -> None:
    """With the parameters that they are given; what the catalogue lacks is left out."""
    catalogue = [own.describe() for own in ALGORITHMS.values()]
    expected = [own for own in USUAL if task in ALGORITHMS[own[0]].tasks]
    assert expected == usual(catalogue, task)
    assert [] == usual([{**entry, "params": {"properties": {}}} for entry in catalogue if entry["id"] == "x"], task)


def test_the_better_is_first_and_of_equal_ones_the_faster() -> None:
    """What has no score is last."""
    given = [entrant("none", None), entrant("slow", 0.8, 2e-5), entrant("worse", 0.7), entrant("fast", 0.8)]
    assert ["fast", "slow", "worse", "none"] == [one.name for one in ranking.ranked(given, "classification")]
    errors = [one._replace(metrics={"overall": {"mse": at}}) for at, one in enumerate(reversed(given))]
    assert ["fast", "worse", "slow", "none"] == [one.name for one in ranking.ranked(errors, "regression")]


@pytest.mark.parametrize(("score", "better"), [(0.4, ["no_change", "majority"]), (0.55, ["majority"]), (0.7, [])])
def test_a_baseline_that_is_better_is_said(score: float, better: list[str]) -> None:
    """Beside the best algorithm; of errors the smaller one is."""
    assert better == ranking._better_baselines([entrant("one", score)], "classification")
    errors = {"overall": {"mse": 1 - score}, "baselines": {"last_value": {"mse": 0.5}}}
    expected = ["last_value"] if score < 0.5 else []
    assert expected == ranking._better_baselines([entrant("one", score)._replace(metrics=errors)], "regression")


def test_errors_are_of_the_rows_of_the_baseline() -> None:
    """A first row far from 0 does not decide who is better, beside the baseline and beside others."""

    def of(name: str, first: float, later: float) -> Entrant:
        paired = {"overall": {"mse": later, "mae": later}, "window": {"mse": later, "mae": later}}
        metrics = {"overall": {"mse": first + later, "mae": 1.0, "r2": 0.0}, "paired": paired}
        return entrant(name, 0.5)._replace(metrics={**metrics, "baselines": {"last_value": {"mse": 0.5, "mae": 0.5}}})

    given = [of("worse", 1e6, 0.7), of("better", 3e6, 0.4)]
    better, worse = ranking.ranked(given, "regression")
    assert ("better", "worse") == (better.name, worse.name)
    assert [[], ["last_value"]] == [ranking._better_baselines([one], "regression") for one in (better, worse)]
    shown = [line[:2] for line in ranking._lines([better, worse], "regression")]
    assert [["better", "0.4"], ["[dim]last value", "0.5"], ["worse", "0.7"]] == [
        [name.partition(":")[0], mse] for name, mse in shown
    ]


def of_classes(name: str, score: float, recall: float, **supports: int) -> Entrant:
    """One whose last class is found so often."""
    one = entrant(name, score)
    last = [*supports][-1]
    classes = {
        label: {"support": rows, "recall": recall if label == last else 0.9, "precision": None}
        for label, rows in supports.items()
    }
    one.metrics["overall"]["per_class"] = classes
    return one


def test_a_model_that_never_finds_the_rare_class_is_warned_of() -> None:
    """In plain words, with the label; a class of many rows, or one that is found, is not."""
    constant, missed = advice.warnings([of_classes("dfop", 0.6, 0.0, ok=951, fail=49)], "classification")
    assert constant.startswith("dfop is no better than saying `ok` always: accuracy 60.00%")
    proposed = "--cost fail=19 makes missing one 19 times as dear"
    assert f"dfop finds only 0.0% of the rows labelled `fail` (recall); {proposed}" == missed
    for fine in (of_classes("a", 0.9, 0.1, ok=60, fail=40), of_classes("a", 0.9, 0.4, ok=99, fail=1)):
        assert [] == advice.warnings([fine], "classification")
    many = of_classes("a", 0.9, 0.1, **{f"c{at}": 10 for at in range(report.CLASSES_SHOWN + 1)})
    table = report._per_class(many.metrics["overall"]["per_class"])
    assert (report.CLASSES_SHOWN, f"c{report.CLASSES_SHOWN}") == (table.row_count, next(iter(table.columns[0].cells)))


@pytest.mark.parametrize(("low", "tied"), [(-0.1, True), (0.1, False)])
def test_a_tie_is_said(low: float, tied: bool) -> None:
    """Between the model's own algorithm and another, whichever is the best."""
    own, other = entrant("own", 0.9), entrant("other", 0.8)._replace(difference={"mean": 0.2, "low": low, "high": 0.5})
    for pair in ([own, other], [other, own]):
        said = [f"{pair[0].name} is not distinguishable from {pair[1].name}: the interval holds 0"]
        assert (said if tied else []) == advice.warnings(pair, "classification")


@pytest.mark.parametrize(("mean", "warned"), [(0.3, False), (0.95, True)])
def test_with_costs_these_are_what_counts(mean: float, warned: bool) -> None:
    """Neither a low accuracy, nor a class that is not found, nor a tie of errors: only what a row has cost."""
    one, other = (of_classes(name, 0.1, 0.0, ok=951, fail=49) for name in ("own", "other"))
    other = other._replace(difference={"mean": 0.0, "low": -1.0, "high": 1.0})
    one.metrics["overall"]["costs"] = {"mean": mean, "constant": 0.9, "label": "ok"}
    other.metrics["overall"]["costs"] = {"mean": 0.2, "constant": 0.9, "label": "ok"}
    said = "own is no better than saying `ok` always: cost a row 0.95, that of the constant answer 0.9"
    assert ([said] if warned else []) == advice.warnings([one, other], "classification")
    assert ["other", "own"] == [each.name for each in ranking.ranked([one, other], "classification")]
    assert [] == ranking._better_baselines([one], "classification")


def test_a_comparison_by_costs(tmp_path: Path, compare: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table begins with the mean cost, also of the cheapest constant answer, and the request has the costs."""
    monkeypatch.setenv("ONEPASS_URL", "https://models.example/onepass")
    monkeypatch.setenv("ONEPASS_API_KEY", "hush-hush")
    file = tmp_path / "dear.csv"
    file.write_text("x,y\n" + "".join(f"{at % 7},{'fail' if at % 7 == 6 else 'ok'}\n" for at in range(210)))
    dear = ["--cost", "fail=20", "--cost", "fial=3"]
    status, said, complained = compare(file, "--no-plot", "--algorithms", "dfop,rls", *dear)
    assert (0, "") == (status, complained)
    assert "no row is labelled `fial`, so its cost has had no effect; did you mean fail?" in said
    table = said[said.index("mean cost") :].splitlines()
    assert {"dfop", "rls", "always"} == {line.split()[0] for line in table[2:5]}
    last = said.rstrip().splitlines()[-1]
    address = "https://models.example/onepass/models/dear"
    assert last.startswith(f'curl -X PUT {address} -H "Authorization: Bearer $ONEPASS_API_KEY" --json ')
    assert {"fail": 20, "fial": 3} == json.loads(last.partition(" --json ")[2].strip("'"))["class_costs"]


def test_a_rare_class_has_a_column(tmp_path: Path, compare: Callable) -> None:
    """How much of it each algorithm finds; a replay tells recall and precision of each class."""
    file = tmp_path / "rare.csv"
    file.write_text("x,y\n" + "".join(f"{at % 7},{'fail' if at % 20 == 19 else 'ok'}\n" for at in range(200)))
    status, said, complained = compare(file, "--no-plot", "--algorithms", "dfop,rls")
    assert (0, "") == (status, complained)
    assert "recall of fail" in said
    assert "always" in said


def test_a_chart_of_many_algorithms_over_few_rows(tmp_path: Path) -> None:
    """More curves than colours, and none of them has two points."""
    path = tmp_path / "chart.svg"
    comparison_chart.write(path, "few", [entrant(f"number {at}", 0.5, rows=1) for at in range(20)], "classification")
    assert all(f"number {at}" in path.read_text() for at in range(20))


def test_algorithms_are_named_with_their_parameters() -> None:
    """As the table names them."""
    asked = "dfop:forgetting_rate=0.01:scaling=robust,auto"
    assert (("dfop", {"forgetting_rate": 0.01, "scaling": "robust"}), ("auto", {})) == options._contenders(asked)
    assert "dfop:forgetting_rate=0.01:scaling=robust" == entrant("dfop", 1, forgetting_rate=0.01, scaling="robust").line
    for wrong in ("a,,b", "a,a", "a:b", ",".join(f"a{at}" for at in range(40))):
        with pytest.raises(ArgumentTypeError):
            options._contenders(wrong)
    with pytest.raises(ArgumentTypeError, match="--cost LABEL=COST"):
        options._contenders('dfop:class_costs={"a"=3}')


def test_costs_are_named_by_labels() -> None:
    """A label may hold a sign of equality; a cost is a finite number above 0."""
    assert [("fail", 20.0), ("a=b", 0.5), ("", 1.0)] == [costs.cost(one) for one in ("fail=20", "a=b=.5", "=1")]
    for wrong in ("fail", "fail=", "fail=0", "fail=-1", "fail=nan", "fail=1e999", "fail=dear"):
        with pytest.raises(ArgumentTypeError):
            costs.cost(wrong)
