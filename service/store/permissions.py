"""Whether the store's user may run all commands: a script refused halfway leaves its first writes behind."""

import re
from pathlib import Path

from service.store import lua
from service.store.keys import NOTHING
from service.store.redis.connection import Connection

_SOURCES = [path.read_text() for path in Path(lua.__file__).parent.glob("*.lua")]
_IN_SCRIPTS = {command for source in _SOURCES for command in re.findall(r"\bcall\('([A-Z]+)'", source)}
_COMMANDS = sorted(_IN_SCRIPTS | {"GET", "XREAD", "ZMSCORE", "ZRANGEBYLEX"})  # ZMSCORE is new in Redis 6.2
_REFUSED = lua.script("refused")


async def refused_commands(connection: Connection) -> list[str]:
    """The commands that the user may not run at some server in charge, or that are renamed or unknown there."""
    found = await connection.everywhere(_REFUSED, NOTHING, *_COMMANDS)
    return sorted({command.decode() for refused in found for command in refused})
