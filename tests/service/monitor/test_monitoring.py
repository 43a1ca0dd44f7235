"""The rules and dashboards that ship: tested by promtool, about metrics that there are, executed by a Prometheus."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.api.http.access_log import PROBES
from tests.faults.servers import free_port
from tests.service.monitoring import DASHBOARDS, DEPLOY, METRIC, RULE_TESTS, RULES, panels, queries, rules

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: apt install prometheus")
live = pytest.mark.skipif(not os.environ.get("LIVE"), reason="two minutes: with LIVE=1 in the environment")
LINES_MAX, COLUMNS_MAX = 600, 250
QUIET = {
    "By status", "Webhooks", "Keys that expire", "Failed", "Drift", "Furthest behind",
    "Coverage of 90 % intervals",
}  # fmt: skip
"""Panels that may have nothing to show while the demo runs."""


@needs_promtool
def test_rules_do_what_their_tests_say() -> None:
    """Promtool finds nothing wrong, and every alert fires where it should and is silent where it should be."""
    for what, path in (("check", RULES), ("test", RULE_TESTS)):
        found = subprocess.run(
            ["promtool", what, "rules", path.name], cwd=path.parent, capture_output=True, text=True, check=False
        )
        assert 0 == found.returncode, found.stdout + found.stderr


@needs_promtool
def test_panels_show_what_fails(tmp_path: Path) -> None:
    """Probes do not dilute failed requests, and what a service counted before its first scrape is not left out."""
    there = queries(DEPLOY / "grafana/service.json")
    asked = [expr for title, expr in there if title == "Failed" or re.search("corrupt|diverged", expr)]
    assert 3 == len(asked)
    series = {
        "process_start_time_seconds": "240x60",
        "onepass_corrupt_snapshots_total": "_x4 1x60",
        "onepass_diverged_total": "_x4 1x60",
        'onepass_requests_total{route="/models/{name}/feedback",status="503"}': "0+2x60",
    }
    series |= {f'onepass_requests_total{{route="{route}",status="200"}}': "0+90x60" for route in sorted(PROBES)}
    shown = [{"expr": expr, "eval_time": "50m", "exp_samples": [{"labels": "{}", "value": 1}]} for expr in asked]
    given = [{"series": one, "values": values} for one, values in series.items()]
    tests = [{"interval": "1m", "input_series": given, "promql_expr_test": shown}]
    (tmp_path / "tests.yml").write_text(json.dumps({"tests": tests}))
    found = subprocess.run(["promtool", "test", "rules", tmp_path / "tests.yml"], capture_output=True, text=True)
    assert 0 == found.returncode, found.stdout + found.stderr


def test_every_alert_is_tested() -> None:
    """Each one's name is in the tests, and it says what to do."""
    tested = RULE_TESTS.read_text()
    for rule in rules():
        if "alert" in rule:
            assert f'"{rule["alert"]}"' in tested
            assert {"summary", "description"} == {*rule["annotations"]}


async def test_rules_panels_and_the_page_name_the_metrics_that_exist(api) -> None:
    """No rule or panel asks for a series that the service does not have; deploy/monitoring.md names every family."""
    await api.learnt()
    told = (await api.ask("GET", "/metrics")).text
    there, families = set(), set()
    for family in text_string_to_metric_families(told):
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        there |= {family.name + ending for ending in endings}
        if family.name.startswith("onepass_"):
            families.add(family.name + ("_total" if family.type == "counter" else ""))
    assert set(re.findall(r"`(onepass_\w+)", (DEPLOY / "monitoring.md").read_text())) == families
    asked = [rule["expr"] for rule in rules()] + [expr for board in DASHBOARDS for _, expr in queries(board)]
    named = {name for expr in asked for name in METRIC.findall(expr)}
    assert len(named) > 40
    assert set() == named - there


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_do_not_overlap(board: Path) -> None:
    """Each has a title, a unit and a place of its own, within the width."""
    taken: set[tuple[int, int]] = set()
    for panel in panels(board):
        at = panel["gridPos"]
        own = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not own & taken, panel["title"]
        taken |= own
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
    numbers = [panel["id"] for panel in json.loads(board.read_text())["panels"]]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_can_be_read(board: Path) -> None:
    """As text as well: a short file, in lines that a screen shows."""
    lines = board.read_text().splitlines()
    assert LINES_MAX >= len(lines)
    assert COLUMNS_MAX >= max(map(len, lines))


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Ask a Prometheus that has scraped ``onepass demo`` for 70 s, ten times as fast; rates are of a minute."""
    if shutil.which("prometheus") is None:
        pytest.skip("needs a Prometheus: apt install prometheus")
    home, port, scraped = tmp_path_factory.mktemp("prometheus"), free_port(), free_port()
    (home / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: ['{RULES}']\n"
        f"scrape_configs: [{{job_name: onepass, static_configs: [{{targets: ['127.0.0.1:{scraped}']}}]}}]\n"
    )
    demo = [Path(sys.executable).with_name("onepass"), "demo", "--port", str(scraped), "--speed", "10", "--for", "200"]
    prometheus = ["prometheus", f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data"]
    prometheus += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with (
        ended(subprocess.Popen(demo, cwd=home, stdout=subprocess.DEVNULL)),
        ended(subprocess.Popen(prometheus)),
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        until = time.monotonic() + 120.0
        while time.monotonic() < until and not _asked(client, "count_over_time(onepass_rows_total[2m]) > 70"):
            time.sleep(1.0)
        yield lambda expr: _asked(client, expr)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Terminate a process at the end."""
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _asked(client: httpx.Client, expr: str) -> Any:
    try:
        answer = client.get("/api/v1/query", params={"query": expr}).json()
    except httpx.TransportError:  # it is starting
        return []
    assert "success" == answer["status"], (expr, answer)
    return answer["data"]["result"]


@live
@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_something_to_show(ask: Callable[[str], Any], board: Path) -> None:
    """Every expression is valid, and finds series while the demo runs."""
    empty = {title for title, expr in queries(board) if not ask(expr)}
    assert set() == empty - QUIET


@live
def test_every_rule_can_be_evaluated(ask: Callable[[str], Any]) -> None:
    """Recording rules record, and a service that works has no alert but those about its models."""
    for rule in rules():
        if "record" in rule:
            assert ask(rule["record"]), rule["record"]
    told = {found["metric"]["alertname"] for found in ask('ALERTS{alertstate="firing"}')}
    assert told <= {"OnepassModelDrifts"}
