"""The models in memory: loaded on demand, and evicted, least recently used first, to keep a memory budget.

Deleting a model leaves a mark in the store. A model that is gone without one is lost: the store came back empty, or
older than the model. Its replica then stays in memory, and predicts but does not learn, until the store has the model
again or a client deletes it. Until then its name is reserved for it at all services (``Catalog.judge``).
"""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from core.config import Config
from core.config.changes import differences
from core.features.feature import width_of
from core.model import Summary, refuse_lag_names
from core.problems import PROBLEMS_MAX, Invalid
from service.errors import ModelDown, ModelLost, NotFound, OnepassError, Recreated, RequestConflict, no_model
from service.runtime import admission
from service.runtime.admission import Demand
from service.runtime.replicas.loader import Loader, load_algorithm_of
from service.runtime.replicas.replica import Inbox, Ledger, Replica
from service.runtime.replicas.summaries import SummaryWriter
from service.runtime.threads import DECLARED_BYTES, in_thread_if_large
from service.store.log import codec
from service.store.log.append_notices import AppendNotices
from service.store.summaries import encode_first

logger = logging.getLogger(__name__)

DOWN_S = 2.0  # how long a model that could not be loaded is refused before the next attempt
DOWN_SHOWN_S = 900.0  # how long after the last attempt it counts as down: others may repair or delete it meanwhile
CREATIONS_MAX = 2  # how often a model is created for one request if others delete it meanwhile
FIELDS_SHOWN = 8  # most fields that a sentence names
LOST = "the store has lost model %s (incarnation %s, version %d), %s"


class _Down(NamedTuple):
    """A model that could not be loaded: why, and until when it is refused, by the loop's clock."""

    incarnation: str
    why: str
    until: float


class ModelCache:
    """The loaded models of this process: ``budget_bytes`` for all of them, ``model_bytes_max`` for the state of one.

    Attributes:
        ledger: the memory in use.
        attach: makes the inbox of a loaded replica.
        on_alarm, publish: the first is called with a model that has alarms to publish, the second publishes them all;
            None without a publisher. With one, a snapshot is written only after the alarms up to its version are
            published, and a model with unpublished alarms stays in memory.
        summaries: writes the summaries of loaded models that have changed.
    """

    def __init__(self, loader: Loader, notices: AppendNotices, *, budget_bytes: int, model_bytes_max: int) -> None:
        self._store, self._loader, self._notices, self._stats = loader.store, loader, notices, loader.stats
        self._budget_bytes, self._model_bytes_max = budget_bytes, model_bytes_max
        self._loaded: OrderedDict[str, Replica] = OrderedDict()
        self.ledger = Ledger()
        self.on_alarm: Callable[[Replica], None] | None = None
        self.publish: Callable[[Replica], Awaitable[None]] | None = None
        self.summaries = SummaryWriter(loader.store.catalog)
        self._down: dict[str, _Down] = {}
        self._loading: dict[str, asyncio.Task[Replica]] = {}
        self._outdated: set[str] = set()  # models that were deleted since their loading began
        self.attach: Callable[[Replica], Inbox]

    @property
    def loaded(self) -> list[Replica]:
        """The models in memory, least recently used first."""
        return [*self._loaded.values()]

    @property
    def names_loaded(self) -> list[str]:
        """Their names, in an order that use does not change."""
        return sorted(self._loaded)

    def refuses(self, name: str, incarnation: str) -> bool:
        """Whether a model could not be loaded a moment ago."""
        found = self._down.get(name)
        return (
            found is not None and found.incarnation == incarnation and asyncio.get_running_loop().time() < found.until
        )

    @property
    def lost(self) -> list[Replica]:
        """The models in memory that the store has lost."""
        return [replica for replica in self._loaded.values() if replica.lost]

    @property
    def down(self) -> int:
        """How many models are out of service: in memory, or because they could not be loaded when last requested."""
        late = asyncio.get_running_loop().time() - DOWN_SHOWN_S
        unloaded = sum(one.until > late for one in self._down.values())
        return unloaded + sum(replica.down is not None for replica in self._loaded.values())

    def peek(self, name: str) -> Replica | None:
        """A model, if it is in memory; does not count as use."""
        return self._loaded.get(name)

    def at_hand(self, name: str) -> Replica | None:
        """A model that is in memory and in service; ``get`` loads or refuses any other."""
        replica = self._loaded.get(name)
        if replica is None or replica.down is not None:
            return None
        self._loaded.move_to_end(name)
        return replica

    async def get(self, name: str) -> Replica:
        """A model, loaded if need be; ``NotFound``, ``ModelDown``, ``ModelLost`` or ``StoreDown`` if that cannot be."""
        replica = self._loaded.get(name)
        if replica is None:
            replica = await self._load(name)
        else:
            self._loaded.move_to_end(name)
        if replica.down is not None:
            raise ModelDown(replica.down)
        return replica

    async def _load(self, name: str) -> Replica:
        """Load a model once, however many requests wait for it."""
        if name in self._down:  # repeated loads would delay other models
            meta = await self._store.catalog.read(name)
            if meta is not None and self.refuses(name, meta.incarnation):
                raise ModelDown(self._down[name].why)
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.get_running_loop().create_task(self._taken_in(name))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # its waiters may have left
        try:
            return await asyncio.shield(task)
        finally:
            del task  # its error holds this frame and the callers', perhaps with an imported state: that is a cycle

    async def _taken_in(self, name: str) -> Replica:
        """Load a model and keep it; no other request runs between the two."""
        try:
            replica = await self._loader.load(name)
            while name in self._outdated:  # what was deleted may be a predecessor of the one that was loaded
                self._outdated.discard(name)
                replica = await self._loader.load(name)
        except NotFound as error:
            self._down.pop(name, None)
            raise await self._store.catalog.missing(name) from error
        except ModelDown as error:
            known, incarnation = self._down.get(name), error.incarnation
            if known is None or known.incarnation != incarnation:
                self._stats.down_models += 1
                logger.error("model %s cannot be loaded: %s", name, error.detail)  # noqa: TRY400  the sentence says it all
            self._down[name] = _Down(incarnation, error.detail, asyncio.get_running_loop().time() + DOWN_S)
            await self.summaries.write_down(name, incarnation)
            raise
        finally:
            del self._loading[name]
            self._outdated.discard(name)
        self._down.pop(name, None)
        held = self._loaded.get(name)
        if held is None:
            replica.attach, replica.learned = self.attach, replica.model.rows
            self._take_in(replica)
            held = replica
        self._loaded.move_to_end(name)
        return held

    def _take_in(self, replica: Replica) -> None:
        self._loaded[replica.name] = replica
        replica.ledger = self.ledger
        self._notices.want(replica.name)
        self.ledger.used += replica.nbytes
        replica.on_alarm = self.on_alarm
        replica.notify()
        self.summaries.attach(replica)
        self.shrink()

    async def until_published(self, replica: Replica) -> None:
        """Wait until the alarms that a model has now are published, if there is a publisher; raises as ``publish``."""
        if self.publish is not None and replica.unpublished:
            await self.publish(replica)

    def current(self, replica: Replica) -> Replica:
        """The replica now in memory for one that was evicted since its caller got it; without one, the old is put back.

        ``NotFound`` or ``Recreated`` if the model is gone, ``ModelDown`` if it is out of service.
        """
        held = self._loaded.get(replica.name)
        if held is not None and held.incarnation != replica.incarnation:
            raise Recreated(f"model {replica.name} was created again: send the request again")
        if replica.gone:
            raise no_model(replica.name)
        if held is None:
            if replica.down is not None:
                raise ModelDown(replica.down)
            self._take_in(replica)
            held = replica
        return held

    async def create(self, name: str, config: Config) -> tuple[Replica, bool]:
        """Create a model, or find the one created with the same configuration; also returns whether it is new.

        ``RequestConflict`` if the model of that name has another configuration, ``Invalid`` if the state would not fit
        the limit, ``ModelLost`` if the store has lost the model but a service still holds it, ``Recreated`` if other
        requests delete each model that this one creates.
        """
        await self.confirm(name)
        size = DECLARED_BYTES * width_of(config.features or ())
        demand, text, first = await in_thread_if_large(size, _prepared, config)
        if demand is not None:
            self.admit(demand)
        for _ in range(CREATIONS_MAX):
            with suppress(NotFound):  # it was deleted meanwhile
                return await self._created(name, config, size, text, first)
        raise Recreated(f"model {name} was deleted while it was created: send the request again")

    async def _created(self, name: str, config: Config, size: int, text: str, first: bytes) -> tuple[Replica, bool]:
        """Like ``create``, or ``NotFound`` if the model is deleted meanwhile; ``first`` is its first summary."""
        incarnation = secrets.token_hex(8)
        found = await self._store.catalog.create(name, incarnation, text.encode(), first)
        await load_algorithm_of(found.config)  # it may differ from the requested one
        replica = await self.present(name, found.incarnation)
        if not (
            found.created or text == await in_thread_if_large(max(size, len(found.config)), _canonical, found.config)
        ):
            await replica.inbox.sync()  # it may have been changed to this configuration since its creation
            standing = replica.model.present_config, replica.model.config
            refusal = await in_thread_if_large(size, _other_configuration, name, config, text, *standing)
            if refusal is not None:
                raise refusal
        return replica, found.created

    async def present(self, name: str, incarnation: str) -> Replica:
        """The model that was just created under a name; an earlier one of that name may still be in memory.

        Raises as ``get``, or ``Recreated`` if the name belongs to a later one by now: the store's reply came late.
        """
        loading = self._loading.get(name)
        if loading is not None:
            await asyncio.wait([loading])  # it may be loading the earlier one, and fail
        held = self._loaded.get(name)
        if held is not None and held.incarnation != incarnation:
            meta = await self._store.catalog.read(name)
            if meta is None or meta.incarnation != held.incarnation:
                await self.vanished([(held, meta is not None)])
        replica = await self.get(name)
        if replica.incarnation != incarnation:
            raise Recreated(f"model {name} was created again: send the request again")
        return replica

    async def confirm(self, name: str) -> None:
        """``ModelLost`` if the store has lost a model that is in memory: its name must not be used for a new one."""
        held = self._loaded.get(name)
        if held is None:
            return
        meta = await self._store.catalog.read(held.name)
        if meta is None or meta.incarnation != held.incarnation:
            (error,) = await self.vanished([(held, meta is not None)])
            if isinstance(error, ModelLost):
                raise error

    async def vanished(self, found: Sequence[tuple[Replica, bool]]) -> list[OnepassError]:
        """Drop replicas whose models were deleted, keep those that are lost; returns the errors for their requests.

        ``found`` are replicas whose models are not in the store, each with whether its name belongs to another model
        now. ``StoreDown`` if the store cannot tell.
        """
        marks = await self._store.catalog.judge([(replica.name, replica.incarnation) for replica, _ in found])
        return [self._judged(*own, deleted) for own, deleted in zip(found, marks, strict=True)]

    def _judged(self, replica: Replica, others: bool, deleted: bool) -> OnepassError:
        name, known = replica.name, (replica.name, replica.incarnation, replica.version)
        if deleted or others:
            if deleted:
                logger.info("model %s was deleted", name)
            elif not replica.gone:
                self._stats.lost_models += 1
                logger.error(LOST, *known, "and another model has its name now: it is dropped")
            self.forget(replica)
            return Recreated(f"model {name} was created again: send the request again") if others else no_model(name)
        error = ModelLost(name)
        if not (replica.lost or replica.gone) and self._loaded.get(name) is replica:
            replica.lost = True
            self._stats.lost_models += 1
            replica.progress.refuse(error)
            logger.error(
                LOST,
                *known,
                "which was not deleted; it stays in memory and predicts, but does not learn until the store is "
                "restored or the model is deleted",
            )
        return error

    def found(self, replica: Replica) -> None:
        """Note that the store has a model, which may have been lost before."""
        if replica.lost:
            replica.lost = False
            logger.warning("model %s is in the store again", replica.name)
            replica.notify()

    def admit(self, demand: Demand) -> None:
        """``Invalid`` for a request that would make a model's state exceed the limit, before anything is allocated."""
        if demand.bytes > self._model_bytes_max:
            raise Invalid.of(
                demand.field,
                f"{demand.what} {demand.bytes / 2**20:.0f} MiB",
                f"<= {self._model_bytes_max / 2**20:.0f} MiB of state",
            )

    async def delete(self, name: str) -> None:
        """Delete a model and everything stored for it, or raise NotFound; drops a model that the store has lost."""
        self._down.pop(name, None)
        held = self._loaded.get(name)
        deleted = await self._store.catalog.delete(name)  # if that fails, the model stays here as well
        if held is not None and held.lost:  # the store may have no mark that this incarnation was deleted
            await self._store.catalog.give_up(name, held.incarnation)
            deleted = True
        self._drop(name)
        if name in self._loading:
            self._outdated.add(name)
        if not deleted:
            raise no_model(name)
        if held is not None:
            held.end(no_model(name))

    def forget(self, replica: Replica) -> None:
        """Drop a replica from memory."""
        replica.end(no_model(replica.name))
        if self._loaded.get(replica.name) is replica:
            self._drop(replica.name)

    def _drop(self, name: str) -> None:
        replica = self._loaded.pop(name, None)
        if replica is not None:
            replica.ledger, replica.lost = None, False
            self.summaries.detach(replica)
            self._notices.drop(name)
            self.ledger.used -= replica.nbytes
            replica.let_go()

    def shrink(self) -> None:
        """Evict idle models, least recently used first, until the budget is kept."""
        if self.ledger.used <= self._budget_bytes:
            return
        for name, replica in [*self._loaded.items()][:-1]:
            if self.ledger.used <= self._budget_bytes:
                return
            if replica.idle:
                logger.debug("model %s leaves memory: version %d, %d bytes", name, replica.version, replica.nbytes)
                self._drop(name)
                self._stats.evictions += 1


def _prepared(config: Config) -> tuple[Demand | None, str, bytes]:
    """To create a model: its demand, if the features are declared, its configuration as text, its first summary."""
    space, demand = config.space, None
    if space is not None:
        refuse_lag_names([config], space)
        demand = admission.of_columns([config], space.width)
    return demand, config.canonical, encode_first(Summary.first(config))


def _canonical(stored: bytes) -> str:
    """A stored configuration as text, with defaults filled in."""
    return Config.accepted(codec.config(stored)).canonical


def _other_configuration(name: str, config: Config, text: str, now: Config, own: Config) -> RequestConflict | None:
    """The error for a configuration other than that of the model with this name; it names the fields that differ.

    None if its ``text`` is that of the present or of the model's ``own`` configuration.
    """
    if text in (now.canonical, own.canonical):
        return None
    found = differences(now, config)
    patched = [one.field for one in found if "PATCH" in one.problem]
    fixed = [one.field for one in found if one.field not in patched]
    said = [f"PATCH changes {_some(patched)}"] if patched else []
    said += [f"{_some(fixed)} cannot be changed: DELETE the model first or choose another name"] if fixed else []
    return RequestConflict(f"model {name} exists with another configuration: {'; '.join(said)}", found[:PROBLEMS_MAX])


def _some(names: Sequence[str]) -> str:
    more = len(names) - FIELDS_SHOWN
    return ", ".join(names[:FIELDS_SHOWN]) + (f" and {more} more" if more > 0 else "")
