"""The manifests: rendered by kustomize, checked against the schemas of Kubernetes, and consistent with each other."""

import asyncio
import re
import shutil
import socket
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
import yaml

from service.memory_limit import RESERVED_MB
from service.server.http_protocol import REFUSED_OPEN_MAX
from service.settings import Settings
from tests.service.local_server import LocalServer, running
from tests.service.monitoring import DEPLOY, RULES
from tests.service.server.test_http_protocol import echo

VERSION = "1.34"
ELSEWHERE = {"ServiceMonitor", "PrometheusRule"}
"""Kinds that are not part of Kubernetes itself."""
STORE_S = 5
"""The time the private store may need beyond the grace period."""
NOTICED_S = 1 + 2 * 0.2
"""How long the checks in haproxy.cfg take to notice a service that is not ready: inter, then fastinter twice."""


@cache
def rendered() -> list[dict[str, Any]]:
    """The overlay rendered by kustomize; skips the test if it is not installed."""
    command = ["kustomize", "build"] if shutil.which("kustomize") else ["kubectl", "kustomize"]
    if shutil.which(command[0]) is None:
        pytest.skip("neither kustomize nor kubectl is installed: the manifests are not rendered")
    text = subprocess.run(
        [*command, DEPLOY / "kubernetes/overlays/prod"], capture_output=True, text=True, check=True
    ).stdout
    return list(yaml.safe_load_all(text))


def only(kind: str, name: str = "onepass") -> dict[str, Any]:
    (found,) = [one for one in rendered() if (kind, name) == (one["kind"], one["metadata"]["name"])]
    return found


def pods() -> list[dict[str, Any]]:
    return [one["spec"]["template"] for one in rendered() if one["kind"] in {"StatefulSet", "Deployment"}]


def configured() -> dict[str, str]:
    """The service's variables that are not secrets."""
    (found,) = [one["data"] for one in rendered() if one["kind"] == "ConfigMap"]
    return found


def container() -> dict[str, Any]:
    (found,) = only("StatefulSet")["spec"]["template"]["spec"]["containers"]
    return found


def test_manifests_follow_the_schemas() -> None:
    """Strictly: an unknown field is an error."""
    import kubernetes_validate  # importing it takes seconds

    judged = [one for one in rendered() if one["kind"] not in ELSEWHERE]
    assert len(judged) >= 6
    for one in judged:
        kubernetes_validate.validate(one, VERSION, strict=True)


def test_selectors_find_pods_and_references_objects() -> None:
    """Every selector matches the labels of a pod; ConfigMaps that are referenced exist or are generated."""
    labels = [pod["metadata"]["labels"] for pod in pods()]
    selectors = [one["spec"]["selector"] for one in rendered() if one["kind"] == "Service"]
    selectors += [pods["spec"]["selector"]["matchLabels"] for pods in rendered() if "template" in pods.get("spec", {})]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in rendered() if one["kind"] == "NetworkPolicy"]
    assert [] == [one for one in selectors if not any(one.items() <= label.items() for label in labels)]
    made = {one["metadata"]["name"] for one in rendered() if one["kind"] == "ConfigMap"}
    assert {container()["envFrom"][0]["configMapRef"]["name"]} == made
    ports = {port["name"] for pod in pods() for one in pod["spec"]["containers"] for port in one["ports"]}
    assert {"http"} == ports


def test_pods_have_no_unnecessary_rights() -> None:
    """They meet the profile "restricted", with a read-only root, no token and no variables of other services."""
    for pod in (template["spec"] for template in pods()):
        assert (False, False) == (pod["enableServiceLinks"], pod["automountServiceAccountToken"])
        assert pod["securityContext"]["runAsNonRoot"]
        assert "RuntimeDefault" == pod["securityContext"]["seccompProfile"]["type"]
        for one in pod["containers"]:
            expected = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert expected == one["securityContext"]
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= one.keys()
            assert "memory" in one["resources"]["limits"]
            assert ":" in one["image"]


def test_a_pod_has_enough_time_and_memory() -> None:
    """It may take longer than drain and stop; models have their default memory."""
    pod = only("StatefulSet")["spec"]["template"]["spec"]
    said = configured()
    assert Settings().grace_s + float(said["ONEPASS_DRAIN_S"]) + STORE_S < pod["terminationGracePeriodSeconds"]
    limit = int(container()["resources"]["limits"]["memory"].removesuffix("Mi"))
    assert Settings().memory_budget_mb + RESERVED_MB == limit
    probes = {name: container()[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe")}
    assert {"startupProbe": "/healthz", "readinessProbe": "/readyz"} == probes


async def test_a_full_service_is_alive() -> None:
    """The liveness probe fails only for a service that does not answer, or that is not there."""
    (base,) = yaml.safe_load_all((DEPLOY / "kubernetes/base/statefulset.yaml").read_text())
    (own,) = base["spec"]["template"]["spec"]["containers"]
    _, *command = own["livenessProbe"]["exec"]["command"]

    async def probe(port: int) -> int:
        given = [part.replace("8000", str(port)).replace("timeout=4", "timeout=1") for part in command]
        child = await asyncio.create_subprocess_exec(sys.executable, *given, stderr=asyncio.subprocess.DEVNULL)
        return await child.wait()

    async with running(LocalServer(echo, connections_max=1)) as server:
        assert (0, []) == (await probe(server.port), server.refused)
        others = [await server.connect() for _ in range(2)]
        assert (0, [503]) == (await probe(server.port), server.refused)
        others += [await server.connect() for _ in range(REFUSED_OPEN_MAX - 1)]
        assert (0, [503, 503]) == (await probe(server.port), server.refused)
    other = await asyncio.start_server(lambda _, writer: writer.close(), "::1", 0)  # as with ONEPASS_HOST=::
    async with other:
        assert 0 == await probe(other.sockets[0].getsockname()[1])
    with socket.create_server(("127.0.0.1", 0)) as hung:
        port = hung.getsockname()[1]
        assert 1 == await probe(port)
    assert 1 == await probe(port)


def test_production_requires_keys_and_a_store() -> None:
    """The secrets are files from a Secret."""
    variables = {one["name"]: one["value"] for one in container()["env"]}
    (mount,) = [one["mountPath"] for one in container()["volumeMounts"] if "secrets" == one["name"]]
    assert {"ONEPASS_REDIS_URL_FILE": f"{mount}/redis-url", "ONEPASS_API_KEYS_FILE": f"{mount}/api-keys"} == variables
    assert "ONEPASS_INSECURE" not in configured()


def test_the_first_lines_say_what_to_create() -> None:
    """Every Secret and ConfigMap that the manifests name and do not hold, even the one with the key of Prometheus."""
    volumes = [volume for pod in pods() for volume in pod["spec"]["volumes"]]
    (scraped,) = only("ServiceMonitor")["spec"]["endpoints"]
    needed = {f"secret generic {volume['secret']['secretName']}" for volume in volumes if "secret" in volume}
    needed |= {f"configmap {volume['configMap']['name']}" for volume in volumes if "configMap" in volume}
    needed.add(f"secret generic {scraped['authorization']['credentials']['name']}")
    first = (DEPLOY / "kubernetes/overlays/prod/kustomization.yaml").read_text().partition("\napiVersion")[0]
    assert needed == set(re.findall(r"create ((?:secret generic|configmap) \S+) --from", first))


def test_clients_of_production_use_the_balancer() -> None:
    """The balancer finds the services, by their full name, and Prometheus each of them, by the headless Service."""
    assert {"app.kubernetes.io/name": "onepass-balancer"} == only("Service")["spec"]["selector"]
    (haproxy,) = only("Deployment", "onepass-balancer")["spec"]["template"]["spec"]["containers"]
    variables = haproxy["env"]
    given = {one["name"]: one["value"] for one in variables if "value" in one}
    name, domain = given["ONEPASS_HOST"].split(".", 1)
    assert "$(NAMESPACE).svc.cluster.local" == domain  # HAProxy does not complete a short name
    # A variable can hold only those before it.
    own = {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    assert variables.index(own) < variables.index({"name": "ONEPASS_HOST", "value": given["ONEPASS_HOST"]})
    headless = only("Service", name)
    assert "None" == headless["spec"]["clusterIP"]
    assert only("ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= headless["metadata"]["labels"].items()
    assert int(given["ONEPASS_SLOTS"]) >= only("StatefulSet")["spec"]["replicas"]
    used = (DEPLOY / "haproxy.cfg").read_text()
    assert [] == [name for name in given if name not in used]


def test_a_full_balancer_stays_within_its_memory() -> None:
    """Measured: 9900 connections with incomplete bodies take 203 MB. Each connection takes up to two descriptors."""
    (haproxy,) = only("Deployment", "onepass-balancer")["spec"]["template"]["spec"]["containers"]
    assert "256Mi" == haproxy["resources"]["limits"]["memory"]
    composed = yaml.safe_load((DEPLOY.parent / "docker/compose.yaml").read_text())["services"]["balancer"]
    assert "256m" == composed["mem_limit"]
    (descriptors,) = re.findall(r"fd-hard-limit (\d+)", (DEPLOY / "haproxy.cfg").read_text())
    assert int(descriptors) / 2 * 203 / 9900 < 0.9 * 256


def test_a_leaving_service_reports_so_before_it_stops() -> None:
    """It drains for longer than the balancer's checks take; a preStop would only delay the signal to drain."""
    assert NOTICED_S + 3 < float(configured()["ONEPASS_DRAIN_S"])
    assert "lifecycle" not in container()


def test_prometheus_names_the_job_as_the_rules_do() -> None:
    """The operator takes the job from the label of the Service that jobLabel names."""
    label = only("ServiceMonitor")["spec"]["jobLabel"]
    job = only("Service", "onepass-services")["metadata"]["labels"][label]
    assert f'up{{job="{job}"}}' in RULES.read_text()


def test_the_operator_gets_the_rules_that_prometheus_loads() -> None:
    """The PrometheusRule contains the rules file, group by group."""
    assert yaml.safe_load(RULES.read_text()) == only("PrometheusRule")["spec"]


def test_every_pod_is_selected_by_a_policy() -> None:
    """A pod that no NetworkPolicy selects, even the balancer's, is open to the whole cluster."""
    selectors = [
        one["spec"]["podSelector"]["matchLabels"].items()
        for one in rendered()
        if one["kind"] == "NetworkPolicy" and [{"podSelector": {}}] in [way["from"] for way in one["spec"]["ingress"]]
    ]
    for pod in pods():
        assert any(selector <= pod["metadata"]["labels"].items() for selector in selectors)
