"""Methods of other programs on streams, each in a separate process and environment."""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.harness.environments import CAPYMOA, RIVER, Unavailable, answer_of
from tests.benchmarks.harness.processes import OUT
from tests.benchmarks.harness.report import say

PROGRAMS = {"river": RIVER, "capymoa": CAPYMOA}
WORKER = Path(__file__).with_name("outside_worker.py")
KNOWN = OUT / "contenders"
"""Cached results of methods on streams, so that none is computed twice."""
SECONDS_MAX = 3600.0
Method = tuple[str, str]
"""A program and one of its methods, named as in the worker."""


@cache
def version_of(program: str) -> str | None:
    """The version of a program, whose environment is made if it is missing; None if it is not available."""
    try:
        return PROGRAMS[program].ready()
    except Unavailable as error:
        say(f"NOT RUN  {program}: {error}")
        return None


def contended(X: Any, y: Any, methods: Sequence[Method]) -> tuple[tuple[str, float, str], ...]:
    """Per method its per cent right, a-priori, and the program's version; unavailable methods are left out."""
    y = y.astype(np.int64)
    digest, found = hashlib.sha256(np.ascontiguousarray(X).tobytes() + y.tobytes()).hexdigest()[:16], []
    for program, method in methods:
        version = version_of(program)
        if version is None:
            continue
        known = KNOWN / f"{digest}-{program}-{version}-{method}"
        if not known.exists():
            try:
                said = _asked(program, method, X, y)
            except Unavailable as error:
                say(f"NOT RUN  {program} {method} on {len(y)} rows: {error}")
                continue
            KNOWN.mkdir(parents=True, exist_ok=True)
            known.write_text(said)
        found.append((f"{program} {method}", float(json.loads(known.read_text())), version))
    return tuple(found)


def _asked(program: str, method: str, X: Any, y: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder) / "stream.npz"
        np.savez(stream, X=X, y=y)
        command = [str(PROGRAMS[program].python), str(WORKER), program, method, str(stream)]
        return answer_of(command, SECONDS_MAX).splitlines()[-1]
