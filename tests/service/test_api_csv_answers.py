"""Answers as CSV: the numbers of the JSON, in tables that spreadsheets read and take for no formula."""

import csv
import io
import json

import pytest

from service.api.csv_answers import csv_answer, drift_table, guarded
from tests.alarms import JOINS
from tests.service.api_fixtures import problem
from tests.service.test_api_drift import raise_alarms

pytestmark = pytest.mark.usefixtures("alarming")


async def table(api, path, **query):
    """The rows of an answer as CSV, by column, and the answer."""
    answer = await api.ask("GET", path, params={"format": "csv", **query})
    assert (200, "text/csv; charset=utf-8; header=present") == (answer.status_code, answer.headers["content-type"])
    return [*csv.DictReader(io.StringIO(answer.text, newline=""))], answer


def text(row):
    """The cells of an object as they are written."""
    return {name: "" if value is None else str(value) for name, value in row.items()}


async def test_the_history_is_a_table(api):
    """With its baselines; one column where nothing has been learned."""
    path = await api.learnt(rows=60)
    rows, answer = await table(api, f"{path}/metrics")
    assert [*map(text, (await api.get(f"{path}/metrics"))["history"])] == rows
    assert {"row", "accuracy", "no_change"} <= set(rows[0])
    assert f'attachment; filename="{path.rpartition("/")[2]}-history.csv"' == answer.headers["content-disposition"]
    assert "row\r\n" == (await table(api, f"{await api.new()}/metrics"))[1].text


async def test_drift_is_a_table(api):
    """A row for each event, pages as in JSON."""
    path = await api.learnt(rows=4)
    await raise_alarms(api, path, 2)
    await raise_alarms(api, path, 1, JOINS)
    shown = await api.get(f"{path}/drift")
    rows, _ = await table(api, f"{path}/drift")
    assert [(event["id"], path.rpartition("/")[2], str(event["row"]), "UP") for event in shown["events"]] == [
        (r["id"], r["model"], r["row"], r["class"]) for r in rows
    ]
    assert [("90", "30", "0"), ("90", "30", "1")] == [
        (row["windows_before"], row["windows_after"], row["alarm_count"]) for row in rows
    ]
    assert rows == [row for row in (await table(api, "/drift", limit=1000))[0] if row["id"] in {r["id"] for r in rows}]
    first, answer = await table(api, f"{path}/drift", limit=1)
    following = answer.headers["onepass-next"]
    assert (rows[:1], (await api.get(f"{path}/drift?limit=1"))["next"]) == (first, following)
    rest, answer = await table(api, f"{path}/drift", cursor=following)
    assert (rows[1:], None) == (rest, answer.headers.get("onepass-next"))


async def test_other_documents_are_json(api):
    """Refused, and the query is named; so is another format."""
    path = await api.shared()
    lists = ("log", "pending", "snapshots", "challengers")
    for asked in ("/models?format=csv", *(f"{path}/{one}?format=csv" for one in lists), f"{path}/metrics?format=xls"):
        problem(await api.ask("GET", asked), 422, "format")


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-x", "@a", "\tx", "\rx"])
async def test_text_is_no_formula(cell):
    """What a spreadsheet would run is quoted."""
    assert f"'{cell}" == guarded(cell)


async def test_what_is_no_formula_is_written_as_it_is():
    """Numbers stay numbers; a list is written as JSON."""
    for cell in ("a=1", "", -1.5, None):
        assert cell == guarded(cell)
    assert ("true", '[{"name":"=a"}]') == (guarded(True), guarded([{"name": "=a"}]))


async def test_names_of_users_are_guarded():
    """The class of an event is a label, which is a user's word."""
    answer = await csv_answer(
        json.dumps({"events": [{"id": "e", "class": "=HYPERLINK(1)"}]}).encode(), drift_table, "m"
    )
    [row] = csv.DictReader(io.StringIO(bytes(answer.body).decode(), newline=""))
    assert ("e", "'=HYPERLINK(1)") == (row["id"], row["class"])


async def test_generated_clients_are_told_of_json_alone(api):
    """A second media type would make the type of each answer a union; the descriptions tell of CSV instead."""
    paths = (await api.get("/openapi.json"))["paths"]
    told = [path for path, route in paths.items() if "format=csv" in route.get("get", {}).get("description", "")]
    assert {"/drift", "/models/{name}/drift", "/models/{name}/metrics"} == set(told)
    for path in told:
        assert ["application/json"] == [*paths[path]["get"]["responses"]["200"]["content"]]
