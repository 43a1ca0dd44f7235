"""Models with lags over HTTP: a series is predicted from its own past, late labels and refusals included."""

from tests.service.api_fixtures import RLS

LAGS = {**RLS, "features": ["x"], "lags": 2}
ROWS = 80


def series(rows=ROWS):
    """Each label is the sum of the features of the two rows before, and half the last label."""
    xs, ys = [float((7 * t * t) % 11) for t in range(rows)], [0.0, 0.0]
    for t in range(2, rows):
        ys.append(xs[t - 1] - xs[t - 2] + 0.5 * ys[-1])
    return xs, ys


async def taught(api, rows=ROWS, **changes):
    """The path of a model that has learned the series."""
    xs, ys = series(rows)
    path = await api.new(LAGS, **changes)
    await api.post(f"{path}/feedback/batch", {"columns": ["x"], "data": [[x] for x in xs], "labels": ys})
    return path


async def test_replicas_hold_the_same_last_rows(start):
    """A row tracked at one, rows learned at the other one by one, its label at a third: all end with equal bytes.

    The last one reads the log as blocks.
    """
    one, other, third = await start(), await start(), await start()
    path = await taught(one)
    first = await one.post(f"{path}/predict", {"features": {"x": 3.0}, "track": True})
    xs, ys = series(ROWS + 30)
    for x, y in zip(xs[ROWS:], ys[ROWS:], strict=True):
        await other.post(f"{path}/feedback", {"features": {"x": x}, "label": y})
    told = await third.post(f"{path}/feedback", {"prediction_id": first["prediction_id"], "label": 1.0})
    assert first["prediction"] == told["prediction"]
    states = [await service.state(path) for service in (one, other, third, await start())]
    assert [states[0]] * 4 == states


async def test_a_snapshot_and_a_copy_know_the_last_rows(api):
    """Restored or copied, the model predicts the next value as before; after a reset it knows nothing."""
    path = await taught(api)
    row = {"features": {"x": 3.0}}
    expected = (await api.post(f"{path}/predict", row))["prediction"]
    copy = await api.post(f"{path}/copy", {"name": "lags-copy"}, 201)
    assert 2 == copy["config"]["lags"]
    assert expected == (await api.post("/models/lags-copy/predict", row))["prediction"]
    await api.post(f"{path}/reset")
    assert 0.0 == (await api.post(f"{path}/predict", row))["prediction"]
