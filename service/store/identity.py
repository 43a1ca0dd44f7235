"""Which store this is: a random id that its first user has written. A store that has lost its data has another."""

import secrets

from service.store.keys import STORE
from service.store.redis.connection import Connection


async def read(connection: Connection) -> str | None:
    """The store's id, or None where it has none.

    Raises:
        StoreDown: the store did not answer, or answered that it cannot.
    """
    (found,) = await connection.ask(("GET", STORE))
    return None if found is None else found.decode()


async def make(connection: Connection) -> str:
    """Give the store an id unless it has one; its id.

    Raises:
        StoreDown: as for ``read``.
    """
    _, found = await connection.ask(("SET", STORE, secrets.token_hex(8), "NX"), ("GET", STORE))
    return str(found.decode())
