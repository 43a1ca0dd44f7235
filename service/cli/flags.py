"""Every setting as a flag of ``onepass serve``, in groups."""

import argparse
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from service.settings import Settings

GROUPS = {
    "address": (
        "host",
        "port",
        "connections_max",
        "keep_alive_s",
        "drain_s",
        "grace_s",
        "root_path",
        "tls_cert",
        "tls_key",
        "tls_ca",
    ),
    "store": ("redis_url", "data_dir", "socket_dir", "durability", "min_replicas", "store_timeout_s"),
    "who may ask": ("api_keys", "rate_per_s", "insecure", "allowed_hosts", "trusted_proxies", "cors_origins"),
    "models": ("memory_budget_mb", "model_limit_mb", "challengers_max", "snapshots_kept", "snapshot_min_kb"),
    "requests": ("body_limit_mb", "bodies_mb", "batch_rows_max", "queue_max", "wait_timeout_s"),
    "ids and tracked predictions": ("id_ttl_s", "ids_max", "prediction_ttl_s", "pending_max"),
    "drift and webhooks": ("drift_events_max", "webhooks", "webhook_secret"),
    "logs": ("log_level", "log_format", "access_log"),
}
"""Settings that belong together; all others come last."""
OTHERS = "others"


def declare_file(parser: argparse.ArgumentParser) -> None:
    """Declare --settings."""
    parser.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="read settings from FILE: .toml (port = 8001), else ONEPASS_PORT=8001",
    )


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for each setting."""
    grouped = {name: group for group, names in GROUPS.items() for name in names}
    groups = {group: parser.add_argument_group(group) for group in (*GROUPS, OTHERS)}
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, False) or not str(field.default).strip("*") else f" [{field.default}]"
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if field.annotation is bool else {}
        groups[grouped.get(name, OTHERS)].add_argument(
            f"--{name.replace('_', '-')}",
            **switch,
            default=argparse.SUPPRESS,
            metavar=_metavar(name, field.annotation),
            help=f"{field.description}{default}".replace("%", "%%"),
        )


def given(options: argparse.Namespace) -> dict[str, str]:
    """The flags that were given, by setting."""
    return {name: value for name, value in vars(options).items() if name in Settings.model_fields}


def _metavar(name: str, kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "{" + ",".join(get_args(kind)) + "}"
    if Path in get_args(kind):
        return "DIR" if name.endswith("_dir") else "FILE"
    return {int: "N", float: "X", bool: "false", Path: "DIR"}.get(kind, "TEXT")
