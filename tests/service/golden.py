"""What the service shows of itself, as files that a change has to change, too: its diff stands in the review.

python -m tests.service.golden        writes golden_files/ anew

openapi.json     /openapi.json of a service without keys, without the number of the release
routes.txt       method, path and scope of every route; "page" is a public shell or text
settings.jsonl   every setting by its variable: type, bounds, default, sentence
"""

import json
from pathlib import Path

from service.api.routes import ROUTES
from service.app import create_app
from service.settings import Settings
from tests.service.route_table import id_of, routes_of

FILES = Path(__file__).parent / "golden_files"
COMMAND = "python -m tests.service.golden"
RENAMED = {"Request Entity Too Large": "Content Too Large", "Unprocessable Entity": "Unprocessable Content"}
"""Phrases of statuses that Python 3.13 has changed: the files have the later ones, whatever Python reads them."""


def openapi() -> str:
    """The document, a value per line."""
    document = create_app().openapi()
    document["info"].pop("version")
    text = json.dumps(document, indent=1, ensure_ascii=False)
    for old, new in RENAMED.items():
        text = text.replace(old, new).replace(old.replace(" ", ""), new.replace(" ", ""))
    return text


def routes() -> str:
    """A line per route, by path."""
    scopes = {id_of(route): route.scope for route in ROUTES}
    found = sorted(routes_of(create_app()), key=lambda route: (route[1], route[0]))
    return "\n".join(f"{method:7}{path:58}{scopes.get(f'{method} {path}', 'page')}" for method, path in found)


def settings() -> str:
    """A line per setting, in their order."""
    lines = []
    for name, field in Settings.model_json_schema()["properties"].items():
        del field["title"]
        lines.append(json.dumps({"name": f"ONEPASS_{name.upper()}", **field}, ensure_ascii=False))
    return "\n".join(lines)


WRITTEN = {"openapi.json": openapi, "routes.txt": routes, "settings.jsonl": settings}


def main() -> None:
    for name, text in WRITTEN.items():
        (FILES / name).write_text(f"{text()}\n")


if __name__ == "__main__":
    main()
