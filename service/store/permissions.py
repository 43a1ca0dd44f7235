"""Whether the store's user may run the scripts' commands: a script refused halfway leaves its first writes behind."""

import re
from pathlib import Path

from service.store import lua
from service.store.keys import NOTHING
from service.store.redis.connection import Call, Connection

_SOURCES = [path.read_text() for path in Path(lua.__file__).parent.glob("*.lua")]
_COMMANDS = sorted({command for source in _SOURCES for command in re.findall(r"\bcall\('([A-Z]+)'", source)})
_REFUSED = lua.script("refused")


async def refused_commands(connection: Connection) -> list[str]:
    """The commands of the scripts that the store's user may not run, or that are renamed; in a cluster, at one node."""
    return [command.decode() for command in await connection.one(Call(_REFUSED, (NOTHING,), _COMMANDS))]
