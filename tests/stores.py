"""The tests that a store takes part in, against given servers: ``python -m tests.stores SERVER [SERVER ...]``.

Each SERVER is a ``redis-server`` or ``valkey-server`` (6.2 or newer); it comes first on PATH, where services and tests
find their server. Alone, with Sentinels and as a cluster; killed, full, slow, restarted without its data.

Exits with 1 where a test fails.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from service import embedded

ROOT = Path(__file__).resolve().parents[1]
NAMES = {
    "service/drift": "drift_store orphaned_alarms",
    "service/runtime": "lost_models newer_code",
    "service/private_store": "embedded",
    "service/store": "append_script catalog_store connection large_calls log_store pending_store permissions "
    "states_store store_full",
    "faults/replicas": "affinity cluster drift two_services",
    "faults/service": "kill_service",
    "faults/store": "corrupt_snapshot full_disk kill_store lost_data lost_reply lost_tail store_copy store_down",
    "faults/storms": "storm",
    "simulator": "lua_store",
}
FILES = [f"tests/{folder}/test_{name}.py" for folder, names in NAMES.items() for name in names.split()]


def on_path() -> str:
    """The redis-server of PATH, whatever its version, else what a service without one on PATH takes."""
    return shutil.which("redis-server") or embedded._find_server()


def version(server: str | Path) -> tuple[str, int]:
    """What a server says it is, and its first number."""
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^(\w+) server v=((\d+)\S+)", said)
    if found is None:
        raise SystemExit(f"{server} is no redis-server or valkey-server: {said}")
    return f"{found[1]} {found[2]}", int(found[3])


def main() -> None:
    """Test every server, and tell of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", metavar="SERVER", help="default: all on PATH")
    parser.add_argument("--workers", default="2", help="processes that run the tests")
    given = parser.parse_args()
    servers = given.servers or [found for name in ("redis-server", "valkey-server") if (found := shutil.which(name))]
    if not servers:
        raise SystemExit("no redis-server or valkey-server on PATH (Debian and Ubuntu: apt install redis-server)")
    told = {server: _tested(Path(server).resolve(), given.workers) for server in servers}
    print()
    for server, (name, fine) in told.items():
        print(f"{'passed' if fine else 'FAILED'}  {name}  {server}")
    if not all(fine for _, fine in told.values()):
        raise SystemExit(1)


def _tested(server: Path, workers: str) -> tuple[str, bool]:
    """What a server says of itself, and whether every test has passed."""
    name, _ = version(server)
    print(f"\n{name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "redis-server").symlink_to(server)  # the name that is looked for first
        environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "loadfile", *FILES]
        return name, subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    main()
