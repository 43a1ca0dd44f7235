"""Every setting of the service: environment variables ``ONEPASS_*``, typed, one sentence each.

Only app.py, main.py and the command line read them; everything else is given what it needs.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


File = Annotated[Path | None, BeforeValidator(lambda value: value or None)]
"""An optional file or directory; an empty variable means none."""
DATA_DIR = Path("onepass-data")


class Settings(BaseSettings):
    """The settings; ``onepass settings`` prints them with their values."""

    model_config = SettingsConfigDict(env_prefix="ONEPASS_", extra="ignore")

    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey that keeps the models (redis://, rediss://, unix://, redis+sentinel://, "
        "redis+cluster://); empty: a private one.",
    )
    data_dir: Annotated[Path, BeforeValidator(lambda value: value or DATA_DIR)] = Field(
        DATA_DIR, description="Directory of the private store; one service at a time."
    )
    socket_dir: File = Field(
        None,
        description="Directory of the private store's socket, for volumes that cannot hold one; empty: the data "
        "directory.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    tls_cert: File = Field(None, description="PEM file of the https certificate and its chain; empty: plain http.")
    tls_key: File = Field(
        None, description="PEM file of its private key, not encrypted; empty: the key is in the certificate's file."
    )
    tls_ca: File = Field(
        None,
        description="PEM file of authorities; every client must show a certificate of one of them. Empty: no "
        "client certificates.",
    )
    root_path: str = Field(
        "", description="Path under which a proxy publishes the service (/ml), whether the proxy strips it or not."
    )
    trusted_proxies: str = Field(
        "",
        description="Without keys: comma-separated addresses and networks of proxies whose X-Forwarded-For names "
        "the client; empty: none.",
    )
    connections_max: int = Field(
        10_000,
        ge=8,
        description="Most open client connections, fewer if ulimit -n would leave none for the store; beyond it 503.",
    )
    keep_alive_s: int = Field(
        20, ge=1, le=3600, description="How long an idle connection stays open; balancers must close theirs earlier."
    )
    min_replicas: int = Field(
        0, ge=0, le=16, description="Replicas of the store that must have a feedback before it is acknowledged."
    )
    api_keys: SecretStr = Field(
        SecretStr(""),
        description="Comma-separated NAME:SECRET:SCOPES[:MODELS[:EXPIRES]]; scopes read, learn, admin joined by "
        "+; models are name patterns joined by +; empty: no key is needed.",
    )
    insecure: bool = Field(False, description="Allow other listening addresses than this machine's own without keys.")
    allowed_hosts: str = Field(
        "",
        description="Without keys: comma-separated host names of this service, * for any; addresses, localhost "
        "and names without a dot are always allowed.",
    )
    cors_origins: str = Field(
        "",
        description="Comma-separated origins (https://app.example) whose pages may use the API; * for any, with keys; "
        "empty: none.",
    )
    rate_per_s: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="Requests a key may make per second, in bursts of one second; 0: no limit.",
    )
    durability: Literal["always", "everysec"] = Field(
        "everysec", description="When the private store writes to disk: always (before every answer) or everysec."
    )
    memory_budget_mb: int = Field(
        1024,
        ge=16,
        description="Memory for loaded models; the least recently used are evicted first. Unless set, a "
        "container's limit lowers it to the limit less 512 MB, at least a quarter of the limit.",
    )
    model_limit_mb: int = Field(
        128, ge=1, description="Largest state of one model in memory; larger models are refused."
    )
    body_limit_mb: int = Field(8, ge=1, le=512, description="Largest request body, before and after gzip is unpacked.")
    bodies_mb: int = Field(
        256,
        ge=1,
        description="Memory for request bodies and large answers in progress, half of it for one key (without keys: "
        "one address); beyond it 503. Unless set, a container's limit lowers it to a twelfth of the limit.",
    )
    batch_rows_max: int = Field(100_000, ge=1, description="Most rows in one batch.")
    queue_max: int = Field(4096, ge=1, description="Most feedback requests waiting per model; beyond it 503.")
    id_ttl_s: int = Field(86_400, ge=1, description="How long the id of a feedback is remembered.")
    ids_max: int = Field(1_000_000, ge=1, description="Most ids remembered per model; beyond it 503.")
    prediction_ttl_s: int = Field(
        86_400, ge=1, le=31_536_000, description="How long a tracked prediction waits for its label."
    )
    pending_max: int = Field(100_000, ge=1, description="Most tracked predictions waiting per model; beyond it 503.")
    store_timeout_s: float = Field(
        2.0,
        gt=0,
        le=60,
        description="How long a request waits for the store before 503; in a cluster, feedback may wait twice as long.",
    )
    wait_timeout_s: float = Field(5.0, gt=0, le=60, description="How long a read waits for a version or the head.")
    drain_s: float = Field(
        0.0,
        ge=0,
        le=600,
        description="How long a stopping service still serves, with /readyz at 503, before its grace period.",
    )
    grace_s: float = Field(
        20.0, ge=0, le=600, description="Longest time for a stop to finish requests and write snapshots."
    )
    snapshots_kept: int = Field(3, ge=1, le=100, description="Snapshots kept per model.")
    snapshot_min_kb: int = Field(64, ge=1, description="Least log growth, in KiB, between two snapshots of a model.")
    challengers_max: int = Field(8, ge=0, le=64, description="Most challengers per model; beyond it 409.")
    metrics_models: int = Field(
        20, ge=0, le=1000, description="Models with their own series in GET /metrics: those that learn most."
    )
    webhooks: SecretStr = Field(
        SecretStr(""), description="Comma-separated http(s) URLs that drift events are posted to."
    )
    webhook_secret: SecretStr = Field(
        SecretStr(""), description="Secret that signs webhooks (HMAC-SHA256); empty: unsigned."
    )
    commit: str = Field("", max_length=64, description="Commit of the code, for GET /version; empty: unknown.")
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        "info", description="Least severe level that is logged: debug, info, warning or error."
    )
    log_format: Annotated[Literal["console", "json"], BeforeValidator(_lower)] = Field(
        "console", description="Format of the log: console (text) or json."
    )
    access_log: bool = Field(False, description="Log every answer, as the level debug does.")
