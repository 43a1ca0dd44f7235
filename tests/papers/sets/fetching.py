"""Fetches the papers' missing data sets from the sources in manifest.csv.

The raw files of a set are taken from ``sources`` in one of the folders, or downloaded to ``partial`` in the first one.
A broken download continues where it ended if the server supports it, in this run or the next. Files whose size or hash
differs from the manifest are deleted. The converted file is written under a temporary name and renamed once its hash is
right, so two runs at once do no harm. A failure is reported as a missing set, not raised, and changes nothing else.
"""

import gzip
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

from tests.papers.sets.converters import converted
from tests.papers.sets.manifest import SETS, DataSet, Missing, Source, find, folders

WAITS_S = (0.5, 2.0)
"""Pauses before the second and the third try."""
TIMEOUT_S, FILE_S, ALL_S = 10.0, 120.0, 900.0
"""Limits for a connection and each read, for one try to download a file, and for everything."""
PASSING = {httpx.codes.REQUEST_TIMEOUT, httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE, httpx.codes.TOO_MANY_REQUESTS}
UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)


class Refused(Exception):
    """Trying again would not get this file."""


def fetch_all(sets: Iterable[DataSet] = tuple(SETS.values()), say: Any = print) -> list[Missing]:
    """Fetch the given sets that cannot be read, one by one; return those still missing."""
    lacking = {one.name: one for one in sets if isinstance(find(one.name), Missing)}
    if not lacking:
        return []
    say(f"{len(lacking)} data sets are missing; they go to {folders()[0]}")
    still, unreached, ends = [], dict[str, str](), time.monotonic() + ALL_S
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True, headers={"Accept-Encoding": "identity"}) as client:
        for one in lacking.values():
            if why := _fetched(client, one, unreached, ends):
                still.append(Missing(one.name, why))
                say(f"{one.name}: {why}")
            else:
                say(f"{one.name}: {one.rows} rows")
    return still


def _fetched(client: httpx.Client, one: DataSet, unreached: dict[str, str], ends: float) -> str:
    """Why a set could not be fetched; "" if it was. An unreachable host is tried once."""
    source = one.sources[0]
    try:
        raws = []
        for source in one.sources:
            raws.append(_lying(source) or _downloaded(client, source, unreached, ends))
        _write(one, converted(one, raws))
    except (httpx.HTTPError, Refused, OSError) as error:
        return f"{source.url}: {error or type(error).__name__}"
    except (ValueError, EOFError) as error:
        return f"{source.url} cannot be converted: {error}"
    for source in one.sources:
        _partial(source).unlink(missing_ok=True)
    return ""


def _lying(source: Source) -> bytes | None:
    """The content of a raw file in one of the folders."""
    for path in (folder / source.path for folder in folders()):
        if path.is_file() and source.bytes == path.stat().st_size:
            content = path.read_bytes()
            if source.sha256 == hashlib.sha256(content).hexdigest():
                return content
    return None


def _partial(source: Source) -> Path:
    return folders()[0] / "partial" / source.sha256


def _downloaded(client: httpx.Client, source: Source, unreached: dict[str, str], ends: float) -> bytes:
    """The content of a file; temporary failures are tried again."""
    host, waits_s = httpx.URL(source.url).netloc.decode(), iter(WAITS_S)
    while True:
        if host in unreached:
            raise Refused(unreached[host])
        if time.monotonic() > ends:
            raise Refused(f"not fetched within {ALL_S:.0f} s in all")
        try:
            return _tried(client, source, min(ends, time.monotonic() + FILE_S))
        except httpx.HTTPError as error:
            wait_s = next(waits_s, None)
            if wait_s is None and isinstance(error, UNREACHED):
                unreached[host] = f"{host} cannot be reached: {error or type(error).__name__}"
            elif wait_s is None or _final(error):
                raise
            time.sleep(wait_s or 0)


def _final(error: httpx.HTTPError) -> bool:
    """Whether the server would answer the same again."""
    status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 0
    return 400 <= status < 500 and status not in PASSING


def _tried(client: httpx.Client, source: Source, ends: float) -> bytes:
    """The content of a complete file; a partial file that does not fit is deleted."""
    part = _partial(source)
    have = part.stat().st_size if part.is_file() else 0
    if have < source.bytes:
        _go_on(client, source, part, have, ends)
    content = part.read_bytes()
    if (source.bytes, source.sha256) == (len(content), hashlib.sha256(content).hexdigest()):
        return content
    part.unlink()
    if have:
        raise httpx.ReadError(f"{part} did not contain its beginning")
    raise Refused("its size or SHA-256 differs from the manifest's")


def _go_on(client: httpx.Client, source: Source, part: Path, have: int, ends: float) -> None:
    """Download the rest of a file, or all of it if the server does not support ranges."""
    with client.stream("GET", source.url, headers={"Range": f"bytes={have}-"} if have else {}) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
        answer.raise_for_status()
        if not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab" if have else "wb") as file:
            for chunk in answer.iter_raw():
                file.write(chunk)
                have += len(chunk)
                if have > source.bytes:
                    return
                if time.monotonic() > ends:
                    raise httpx.ReadTimeout(f"only {have} of {source.bytes} bytes came in time")
    if have < source.bytes:
        raise httpx.ReadError(f"the connection ended after {have} of {source.bytes} bytes")


def _write(one: DataSet, content: bytes) -> None:
    """Write the converted file, completely or not at all."""
    if one.csv_sha256 != hashlib.sha256(content).hexdigest():
        raise Refused("the converted file's SHA-256 differs from the manifest's")
    path = folders()[0] / one.path
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        temporary.write_bytes(gzip.compress(content, mtime=0))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
