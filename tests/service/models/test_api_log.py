"""GET /models/{name}/log: what the entries were, newest first; GET /version."""

import re
from importlib.metadata import version

from core.model import STATE_VERSION
from service.runtime.replicas.named_states import NAMED_BYTES
from service.store.log import log_page
from tests.service.api_fixtures import columnar, features, problem


async def lived(api):
    """A model with an entry of every kind, and what its log has to say of them, oldest first."""
    path = await api.new()
    said = []

    async def step(kind, rows, method, url, **how):
        answer = await api.ask(method, f"{path}{url}", **how)
        assert answer.status_code < 300, answer.text
        said.append((kind, rows))
        return answer

    async def row(*more):
        label = {"label": "UP", "features": {**features(0), **dict.fromkeys(more, 1.0)}}
        await step("rows", 1, "POST", "/feedback", json=label)

    async def switch(action, **more):
        await step(f"switch {action}", None, "POST", "/features/switch", json={"action": action, **more})

    await row()
    ids = [f"{path}-{n}" for n in (1, 2, 1)]
    body = {**columnar(3), "labels": ["UP", "DOWN", "UP"], "ids": ids}
    body["data"][2] = body["data"][0]
    await step("rows", 2, "POST", "/feedback/batch", json=body)
    await step("configure", None, "PATCH", "", json={"on_drift": "reset"})
    await step("challenger put", None, "PUT", "/challengers/one", json={"algorithm": "rls"})
    await step("challenger promote", None, "POST", "/challengers/one/promote", json={"force": True})
    early = (await api.get(f"{path}/log"))["entries"]  # from its second snapshot on the log is trimmed
    await step("challenger delete", None, "DELETE", "/challengers/previous")
    await switch("begin", features=["a", "c"])
    await step("overlap", 2, "POST", "/features/overlap", json={"columns": ["a", "b", "c"], "data": [[1, 2, 3]] * 2})
    await switch("abort")
    await switch("begin", features=["a", "c"])
    await row("c")
    await switch("complete", force=True)
    await step("reset", None, "POST", "/reset")
    taken = (await api.ask("POST", f"{path}/snapshots")).json()
    await step("restore", None, "POST", "/restore", json={"version": taken["version"]})
    state = await api.state(path)
    await step("import", None, "PUT", "/state", content=state, headers={"Content-Type": "application/octet-stream"})
    return path, said, early


async def test_every_kind_of_entry_is_told(api):
    """Its kind, and the rows of those that hold some, without the ones whose ids had been seen."""
    path, said, early = await lived(api)
    found = await api.get(f"{path}/log")
    entries = [*found["entries"], *(entry for entry in early if entry["version"] < found["entries"][-1]["version"])]
    assert said == [(entry["kind"], entry["rows"]) for entry in reversed(entries)]
    assert [*range(len(said), 0, -1)] == [entry["version"] for entry in entries]
    assert {"entries", "next", "incarnation"} == set(found)
    assert found["next"] is None
    (writer,) = {entry["writer"] for entry in found["entries"]}
    assert re.fullmatch("[0-9a-f]{16}", writer)
    assert (await api.get(path))["updated"] == found["entries"][0]["time"]


async def test_pages_follow_each_other(api, monkeypatch):
    """Newest first, whatever a script looks at in one go; each entry once."""
    monkeypatch.setattr(log_page, "BYTES_AT_ONCE", 1000)
    monkeypatch.setattr(log_page, "ENTRIES_AT_ONCE", 3)
    path = await api.learnt(rows=11)
    found, cursor = [], {}
    while cursor is not None:
        page = await api.get(f"{path}/log", params={"limit": 4, **cursor})
        found.append([entry["version"] for entry in page["entries"]])
        cursor = page["next"] and {"cursor": page["next"]}
    assert [[11, 10, 9, 8], [7, 6, 5, 4], [3, 2, 1]] == found
    assert [[]] == [(await api.get(f"{path}/log", params={"cursor": "1"}))["entries"]]
    for wrong in ("x", "0", "-1", "9" * 30, "٣"):
        problem(await api.ask("GET", f"{path}/log", params={"cursor": wrong}), 422, "cursor")


async def test_rows_are_counted_where_an_entry_only_names_them(api):
    """A large batch is kept in pieces, and is rows all the same; the features a model begins with are no obstacle."""
    path = await api.new({"task": "regression", "algorithm": "dfop"})
    count = NAMED_BYTES // 8 // 8 + 1
    body = {"columns": [f"wide-{n}" for n in range(8)], "data": [[0.5] * 8] * count, "labels": [1.5] * count}
    await api.post(f"{path}/feedback/batch", body)
    assert [("rows", count)] == [(e["kind"], e["rows"]) for e in (await api.get(f"{path}/log"))["entries"]]


async def test_the_version_is_told(start):
    """Of the package and of its states; the commit as the build says it."""
    api = await start(commit="abc123")
    assert {"version": version("onepass"), "state_format": STATE_VERSION, "commit": "abc123"} == await api.get(
        "/version"
    )
    assert (await (await start()).get("/version"))["commit"] is None
