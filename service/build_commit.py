"""Which commit this code is of, for GET /version."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent  # where a checkout has its repository; an installed package has none
GIT_S = 2.0  # how long git may take


def build_commit(given: str) -> str | None:
    """The commit that the build has noted, else the one checked out here; None if git does not know one."""
    if given or not (ROOT / ".git").exists():
        return given or None
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
