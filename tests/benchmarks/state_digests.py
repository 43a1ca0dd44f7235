"""Digests of what a client sees of the fixed lives of some thirty models, to compare two commits.

    python -m tests.benchmarks.state_digests [--only WORD]
    python -m tests.benchmarks.state_digests --base COMMIT

A line has the stream's name, the rows learned, the drift events found, and the digests of predictions (labels and
numbers, probabilities, deviations, intervals, losses), of metrics (with challengers, experts and phases) and of drift
events. Floats count by their bits, objects by their sorted keys. Not in it is what only represents the model: saved
states, the names of arrays, format numbers, configurations as the model keeps them, bytes of memory, and texts.

The lives and what is asked of core stand in tests/core/life; it must understand both commits. ``--base`` runs this
program on the code of the commit and on that of this checkout, on one machine: across CPU types round-off differs. The
commit is checked out into a temporary worktree with the tests of this checkout; its kernels are compiled there first,
which takes a minute or two. Lines that differ are printed, and the exit code is 1 if there are any.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import core
from tests.core.life.digested import STREAMS

ROOT = Path(__file__).resolve().parents[2]


def lines_of(checkout: Path, only: str) -> "subprocess.Popen[str]":
    """This program at work on the code of a checkout."""
    command = [sys.executable, "-m", "tests.benchmarks.state_digests", "--only", only]
    return subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, text=True)


def differences(base: str, only: str) -> int:
    """Print the lines that differ between a commit and this checkout, and tell how many."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "base"
        subprocess.run([*git, "add", "--quiet", "--detach", str(before), base], check=True)
        try:
            shutil.rmtree(before / "tests", ignore_errors=True)
            (before / "tests").symlink_to(ROOT / "tests")
            started = [lines_of(before, only), lines_of(ROOT, only)]
            found = [one.communicate()[0].splitlines() for one in started]
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
    if any(one.returncode for one in started) or len(found[0]) != len(found[1]):
        raise SystemExit("a checkout has not run to its end")
    apart = [(old, new) for old, new in zip(*found, strict=True) if old != new]
    for old, new in apart:
        print(f"- {old}\n+ {new}")
    print(f"{len(found[1])} streams, {len(apart)} differ from {base}")
    return len(apart)


def main() -> None:
    """Print a line per stream, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="streams whose names hold this")
    parser.add_argument("--base", help="the commit to compare with")
    given = parser.parse_args()
    if given.base:
        raise SystemExit(differences(given.base, given.only) > 0)
    if not Path(core.__file__).is_relative_to(Path.cwd()):
        raise SystemExit(f"{core.__file__} is not the core of {Path.cwd()}")
    for name, stream in STREAMS.items():
        if given.only in name:
            print(f"{name:24} {stream.live()}", flush=True)


if __name__ == "__main__":
    main()
