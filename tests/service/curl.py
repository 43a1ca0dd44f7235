"""curl against a service, as a new user calls it."""

import json
import shutil
import subprocess
from typing import Any

import pytest

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt install curl")


def curl(url: str, path: str, body: Any = None, method: str = "POST") -> tuple[int, Any]:
    """Status and JSON of one call."""
    sent = [] if body is None else ["-H", "content-type: application/json", "-d", "@-"]
    call = ["curl", "-s", "-X", method, *sent, "-w", "\n%{http_code}", f"{url}{path}"]
    done = subprocess.run(call, input=json.dumps(body), capture_output=True, text=True, timeout=60, check=True)
    text, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(text)
