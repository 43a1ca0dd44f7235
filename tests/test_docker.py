"""The image, the compose file, the lock files and the Makefile, as far as they can be checked without Docker."""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import tomllib
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from service.memory_limit import RESERVED_MB
from service.settings import Settings
from tests.service.client.test_serving import has_ipv6

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
DOCKERFILE = ROOT / "docker/Dockerfile"
COMPOSE = ROOT / "docker/compose.yaml"
IMAGE = ROOT / "docker/requirements.txt"
RUN = ROOT / "service/requirements.txt"
TEST = ROOT / "tests/requirements.txt"
BACKEND = ROOT / "docker/build-requirements.txt"
UV = ROOT / "service/first_run/uv-requirements.txt"


def _run(*command: object) -> tuple[int, str]:
    finished = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False)
    return finished.returncode, finished.stdout + finished.stderr


class _Healthz(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()


class _Healthy(ThreadingHTTPServer):
    """A server of /healthz at an address of this machine."""

    def __init__(self, address: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), _Healthz)


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def _locked(path: Path) -> dict[str, str]:
    """Name and version of everything in a lock file."""
    return dict(re.findall(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", path.read_text(), flags=re.MULTILINE))


def _direct(*parts: str) -> dict[str, SpecifierSet]:
    """What pyproject.toml asks for: run time, and the named extras and groups."""
    file = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = file["project"]["optional-dependencies"] | file["dependency-groups"]
    wanted = list(file["project"]["dependencies"])
    wanted += [item for part in parts for item in named[part] if isinstance(item, str)]
    return {canonicalize_name(item.name): item.specifier for item in map(Requirement, wanted)}


def test_the_dockerfile_passes_its_linter() -> None:
    """Hadolint has nothing to say about the Dockerfile."""
    assert (0, "") == _run(BIN / "hadolint", DOCKERFILE)


def test_the_compose_file_follows_its_schema() -> None:
    """The compose file is what the Compose specification allows."""
    code, said = _run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)
    assert 0 == code, said


def test_every_copied_file_exists() -> None:
    """Each source of a COPY is in the repository and let through by the ignore file."""
    let_through = (ROOT / "docker/Dockerfile.dockerignore").read_text().split()
    sources = [
        word for name, rest in _instructions() if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]
    assert sources
    assert [] == [source for source in sources if not (ROOT / source).exists()]
    assert [] == [source for source in sources if f"!{source}" not in let_through]


def test_the_image_runs_as_nobody_special() -> None:
    """The last USER is a number that is not root's, so that orchestrators can check it."""
    uid, gid = [rest for name, rest in _instructions() if name == "USER"][-1].split(":")
    assert 0 not in {int(uid), int(gid)}


def test_the_service_is_process_one() -> None:
    """Signals reach the service: exec form, and the shell that prepares replaces itself."""
    commands = {name: json.loads(rest) for name, rest in _instructions() if name in {"ENTRYPOINT", "CMD"}}
    assert ["serve"] == commands["CMD"]
    assert "exec onepass" in commands["ENTRYPOINT"][2]
    assert 0 == _run("sh", "-n", "-c", commands["ENTRYPOINT"][2])[0]


def test_a_release_leaves_the_dependencies_as_they_are() -> None:
    """They are a layer below the service and its kernels, and nothing that a release changes is copied before them."""
    build, image = re.split(r"^FROM ", DOCKERFILE.read_text(), flags=re.MULTILINE)[1:]
    copied = re.findall(r"^COPY (.*)$", build, flags=re.MULTILINE)
    assert "docker/requirements.txt docker/build-requirements.txt ./" == copied[0]
    assert build.index("COPY pyproject.toml") > build.index("-r requirements.txt")
    layers = re.findall(r"^COPY --from=build (\S+) ", image, flags=re.MULTILINE)
    assert ["/opt/onepass/venv", "/opt/onepass/app", "/opt/onepass/kernels"] == layers
    assert image.index("ARG COMMIT") > image.rindex("COPY")


def test_bytecode_does_not_depend_on_times() -> None:
    """Image builders round or replace the times of files, which would make ordinary bytecode stale."""
    compiled = re.findall(r"-m compileall .*", DOCKERFILE.read_text())
    assert len(compiled) == 3
    assert [] == [command for command in compiled if "--invalidation-mode unchecked-hash" not in command]


@pytest.mark.parametrize(("host", "address"), [("0.0.0.0", "127.0.0.1"), ("::", "::1")])
@pytest.mark.parametrize("tls", ["", "CERT", "CERT CA"])
def test_the_healthcheck_asks_for_life(tmp_path: Path, host: str, address: str, tls: str) -> None:
    """Whatever it listens on, with certificates or without; where nothing answers, it fails."""
    if ":" in host and not has_ipv6():
        pytest.skip("no IPv6 on the loopback here")
    own, ca = tmp_path / "own.pem", trustme.CA()
    ca.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(own))
    server = _Healthy(address)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own)
        ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED if "CA" in tls else ssl.CERT_NONE
        server.socket = context.wrap_socket(server.socket, server_side=True)
    given = {f"ONEPASS_TLS_{name}": str(own) for name in tls.split()}
    given |= {"ONEPASS_HOST": host, "ONEPASS_PORT": str(server.server_port)}
    python, *code = json.loads(re.search(r"\[.*", dict(_instructions())["HEALTHCHECK"])[0])
    check = partial(subprocess.run, [sys.executable, *code], env=os.environ | given, stderr=subprocess.DEVNULL)
    assert "python" == python
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert 0 == check().returncode
        server.shutdown()
    assert 1 == check().returncode


def test_containers_of_the_composition_are_bounded() -> None:
    """Memory and processes; the root is read-only; ports are published to this machine unless told otherwise."""
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert {"onepass", "replica", "balancer", "redis"} == set(services)
    for one in services.values():
        assert (True, ["ALL"], 256) == (one["read_only"], one["cap_drop"], one["pids_limit"])
        assert one["mem_limit"]
        assert ["no-new-privileges:true"] == one["security_opt"]
    assert f"{Settings().memory_budget_mb + RESERVED_MB}m" == services["onepass"]["mem_limit"]
    published = [port for one in services.values() for port in one.get("ports", [])]
    assert published
    assert [] == [port for port in published if not port.startswith("${ONEPASS_ADDRESS:-127.0.0.1}:")]


def test_keys_from_a_file_go_to_every_service() -> None:
    """Each has the directory that ONEPASS_KEYS names, where a file may be replaced, and reads api-keys in it."""
    services = [one for one in yaml.safe_load(COMPOSE.read_text())["services"].values() if "build" in one]
    assert 2 == len(services)
    for one in services:
        assert "${ONEPASS_KEYS:+/run/secrets/onepass/api-keys}" == one["environment"]["ONEPASS_API_KEYS_FILE"]
        assert "${ONEPASS_KEYS:-/dev/null}:/run/secrets/onepass:ro" in one["volumes"]


def test_images_are_pinned() -> None:
    """No image is taken by a tag that means something else tomorrow."""
    images = re.findall(r"image: (\S+)", COMPOSE.read_text())
    images += [
        rest.removeprefix("BASE=") for name, rest in _instructions() if name == "ARG" and rest.startswith("BASE=")
    ]
    assert 4 == len(images)
    assert [] == [image for image in images if not re.search(r":(\d+\.\d+|trixie)", image)]


def test_the_version_is_the_same_everywhere() -> None:
    """pyproject.toml, the image's label and the compose file agree on the version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f'image.version="{version}"' in DOCKERFILE.read_text()
    assert f"image: onepass:{version}\n" in COMPOSE.read_text()


@pytest.mark.parametrize("path", [IMAGE, BACKEND, RUN, TEST, UV], ids=["image", "backend", "run", "test", "uv"])
def test_locks_are_hashed_and_name_no_place(path: Path) -> None:
    """Every locked package has hashes; no address, no path, no option."""
    text = path.read_text()
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert len(blocks) == len(_locked(path))
    assert [] == [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block]
    assert [] == re.findall(r"://|file:|^-|^/|@ ", text, flags=re.MULTILINE)


def test_the_locks_agree() -> None:
    """What runs is what was tested: each lock is a part of the next larger one."""
    assert set(_locked(IMAGE).items()) < set(_locked(RUN).items()) < set(_locked(TEST).items())
    assert {"uv": _locked(TEST)["uv"]} == _locked(UV)
    assert set(_locked(BACKEND).items()) < set(_locked(RUN).items())


def test_the_image_holds_nothing_of_replay_and_no_build_backend() -> None:
    """What only the extra asks for is locked for this machine and left out of the image; what builds stays behind."""
    assert "hatchling" in _locked(BACKEND)
    assert "hatchling" not in _locked(IMAGE)
    extra = set(_direct("replay")) - set(_direct())
    assert {"matplotlib"} == extra
    assert set() == extra & set(_locked(IMAGE))


@pytest.mark.parametrize(
    ("path", "parts"),
    [(IMAGE, []), (RUN, ["build", "replay"]), (TEST, ["build", "dev", "replay"])],
    ids=["image", "run", "test"],
)
def test_the_locks_fulfil_the_project(path: Path, parts: list[str]) -> None:
    """Each direct dependency is locked, in a version that pyproject.toml allows (else: make lock)."""
    locked, wanted = _locked(path), _direct(*parts)
    assert set() == set(wanted) - set(locked)
    assert {} == {
        name: locked[name] for name, allowed in wanted.items() if not allowed.contains(locked[name], prereleases=True)
    }


def test_the_bill_of_materials_is_that_of_the_image(tmp_path: Path) -> None:
    """`make audit` names what is locked for the image, with versions and hashes, the same each time."""
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    command = re.search(r"\$\(BIN\)/cyclonedx-py (.*?--output-reproducible)", (ROOT / "Makefile").read_text())
    assert command
    for file in files:
        code, said = _run(BIN / "cyclonedx-py", *command[1].split(), "--no-validate", "--output-file", file)
        assert 0 == code, said
    assert files[0].read_bytes() == files[1].read_bytes()
    bill = json.loads(files[0].read_text())
    assert _locked(IMAGE) == {one["name"].lower(): one["version"] for one in bill["components"]}
    assert all(place["hashes"] for one in bill["components"] for place in one["externalReferences"])
    assert "onepass" == bill["metadata"]["component"]["name"]


def test_what_serving_needs_may_be_used() -> None:
    """`make audit` allows the licence of every package of the image."""
    allowed = re.search(r"^LICENCES := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert allowed
    permitted = allowed[1].replace("\\\n", "")
    code, said = _run(BIN / "pip-licenses", "--from=mixed", "--allow-only", permitted, "--packages", *_locked(IMAGE))
    assert 0 == code, said


def test_one_version_serves_every_python() -> None:
    """No package is locked twice for different Pythons or systems: the same bits everywhere."""
    names = re.findall(r"^([a-z0-9.-]+)==", TEST.read_text(), flags=re.MULTILINE)
    assert len(set(names)) == len(names)


def test_scripts_are_sound() -> None:
    """The CI script is executable bash, and make knows what each target does."""
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    assert (0, "") == _run("bash", "-n", script)
    code, said = _run("make", "help")
    assert 0 == code
    assert {"run", "test", "lock"} <= set(re.findall(r"^make ([a-z-]+)", said, flags=re.MULTILINE))
