"""What deploy/monitoring.md says about the metrics."""

import re

from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.balancers import ROOT
from tests.service.api_fixtures import own_settings, start, store_url

__all__ = ["own_settings", "start", "store_url"]
ENDINGS = {"counter": "_total"}


async def test_every_metric_is_on_the_page(start) -> None:
    """The page names exactly the families of GET /metrics."""
    api = await start()
    await api.learnt()
    told = (await api.ask("GET", "/metrics")).text
    there = {one.name + ENDINGS.get(one.type, "") for one in text_string_to_metric_families(told)}
    there = {name for name in there if name.startswith("onepass_")}
    named = set(re.findall(r"`(onepass_\w+)", (ROOT / "deploy/monitoring.md").read_text()))
    assert len(there) > 40
    assert there == named
