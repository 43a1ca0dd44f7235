"""The client file that the service serves, while the service is killed."""

import threading
from concurrent.futures import ThreadPoolExecutor

from service.pages.onepass import Onepass
from tests.faults.load import rows
from tests.faults.processes import eventually

THREADS, CALLS, KILLS = 4, 80, 8


def test_it_loses_nothing_and_teaches_nothing_twice(serve):
    """Threads unaware of the kills send rows and batches without ids: the client makes the ids, and retries."""
    service = serve(DURABILITY="everysec").start()
    port, sent = service.port, threading.Semaphore(0)
    for name in ("rows", "batches"):
        service.create(name)

    def teach(thread):
        with Onepass(f"http://127.0.0.1:{port}") as client:
            for row in rows(CALLS, thread):
                client.model("rows").feedback(row.features, row.label)
                client.model("batches").feedback_batch([row.features] * 3, [row.label] * 3)
                sent.release()

    with ThreadPoolExecutor(THREADS) as threads:
        taught = [threads.submit(teach, thread) for thread in range(THREADS)]
        for _ in range(KILLS):
            for _ in range(THREADS * CALLS // (KILLS + 1)):
                assert sent.acquire(timeout=60)
            service.restart(PORT=port)
        for thread in taught:
            thread.result()
    for name, count in (("rows", THREADS * CALLS), ("batches", 3 * THREADS * CALLS)):
        assert count == eventually(count, lambda name=name: service.get(f"/models/{name}")["rows"])
