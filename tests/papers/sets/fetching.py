"""Fetches the papers' missing data sets from the sources in manifest.csv.

The raw files of a set, of at most some MB, are taken from ``sources`` in one of the folders, or downloaded. Those whose
size or hash differs from the manifest are refused. The converted file is written under a temporary name and renamed
once its hash is right, so two runs at once do no harm. A failure is reported as a missing set, not raised, and changes
nothing else.
"""

import gzip
import hashlib
import os
import time
from collections.abc import Iterable
from typing import Any

import httpx

from tests.papers.sets.converters import converted
from tests.papers.sets.manifest import SETS, DataSet, Missing, Source, find, folders

TRIES, TIMEOUT_S, ALL_S = 3, 10.0, 900.0
"""How often a file is tried; limits for a connection and each read, and for everything."""
UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)


def fetch_all(sets: Iterable[DataSet] = tuple(SETS.values()), say: Any = print) -> list[Missing]:
    """Fetch the given sets that cannot be read, one by one; return those still missing."""
    lacking = [one for one in sets if isinstance(find(one.name), Missing)]
    if not lacking:
        return []
    say(f"{len(lacking)} data sets are missing; they go to {folders()[0]}")
    still, unreached, ends = [], set[str](), time.monotonic() + ALL_S
    # A compressed file is itself what is asked for: no server may say that it is an encoding.
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True, headers={"Accept-Encoding": "identity"}) as client:
        for one in lacking:
            try:
                raws = [_lying(source) or _downloaded(client, source, unreached, ends) for source in one.sources]
                _write(one, converted(one, raws))
            except (httpx.HTTPError, OSError, ValueError, EOFError) as error:
                still.append(Missing(one.name, f"{one.sources[0].url}: {error or type(error).__name__}"))
            say(f"{one.name}: {still[-1].why if still and still[-1].set == one.name else f'{one.rows} rows'}")
    return still


def _lying(source: Source) -> bytes | None:
    """The content of a raw file in one of the folders."""
    paths = [path for folder in folders() if (path := folder / source.path).is_file()]
    return next((content for path in paths if _fits(source, content := path.read_bytes())), None)


def _fits(source: Source, content: bytes) -> bool:
    return (source.bytes, source.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def _downloaded(client: httpx.Client, source: Source, unreached: set[str], ends: float) -> bytes:
    """The content of a file; temporary failures are tried again, and a host that cannot be reached is not."""
    host = httpx.URL(source.url).host
    for left in reversed(range(TRIES)):
        if host in unreached or time.monotonic() > ends:
            raise ValueError(f"{host} cannot be reached" if host in unreached else f"not fetched within {ALL_S:.0f} s")
        try:
            content = client.get(source.url).raise_for_status().content
        except httpx.HTTPError as error:
            status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 500
            if not left and isinstance(error, UNREACHED):
                unreached.add(host)
            if not left or (status < 500 and status != httpx.codes.TOO_MANY_REQUESTS):
                raise
            time.sleep(1.0)
        else:
            break
    if not _fits(source, content):
        raise ValueError("its size or SHA-256 differs from the manifest's")
    return content


def _write(one: DataSet, content: bytes) -> None:
    """Write the converted file, completely or not at all."""
    if one.csv_sha256 != hashlib.sha256(content).hexdigest():
        raise ValueError("the converted file's SHA-256 differs from the manifest's")
    path = folders()[0] / one.path
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        temporary.write_bytes(gzip.compress(content, mtime=0))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
