"""The server-side scripts of the log; log.py defines their arguments and results."""

from service.store.lua import script

WRITER_LIFE_MS = 600_000
"""How long the last append of a process is remembered: far longer than it is sent again after a lost reply."""
WRITERS_MAX = 512  # processes whose appends a model remembers; one more is refused while none of them can be forgotten
APPEND = script(
    "append_quick", "basics", "look", "sweep", "store_summary", "join", "append",
    WRITER_LIFE_MS=WRITER_LIFE_MS, WRITERS_MAX=WRITERS_MAX,
)  # fmt: skip
READ_AFTER = script("basics", "join", "read_after")
RECORD = script("basics", "join", "record")
LOOKUP = script("basics", "look", "lookup")
SUMMARY = script("store_summary", "summary")
