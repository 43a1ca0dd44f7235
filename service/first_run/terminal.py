"""Progress of long steps: on a terminal one line that is rewritten, elsewhere a line each, of many parts a few."""

import shutil
import time
from typing import TextIO

EVERY = 10
"""Which of many parts are shown where no line is rewritten."""


class Progress:
    """Where progress is shown, and since when.

    Args:
        out: a terminal or something else.
    """

    def __init__(self, out: TextIO) -> None:
        self._out, self._begun, self._last = out, time.monotonic(), ""
        self._part = 0
        self._again = "\r\x1b[K" if out.isatty() else ""

    def show(self, text: str) -> None:
        """Show what is being done; the same text again shows nothing."""
        if text != self._last:
            self._last = text
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{self._again}{text[:width]}" if self._again else f"{text}\n")

    def show_part(self, number: int, total: int, text: str) -> None:
        """Show which of many parts is done: where it is no terminal the first, the last, and one of each ten."""
        if self._again or not self._part or number == total or number // EVERY > self._part // EVERY:
            self._part = number
            self.show(text)

    def keep(self, text: str) -> None:
        """Show what is to stay, also on a terminal."""
        self._write(f"{self._again}{text}\n")

    def end(self, text: str) -> None:
        """Show what has been done, and how long it took."""
        self.keep(f"{text} in {time.monotonic() - self._begun:.0f} s")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
