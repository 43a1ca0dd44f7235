"""The keys of a model, and how text becomes bytes in them.

    onepass:models                      ZSET  "NAME INCARNATION", score 0: an index only, never the truth

    onepass:{NAME}:meta                 HASH  incarnation, config, version, uid, created, updated (ms), expired (count),
                                              w:WRITER -> "SEQUENCE:VERSION" of that writer's last append
    onepass:{NAME}:INC:log              STREAM  see log.py
    onepass:{NAME}:INC:seen             HASH  id -> "VERSION:ORDINAL:ROW:DIGEST:" + answer (empty until it is known)
    onepass:{NAME}:INC:seen_due         ZSET  id -> when it may be forgotten, ms
    onepass:{NAME}:INC:pending          HASH  prediction id -> the tracked prediction
    onepass:{NAME}:INC:pending_due      ZSET  prediction id -> when it expires, ms
    onepass:{NAME}:INC:snapshots        HASH  version -> JSON of SnapshotInfo; published ones only
    onepass:{NAME}:INC:chunks:VERSION   HASH  "DIGEST:NUMBER" -> 4 MiB of the snapshot

    onepass:{NAME}:hints                CHANNEL  "INC VERSION UID" for every entry; "INC" when the model is deleted

The hash tag {NAME} puts all keys of one model in one slot, so that one script can change them together. Everything but
meta carries the incarnation: what a deleted model's writers still send can never reach its successor.
"""

from dataclasses import dataclass

INDEX = "onepass:models"
"""Space sorts before every character a name may hold, so the members sort by name."""


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """The keys of one incarnation of a model."""

    name: str
    incarnation: str

    @property
    def meta(self) -> str:
        """The one key without the incarnation: it says which one lives."""
        return f"onepass:{{{self.name}}}:meta"

    @property
    def hints(self) -> str:
        """Channel that says when the log has grown; scripts make it of ``meta``."""
        return f"onepass:{{{self.name}}}:hints"

    @property
    def log(self) -> str:
        """Stream of entries."""
        return self._key("log")

    @property
    def seen(self) -> str:
        """Remembered ids."""
        return self._key("seen")

    @property
    def seen_due(self) -> str:
        """When they may be forgotten."""
        return self._key("seen_due")

    @property
    def pending(self) -> str:
        """Tracked predictions that wait for their label."""
        return self._key("pending")

    @property
    def pending_due(self) -> str:
        """When they expire."""
        return self._key("pending_due")

    @property
    def snapshots(self) -> str:
        """Published snapshots."""
        return self._key("snapshots")

    @property
    def chunks_prefix(self) -> str:
        """What ``chunks`` of every version begins with; scripts that drop versions complete it themselves."""
        return self._key("chunks:")

    def chunks(self, version: int) -> str:
        """Pieces of the snapshot of one version."""
        return f"{self.chunks_prefix}{version}"

    def member(self) -> str:
        """This model in ``INDEX``."""
        return f"{self.name} {self.incarnation}"

    def _key(self, what: str) -> str:
        return f"onepass:{{{self.name}}}:{self.incarnation}:{what}"


def raw(text: str) -> bytes:
    """Bytes of a client's text; total, since one odd id must not fail the pipeline it shares with other models."""
    return text.encode("utf-8", "surrogatepass")


def text(data: bytes) -> str:
    """The inverse of ``raw``."""
    return data.decode("utf-8", "surrogatepass")
