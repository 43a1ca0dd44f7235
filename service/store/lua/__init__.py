"""The scripts that the server runs, in Lua: one file each, and files that several of them share.

The server runs one script at a time, so each sees and leaves a consistent model. Nothing newer than Redis 6.2 is used.
Keys and arguments are checked beforehand, only in Python. Versions are written with %.0f: Lua would turn large numbers
into exponents.
"""

from pathlib import Path

from service.store.redis.connection import Script


def script(*names: str, **numbers: int) -> Script:
    """Files joined into one script; ``${NAME}`` in them stands for a number."""
    source = "\n".join((Path(__file__).parent / f"{name}.lua").read_text() for name in names)
    for name, number in numbers.items():
        source = source.replace(f"${{{name}}}", str(number))
    return Script(source)
