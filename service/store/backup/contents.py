"""The order of a backup's parts: what may follow what, which models are whole, whether it is."""

from typing import Any

from service.store.backup import parts
from service.store.backup.frames import SECTION, Damaged, Frame, FrameReader
from service.store.backup.parts import Begin, BrokenOff, Header, LeftOut, Trailer

FRAME_BYTES_MAX = 2**27
"""Payload that a reader of files takes; services take less, since they hold many at once."""
_ORDER = b"PSCIDUE"
"""Parts of a model, in this order; P, C, I, D and U may repeat, or be missing."""
_REPEATED = b"PCIDU"


class Contents:
    """What has been read of a backup.

    Attributes:
        header: of the present section.
        model: the model that has begun and is not whole; None between models.
        last: the last model that is whole, or left out.
        end: where it ends, in bytes: what stands behind may be cut off, and the backup continued.
        models: how many are whole.
        left_out: those that are not in it, and why.
        finished: the last section has its trailer.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self.model: Begin | None = None
        self.last, self.end, self.models = "", 0, 0
        self.left_out: list[LeftOut] = []
        self.finished = False
        self._kind = SECTION
        self._of_section = [0, 0]
        self._begun = False

    def note(self, frame: Frame) -> Any:
        """The part that a frame holds; None at the beginning of a section.

        Raises:
            Damaged: it is none, or may not stand there.
        """
        kind = frame.kind
        if self.finished and kind != SECTION:
            raise Damaged(f"behind its end, at byte {frame.end}, the backup goes on")
        if kind == SECTION:
            self._begun, self.model, self.finished = True, None, False
            self._of_section = [0, 0]
            return None
        part = parts.decode(kind, frame.payload)
        if self._begun != (kind == b"H"):
            raise Damaged(f"a section does not begin with its header, at byte {frame.end}")
        if kind in b"PSCIDUE":
            self._of_model(kind, frame)
        elif isinstance(part, Begin):
            self._next_model(part.name)
            self.model = part
        else:
            self._between(part, frame)
        self._kind = kind
        return part

    def _of_model(self, kind: bytes, frame: Frame) -> None:
        before = _ORDER.find(self._kind) if self._kind != b"M" else -1
        at = _ORDER.find(kind)
        later = at > before or (kind == self._kind and kind in _REPEATED)
        skipped = before < 1 <= at and kind != b"S"
        if self.model is None or not later or skipped:
            raise Damaged(f"parts of a model are missing or out of order at byte {frame.end}")
        if kind == b"E":
            self._whole(self.model.name, frame.end)
            self._of_section[0] += 1
            self.models += 1

    def _between(self, part: Any, frame: Frame) -> None:
        if isinstance(part, Header):
            if part.after != self.last:
                raise Damaged(f"it goes on after model {part.after!r}, and what stands before ends with {self.last!r}")
            self.header, self._begun = part, False
            self.end = frame.end
        elif isinstance(part, LeftOut):
            if self.model is None or part.name != self.model.name:
                self._next_model(part.name)
            self._whole(part.name, frame.end)
            self._of_section[1] += 1
            self.left_out.append(part)
        elif isinstance(part, Trailer):
            if [part.models, part.left_out] != self._of_section:
                raise Damaged("it has not as many models as its end says")
            self.model, self.finished, self.end = None, True, frame.end
        else:
            assert isinstance(part, BrokenOff)
            raise Damaged(f"it broke off when it was made: {part.detail}")

    def _next_model(self, name: str) -> None:
        if name <= self.last:
            raise Damaged(f"model {name} stands behind {self.last}: models are ordered by name")

    def _whole(self, name: str, end: int) -> None:
        self.last, self.end, self.model = name, end, None


def read_all(reader: FrameReader, contents: Contents, data: bytes) -> None:
    """Read what comes next of a backup, as far as there are whole frames.

    Raises:
        Damaged: it is not as it was written; ``contents`` tell how far it is.
    """
    reader.feed(data)
    while (frame := reader.next()) is not None:
        contents.note(frame)
