"""The files in which workers leave their metrics for each other."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

from service.monitor import siblings
from service.monitor.siblings import AGE, AGE_S_MAX, BYTES_MAX, Siblings


@pytest.fixture
def clock(monkeypatch):
    """Moments as the test has them."""
    moments = [100.0]
    monkeypatch.setattr(siblings, "monotonic", lambda: moments[-1])
    return moments


def _registry(count):
    registry = CollectorRegistry()
    Counter("things", "Things", ("kind",), registry=registry).labels('a "b"\n').inc(count)
    Histogram("times", "Times", buckets=(1.0,), registry=registry).observe(count)
    return registry


def _seen(metrics, name):
    return {s.labels["worker"]: s.value for metric in metrics for s in metric.samples if s.name == name}


def _written(place, number, count):
    worker = Siblings(place / number)
    return worker, worker.write(_registry(count).collect())


def test_the_one_that_is_asked_answers_for_all(tmp_path, clock):
    """One metric per name, a sample per worker under its labels, in the order of the numbers, and the ages."""
    for number in ("0", "10", "9"):
        _written(tmp_path, number, 3 + int(number))
    clock.append(100.75)
    asked, own = _written(tmp_path, "2", 5)
    metrics = asked.merged(own)
    assert ["things", "times", AGE[0]] == [metric.name for metric in metrics]
    assert {"0": 3.0, "2": 5.0, "9": 12.0, "10": 13.0} == _seen(metrics, "things_total")
    assert ["0", "2", "9", "10"] == list(_seen(metrics, "things_total"))
    assert {'a "b"\n'} == {s.labels["kind"] for s in metrics[0].samples}
    assert {"0": 1.0, "2": 1.0, "9": 1.0, "10": 1.0} == _seen(metrics, "times_count")
    assert {"0": 0.75, "2": 0.0, "9": 0.75, "10": 0.75} == _seen(metrics, AGE[0])


def test_what_is_too_old_is_left_out(tmp_path, clock):
    """At ten seconds it is still there; then it is not; written again, it is."""
    other, _ = _written(tmp_path, "1", 1)
    clock.append(100.0 + AGE_S_MAX)
    asked, own = _written(tmp_path, "0", 2)
    assert {"0": 2.0, "1": 1.0} == _seen(asked.merged(own), "things_total")
    clock.append(100.1 + AGE_S_MAX)
    asked, own = _written(tmp_path, "0", 2)
    assert {"0": 2.0} == _seen(asked.merged(own), "things_total")
    other.write(_registry(4).collect())
    assert {"0": 2.0, "1": 4.0} == _seen(asked.merged(own), "things_total")


@pytest.mark.parametrize("text", [b"", b"\x92", b"\x91\x01", b"\x92\xa1x\x90", b"\xc1", b"\x00" * (BYTES_MAX + 1)])
def test_a_file_that_cannot_be_read_is_left_out(tmp_path, text):
    """Cut off, of another form or too large: the others are shown."""
    asked, own = _written(tmp_path, "0", 2)
    (tmp_path / "1").write_bytes(text)
    (tmp_path / "1.new").write_bytes(b"half")
    assert {"0": 2.0} == _seen(asked.merged(own), "things_total")


def test_a_directory_that_is_gone_costs_the_others_only(tmp_path, caplog):
    """A worker that cannot write says so once and answers for itself."""
    asked = Siblings(tmp_path / "gone" / "0")
    for _ in range(3):
        own = asked.write(_registry(2).collect())
    assert {"0": 2.0} == _seen(asked.merged(own), "things_total")
    assert 1 == len(caplog.records)
    asked.leave()


def test_who_leaves_is_not_shown(tmp_path):
    """Its file goes with it; the directory is the parent's."""
    other, _ = _written(tmp_path, "1", 1)
    asked, own = _written(tmp_path, "0", 2)
    other.leave()
    assert {"0": 2.0} == _seen(asked.merged(own), "things_total")
    asked.leave()
    assert [] == list(tmp_path.iterdir())
