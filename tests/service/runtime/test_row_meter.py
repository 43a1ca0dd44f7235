"""Rows a second from looks at a count, by a clock of the test's own."""

import pytest

from service.runtime.replicas.row_meter import WINDOW_S, RowMeter


def looked(meter, *looks):
    return [meter.rate(now, rows) for now, rows in looks]


def test_a_steady_stream_has_its_rate():
    """Whenever one looks, from the first second on."""
    meter = RowMeter()
    rates = looked(meter, *((at / 4, at) for at in range(200)))
    assert [None] * 4 == rates[:4]
    assert rates[4:] == pytest.approx([4.0] * 196)


def test_the_rate_follows_what_changes():
    """Within two windows of a stop, of a faster stream, and after a long pause within one."""
    meter = RowMeter()
    looked(meter, *((float(at), 10 * at) for at in range(30)))
    assert 0.0 == looked(meter, *((30.0 + at, 290) for at in range(int(2 * WINDOW_S) + 1)))[-1]
    faster = looked(meter, *((41.0 + at, 290 + 100 * at) for at in range(11)))
    assert 100.0 == pytest.approx(faster[-1])
    again = looked(meter, (1000.0, 1490), *((1000.0 + at, 1490 + 100 * at) for at in range(1, 7)))
    assert 20.0 == again[0]  # of these 200 rows it is only known that they came within ten seconds, say
    assert 100.0 == pytest.approx(again[-1], rel=0.2)


def test_rows_before_a_pause_are_none_of_its_last_seconds():
    """Long after the last row the rate is 0, however few looks there were in between."""
    meter = RowMeter()
    looked(meter, *((at / 2, 10 * at) for at in range(24)))
    assert [0.0, 0.0, 0.0] == looked(meter, (100.0, 230), (101.0, 230), (300.0, 230))


def test_a_count_that_starts_again_is_no_negative_rate():
    """After a reset the rate is not known for a moment."""
    meter = RowMeter()
    assert [None, 5.0, None, 3.0] == looked(meter, (0.0, 0), (2.0, 10), (3.0, 1), (5.0, 7))
