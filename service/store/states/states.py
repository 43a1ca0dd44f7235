"""States and large segments that log entries name by digest: written in pieces before the entry, read in pieces before
it is applied.

The pieces expire unless an entry refers to them. The append script refuses an entry whose pieces are not all there,
makes them permanent and records version and digest in the states HASH. The script that publishes a snapshot unlinks the
states of the entries that it trims; the script that deletes a model unlinks those of all its entries.
"""

from core.contract import Buffer
from service.errors import Recreated
from service.store.keys import ModelKeys
from service.store.lua import script
from service.store.redis.connection import Call, Connection
from service.store.states import pieces

_PIECE = script("write_piece")


class StateLost(ValueError):
    """The pieces of a state are missing or damaged, or the entry that names it has been trimmed meanwhile."""


class States:
    """The states that entries of all models of one store name.

    Every method raises StoreDown if the store did not answer, or answered that it cannot.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(self, name: str, incarnation: str, digest: str, state: Buffer) -> None:
        """Write the pieces of a state with this ``pieces.digest``; an entry has to refer to them within the hour.

        ``Recreated`` if the model has another incarnation now, or none.
        """
        keys = ModelKeys(name, incarnation)
        for number, piece in pieces.cut(state):
            args = (incarnation, number, piece, pieces.UNUSED_MS)
            if not await self._connection.one(Call(_PIECE, (keys.meta, keys.state(digest)), args)):
                raise Recreated(f"model {name} was deleted or created again: send the request again")

    async def read(self, name: str, incarnation: str, digest: str, size: int) -> memoryview:
        """The bytes of a state; ``StateLost`` if pieces are missing, or length or digest differ."""
        state = await pieces.gather(self._connection, ModelKeys(name, incarnation).state(digest), "", size, digest)
        if state is None:
            raise StateLost(f"the state {digest} of {name} is missing or damaged in the store")
        return state
