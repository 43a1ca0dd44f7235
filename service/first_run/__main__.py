"""``python -m service.first_run compile`` compiles core's kernels into Numba's cache."""

import signal
import sys
from types import FrameType

from service.first_run.compiling import compile_missing
from service.first_run.kernels import CannotCompile


def _stop(number: int, _: FrameType | None) -> None:
    sys.stderr.write("stopped; compiled kernels are kept, and the next run goes on from there\n")
    sys.exit(128 + number)


if __name__ == "__main__":
    if sys.argv[1:] != ["compile"]:
        sys.exit("usage: python -m service.first_run compile")
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, _stop)
    try:
        compile_missing()
    except (CannotCompile, OSError) as error:
        sys.exit(str(error))
