"""Metrics of several workers: whichever is asked answers for all, and nothing that counts ever falls."""

import asyncio
from pathlib import Path

import pytest

from core.machine import Machine
from tests.faults.drifts import calm, learn, moved
from tests.faults.load import Load, rows
from tests.faults.metrics import by_worker, counters, scrape
from tests.faults.processes import eventually
from tests.service.receiver import Receiver

pytestmark = pytest.mark.faults
FEEDBACK = {"route": "/models/{name}/feedback", "status": "200"}


def _total(service, name, **labels):
    return sum(by_worker(service, name, **labels).values())


def _directory(service):
    """Where the workers leave their samples."""
    command = service.worker_processes()[0].cmdline()
    return Path(command[command.index("--samples") + 1]).parent


def test_the_workers_add_up_to_what_was_sent(serve):
    """Requests, commits and the times of a histogram; each worker has applied every row; nothing stays behind."""
    service, table = serve(WORKERS=3).start(), rows(600, 80)
    service.create()
    Load([service], table, clients=12).run()
    assert 600 == eventually(600, lambda: _total(service, "requests_total", **FEEDBACK))
    assert 600 == _total(service, "segments_total")
    assert 600 == _total(service, "request_seconds_count", route=FEEDBACK["route"])
    busy = {name for name, entries in by_worker(service, "entries_total").items() if entries > 0}
    assert len(busy) > 1
    applied = eventually({600.0}, lambda: {by_worker(service, "rows_total")[name] for name in busy})
    assert {600.0} == applied
    ages = by_worker(service, "worker_sample_age_seconds")
    assert {"0", "1", "2"} == set(ages)
    directory = _directory(service)
    assert 0 == service.stop()
    assert not directory.exists()


def test_no_counter_ever_falls(serve):
    """Scraped under load over connections that end at either worker, every counter of every worker only grows."""
    service, table = serve(WORKERS=2).start(), rows(900, 81)
    service.create()
    load = Load([service], table, clients=8).start()
    seen: dict = {}
    for moment in range(0, 900, 15):
        load.acknowledged(moment)
        for _ in range(3):
            now = counters(scrape(service))
            assert {} == {
                sample: (value, now.get(sample)) for sample, value in seen.items() if now.get(sample, -1) < value
            }
            seen = now
    load.finish()
    assert 900 == eventually(900, lambda: _total(service, "segments_total"))


def test_a_worker_that_was_killed_counts_anew_under_its_number(serve):
    """The other's counters stay; its own begin again once its replacement serves, and both go on."""
    service = serve(WORKERS=2).start()
    service.create()
    Load([service], rows(300, 82), clients=16).run()
    assert 300 == eventually(300, lambda: _total(service, "segments_total"))
    before = by_worker(service, "segments_total")
    killed = service.worker_processes()[0]
    number = Path(killed.cmdline()[-1]).name
    (other,) = set(before) - {number}
    killed.kill()
    after = {number: 0.0, other: before[other]}
    assert after == eventually(after, lambda: by_worker(service, "segments_total"))
    Load([service], rows(300, 83, "s"), clients=16).run()
    assert before[other] + 300 == eventually(before[other] + 300, lambda: _total(service, "segments_total"))


async def test_events_and_webhooks_add_up_too(serve):
    """Whichever worker published an event or told the webhook, the sums are the events there are."""
    async with Receiver() as receiver:
        service = serve(WORKERS=2, WEBHOOKS=f"http://127.0.0.1:{receiver.port}/").start()

        def story():
            calm(service)
            learn(service, moved())
            machine, _ = Machine.from_bytes(service.state())
            count = len(list(machine.outbox.after((0, 0))))
            assert count > 0
            assert count == eventually(count, lambda: _total(service, "drift_events_total"))
            assert count == eventually(count, lambda: _total(service, "webhook_events_total", outcome="delivered"))

        await asyncio.to_thread(story)


def test_a_parent_that_is_killed_leaves_no_files(serve):
    """The workers, which end by themselves, take the directory along."""
    service = serve(WORKERS=2).start()
    assert {"0", "1"} == eventually({"0", "1"}, lambda: set(by_worker(service, "ready")))
    directory = _directory(service)
    assert directory.exists()
    service.kill()
    assert eventually(True, lambda: not directory.exists())


def test_one_process_has_no_label_more(serve):
    """A service without workers shows what it always has."""
    service = serve().start()
    samples = scrape(service)
    assert {frozenset()} == {labels for name, labels in samples if name == "onepass_ready"}
    assert [] == [name for name, labels in samples if "worker" in dict(labels) or "worker" in name]
