"""The path under which a proxy puts the service (``ONEPASS_ROOT_PATH``).

One rule: a path that does not begin with it gets it as a prefix. So a proxy may strip it or not, and every address of
the service begins with it, or is relative.
"""

import re
from collections.abc import Iterable

from starlette.types import Scope

FORM = re.compile(r"(?:/[A-Za-z0-9_.~-]+)*")


def parse(text: str, taken: Iterable[str]) -> str:
    """A root path as the prefix of other paths: "" or ``/ml``. A trailing slash in the setting is ignored.

    ``ValueError`` if it is not a path, or if the service itself uses it (``taken``).
    """
    root = text.rstrip("/")
    if FORM.fullmatch(root) is None or {".", ".."} & {*root.split("/")}:
        raise ValueError(
            f"ONEPASS_ROOT_PATH: {text!r} is not a path such as /ml: letters, digits and _ . ~ - between slashes"
        )
    if root and _first(root) in {_first(path) for path in taken}:
        raise ValueError(f"ONEPASS_ROOT_PATH: /{_first(root)} is a path of the service itself; choose another one")
    return root


def _first(path: str) -> str:
    return path.split("/")[1]


def under(scope: Scope, root: str) -> Scope:
    """The scope of a request with the root path in front of its path."""
    path: str = scope["path"]
    return scope if path == root or path.startswith(f"{root}/") else {**scope, "path": root + path}


def route_path(scope: Scope) -> str:
    """The path of a request without the prefix, as routes declare it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
