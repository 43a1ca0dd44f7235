"""The path under which a proxy puts the service (``ONEPASS_ROOT_PATH``).

One rule: a path that does not begin with it gets it as a prefix. So a proxy may strip it or not, and every address of
the service begins with it, or is relative.
"""

import re

from starlette.types import Scope

FORM = re.compile(r"(?:/[A-Za-z0-9_.~-]+)*")
OWN = {"algorithms", "docs", "drift", "guide", "healthz", "key", "llms.txt", "metrics", "models", "onepass.py"} | {
    "openapi.json", "problems", "readyz", "redoc", "static", "ui", "v2", "version",
}  # fmt: skip
"""How the service's own paths begin."""


def parse(text: str) -> str:
    """A root path as the prefix of other paths: "" or ``/ml``. A trailing slash in the setting is ignored.

    ``ValueError`` if it is not a path, if the service itself uses it, or if it would mislead balancers.
    """
    root = text.rstrip("/")
    _, *parts = root.split("/")
    if FORM.fullmatch(root) is None or {".", ".."} & {*parts}:
        raise ValueError(
            f"ONEPASS_ROOT_PATH: {text!r} is not a path such as /ml: letters, digits and _ . ~ - between slashes"
        )
    if parts and parts[0] in OWN:
        raise ValueError(f"ONEPASS_ROOT_PATH: /{parts[0]} is a path of the service itself; choose another one")
    if "models" in parts:
        raise ValueError("ONEPASS_ROOT_PATH: no part may be models, after which balancers look for a model's name")
    return root


def under(scope: Scope, root: str) -> Scope:
    """The scope of a request with the root path in front of its path."""
    path: str = scope["path"]
    return scope if path == root or path.startswith(f"{root}/") else {**scope, "path": root + path}


def route_path(scope: Scope) -> str:
    """The path of a request without the prefix, as routes declare it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
