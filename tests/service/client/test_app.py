"""What commands there are, how each is asked for, and how it ends; no service is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from service.client import app, display
from service.client.app import COMMANDS

REPLAY = ["replay", "some.csv", "--label", "y"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["modles"], "models"), (["serve", "--prot", "8001"], "--port"),
        (["create", "m", "--tsk", "regression"], "--task"), (["models", "--sort", "wurst"], "worst"),
        (["predict", "m", "load"], "load"), (["predict", "m", "=1"], "=1"), (["models", "--limit", "0"], "--limit"),
        (["create", "-m"], "-m"), (["delete", "m", "a/b", "--yes"], "a/b"),
        (["show", "m", "--url", "localhost:8000"], "--url"), (["show"], "NAME"),
        (["show", "m", "--url", "http://host/?a=b"], "--url"), (["show", "m", "--url", "http://host\n"], "--url"),
        ([*REPLAY, "--param", "rate"], "--param"), ([*REPLAY, "--batch", "0"], "--batch"),
        ([*REPLAY, "--plot", "chart.pdf"], "--plot"), ([*REPLAY, "--plot", "no/such/place.svg"], "--plot"),
        ([*REPLAY, "--name", "-x"], "--name"), ([*REPLAY, "--task", "ranking"], "--task"),
        ([*REPLAY, "--sep", ";;"], "--sep"), ([*REPLAY, "--date-format", "american"], "--date-format"),
        ([*REPLAY, "--cost", "fail=0"], "--cost"), ([*REPLAY, "--lags", "11"], "--lags"),
        (["demo", "--speed", "0"], "--speed"), (["demo", "--for", "x"], "--for"),
        (["demo", "--speed", "nan"], "--speed"), (["demo", "--for", "nan"], "--for"),
        (["demo", "--port", "70000"], "--port"),
    ],
    ids=str,
)  # fmt: skip
def test_usage(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An argument that cannot be is status 2 before anything starts, and is named, or what may have been meant."""
    assert 2 == app.main(arguments)
    said, complained = capsys.readouterr()
    assert ("", True, True) == (said, named in complained, " --help lists what is possible" in complained)


def test_feedback_without_a_label(capsys: pytest.CaptureFixture[str]) -> None:
    """The option that is missing is named."""
    assert 2 == app.main(["feedback", "m", "a=1"])
    assert "onepass feedback: --label, the true label, is missing\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"),
    [("feedback", given.split()) for given in ("--id 7", "--label a", "--weight 0", "--prediction-id p")]
    + [("predict", given.split()) for given in ("--track", "--explain", "--interval 0")],
)
def test_a_body_from_stdin_takes_no_options(
    command: str, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The option that would not be sent is named."""
    assert 2 == app.main([command, "m", "-", *option])
    said = f"onepass {command}: {option[0]} cannot be combined with -: put it into the body\n"
    assert ("", said) == capsys.readouterr()


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_is_there(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command explains itself and its exit status."""
    assert 0 == app.main([*command, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"Usage: {' '.join(['onepass', *command])} ")
    assert (
        "Exit status: 0 done, 1 refused or failed, 2 wrong usage or settings, 128 + n by signal n (serve and demo: 0)."
        in said
    )


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the package."""
    assert 0 == app.main(["--version"])
    assert capsys.readouterr().out.startswith("onepass 0.")


HEAVY = ("rich", "httpx", "matplotlib", "numba", "numpy", "fastapi", "uvicorn", "redis", "pydantic", "core")


@pytest.mark.parametrize(("command", "heavy"), [("app", HEAVY), ("models", HEAVY[2:]), ("serving", ("numba",))])
def test_what_a_command_does_not_import(command: str, heavy: tuple[str, ...]) -> None:
    """Help starts without HTTP, clients without what computes or serves; serve looks at settings without kernels."""
    code = f"import sys, service.client.{command}; print([name for name in {heavy} if name in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (0, "[]\n") == (finished.returncode, finished.stdout)


def test_shares_and_counts() -> None:
    """A probability that is never 0 or 1 is never shown as that; one row, two rows, no models."""
    assert ["0.0%", "<0.1%", "12.3%", ">99.9%", "100.0%"] == [*map(display.percent, (0.0, 0.0004, 0.123, 0.9996, 1.0))]
    assert ["1 row", "2,000 rows", "0 models"] == [
        display.counted(number, what) for number, what in ((1, "row"), (2000, "row"), (0, "model"))
    ]


def test_an_answer_is_told_value_by_value() -> None:
    """Numbers by name from the largest on, lists of objects as tables, in this order."""
    answer = {"prediction": True, "interval": None, "probabilities": {"a": 0.25, "b": 0.75}}
    answer["explanation"] = {"class": "b", "contributions": {"x": 0.5, "y": -2.0}}
    answer["experts"] = [{"expert": "rls", "says": {"a": 0.1, "b": 0.9}}, {"expert": "dfop", "says": {"a": 1, "b": 0}}]
    words = "prediction true interval - probabilities b 75.0% a 25.0% class b contributions y -2 x 0.5"
    words += f" experts expert says ────── {'─' * 16} rls b 90.0%, a 10.0% dfop a 100.0%, b 0.0%"
    assert words.split() == display.described(answer).split()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no device that is always full")
def test_a_full_disk_is_said_in_one_line() -> None:
    """What a command cannot write ends it with status 1 and the reason, not with a traceback."""
    command = [sys.executable, "-m", "service.client", "keys", "new", "me", "--scopes", "read"]
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    complained = "onepass keys: cannot continue: No space left on device\n"
    assert (1, complained) == (finished.returncode, finished.stderr)


def test_closed_streams_are_as_the_null_device() -> None:
    """What a shell closes with >&- takes nothing and ends nothing."""
    command = f"{sys.executable} -m service.client keys new me --scopes read <&- >&-"
    finished = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert (0, False) == (finished.returncode, "Traceback" in finished.stderr)
