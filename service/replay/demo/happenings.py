"""What happened to the models of the demo, a line each: drifts that were found, challengers that were promoted."""

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console

from service.replay.client import Service, path_of

KINDS = {
    "class_mean": "feature means have moved",
    "error_rate": "errors have risen",
    "unlabelled": "rows without labels have changed",
}


class Teller:
    """Prints a line for each happening.

    Args:
        console: the output.
        clock: seconds.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock, self._begun = console, clock, clock()

    def tell(self, name: str, text: str) -> None:
        """Print what happened to a model, after which time."""
        minutes, seconds = divmod(int(self._clock() - self._begun), 60)
        self._console.print(f"{minutes:3}:{seconds:02}  {name:<16}  {text}", soft_wrap=True, markup=False)


class Watched:
    """A model that is looked at now and then.

    Args:
        service: a running one.
        name: of the model.
        algorithm: what it began with.
    """

    def __init__(self, service: Service, name: str, algorithm: str) -> None:
        self._service, self._path = service, path_of(name)
        self._algorithm, self._since = algorithm, 0

    def news(self, promotions: bool) -> list[str]:
        """What has happened since the last look; ``promotions``: whether one may have been among it.

        Raises:
            Failed: the service refuses, or cannot be reached.
        """
        found = self._service.ask("GET", f"{self._path}/drift", params={"since": self._since})
        told = [_drift(event) for event in found["events"] if event["challenger"] is None]
        self._since = max([self._since, *(event["version"] for event in found["events"])])
        if promotions:
            told += self._promotion()
        return told

    def _promotion(self) -> list[str]:
        model = self._service.ask("GET", self._path)
        now = model["config"]["algorithm"]
        if now == self._algorithm:
            return []
        before, self._algorithm = self._algorithm, now
        rows = [mark["row"] for mark in model["metrics"]["marks"] if mark["kind"] == "promotion"]
        return [f"challenger {now} promoted at row {max(rows):,}; {before} goes on beside it as previous"]


def _drift(event: dict[str, Any]) -> str:
    of = "" if event["class"] is None else f" in class {event['class']}"
    moved = ", ".join(str(one["name"]) for one in event["features"][:3])
    return f"drift found at row {event['row']:,}: {KINDS[event['kind']]}{of}" + (f" ({moved})" if moved else "")
