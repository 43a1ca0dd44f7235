"""Answers as CSV: the numbers of the JSON, in tables that spreadsheets read and take for no formula."""

import csv
import io

import pytest

from service.api.csv_answers import guarded
from tests.alarms import JOINS
from tests.service.api_fixtures import features, problem
from tests.service.test_api_drift import raise_alarms

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("alarming")]


async def table(api, path, **query):
    """The rows of an answer as CSV, by column, and the answer."""
    answer = await api.ask("GET", path, params={"format": "csv", **query})
    assert (200, "text/csv; charset=utf-8; header=present") == (answer.status_code, answer.headers["content-type"])
    return [*csv.DictReader(io.StringIO(answer.text, newline=""))], answer


def text(row):
    """The cells of an object as they are written."""
    return {name: "" if value is None else str(value) for name, value in row.items()}


async def test_metrics_have_a_table_for_each_part(api):
    """The history with its baselines, marks, classes, confusion and reliability, of any span."""
    path = await api.learnt(rows=60)
    await api.ask("PATCH", path, json={"missing": "mean"})
    shown = await api.get(f"{path}/metrics")
    rows, answer = await table(api, f"{path}/metrics")
    assert [*map(text, shown["history"])] == rows
    assert {"row", "accuracy", "no_change"} <= set(rows[0])
    assert f'attachment; filename="{path.rpartition("/")[2]}-history.csv"' == answer.headers["content-disposition"]
    (mark,) = (await table(api, f"{path}/metrics", part="marks"))[0]
    assert ("60", "configure") == (mark["row"], mark["kind"])
    for span in ("overall", "window", "fading"):
        own = shown[span]
        rows, _ = await table(api, f"{path}/metrics", part="per_class", span=span)
        assert [text({"label": label, **cells}) for label, cells in own["per_class"].items()] == rows
        rows, _ = await table(api, f"{path}/metrics", part="reliability", span=span)
        assert [*map(text, own["reliability"])] == rows
        rows, _ = await table(api, f"{path}/metrics", part="confusion", span=span)
        labels, counts = own["confusion"]["labels"], own["confusion"]["counts"]
        expected = [
            {"label": label, **dict(zip(labels, line, strict=True))} for label, line in zip(labels, counts, strict=True)
        ]
        assert [*map(text, expected)] == rows
    problem(await api.ask("GET", f"{path}/metrics?format=csv&part=experts"), 422, "part")
    problem(await api.ask("GET", f"{path}/metrics?format=xls"), 422, "format")


async def test_what_a_model_has_not_has_no_table(api):
    """A regression has no classes; a model that has learned nothing has columns at most."""
    path = await api.learnt({"algorithm": "rls", "task": "regression", "features": ["a", "b"]}, rows=20)
    for part in ("per_class", "confusion", "reliability"):
        found = problem(await api.ask("GET", f"{path}/metrics?format=csv&part={part}"), 422, "part")
        assert ["history", "marks"] == found["errors"][0]["allowed"]
    assert "last_value" in (await table(api, f"{path}/metrics"))[0][0]
    assert [] == (await table(api, f"{await api.new()}/metrics"))[0]


async def test_lists_are_tables(api):
    """Events, entries, pending predictions, snapshots, challengers, models: a row each, pages as in JSON."""
    path = await api.learnt(rows=4)
    await api.ask("PUT", f"{path}/challengers/one", json={"algorithm": "rls"})
    await raise_alarms(api, path, 2)
    await raise_alarms(api, path, 1, JOINS)
    await api.post(f"{path}/predict", {"features": features(0), "track": True})
    await api.post(f"{path}/snapshots", status=201)
    shown = await api.get(f"{path}/drift")
    rows, _ = await table(api, f"{path}/drift")
    assert [(event["id"], str(event["row"]), "UP") for event in shown["events"]] == [
        (r["id"], r["row"], r["class"]) for r in rows
    ]
    assert [("90", "30", "0"), ("90", "30", "1")] == [
        (row["windows_before"], row["windows_after"], row["alarm_count"]) for row in rows
    ]
    assert rows == [row for row in (await table(api, "/drift", limit=1000))[0] if row["id"] in {r["id"] for r in rows}]
    log, answer = await table(api, f"{path}/log", limit=3)
    page = await api.get(f"{path}/log?limit=3")
    assert ([*map(text, page["entries"])], page["next"]) == (log, answer.headers["onepass-next"])
    assert "onepass-next" not in (await table(api, f"{path}/log", cursor=page["next"]))[1].headers
    pending = (await api.get(f"{path}/pending"))["pending"]
    assert [*map(text, pending)] == (await table(api, f"{path}/pending"))[0]
    assert [*map(text, (await api.get(f"{path}/snapshots"))["snapshots"])] == (await table(api, f"{path}/snapshots"))[0]
    (one,) = (await table(api, f"{path}/challengers"))[0]
    assert ("one", "rls", "never") == (one["name"], one["config_algorithm"], one["promote"])
    (line,) = (await table(api, "/models", search=path.rpartition("/")[2], sort="name", limit=1))[0]
    assert ("dfop", "1", "6") == (line["algorithm"], line["challengers"], line["drift_row"])


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("a=1", "a=1"),
        ("", ""),
        (-1.5, -1.5),
        (None, None),
        (True, "true"),
        ([{"name": "=a"}], '[{"name":"=a"}]'),
    ],
)
async def test_text_is_no_formula(cell, written):
    """What a spreadsheet would run is quoted; numbers stay numbers."""
    assert written == guarded(cell)


async def test_names_of_users_are_guarded(api):
    """Labels are row heads and column heads of the confusion matrix."""
    path = await api.new(labels=["=HYPERLINK(1)", "@b"])
    for label in ("=HYPERLINK(1)", "@b") * 3:
        await api.post(f"{path}/feedback", {"features": features(0), "label": label})
    for part in ("per_class", "confusion"):
        rows, answer = await table(api, f"{path}/metrics", part=part)
        assert ["'=HYPERLINK(1)", "'@b"] == [row["label"] for row in rows]
        assert not [cell for line in csv.reader(io.StringIO(answer.text)) for cell in line if cell[:1] in "=@" and cell]


async def test_generated_clients_are_told_of_json_alone(api):
    """A second media type would make the type of each answer a union; the descriptions tell of CSV instead."""
    paths = (await api.get("/openapi.json"))["paths"]
    told = [path for path, route in paths.items() if "format=csv" in route.get("get", {}).get("description", "")]
    lists = ("metrics", "drift", "log", "pending", "snapshots", "challengers")
    assert {"/models", "/drift", *(f"/models/{{name}}/{one}" for one in lists)} == set(told)
    for path in told:
        assert ["application/json"] == [*paths[path]["get"]["responses"]["200"]["content"]]
