"""Scripts, styles and images of the pages: read once, cached by browsers until they change.

Their address is ``ui/assets/DIGEST/FILE``. The digest covers all files and is part of the path, so that it also applies
to the modules that a script imports ("./api.js") and the images that a style names.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath

from starlette.requests import Request
from starlette.responses import Response

from service.errors import NotFound

MEDIA = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
"""By the extension of a file's name; other files are not served."""
FOREVER = "public, max-age=31536000, immutable"
IMPORT = re.compile(r'(?:from|import) "(\.{1,2}/[^"]+)";')  # an import of another module; its address is relative
DIGITS = 12  # hexadecimal digits of a digest


@dataclass(frozen=True)
class Assets:
    """All files of the pages."""

    digest: str  # of their names and contents
    contents: dict[str, bytes]  # by path below the folder


@cache
def load() -> Assets:
    """The files of this installation."""
    folder = Path(__file__).parent / "assets"
    kept = [path for path in folder.rglob("*") if path.suffix.removeprefix(".") in MEDIA]
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}
    whole = hashlib.sha256()
    for name, content in sorted(found.items()):
        whole.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return Assets(whole.hexdigest()[:DIGITS], found)


def address(name: str) -> str:
    """The address of a file, relative to the service's root; ``KeyError`` if there is no such file."""
    held = load()
    held.contents[name]
    return f"ui/assets/{held.digest}/{name}"


@cache
def modules(*names: str) -> list[str]:
    """Scripts and all modules that they import, directly or not: a page lists them all, to be fetched at once."""
    found = [*names]
    for name in found:  # which grows during the loop
        imported = IMPORT.findall(load().contents[name].decode())
        found += [one for path in imported if (one := normpath(join(dirname(name), path))) not in found]
    return found


def answer(request: Request) -> Response:
    """A file, or ``NotFound``: immutable under the current digest, revalidated each time under another one or none.

    Another digest comes from a page of another version, while several versions serve behind one address.
    """
    held, name = load(), request.path_params["file"]
    content = held.contents.get(name)
    if content is None:
        raise NotFound("there is no such file")
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "ETag": f'"{held.digest}"'}
    if request.path_params.get("digest") == held.digest:
        headers["Cache-Control"] = FOREVER
    elif request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=MEDIA[name.rpartition(".")[2]])
