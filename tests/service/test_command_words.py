"""What commands say: counts, shares, the nearest of what there is, how columns were read; no service is started."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from core.problems import FILLED, PASSED_OVER
from service import cli
from service.cli import explanation
from service.cli.command import COMMANDS
from service.cli.numbers import percent
from service.replay import Failed, columns
from service.replay.client import in_flags
from service.replay.columns import Reading
from service.replay.options import default_name
from service.replay.source import Source
from service.replay.wording import IN_COMMANDS, IN_FLAGS, counted


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["modles"], "models"),
        (["serve", "--prot", "8001"], "--port"),
        (["create", "m", "--tsk", "regression"], "--task"),
        (["replay", "f.csv", "--label", "y", "--algoritm", "dfop"], "--algorithm"),
        (["models", "--sort", "wurst"], "worst"),
        (["models", "--zzz", "--serch", "x"], "--search"),
        (["replay", "f.csv", "--lable", "y"], "--label"),
        (["replay", "f.csv", "--label", "y", "--delimiter=;"], "--sep"),
        (["compare", "f.csv", "--target", "y"], "--label"),
        (["compare", "f.csv", "--label", "y", "--class-costs", "a=3"], "--cost"),
        (["replay", "f.csv", "--label", "y", "--task", "classify"], "classification"),
        (["import", "m", "f", "--force"], "--yes"),
    ],
)
def test_what_may_have_been_meant(arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped command, flag or choice is answered with the nearest one."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert 2 == ended.value.code
    assert capsys.readouterr().err.endswith(f"; did you mean {meant}?\n")


def test_nothing_is_meant_by_what_is_like_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Then the reason stands alone."""
    with pytest.raises(SystemExit):
        cli.main(["models", "--zzz"])
    assert capsys.readouterr().err.endswith("unrecognized arguments: --zzz\n")


@pytest.mark.parametrize("command", ["serve", "settings"])
def test_a_mistyped_choice_of_a_setting(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nearest one is named; one that is like none has none."""
    for given, said in (("alwys", "; did you mean always?\n"), ("x", "'always' or 'everysec'\n")):
        monkeypatch.setenv("ONEPASS_DURABILITY", given)
        assert 2 == cli.main([command])
        assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_is_there(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command explains itself."""
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    assert 0 == ended.value.code
    assert "usage: onepass" in capsys.readouterr().out


def test_help_names_what_a_setting_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """A directory or a file, not any text."""
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    said = capsys.readouterr().out
    assert [] == [name for name in ("--data-dir DIR", "--socket-dir DIR", "--tls-cert FILE") if name not in said]


@pytest.mark.parametrize(
    "options",
    [
        ["--param", "rate"],
        ["--batch", "0"],
        ["--url", "localhost"],
        ["--plot", "chart.pdf"],
        ["--plot", "no/such/place.svg"],
        ["--name", "-x"],
        ["--task", "ranking"],
    ],
)
def test_usage(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An option that cannot be is status 2, before anything starts."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["replay", "some.csv", "--label", "y", "--algorithm", "dfop", *options])
    assert 2 == ended.value.code
    assert f"argument {options[0]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--algorithms", "a,,b"], ["--algorithms", "a,a"], ["--no-plot", "--plot=c.svg"], ["--url", "x"]]
)
def test_usage_of_compare(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same of its own options."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", "some.csv", "--label", "y", *arguments])
    assert 2 == ended.value.code
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("data/my stream.csv.gz", "my-stream"),
        ("electricity.csv", "electricity"),
        ("__x__.csv", "x"),
        ("é.csv", "replay"),
        (f"{'n' * 80}.csv", "n" * 64),
    ],
)
def test_default_names(file: str, name: str) -> None:
    """A file's name makes a name that a model can have."""
    assert name == default_name(Path(file))


def test_settings_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every setting with value and default, numbers as numbers; secrets are only said to be there."""
    monkeypatch.setenv("ONEPASS_PORT", "8123")
    monkeypatch.setenv("ONEPASS_API_KEYS", "me:hush-hush:admin")
    assert 0 == cli.main(["settings", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (8123, 8000) == (found["ONEPASS_PORT"]["value"], found["ONEPASS_PORT"]["default"])
    assert "********" == found["ONEPASS_API_KEYS"]["value"]


@pytest.mark.parametrize(
    ("share", "shown"), [(0.0, "0.0%"), (0.0004, "<0.1%"), (0.123, "12.3%"), (0.9996, ">99.9%"), (1.0, "100.0%")]
)
def test_shares(share: float, shown: str) -> None:
    """A probability that is never 0 or 1 is never shown as that."""
    assert shown == percent(share)


def test_counts() -> None:
    """One row, two rows; one category, two categories."""
    assert ["1 row", "2,000 rows", "1 category", "0 categories"] == [
        counted(1),
        counted(2000),
        counted(1, "category"),
        counted(0, "category"),
    ]


def test_refusals_in_flags() -> None:
    """What is JSON to the API is a flag to a command."""
    said = 'is missing; declare "missing": "mean" or "zero" to have missing values filled'
    assert "is missing; --missing mean or --missing zero fills it" == in_flags(said)


def test_what_is_put_in_other_words_is_what_the_service_says() -> None:
    """The texts that are looked for are those of core."""
    assert all(said in dict(IN_FLAGS) for said in (FILLED, PASSED_OVER.removeprefix("; ")))
    assert FILLED in dict(IN_COMMANDS)


def test_how_columns_were_read() -> None:
    """Each kind with its columns, then what is no feature."""
    shop, when = {"name": "shop", "type": "categorical", "categories": ["a", "b"]}, {"name": "when", "type": "time"}
    reading = Reading(["x", shop, when], {"y": "label", "order": "id"}, ["note"])
    said = "1 number: x; 1 string: shop (2 categories); 1 time: when; label: y; id: order; left out: note"
    assert [f"columns read as {said}"] == columns.lines(reading)


def test_strings_that_differ_look_like_ids() -> None:
    """Nine in ten differ, in twenty rows or more; numbers and times may."""
    name = {"name": "name", "type": "categorical"}
    for cells, expected in (
        ([f"id-{at}" for at in range(30)], ["name"]),
        ([f"id-{at}" for at in range(10)], []),
        ([f"id-{at % 20}" for at in range(30)], []),
        ([f"id-{at}" for at in range(30)] + [""] * 30, ["name"]),
    ):
        assert expected == columns.ids_among(Reading([name, "x"], {}, []), {"name": cells, "x": [*map(str, range(30))]})


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("a;b;y", "--sep ';'"),
        ("a\tb\ty", "--sep tab"),
        ("a,b,Y", "did you mean Y?"),
    ],
)
def test_a_file_of_another_form(header: str, hint: str, tmp_path: Path) -> None:
    """A label that is not there is answered with the column, or the delimiter, that may be meant."""
    file = tmp_path / "x.csv"
    file.write_text(f"{header}\n1\n")
    with pytest.raises(Failed) as failed:
        Source(file).need(["y"])
    assert hint in str(failed.value)


def test_explanations_are_tables() -> None:
    """Contributions from the greatest on, experts by weight, the likeliest class first; or none."""
    linear = {"class": "UP", "bias": 0.5, "contributions": {"a": 0.1, "b": -2.0, "c": 1.0}}
    said = shown(linear)
    assert said.index("b ") < said.index("c ") < said.index("a ")
    assert all(word in said for word in ("contribution to UP", "+0.5", "-2", "(bias)"))
    experts = [
        {"expert": "rls", "weight": 0.2, "prediction": 3.0},
        {"expert": "dfop", "weight": 0.8, "prediction": 4.0},
    ]
    said = shown({"classes": [], "experts": experts, "ambiguity": None})
    assert said.index("dfop") < said.index("rls")
    assert "80.0%" in said
    classes = {"classes": [False, True], "share": [0.3, 0.7], "tail": [0.1, 0.4], "ambiguity": None}
    assert shown(classes).index("true") < shown(classes).index("false")
    assert explanation.table({"classes": [], "ambiguity": None}) is None


def shown(found: dict) -> str:
    """An explanation as it is printed."""
    console = Console(width=100)
    with console.capture() as captured:
        console.print(explanation.table(found))
    return captured.get()
