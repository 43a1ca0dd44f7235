"""``onepass replay``, ``compare`` and ``demo``: what service.replay does, and how it ends."""

import argparse
import importlib
import importlib.util
import json
import sys

from service.replay import Failed, Interrupted
from service.replay import options as replay_options
from service.replay.demo import options as demo_options

_MODULES = {
    "replay": "service.replay.command",
    "compare": "service.replay.compare",
    "demo": "service.replay.demo.command",
}
CHARTS = "matplotlib"
"""What charts are drawn with, of the extra ``onepass[replay]``."""


def declare(name: str, parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command."""
    {"replay": replay_options.add, "compare": replay_options.add_compare, "demo": demo_options.add}[name](parser)


def run(options: argparse.Namespace) -> int:
    """Run it; its exit status."""
    said = f"onepass {options.command}"
    if options.command != "demo" and importlib.util.find_spec(CHARTS) is None:
        if options.plot is not None:
            print(f"{said}: a chart needs matplotlib: pip install '.[replay]' in a checkout", file=sys.stderr)
            return 1
        if options.command == "compare" and not options.no_plot:
            print(f"{said}: no chart without matplotlib: pip install '.[replay]' in a checkout", file=sys.stderr)
            options.no_plot = True
    command = importlib.import_module(_MODULES[options.command])  # brings rich and httpx
    try:
        result = command.run(options)
        if result is not None:
            print(json.dumps(result))
    except Failed as failed:
        print(f"{said}: {failed}", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        print(f"{said}: interrupted", file=sys.stderr)
        return 128 + interrupted.signal
    return 0
