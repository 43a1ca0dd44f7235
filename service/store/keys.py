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
    onepass:{NAME}:INC:drift            STREAM  the model's last drift events, see drift.py

    onepass:drift                       STREAM  the last drift events of all models, in the order they became known;
                                                its consumer groups are the webhooks
    onepass:{onepass:drift}:marks       HASH  "NAME INC" -> place of the model's last event in it, or "gone"
    onepass:{onepass:drift}:gone        ZSET  "NAME INC" -> when the model was deleted, ms

    onepass:{NAME}:hints                CHANNEL  "INC VERSION UID" for every entry; "INC" when the model is deleted

The hash tag {NAME} puts all keys of one model in one slot, so that one script can change them together. Everything but
meta carries the incarnation: what a deleted model's writers still send can never reach its successor.
"""

from dataclasses import dataclass

INDEX = "onepass:models"
"""Space sorts before every character a name may hold, so the members sort by name."""
DRIFT = "onepass:drift"
"""What stands in braces names the slot, else the whole key does: these three share theirs."""
DRIFT_MARKS = f"onepass:{{{DRIFT}}}:marks"
DRIFT_GONE = f"onepass:{{{DRIFT}}}:gone"


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
    def notices(self) -> str:
        """Channel that says when the log has grown; scripts make it of ``meta``."""
        return f"onepass:{{{self.name}}}:hints"

    @property
    def log(self) -> str:
        """Stream of entries."""
        return self._key("log")

    @property
    def idempotency(self) -> str:
        """Remembered ids."""
        return self._key("seen")

    @property
    def idempotency_expiry(self) -> str:
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
    def drift(self) -> str:
        """Stream of the model's own drift events."""
        return self._key("drift")

    @property
    def chunks_prefix(self) -> str:
        """What ``chunks`` of every version begins with; scripts that drop versions complete it themselves."""
        return self._key("chunks:")

    def chunks(self, version: int) -> str:
        """Pieces of the snapshot of one version."""
        return f"{self.chunks_prefix}{version}"

    def member(self) -> str:
        """This model in ``INDEX``, and among the marks of the drift events."""
        return f"{self.name} {self.incarnation}"

    def _key(self, what: str) -> str:
        return f"onepass:{{{self.name}}}:{self.incarnation}:{what}"


def raw(text: str) -> bytes:
    """Bytes of a client's text; total, since one odd id must not fail the pipeline it shares with other models."""
    return text.encode("utf-8", "surrogatepass")


def text(data: bytes) -> str:
    """The inverse of ``raw``."""
    return data.decode("utf-8", "surrogatepass")
