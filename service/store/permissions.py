"""Whether the store's user may run the scripts' commands: a script refused halfway leaves its first writes behind."""

import re
from pathlib import Path

from service.store import lua
from service.store.keys import NOTHING
from service.store.redis.connection import Connection

_SOURCES = [path.read_text() for path in Path(lua.__file__).parent.glob("*.lua")]
_COMMANDS = sorted({command for source in _SOURCES for command in re.findall(r"\bcall\('([A-Z]+)'", source)})
_REFUSED = lua.script("refused")


async def refused_commands(connection: Connection) -> list[str]:
    """The commands of the scripts that the user may not run at some server in charge, or that are renamed there."""
    found = await connection.everywhere(_REFUSED, NOTHING, *_COMMANDS)
    return sorted({command.decode() for refused in found for command in refused})
