"""Drift before the labels come: watches the rows that are predicted and tracked, if ``watch.unlabelled`` is true.

A row costs some microseconds, whatever the size of its model: a model with many columns is watched by its predictions
only (core.model.unlabelled_watch). Only the most recently used models are watched. Events wait in a bounded queue for
the store and are dropped if it does not take them: they are hints, which the labels will confirm.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque

import msgspec

from core.contract import Floats
from core.entry import ServedPrediction
from core.features import Space
from core.model.unlabelled_watch import UnlabelledWatch, facts
from service.errors import Unavailable
from service.runtime.replicas.replica import Replica
from service.store.drift.drift import DriftStream
from service.store.drift.events import HELD_BACK, iso

logger = logging.getLogger(__name__)

MODELS_MAX = 256  # models watched at the same time
QUEUE_MAX = 100  # events that may wait for the store
_encode = msgspec.json.Encoder().encode

Found = tuple[str, str, int, int, bytes, str]
"""An event on its way into the store, as ``DriftStream.add_unlabelled`` takes it."""


class Unlabelled:
    """The watches of one process; ``published`` counts the events that it has put into the store."""

    def __init__(self, stream: DriftStream) -> None:
        self._stream = stream
        self._watches: OrderedDict[str, UnlabelledWatch] = OrderedDict()
        self._found: deque[Found] = deque(maxlen=QUEUE_MAX)
        self._news = asyncio.Event()
        self.published = 0

    def note(self, replica: Replica, space: Space, raw: Floats, served: ServedPrediction) -> None:
        """Watch a row (1, F) of a space that was predicted and is tracked, unless its model is locked."""
        model = replica.model
        if not model.config.watch.unlabelled or replica.lock.locked() or model.prediction_schema != space:
            return
        watch = self._watch(replica)
        now_ms = int(1000 * time.time())
        drift = watch.absorb(model, raw, served, replica.version, now_ms)
        if drift is None:
            return
        body = _encode({"model": replica.name, "time": iso(now_ms), **drift.to_json()})
        mark = HELD_BACK if drift.held_back else ""
        self._found.append((replica.name, replica.incarnation, replica.version, now_ms, body, mark))
        self._news.set()

    def _watch(self, replica: Replica) -> UnlabelledWatch:
        watch = self._watches.get(replica.incarnation)
        if watch is None or watch.facts != facts(replica.model):
            watch = self._watches[replica.incarnation] = UnlabelledWatch(replica.model)
        self._watches.move_to_end(replica.incarnation)
        if len(self._watches) > MODELS_MAX:
            self._watches.popitem(last=False)
        return watch

    async def run(self) -> None:
        """Put events into the store forever; the supervisor restarts it if it dies."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._found:
                found = self._found.popleft()
                try:
                    self.published += await self._stream.add_unlabelled(*found)
                except Unavailable as error:
                    logger.info("model %s: could not report a drift of its unlabelled rows: %s", found[0], error.detail)
