"""Progress of long steps: on a terminal one line that is rewritten, elsewhere a line each."""

import shutil
import time
from typing import TextIO


class Progress:
    """Where progress is shown, and since when.

    Args:
        out: a terminal or something else.
    """

    def __init__(self, out: TextIO) -> None:
        self._out, self._begun, self._last = out, time.monotonic(), ""
        self._again = "\r\x1b[K" if out.isatty() else ""

    def show(self, text: str) -> None:
        """Show what is being done; the same text again shows nothing."""
        if text != self._last:
            self._last = text
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{self._again}{text[:width]}" if self._again else f"{text}\n")

    def keep(self, text: str) -> None:
        """Show what is to stay, also on a terminal."""
        self._write(f"{self._again}{text}\n")

    def end(self, text: str) -> None:
        """Show what has been done, and how long it took."""
        self.keep(f"{text} in {time.monotonic() - self._begun:.0f} s")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
