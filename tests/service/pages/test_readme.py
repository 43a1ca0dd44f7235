"""The sessions in README.md and in the pages of service/, run in order as they stand; the service starts empty."""

import re
import shutil
from pathlib import Path

import pytest

from tests.service import sessions

ROOT = Path(__file__).parents[3]
SESSIONS = [
    session
    for document in ("README.md", "service/settings.md", "service/formats.md")
    for session in re.findall(r"```console\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt install curl")
@pytest.mark.parametrize("session", SESSIONS, ids=["the first", "settings of a model", "kinds of features"])
def test_session(empty, session, tmp_path):
    """Every call is answered as documented, and the number has moved."""
    sessions.run(f"```console\n{session}```", empty, tmp_path)
