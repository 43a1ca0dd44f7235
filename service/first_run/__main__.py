"""``python -m service.first_run compile``: core's kernels into Numba's cache."""

import signal
import sys

from service.first_run.compiling import compile_missing
from service.first_run.kernels import CannotCompile

if __name__ == "__main__":
    if sys.argv[1:] != ["compile"]:
        sys.exit("usage: python -m service.first_run compile")
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, lambda number, _: sys.exit(128 + number))
    try:
        compile_missing()
    except (CannotCompile, OSError) as error:
        sys.exit(str(error))
