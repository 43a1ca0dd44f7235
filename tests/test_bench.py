"""What the benchmarks' tables and environments do beside measuring."""

import subprocess
import sys

import pytest

from tests.benchmarks.harness.environments import Environment, Unavailable
from tests.benchmarks.harness.report import Row, Table

RATES = Row("feedback <64>", [900.0, 1000.0, 2000.0], "rows/s", [0.5, 1.0, 4.0], "the echo", 2.0)
MOST = Row("memory", [150.0], "MB", target=200.0, at_most=True)
ALONE = Row("echo", [500.0], "rows/s")


def test_a_figure_is_a_median_and_its_target_is_of_the_ratio_where_there_is_one():
    """Lower and upper bounds; a figure without a target is reported only."""
    assert (1000.0, 1.0, False) == (RATES.value, RATES.ratio, RATES.reached)
    assert (150.0, None, True) == (MOST.value, MOST.ratio, MOST.reached)
    assert ALONE.reached is None
    assert "1,000 rows/s" in str(RATES)
    assert "1.00 of the echo (0.50 to 4.00)" in str(RATES)
    assert "at least 2" in str(RATES)
    assert str(RATES).endswith("MISSED")


def test_a_table_says_what_is_missing(capsys):
    """Loudly; its JSON holds the figures of every round and the medians."""
    table = Table("peers", "", [RATES], ["NOT MEASURED  vw: no wheel", "vw does not promise: much"])
    table.show()
    printed = capsys.readouterr().out
    assert "NOT MEASURED  vw: no wheel" in printed
    assert "vw does not promise: much" in printed
    (row,) = table.to_json()["rows"]
    assert ([900.0, 1000.0, 2000.0], 1000.0, False) == (row["values"], row["value"], row["reached"])


def test_a_peer_that_cannot_be_had_says_why(monkeypatch, tmp_path):
    """A program that is not there, or a package that cannot be installed."""
    monkeypatch.setattr("tests.benchmarks.harness.environments.OUT", tmp_path)
    with pytest.raises(Unavailable, match="no-such-program is not installed"):
        Environment("pip", needs="no-such-program").ready()
    folder = tmp_path / "peers" / "no-such-package"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "stamp").write_text("no-such-package")
    with pytest.raises(Unavailable, match="no-such-package"):
        Environment("no-such-package").ready()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        "auto --rows 300 --streams led,friedman",
        "bench --parts core --rounds 1 --out OUT",
        "drift --runs 1",
        "isolation reads",
        "sizing --quick --parts core",
    ],
)
def test_a_program_runs_to_its_end(arguments, tmp_path):
    """Whatever it finds: as small as it can be asked to be, it may miss its targets."""
    done = subprocess.run(
        [sys.executable, "-m", *f"tests.benchmarks.{arguments}".replace("OUT", str(tmp_path)).split()],
        capture_output=True,
        text=True,
    )
    assert done.returncode in {0, 1}
    assert "Traceback" not in done.stderr, done.stderr
