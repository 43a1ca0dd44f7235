"""Every setting of the service: environment variables ``ONEPASS_*``, typed, one sentence each.

Only app.py and the command line read them; everything else is given what it needs.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


File = Annotated[Path | None, BeforeValidator(lambda value: value or None)]
"""A file that need not be; an empty variable names none."""


class Settings(BaseSettings):
    """The settings; ``onepass settings`` prints them with their values."""

    model_config = SettingsConfigDict(env_prefix="ONEPASS_", extra="ignore")

    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey to keep the models in (redis://, rediss://, unix://, redis+sentinel://, "
        "redis+cluster://); empty: a private one.",
    )
    data_dir: Path = Field(Path("onepass-data"), description="Directory of the private store; one service at a time.")
    socket_dir: Path | None = Field(
        None,
        description="Directory of the private store's socket, where that of its data can hold none, as some volumes; "
        "empty: the directory of its data.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    tls_cert: File = Field(
        None, description="PEM file of the certificate to serve https with, and its chain; empty: plain http."
    )
    tls_key: File = Field(
        None, description="PEM file of its private key, not encrypted; empty: it is in the file of the certificate."
    )
    tls_ca: File = Field(
        None,
        description="PEM file of authorities; every client needs a certificate of one of them. Empty: none is asked.",
    )
    root_path: str = Field(
        "", description="Path under which a proxy has put the service (/ml), whether it takes it off or leaves it on."
    )
    trusted_proxies: str = Field(
        "",
        description="Without keys: addresses and networks of proxies, comma-separated, whose X-Forwarded-For names the "
        "client; empty: none.",
    )
    connections_max: int = Field(
        10_000,
        ge=8,
        description="Most open connections of clients, fewer where ulimit -n leaves none for the store; beyond it 503.",
    )
    keep_alive_s: int = Field(
        20,
        ge=1,
        le=3600,
        description="How long a connection may wait for its next request; balancers keep idle ones for less.",
    )
    min_replicas: int = Field(
        0, ge=0, le=16, description="Replicas of the store that have to have a feedback before it is acknowledged."
    )
    api_keys: SecretStr = Field(
        SecretStr(""),
        description="Comma-separated NAME:SECRET:SCOPES[:MODELS[:EXPIRES]]; scopes read, learn, admin joined by +; "
        "models are name patterns joined by +; empty: no key is asked for.",
    )
    insecure: bool = Field(
        False, description="Listen on other addresses than this machine's own although no keys are configured."
    )
    allowed_hosts: str = Field(
        "",
        description="Without keys: names of this service in URLs, comma-separated, * for any; addresses, localhost and "
        "names without a dot are always allowed.",
    )
    cors_origins: str = Field(
        "",
        description="Comma-separated origins (https://app.example) whose pages may use the API; * for any, with keys; "
        "empty: none.",
    )
    rate_per_s: float = Field(
        0.0, ge=0, description="Requests a key may make per second, in bursts of one second; 0: no limit."
    )
    durability: Literal["always", "everysec"] = Field(
        "everysec",
        description="When the private store writes to disk: always, before every answer; everysec, every second.",
    )
    memory_budget_mb: int = Field(
        1024,
        ge=16,
        description="Memory for loaded models; the least recently used leave first. Unless set, a container's limit "
        "lowers it: to the limit less 512 MB, at least a quarter of it.",
    )
    model_limit_mb: int = Field(128, ge=1, description="Memory one model's state may take; larger models are refused.")
    body_limit_mb: int = Field(
        8, ge=1, le=512, description="Largest request body, and largest that a gzip body may unpack to."
    )
    bodies_mb: int = Field(
        256,
        ge=1,
        description="Memory for request bodies that are being read or worked on, half of it for one key (without keys: "
        "address); beyond it 503.",
    )
    batch_rows_max: int = Field(100_000, ge=1, description="Most rows in one batch.")
    queue_max: int = Field(4096, ge=1, description="Most feedback requests waiting per model; beyond it 503.")
    id_ttl_s: int = Field(86_400, ge=1, description="How long the id of a feedback is remembered.")
    ids_max: int = Field(1_000_000, ge=1, description="Most ids remembered per model; beyond it 503.")
    prediction_ttl_s: int = Field(86_400, ge=1, description="How long a tracked prediction waits for its label.")
    pending_max: int = Field(100_000, ge=1, description="Most tracked predictions waiting per model; beyond it 503.")
    store_timeout_s: float = Field(2.0, gt=0, le=60, description="How long a request waits for the store before 503.")
    wait_timeout_s: float = Field(5.0, gt=0, le=60, description="How long a read waits for min_version before 504.")
    drain_s: float = Field(
        0.0,
        ge=0,
        le=600,
        description="How long a service that is told to stop serves on, with /readyz at 503, before its grace period.",
    )
    grace_s: float = Field(
        20.0, ge=0, le=600, description="How long a stop may take to finish requests and write snapshots."
    )
    snapshots_kept: int = Field(3, ge=1, le=100, description="Snapshots kept per model.")
    snapshot_min_kb: int = Field(64, ge=1, description="Least log growth, in KiB, between two snapshots of a model.")
    challengers_max: int = Field(8, ge=0, le=64, description="Most challengers per model; beyond it 409.")
    metrics_models: int = Field(
        20, ge=0, le=1000, description="Models with metrics of their own in GET /metrics: those that learn most."
    )
    webhooks: SecretStr = Field(
        SecretStr(""), description="Comma-separated http(s) URLs that drift events are posted to."
    )
    webhook_secret: SecretStr = Field(
        SecretStr(""), description="Signs what is posted (HMAC-SHA256); empty: nothing is signed."
    )
    commit: str = Field(
        "",
        max_length=64,
        description="Commit that the code is of, for GET /version; empty: that of the checkout.",
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        "info", description="What is written to the log: debug, info, warning or error, and what is worse."
    )
    log_format: Annotated[Literal["console", "json"], BeforeValidator(_lower)] = Field(
        "console", description="How it is written: console, lines of text; json, for programs."
    )
    access_log: bool = Field(False, description="Whether every answer is logged; at the level debug all are.")
