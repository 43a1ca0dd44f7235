"""The README's session, run as it stands against a service that starts empty."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from service.replay import private

README = Path(__file__).parents[2] / "README.md"
SESSION = re.search(r"```console\n(.*?)```", README.read_text(), re.DOTALL)


def steps() -> list[tuple[str, list[str]]]:
    """(command, the pieces that its answer must hold in this order) of each call."""
    assert SESSION is not None
    found: list[tuple[str, list[str]]] = []
    for line in SESSION[1].splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].extend(piece for piece in line.split("...") if piece)
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt install curl")
def test_session():
    """Every call of the README's session answers what the README says, and the number has moved."""
    with private.service() as url:
        for shown, pieces in steps():
            command = shown.replace("localhost:8000", url)
            answer = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30).stdout
            at = 0
            for piece in pieces:
                assert piece in answer[at:], f"{command}\nanswered {answer}\nwithout {piece}"
                at = answer.index(piece, at) + len(piece)
