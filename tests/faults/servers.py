"""Stores with several servers: a Redis Cluster, and a primary watched by Sentinels. Loopback, free ports."""

import random
import shutil
import socket
import tempfile
import time
from pathlib import Path

from redis import Redis, RedisError

from tests.faults.processes import StoreProcess, eventually

SLOTS = 16384
NODE_TIMEOUT_MS = 1000
"""Silence after which a node counts as dead; its replica takes over in about twice that."""


def free_port() -> int:
    """A free port whose cluster bus port, 10000 above, is free as well; both below those that clients are given."""
    while True:
        port = random.SystemRandom().randrange(10_000, 22_000)
        if all(_free(each) for each in (port, port + 10_000)):
            return port


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Server(StoreProcess):
    """A server on a TCP port, with its own directory and configuration."""

    def __init__(self, directory: Path, **options: object) -> None:
        directory.mkdir(parents=True)
        self.directory, self.port = directory, free_port()
        self._options = {"dir": directory, "save": '""', "bind": "127.0.0.1", "appendonly": "yes", **options}

    def start(self) -> "Server":
        """Start it with the data in its directory."""
        config = self.directory / "server.conf"
        if not config.exists():
            given = {"port": self.port, **self._options}
            config.write_text("".join(f"{name.replace('_', '-')} {value}\n" for name, value in given.items()))
        self.launch(str(config))
        return self

    def client(self) -> Redis:
        """A connection for looking inside."""
        return Redis(port=self.port, socket_timeout=5)

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (RedisError, OSError):
            return False

    def cut_off(self) -> None:
        """Disconnect its replicas and keep them out: from now on it acknowledges writes that they never get."""
        with self.client() as client:
            client.config_set("requirepass", "for-those-who-are-in-already")
            client.client_kill_filter(_type="replica")

    def info(self, section: str) -> dict[str, object]:
        with self.client() as client:
            return dict(client.info(section))


class Cluster:
    """Three primaries with one replica each, all with these options."""

    def __init__(self, **options: object) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="op-"))
        given = {
            "cluster_enabled": "yes",
            "cluster_node_timeout": NODE_TIMEOUT_MS,
            "cluster_replica_validity_factor": 0,
            "cluster_require_full_coverage": "no",
            "repl_diskless_sync_delay": 0,
            "aof_use_rdb_preamble": "no",
            **options,
        }
        self.nodes = [Server(self.directory / f"n{number}", **given) for number in range(6)]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self) -> "Cluster":
        """Start the nodes, introduce them, and assign slots and replicas."""
        for node in self.nodes:
            node.start()
        primaries, replicas = self.nodes[:3], self.nodes[3:]
        for number, node in enumerate(primaries):
            slots = range(number * SLOTS // 3, (number + 1) * SLOTS // 3)
            with node.client() as client:
                client.execute_command("CLUSTER ADDSLOTS", *slots)
        assert eventually(True, self._met), [self._known(node) for node in self.nodes]
        for primary, replica in zip(primaries, replicas, strict=True):
            with primary.client() as client:
                name = client.execute_command("CLUSTER MYID")
            with replica.client() as client:
                client.execute_command("CLUSTER REPLICATE", name)
        assert eventually(True, self.whole)
        return self

    def _met(self) -> bool:
        """Whether all nodes know each other; nodes that do not are introduced again.

        A handshake that takes longer than the node timeout is forgotten, which happens on a busy machine.
        """
        first, *others = self.nodes
        if all(self._known(node) == len(self.nodes) for node in self.nodes):
            return True
        for node in others:
            with node.client() as client:
                client.execute_command("CLUSTER MEET", "127.0.0.1", first.port)
        time.sleep(NODE_TIMEOUT_MS / 1000)
        return False

    def _known(self, node: Server) -> int:
        """The number of nodes that a node knows, including itself; unfinished handshakes do not count."""
        with node.client() as client:
            nodes = client.execute_command("CLUSTER NODES")
        return sum("handshake" not in said["flags"] for said in nodes.values())

    def whole(self) -> bool:
        """Whether every node reports a healthy cluster, and every replica has caught up."""
        return all(self._fine(node) for node in self.nodes)

    def _fine(self, node: Server) -> bool:
        try:
            with node.client() as client:
                said = client.execute_command("CLUSTER INFO")
            replication = node.info("replication")
        except (RedisError, OSError):
            return False
        synced = replication.get("connected_slaves") == 1 or replication.get("master_link_status") == "up"
        return said["cluster_state"] == "ok" and said["cluster_slots_fail"] == "0" and synced

    def primary(self, name: str) -> Server:
        """The node that currently owns a model's slot."""
        with next(node for node in self.nodes if node.answers()).client() as client:
            slot = int(client.execute_command("CLUSTER KEYSLOT", f"{{{name}}}"))
        return next(node for node in self.nodes if self._owns(node, slot))

    def replica(self, name: str) -> Server:
        """The replica of that node."""
        port = self.primary(name).port
        return next(
            node for node in self.nodes if node.answers() and node.info("replication").get("master_port") == port
        )

    def _owns(self, node: Server, slot: int) -> bool:
        if not node.answers():
            return False
        with node.client() as client:
            ranges = client.execute_command("CLUSTER SLOTS")
        return any(first <= slot <= last and primary[1] == node.port for first, last, primary, *_ in ranges)

    def end(self) -> None:
        for node in self.nodes:
            node.end()
        shutil.rmtree(self.directory, ignore_errors=True)


class Sentineled:
    """A primary, a replica, and three Sentinels that watch them."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="op-"))
        self.primary = Server(self.directory / "a")
        self.replica = Server(
            self.directory / "b", replicaof=f"127.0.0.1 {self.primary.port}", repl_diskless_sync_delay=0
        )
        self.sentinels = [_Sentinel(self.directory / f"s{n}", self.primary.port) for n in range(3)]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/store"

    def start(self) -> "Sentineled":
        """Start all of them, and wait until the Sentinels know each other and the replica."""
        for server in (self.primary, self.replica):
            server.start()
        assert eventually("up", lambda: self.replica.info("replication").get("master_link_status"))
        for sentinel in self.sentinels:
            sentinel.start()
        assert eventually(True, lambda: all(sentinel.knows_all() for sentinel in self.sentinels))
        return self

    def end(self) -> None:
        for server in (*self.sentinels, self.primary, self.replica):
            server.end()
        shutil.rmtree(self.directory, ignore_errors=True)


class _Sentinel(Server):
    def __init__(self, directory: Path, primary: int) -> None:
        super().__init__(directory)
        self._primary = primary

    def start(self) -> "Server":
        config = self.directory / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.directory}\n"
            f"sentinel monitor store 127.0.0.1 {self._primary} 2\n"
            f"sentinel down-after-milliseconds store {NODE_TIMEOUT_MS}\n"
            "sentinel failover-timeout store 5000\n"
        )
        self.launch(str(config), "--sentinel")
        return self

    def knows_all(self) -> bool:
        """Whether it knows the replica and the other two Sentinels."""
        with self.client() as client:
            state = client.sentinel_masters()["store"]
        return (state["num-slaves"], state["num-other-sentinels"]) == (1, 2)
