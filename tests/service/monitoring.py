"""The rules for Prometheus and the dashboards of Grafana, as the tests read them."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus/onepass.rules.yml"
RULE_TESTS = DEPLOY / "prometheus/onepass.tests.yml"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
METRIC = re.compile(r"(?<![\w:])(?:onepass|process)_\w+(?![\w:])")
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$model": ".*", "$tag": ".*"}


def rules() -> list[dict[str, Any]]:
    """The rules of all groups."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels(dashboard: Path) -> list[dict[str, Any]]:
    """The panels with queries."""
    return [panel for panel in json.loads(dashboard.read_text())["panels"] if panel["type"] != "row"]


def queries(dashboard: Path) -> list[tuple[str, str]]:
    """The panels' titles and expressions, those of annotations among them, as Grafana would send them."""
    found = [(panel["title"], target["expr"]) for panel in panels(dashboard) for target in panel["targets"]]
    marks = json.loads(dashboard.read_text())["annotations"]["list"]
    return [(title, _filled(expr)) for title, expr in [*found, *((mark["name"], mark["expr"]) for mark in marks)]]


def _filled(expr: str) -> str:
    for variable, value in VARIABLES.items():
        expr = expr.replace(variable, value)
    return expr
