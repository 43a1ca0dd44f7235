"""Remove from a virtual environment what serving never reads: tests of packages, headers, static libraries, stubs.

    python slim.py VENV

What is left imports and works as before; tests/image runs every algorithm in what comes of it.
"""

import shutil
import sys
from pathlib import Path

FOLDERS = ("tests", "include")
"""Of this name, wherever they are in a package."""
FILES = ("*.pyi", "*.pyx", "*.pxd", "*.a", "*.h", "*.c", "*.cpp")


def slim(environment: Path) -> int:
    """Remove it; the bytes that this frees."""
    (packages,) = environment.glob("lib/python*/site-packages")
    folders = [path for name in FOLDERS for path in packages.rglob(name) if path.is_dir()]
    files = [path for pattern in FILES for path in packages.rglob(pattern) if path.is_file()]
    inside = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    freed = sum(path.stat().st_size for path in {*files, *inside})
    for path in files:
        path.unlink()
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)  # one may be inside another
    return freed


if __name__ == "__main__":
    sys.stdout.write(f"{slim(Path(sys.argv[1])) / 1e6:.0f} MB removed\n")
