"""What one model, one append or one round costs is not paid by the others."""

import asyncio
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from service.errors import ModelDown, QueueFull, StoreDown, StoreFull
from service.runtime import labels_due
from service.runtime.commit import answerer, jobs
from service.runtime.commit.answerer import AnswerWriter
from service.runtime.commit.committer import DOWN, CommitLimits, Committer, Ticket
from service.runtime.commit.jobs import JobQueue
from service.runtime.labels_due import LabelsDueLearner
from service.runtime.replicas.batches import UnstoredAnswers
from service.runtime.replicas.replica import Ledger
from service.runtime.stats import Stats
from service.store.due_labels import DueLabel
from tests.service.api_fixtures import ROW
from tests.service.waiting import until


async def test_an_append_whose_reply_was_lost_is_not_told_to_have_failed():
    """It may be on the log, although the second time the store was full."""
    replies, told = [StoreDown("cannot be reached"), StoreFull("writes fail")], []

    class Log:
        def node_key(self, _):
            return ""

        async def append(self, *_, **__):
            return [replies.pop(0)]

    class Source:
        name, tickets = "m", 0

        def next_append(self):
            self.tickets += 1
            return Ticket(self, SimpleNamespace(size=1)) if self.tickets == 1 else None

        def lost(self, error):
            told.append(error)

    async def ping():
        """Never needed: the store answers the second time."""

    committer = Committer(Log(), Stats(), CommitLimits(10, 10, 1, 1, 1, 2.0), ping=ping)
    running = asyncio.create_task(committer.run())
    committer.ready(Source())
    await until(lambda: told)
    running.cancel()
    assert [(StoreDown, DOWN)] == [(type(error), error.detail) for error in told]


async def test_batches_with_many_ids_go_one_after_the_other():
    """The store takes long for each, and serves nobody meanwhile; small appends do not wait for them."""
    sent, many = [], SimpleNamespace(size=2**20, nbytes=2**19, segments=(SimpleNamespace(ids=("id",) * 6000),))

    class Log:
        def node_key(self, _):
            return ""

        async def append(self, appends, *_, **__):
            sent.append([append.size for append in appends])
            await asyncio.sleep(0)
            return [StoreFull("writes fail")] * len(appends)

    class Source:
        def __init__(self, append):
            self.name, self.append, self.errors = "m", append, []

        def next_append(self):
            return Ticket(self, self.append)

        def lost(self, error):
            self.errors.append(error)

    committer = Committer(Log(), Stats(), CommitLimits(10, 10, 1, 1, 1, 2.0), ping=None)
    sources = [Source(many), Source(many), Source(SimpleNamespace(size=1)), Source(many)]
    for source in sources:
        committer.ready(source)
    running = asyncio.create_task(committer.run())
    await until(lambda: all(source.errors for source in sources))
    running.cancel()
    assert [[2**20, 1], [2**20], [2**20]] == sent
    assert [1] * 4 == [len(source.errors) for source in sources]


async def test_answers_that_come_during_a_round_go_with_the_next(monkeypatch):
    """Also of a model of which the round had none, as a snapshot had stored them."""
    monkeypatch.setattr(answerer, "RECORD_S", 0.0)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    class Log:
        async def record_answers(self, answers):
            begun.set()
            await goes_on.wait()
            return [True] * len(answers)

    class Model(SimpleNamespace):
        __hash__ = object.__hash__

    writer = AnswerWriter(Log())
    one, other = (Model(name=name, incarnation="1", version=1, uid="u", answers=UnstoredAnswers()) for name in "ab")
    for model in (one, other):
        model.answers.put([("i:1", 1, b"answer")], own=True)
        writer.enqueue(model)
    one.answers.stored(one.answers.of(["i:1"]))
    running = asyncio.create_task(writer.run())
    await begun.wait()
    one.answers.put([("i:2", 2, b"answer")], own=True)
    writer.enqueue(one)
    goes_on.set()
    await until(lambda: writer.idle)
    running.cancel()
    assert [{}, {}] == [one.answers.fresh, other.answers.fresh]


@pytest.mark.parametrize("trouble", [StoreDown("its server is away"), ModelDown("of a newer format"), None])
async def test_due_labels_of_a_model_do_not_wait_for_those_of_another(monkeypatch, trouble):
    """Which cannot be visited here, or learns for long: that one is left alone for a while, or until it has learned.

    Only who has visited a model says when it is looked at next: others may be able to.
    """
    monkeypatch.setattr(labels_due, "VISIT_S", 0.05)
    most, visited, settled, asked, learned = [], [], [], [], asyncio.Event()

    class Due:
        async def models(self, count):
            most.append(count - labels_due.MODELS_MAX)
            return [("bad", "1"), ("fine", "1")]

        async def take(self, name, *_):
            visited.append(name)
            return [], 0

        async def settle(self, models):
            settled.extend(models.items())

    async def replica(name):
        asked.append(name)
        if name == "bad" and trouble is not None:
            raise trouble
        if name == "bad":
            await learned.wait()
        return SimpleNamespace(incarnation="1")

    learner = LabelsDueLearner(SimpleNamespace(store=SimpleNamespace(connection=None), replica=replica))
    learner._due = Due()
    for _ in range(2):
        await asyncio.wait_for(learner._look(), 10)
    assert (["fine"] * 2, 1, [0, 1]) == (visited, asked.count("bad"), most)
    learned.set()
    await until(lambda: not learner._visits)
    assert {(("fine", "1"), 0), *([(("bad", "1"), 0)] if trouble is None else [])} == {*settled}
    learner._unable = dict.fromkeys(learner._unable, 0.0)
    await learner._look()
    assert 2 == asked.count("bad")


async def test_due_labels_wait_for_a_process_that_has_noticed_their_model():
    """One that still holds the model that had the name before neither learns them nor says when to look next."""

    class Due:
        settle = AsyncMock()

        async def models(self, _):
            return [("m", "2")]

        async def take(self, *_):
            return [DueLabel("p", b"")], 0

    replica = SimpleNamespace(incarnation="1")
    learner = LabelsDueLearner(
        SimpleNamespace(replica=AsyncMock(return_value=replica), store=SimpleNamespace(connection=None))
    )
    learner._due = Due()
    await asyncio.wait_for(learner._look(), 10)
    assert ([("m", "2")], 0) == ([*learner._unable], Due.settle.await_count)


def test_large_requests_leave_room_for_the_rows_of_other_models(monkeypatch):
    """However many of them one model is sent."""
    monkeypatch.setattr(jobs, "WAITING_BYTES_MAX", 4 * jobs.LARGE_BYTES)
    queue, large = JobQueue("m", Ledger(used=1), 100), jobs.LARGE_BYTES + 1
    queue.check_room(large)
    queue._waiting.used = 2 * jobs.LARGE_BYTES
    with pytest.raises(QueueFull):
        queue.check_room(large)
    queue.check_room(jobs.LARGE_BYTES)


async def test_a_reload_wakes_those_who_wait_for_its_version(start):
    """It skips the entries that its snapshot covers; what it has loaded counts as not read back yet."""
    api, other = await start(), await start()
    path = await api.learnt()
    replica = await other.engine.models.get(path.removeprefix("/models/"))
    other.engine.follower._note = lambda *_: None  # notices and the sweep would find what is appended
    await api.post(f"{path}/feedback", ROW | {"label": "UP"})
    replica.saved.read_back = 9
    waiting = asyncio.create_task(replica.wait_for_version(4))
    await asyncio.sleep(0)
    await other.engine.models._loader.reload(replica)
    await asyncio.wait_for(waiting, 1)
    assert (4, 4, 0) == (replica.version, replica.saved.changed, replica.saved.read_back)
