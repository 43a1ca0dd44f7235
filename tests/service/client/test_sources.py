"""Where settings come from: flags, variables, files; and what is no setting."""

from pathlib import Path

import pytest

from service import logs, settings_sources
from service.client import app, serving
from service.settings import Settings
from service.settings_sources import gather


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, own_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory, and no settings in the environment."""
    monkeypatch.chdir(tmp_path)


def test_precedence() -> None:
    """A flag before a variable, a variable before the settings file, that before .env, that before the default."""
    Path(".env").write_text("ONEPASS_PORT=1\nONEPASS_HOST=h1\nONEPASS_QUEUE_MAX=11\nONEPASS_IDS_MAX=12\nOTHER=x\n")
    Path("my.toml").write_text('port = 2\nhost = "h2"\nqueue_max = 21\n')
    found = gather({"port": "4"}, Path("my.toml"), {"ONEPASS_PORT": "3", "ONEPASS_HOST": "h3"})
    settings = found.settings
    assert (4, "h3", 21, 12) == (settings.port, settings.host, settings.queue_max, settings.ids_max)
    assert Settings.model_fields["pending_max"].default == settings.pending_max
    assert ([], [Path(".env"), Path("my.toml")]) == (found.notes, found.files)


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        (({"port": "x"}, None, {}), "--port: "),
        (({}, None, {"ONEPASS_PORT": "x"}), "ONEPASS_PORT: "),
        (({}, None, {"ONEPASS_DURABILITY": "alwys"}), "ONEPASS_DURABILITY: Input should be 'always' or"),
        (({}, "a.env", {}), "a.env: ONEPASS_PORT: "),
        (({}, "a.toml", {}), "a.toml: port: "),
        (({}, "broken.toml", {}), "broken.toml: "),
        (({}, "deep.toml", {}), "deep.toml: "),
        (({}, "none.toml", {}), "none.toml: No such file"),
        (({}, None, {"ONEPASS_API_KEYS_FILE": "none"}), "ONEPASS_API_KEYS_FILE: none cannot be read: No such file"),
        (({}, None, {"ONEPASS_API_KEYS_FILE": "a.env", "ONEPASS_API_KEYS": "k"}), "ONEPASS_API_KEYS_FILE: "),
        (({}, None, {"ONEPASS_REDIS_URL_FILE": "empty"}), "ONEPASS_REDIS_URL_FILE: empty is empty"),
        (({}, "both.toml", {}), "both.toml: ONEPASS_API_KEYS_FILE: "),
    ],
)
def test_what_cannot_be_is_named_where_it_stands(given: tuple, origin: str) -> None:
    """A flag, a variable or a line of a file; also a file that cannot be read."""
    Path("a.env").write_text("ONEPASS_PORT=x\n")
    Path("a.toml").write_text("port = 'x'\n")
    Path("broken.toml").write_text("port =\n")
    Path("deep.toml").write_text(f"port = {'[' * 3000}\n")
    Path("empty").write_text("\n \n")
    Path("both.toml").write_text("api_keys = 'k'\napi_keys_file = 'a.env'\n")
    values, file, environment = given
    with pytest.raises(ValueError) as found:
        gather(values, file and Path(file), environment)
    assert str(found.value).startswith(origin)


def test_what_cannot_be_looked_at_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory may be one that this user may not enter; the service says later what it cannot use."""
    monkeypatch.setattr(settings_sources, "DOT_ENV", Path("x" * 300))  # looking at it is an error as well
    assert [] == gather({}, None, {}).files


def test_secrets_from_files() -> None:
    """Each line is a member of the list; the secret itself is nowhere printed."""
    Path("keys").write_text("me:s3cret:admin\n\nyou:other:read\n")
    Path("hooks").write_text("http://a\n\n http://b\n")
    found = gather({}, None, {"ONEPASS_API_KEYS_FILE": "keys"})
    assert "me:s3cret:admin\n\nyou:other:read\n" == found.settings.api_keys.get_secret_value()
    hooks = gather({}, None, {"ONEPASS_WEBHOOKS_FILE": "hooks"}).settings.webhooks
    assert "http://a,http://b" == hooks.get_secret_value()
    assert {"redis_url", "api_keys", "webhooks", "webhook_secret"} == settings_sources.SECRETS
    Path("my.toml").write_text("api_keys_file = 'keys'\nport = 7\n")
    of_toml = gather({}, Path("my.toml"), {})
    assert (found.settings.api_keys, found.keys_file, 7) == (
        of_toml.settings.api_keys,
        Path("keys"),
        of_toml.settings.port,
    )
    assert [] == found.notes + of_toml.notes
    Path("my.toml").write_text("api_keys = ''\napi_keys_file = 'keys'\n")
    assert Path("keys") == gather({}, Path("my.toml"), {}).keys_file


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ONEPASS_PORT", "many"), ("ONEPASS_RATE_PER_S", "inf"), ("ONEPASS_API_KEYS", "canary"),
        ("ONEPASS_PREDICTION_TTL_S", "300000000000"),
        ("ONEPASS_API_KEYS_FILE", "keys"), ("ONEPASS_WEBHOOKS", "canary"), ("ONEPASS_CORS_ORIGINS", "*"),
        ("ONEPASS_REDIS_URL", "http://canary"), ("ONEPASS_REDIS_URL", "redis://canary:port"),
        ("ONEPASS_HOST", "0.0.0.0"), ("ONEPASS_ROOT_PATH", "ml"), ("ONEPASS_MIN_REPLICAS", "1"),
        ("ONEPASS_TLS_CERT", "missing.pem"),
    ],
)  # fmt: skip
def test_settings_are_checked_as_serve_does(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same words, before anything is compiled or imported for it; the secret is not repeated."""
    Path("keys").write_text("# of the board\ncanary:x:root\n")
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(serving, "_compile_kernels", lambda: pytest.fail("kernels are looked for"))
    said = []
    for command in ("serve", "settings"):
        assert 2 == app.main([command])
        said.append(capsys.readouterr().err.removeprefix(f"onepass {command}: "))
    assert said[0] == said[1]
    assert variable in said[0]
    assert "canary" not in said[0]


def test_log_levels_in_any_case() -> None:
    """As other programs take them."""
    levels = [gather({}, None, {"ONEPASS_LOG_LEVEL": one}).settings.log_level for one in ("info", "INFO", "Warning")]
    assert ["info", "info", "warning"] == levels


def test_an_empty_variable_names_no_file_or_directory() -> None:
    """The working directory is not meant either."""
    names = ("tls_cert", "tls_key", "tls_ca", "socket_dir")
    settings = gather({}, None, {f"ONEPASS_{name.upper()}": "" for name in (*names, "data_dir")}).settings
    assert [None] * len(names) == [getattr(settings, name) for name in names]
    assert Path("onepass-data") == settings.data_dir


def test_what_is_no_setting_is_named_with_what_was_meant() -> None:
    """Of variables and of files; what is far from all settings has no suggestion."""
    Path("a.toml").write_text("prot = 1\n")
    environment = dict.fromkeys(("ONEPASS_DURABILTY", "ONEPASS_COLOUR", "ONEPASS_API_KEY", "ONEPASS_URL"), "x")
    assert [
        "a.toml: prot is not a setting; did you mean port?",
        "ONEPASS_COLOUR is not a setting; see onepass settings",
        "ONEPASS_DURABILTY is not a setting; did you mean ONEPASS_DURABILITY?",
    ] == gather({}, Path("a.toml"), environment).notes


def test_links_of_kubernetes_are_told_from_settings() -> None:
    """A service named onepass sets ONEPASS_PORT in every container beside it; the port is the default then."""
    tcp = "tcp://10.96.12.3:8000"
    links = {"PORT": tcp, "SERVICE_HOST": "10.96.12.3", "SERVICE_PORT": "8000", "SERVICE_PORT_HTTP": "8000"}
    links |= {"PORT_8000_TCP": tcp, "PORT_8000_TCP_PROTO": "tcp", "PORT_8000_TCP_PORT": "8000"}
    links |= {"PORT_8000_TCP_ADDR": "10.96.12.3"}
    found = gather({}, None, {f"ONEPASS_{name}": value for name, value in links.items()})
    assert 8000 == found.settings.port
    assert ["ONEPASS_PORT and 7 more: set by Kubernetes for a service of this name, no setting; ignored"] == found.notes


def test_every_setting_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """With what it takes, its meaning and its default."""
    assert 0 == app.main(["serve", "--help"])
    said = capsys.readouterr().out
    assert [] == [name for name in Settings.model_fields if f"\n  --{name.replace('_', '-')} " not in said]
    for words in ("--port <int>", "[8000]", "--data-dir <path>", "--durability <always|everysec>"):
        assert words in said


def test_a_flag_for_what_is_on_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself it is on; no- before it turns off what a variable turns on."""
    found = []
    monkeypatch.setattr(serving, "_compile_kernels", lambda: True)
    monkeypatch.setattr("service.main.run", lambda settings, **_: found.append(settings.access_log) or 0)
    monkeypatch.setenv("ONEPASS_PORT", "0")
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    assert 0 == app.main(["serve"])
    assert 0 == app.main(["serve", "--access-log"])
    monkeypatch.setenv("ONEPASS_ACCESS_LOG", "1")
    assert 0 == app.main(["serve", "--no-access-log"])
    assert [False, True, False] == found
