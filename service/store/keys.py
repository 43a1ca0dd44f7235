"""The keys of a model, and how text becomes bytes in them.

    onepass:models                      ZSET  "NAME INCARNATION", score 0: an index only, never the truth

    onepass:{NAME}:meta                 HASH  incarnation, config, version, uid, created, updated (ms), expired (count),
                                              summary (see summaries.py),
                                              code: newest state version of those that appended (missing: none has),
                                              origin: of a copy, "NAME INC VERSION KEY" of what was copied, and the
                                              Idempotency-Key of the request,
                                              snapshot: version of the newest published snapshot (missing: none),
                                              guard: version of the one kept however old it is (missing: none),
                                              w:WRITER -> "SEQUENCE:VERSION:TIME" of that writer's last append, ms
    onepass:{NAME}:lost                 STRING  incarnation of a lost model that some service holds; expires
    onepass:{NAME}:INC:log              STREAM  see log.py
    onepass:{NAME}:INC:seen             HASH  id -> "VERSION:ORDINAL:ROW:DIGEST:" + answer (empty until it is known)
    onepass:{NAME}:INC:seen_due         ZSET  id -> when it may be forgotten, ms
    onepass:{NAME}:INC:pending          HASH  prediction id -> the tracked prediction
    onepass:{NAME}:INC:pending_due      ZSET  prediction id -> when it expires, ms
    onepass:{NAME}:INC:labels_due       ZSET  prediction id -> when it is learned as the label of labels_due, ms
    onepass:{NAME}:INC:snapshots        HASH  version -> JSON of SnapshotInfo; published ones only
    onepass:{NAME}:INC:chunks:VERSION   HASH  "DIGEST:NUMBER" -> a piece of the snapshot
    onepass:{NAME}:INC:states           HASH  "VERSION-ORDINAL" of a state or large segment that the log names -> digest
    onepass:{NAME}:INC:state:DIGEST     HASH  number -> a piece of what has this digest; expires until an entry names it
    onepass:{NAME}:INC:deleted          STRING  the model was deleted; expires. Without it and without meta: lost

    onepass:drift                       STREAM  the last drift events of all models, in the order they became known
    onepass:{onepass:drift}:published   HASH  "NAME INC" -> the model's newest alarm in it, see drift.py
    onepass:{onepass:drift}:alarms      HASH  id of an event in it -> the alarms that have joined it
    onepass:{onepass:drift}:NAME:INC:unlabelled   STREAM  the model's events from before the labels
    onepass:{onepass:drift}:webhooks    HASH  a webhook -> its last event, and whose turn it is, see deliveries.py
    onepass:{onepass:drift}:tombstones    ZSET  "NAME INC" -> when the model was deleted, ms: the newest, see catalog.py

    onepass:{onepass:labels}:due        ZSET  "NAME INC" -> when to look for labels that are due, ms, see due_labels.py
    onepass:{onepass:labels}:marked     HASH  "NAME INC" -> "TIME LIFE": when such a prediction was last announced, and
                                              the shortest time until the label of a recent one is due, both in ms

    onepass:nothing                     never exists: only a store that takes writes lets it be deleted

    onepass:{NAME}:hints                CHANNEL  "INC VERSION UID" for an entry; "INC" when the model is deleted

The hash tag {NAME} puts all keys of one model in one slot, so that one script can change them together. Everything but
meta and lost carries the incarnation, so that late writes for a deleted model can never reach its successor.
"""

from functools import lru_cache

INDEX = "onepass:models"  # space sorts before every character a name may hold, so the members sort by name
DRIFT = "onepass:drift"  # a part in braces determines the slot, otherwise the whole key: these keys share a slot
_DRIFT_SLOT = f"onepass:{{{DRIFT}}}:"
DRIFT_PUBLISHED = f"{_DRIFT_SLOT}published"
DRIFT_ALARMS = f"{_DRIFT_SLOT}alarms"
DRIFT_WEBHOOKS = f"{_DRIFT_SLOT}webhooks"
TOMBSTONES = f"{_DRIFT_SLOT}tombstones"
NOTHING = "onepass:nothing"
LABELS_DUE, LABELS_MARKED = "onepass:{onepass:labels}:due", "onepass:{onepass:labels}:marked"


class ModelKeys:
    """The keys of one incarnation of a model, as drawn above; ``notices`` is the channel.

    Scripts derive the names of ``notices``, ``labels_due``, ``state`` and ``chunks`` themselves.
    """

    def __init__(self, name: str, incarnation: str) -> None:
        self.name, self.incarnation = name, incarnation
        model = f"onepass:{{{name}}}:"
        own = f"{model}{incarnation}:"
        self.meta, self.lost, self.notices = meta_key(name), f"{model}lost", f"{model}hints"
        self.log, self.snapshots = f"{own}log", f"{own}snapshots"
        self.idempotency, self.idempotency_expiry = f"{own}seen", f"{own}seen_due"
        self.pending, self.pending_due = f"{own}pending", f"{own}pending_due"
        self.labels_due = f"{own}labels_due"
        self.states, self.deleted = f"{own}states", f"{own}deleted"
        self.unlabelled = f"{_DRIFT_SLOT}{name}:{incarnation}:unlabelled"
        self.chunks_prefix = f"{own}chunks:"

    def chunks(self, version: int) -> str:
        """Pieces of the snapshot of one version."""
        return f"{self.chunks_prefix}{version}"

    def state(self, digest: str) -> str:
        """Pieces of a state."""
        return f"{self.states[:-1]}:{digest}"

    def member(self) -> str:
        """This model in ``INDEX``, and among the keys of drift events and due labels."""
        return f"{self.name} {self.incarnation}"


cached_keys = lru_cache(maxsize=1024)(ModelKeys)  # the keys of models that append or read often


def meta_key(name: str) -> str:
    """``ModelKeys.meta`` of a name, for callers that need thousands of these and no other key."""
    return f"onepass:{{{name}}}:meta"


def pair(member: bytes) -> tuple[str, str]:
    """Name and incarnation: the inverse of ``ModelKeys.member``. Foreign data become a model that does not exist."""
    name, _, incarnation = member.decode(errors="replace").partition(" ")
    return name, incarnation


LABEL, ROW = "p:", "i:"
"""Prefixes of remembered ids: for the label of a tracked prediction, whose prediction id follows, and for a row with
its own id, which follows."""

TEXT = ("utf-8", "surrogatepass")
"""How a client's text is encoded: never fails, since an odd id must not fail the pipeline it shares with others."""


def raw(text: str) -> bytes:
    """Bytes of a client's text."""
    return text.encode(*TEXT)


def text(data: bytes) -> str:
    """The inverse of ``raw``."""
    return data.decode(*TEXT)
