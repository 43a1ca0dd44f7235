"""A small stream in two feature spaces, and models led through a change of them."""

from tests.service.api_fixtures import DFOP

OLD, NEW, UNION = ["a", "b"], ["b", "c", "d"], ["a", "b", "c", "d"]
BEGIN = {"action": "begin", "features": NEW}
FESL = {**DFOP, "algorithm": "fesl_c"}


def row(number, names=UNION):
    """A row of a small stream in some names; c and d are linear in a and b."""
    a, b = ((number * 37) % 11) / 11 - 0.5, ((number * 53) % 13) / 13 - 0.5
    values = {"a": a, "b": b, "c": 2 * a - b, "d": 0.3 - a}
    return {name: values[name] for name in names}


def label(number):
    return "UP" if row(number)["a"] > row(number)["b"] else "DOWN"


def labelled(number, names=UNION, **more):
    return {"features": row(number, names), "label": label(number), **more}


def table(numbers, names=UNION):
    return {"columns": names, "data": [[*row(number, names).values()] for number in numbers]}


async def feed(api, path, numbers, names):
    for number in numbers:
        await api.post(f"{path}/feedback", labelled(number, names))


async def switch(api, path, body=BEGIN, **how):
    """A step; an action by its name, however few rows have carried both sets."""
    if not isinstance(body, dict):
        body = {"action": body, **({"force": True} if body == "complete" else {})}
    return await api.post(f"{path}/features/switch", body, **how)


async def steady(api, config=DFOP, rows=6):
    """A model that has learned some rows of the old space."""
    path = await api.new(config)
    await feed(api, path, range(rows), OLD)
    return path


async def overlapping(api, config=DFOP, rows=8):
    """One in an overlap, with some rows of it."""
    path = await steady(api, config)
    await switch(api, path)
    await feed(api, path, range(rows), UNION)
    return path


async def switched(api, config=DFOP, rows=8):
    """One whose change is complete."""
    path = await overlapping(api, config, rows)
    await switch(api, path, "complete")
    return path
