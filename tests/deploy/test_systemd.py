"""The unit of systemd, judged by systemd-analyze."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "deploy/onepass.service"
EXPOSURE_MAX = 1.5
"""Of 10; what is left is the network, and memory that is written to and executed."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a command that exists here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not judged")
    path = tmp_path / "onepass.service"
    command = f"ExecStart={Path(sys.executable).parent / 'onepass'} serve"
    path.write_text(
        re.sub(r"^ExecStart=/opt/onepass/bin/onepass serve$", command, UNIT.read_text(), flags=re.MULTILINE)
    )
    return path


def analyze(*arguments: object) -> tuple[int, str]:
    finished = subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True)
    return finished.returncode, finished.stdout + finished.stderr


def test_systemd_has_nothing_to_say_about_the_unit(unit: Path) -> None:
    """Every directive is known, every value can be, the command is there."""
    assert (0, "") == analyze("verify", "--man=no", unit)
    unit.write_text(unit.read_text().replace("DynamicUser=yes", "DynamicUsers=yes"))
    assert "DynamicUsers" in analyze("verify", "--man=no", unit)[1]


def test_the_unit_is_hardened(unit: Path) -> None:
    """The exposure that systemd counts is low, and stays so."""
    code, said = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", "--no-pager", unit)
    assert 0 == code, said


def test_the_drop_ins_of_its_first_lines_fit(unit: Path) -> None:
    """With files for a group, credentials and a drain systemd has nothing to say either, and the exposure is low."""
    offered = re.findall(
        r"^#   ((?:SupplementaryGroups|LoadCredential|Environment)=.*)$", UNIT.read_text(), re.MULTILINE
    )
    assert {"SupplementaryGroups", "LoadCredential", "Environment"} == {line.partition("=")[0] for line in offered}
    unit.write_text(unit.read_text().replace("[Service]\nType=", "\n".join(["[Service]", *offered, "Type="])))
    assert (0, "") == analyze("verify", "--man=no", unit)
    code, said = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", "--no-pager", unit)
    assert 0 == code, said
