"""The manifests for Envoy Gateway: their fields, what they refer to, and their script and hash in a real Envoy."""

import json
import re
import shutil
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy import balancers
from tests.deploy.balancers import PATIENCE_S, ROOT, balancing, binary
from tests.deploy.gateway_schemas import SCHEMAS
from tests.deploy.stub_service import StubService
from tests.deploy.test_kubernetes import ELSEWHERE, VERSION, build

KUBERNETES = ROOT / "deploy/kubernetes"
LUA = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"


@cache
def component() -> list[dict[str, Any]]:
    """The manifests of the component, as they are written."""
    files = [file for file in sorted((KUBERNETES / "gateway").glob("*.yaml")) if file.name != "kustomization.yaml"]
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


def only(kind: str) -> dict[str, Any]:
    (found,) = [one for one in component() if kind == one["kind"]]
    return found


@pytest.mark.parametrize("kind", SCHEMAS)
def test_fields_are_those_that_there_are(kind: str) -> None:
    """A misspelt one would be dropped, or refused when it is applied."""
    jsonschema.validate(only(kind), SCHEMAS[kind])
    wrong = json.loads(json.dumps(only(kind)))
    wrong["spec"]["mistake"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMAS[kind])


def test_production_takes_it_in_place_of_the_balancer(tmp_path: Path) -> None:
    """One line of the overlay is another one; what is rendered fits together, and nothing of HAProxy is left."""
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    file = tmp_path / "kubernetes/overlays/prod/kustomization.yaml"
    file.write_text(file.read_text().replace("- ../../balancer", "- ../../gateway"))
    found = build(file.parent)
    assert [] == [one["metadata"]["name"] for one in found if "balancer" in one["metadata"]["name"]]
    services = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "Service"}
    (backend,) = only("HTTPRoute")["spec"]["rules"][0]["backendRefs"]
    assert backend["port"] in [port["port"] for port in services[backend["name"]]["ports"]]
    (rendered,) = [
        one for one in found if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == "onepass-gateway"
    ]
    (pods,) = [one["spec"]["template"] for one in found if one["kind"] == "StatefulSet"]
    assert rendered["spec"]["podSelector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    assert {*SCHEMAS} <= {one["kind"] for one in found}
    assert {"onepass"} == {one["metadata"]["namespace"] for one in found if one["kind"] in SCHEMAS}
    for one in found:
        if one["kind"] not in {*ELSEWHERE, *SCHEMAS}:
            kubernetes_validate.validate(one, VERSION, strict=True)


def test_policies_are_of_the_route_and_the_route_of_the_gateway() -> None:
    """Else they have no effect, and nothing says so but a status."""
    route = only("HTTPRoute")["metadata"]["name"]
    for kind in ("EnvoyExtensionPolicy", "BackendTrafficPolicy"):
        assert [route] == [target["name"] for target in only(kind)["spec"]["targetRefs"]]
    assert [only("Gateway")["metadata"]["name"]] == [ref["name"] for ref in only("HTTPRoute")["spec"]["parentRefs"]]


@pytest.mark.asyncio
async def test_an_envoy_with_its_script_and_its_hash_sends_a_model_to_one_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Envoy Gateway makes it of the policies; whatever a client says of the header, and whatever names no model."""
    binary("envoy")
    config = yaml.safe_load((ROOT / "deploy/envoy.yaml").read_text())
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    source = only("EnvoyExtensionPolicy")["spec"]["lua"][0]["inline"]
    lua = {"@type": LUA, "default_source_code": {"inline_string": source}}
    manager["http_filters"].insert(0, {"name": "envoy.filters.http.lua", "typed_config": lua})
    header = only("BackendTrafficPolicy")["spec"]["loadBalancer"]["consistentHash"]["header"]["name"]
    for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
        route["route"]["hash_policy"] = [{"header": {"header_name": header}}]
    config["static_resources"]["clusters"][0]["lb_policy"] = "MAGLEV"  # what Envoy Gateway hashes with
    made = tmp_path / "gateway.yaml"
    made.write_text(re.sub(r"interval: 1s", "interval: 0.1s", yaml.safe_dump(config)))
    monkeypatch.setitem(balancers.FILES, "envoy", made)  # an absolute path stays itself below deploy/
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(StubService(name).running()) for name in ("one", "two")]
        (tmp_path / "run").mkdir()
        url = await stack.enter_async_context(balancing("envoy", tmp_path / "run", [one.port for one in services]))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE_S))
        homes = {name: (await client.get(f"/models/{name}")).text for name in [f"m{at}" for at in range(40)]}
        assert 8 <= min([*homes.values()].count(one.name) for one in services)
        for name, home in homes.items():
            for path in (f"/ml/models/{name}/feedback?x=/models/y", f"/v2/models/{name}/infer"):
                assert home == (await client.post(path, json={}, headers={header: "m0"})).text
        asked = [await client.get(f"/drift?limit={at}", headers={header: "m0"}) for at in range(40)]
        assert {"one", "two"} == {answer.text for answer in asked}
