"""The sessions in README.md and service/README.md, run as they stand against services that start empty."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from service.replay import private

ROOT = Path(__file__).parents[2]
SESSIONS = [
    session
    for document in ("README.md", "service/README.md")
    for session in re.findall(r"```console\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
]


def steps(session: str) -> list[tuple[str, list[str]]]:
    """(command, the pieces that its answer must hold in this order) of each call."""
    found: list[tuple[str, list[str]]] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].extend(piece for piece in line.split("...") if piece)
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt install curl")
@pytest.mark.parametrize(
    "session", SESSIONS, ids=["the first", "settings of a model", "kinds of features", "a change of features"]
)
def test_session(session):
    """Every call is answered as documented, and the number has moved."""
    with private.service() as url:
        for shown, pieces in steps(session):
            command = shown.replace("localhost:8000", url)
            answer = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30).stdout
            at = 0
            for piece in pieces:
                assert piece in answer[at:], f"{command}\nanswered {answer}\nwithout {piece}"
                at = answer.index(piece, at) + len(piece)
