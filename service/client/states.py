"""``onepass export`` and ``import``: a model's state as a file, and the states of all models as a tar.

At most two states are in memory at a time: the one that is moved, and the one it is compared with.
"""

import hashlib
import io
import json
import os
import re
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, cast

import httpx
from typer import Argument, Option, echo

from service.client.display import counted
from service.client.failures import Failed, Misused
from service.client.options import NAME, Json, model_name
from service.client.rows import confirm
from service.client.session import Refused, Service, Session, path_of

SUFFIX = ".safetensors"
PAGE = 1000  # models per page of the list
TIMEOUT = httpx.Timeout(60.0, read=600.0, write=600.0)
"""Computing or checking the state of a large model takes the service a while."""

Where = Annotated[list[str], Argument(metavar="[NAME] FILE", help="-: standard output, or input.")]


def export(
    *,
    where: Where,
    everything: Annotated[bool, Option("--all", help="The states of all models, as a tar; without NAME.")] = False,
    force: Annotated[bool, Option("--yes", "--force", help="Replace an existing file.")] = False,
    as_json: Json = False,
    service: Service,
) -> None:
    """Write the state of a model to a file, or with --all those of all models to a tar.

    A state holds everything that predictions and learning depend on, but no remembered ids or tracked predictions.
    While the store is down, --all cannot list the models: give the NAME of each that the service holds.
    """
    name, file = _arguments(where)
    if everything == (name is not None):
        raise Misused("give NAME FILE, or --all FILE for all models")
    if not force and Path(file).is_file():
        raise Misused(f"{file} exists already; --force replaces it")
    with service.session(patient=True) as session, _written(file) as out:
        done: dict[str, Any] = (
            _export_all(session, out) if name is None else {"name": name, "bytes": out.write(state_of(session, name))}
        )
    what = name or counted(done["models"], "model")
    if file != "-":
        print(json.dumps({"file": file, **done}) if as_json else f"{what}: {done['bytes']:,} bytes in {file}")
    if left_out := done.get("left_out"):
        raise Failed(_named(left_out, "left out"))


def import_(
    *,
    where: Where,
    replace: Annotated[bool, Option("--yes", "--force", "--overwrite", help="Replace models that differ.")] = False,
    as_json: Json = False,
    service: Service,
) -> None:
    """Create a model from an exported state, or replace what a model of the same configuration has learned.

    Without NAME the file is a tar of many. Models that already have the state are skipped: repeat the command to
    continue an interrupted import. A model that has learned anything else is refused; the others are imported.
    """
    name, file = _arguments(where)
    if name is None and file == "-":
        raise Misused("a tar is not read from standard input; the state of one model takes NAME -")
    with service.session(patient=True) as session, sys.stdin.buffer if file == "-" else Path(file).open("rb") as source:
        if name is None:
            _import_all(session, source, file, replace, as_json)
            return
        model = session.found(name)
        if model is not None and model["rows"] and not replace:
            confirm(f"replace {name}", model["rows"])
        response = _put(session, name, source.read())
    made, done = response.json(), "made" if response.status_code == httpx.codes.CREATED else "replaced"
    echo(response.content if as_json else f"{name} {done}: {counted(made['rows'])}, version {made['version']:,}")


def _arguments(given: list[str]) -> tuple[str | None, str]:
    if len(given) > 2:
        raise Misused("give NAME FILE, or one FILE for all models")
    return model_name(given[0] if given[1:] else None), given[-1]


def _named(models: list[dict[str, str]], became: str) -> str:
    """Say how many models were left out or refused, then the reason for each on a line."""
    reasons = [f"{one['name']}: {one['detail']}" for one in models]
    return "\n  ".join([f"{counted(len(models), 'model')} {became}", *reasons])


def _state(session: Session, name: str, **params: str) -> bytes:
    return session.request("GET", path_of(name, "state"), params=params, timeout=TIMEOUT).content


def state_of(session: Session, name: str) -> bytes:
    """The state up to the end of the log; if the store is down or has lost the model, the state in the service."""
    try:
        return _state(session, name, consistency="strong")
    except Refused as refused:
        if refused.status != httpx.codes.SERVICE_UNAVAILABLE:
            raise
        return _state(session, name)


def _put(session: Session, name: str, state: bytes) -> httpx.Response:
    kind = {"Content-Type": "application/octet-stream"}
    return session.request("PUT", path_of(name, "state"), content=state, headers=kind, timeout=TIMEOUT)


@contextmanager
def _written(name: str) -> Iterator[IO[bytes]]:
    """Open a file that appears only once it is complete; ``-`` is standard output, and a device is written directly."""
    target = Path(name)
    if name == "-":
        yield sys.stdout.buffer
        return
    if not target.name:
        raise Failed(f"{name or 'FILE'}: is not a file")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    is_plain = target.is_file() or not target.exists()
    try:
        with (part if is_plain else target).open("wb") as out:
            yield out
            out.flush()
            if is_plain:
                os.fsync(out.fileno())
                part.replace(target)
    except OSError as error:
        raise Failed(f"{name}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def _export_all(session: Session, out: IO[bytes]) -> dict[str, Any]:
    """Write a tar of all models; list those that are out of service under ``left_out``."""
    models, size, left_out = 0, 0, list[dict[str, str]]()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
        for name in _listed(session):
            try:
                state = state_of(session, name)
            except Refused as refused:
                if refused.status != httpx.codes.NOT_FOUND:  # else it was deleted since it was listed
                    left_out.append({"name": name, "detail": str(refused)})
            else:
                member = tarfile.TarInfo(f"{name}{SUFFIX}")
                member.size, member.mtime = len(state), int(time.time())
                tar.addfile(member, io.BytesIO(state))
                models, size = models + 1, size + len(state)
    if only := session.ask("GET", "key")["models"]:
        print(f"this key sees {', '.join(only)} only; other models are not in the file", file=sys.stderr)
    return {"models": models, "bytes": size, "left_out": left_out}


def _listed(session: Session) -> Iterator[str]:
    asked = {"limit": PAGE}
    while asked:
        page = session.ask("GET", "models", params=asked)
        yield from (one["name"] for one in page["models"])
        asked = page["next"] and {"limit": PAGE, "cursor": page["next"]}


# ------------------------------------------------------------------------------------------------ import


def _import_all(session: Session, source: IO[bytes], file: str, replace: bool, as_json: bool) -> None:
    """Import the models of a tar, and print what became of each, also if the import is interrupted."""
    done: dict[str, list[Any]] = {"imported": [], "replaced": [], "skipped": [], "refused": []}
    try:
        for name, state in _members(source, file):
            try:
                model, digest = session.found(name), state_digest(state)
                learned = model is not None and model["rows"] > 0
                if model is not None and digest and digest == state_digest(_state(session, name, consistency="strong")):
                    done["skipped"].append(name)
                elif learned and not replace:
                    other = "has another state here; --overwrite replaces it"
                    done["refused"].append({"name": name, "detail": other})
                else:
                    _put(session, name, state)
                    done["replaced" if learned else "imported"].append(name)
            except Refused as refused:
                done["refused"].append({"name": name, "detail": str(refused)})
    finally:
        imported, replaced, skipped, _ = map(len, done.values())
        line = f"{counted(imported, 'model')} imported, {replaced:,} replaced, {skipped:,} there already"
        print(json.dumps(done) if as_json else line)
    if done["refused"]:
        raise Failed(_named(done["refused"], "refused"))


def _members(source: IO[bytes], file: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and state of each model of a tar; ``Failed`` if it holds anything else or is cut off."""
    number, whole = 0, False
    with suppress(tarfile.ReadError), tarfile.open(fileobj=source, mode="r:") as tar:
        for member in tar:
            name = member.name.removesuffix(SUFFIX)
            if not member.isreg() or name == member.name or re.fullmatch(NAME, name) is None:
                raise Failed(f"member {member.name!a} of {file} is not a plain file NAME{SUFFIX}")
            if member.offset_data + member.size > os.fstat(source.fileno()).st_size:
                break
            yield name, cast("IO[bytes]", tar.extractfile(member)).read()
            number += 1
        else:
            source.seek(tar.offset)
            whole = source.read(tarfile.BLOCKSIZE) == bytes(tarfile.BLOCKSIZE)
    if not whole:
        where = f"cut off or damaged after {counted(number, 'model')}" if number else "not a tar, or cut off"
        raise Failed(f"{file} is {where}; the state of one model is imported by NAME FILE")


def state_digest(state: bytes) -> str | None:
    """A digest of everything in a state that affects predictions and learning; None if it is not a state.

    It leaves out what an import changes: the position in the log, the marks of the metrics (an import is one), drift
    events, the features left behind, and the entry that started a challenger.
    """
    length = 8 + int.from_bytes(state[:8], "little")
    try:
        head = json.loads(state[8:length])
        text = json.loads(head["__metadata__"].pop("onepass"))
        kept = [head, text["config"], text["format"], text["state"]]
        for learner in (text["state"], *(one["state"] for one in text["state"].get("challengers", ()))):
            for name in ("born", "episodes", "outbox"):
                learner.pop(name, None)
            for name in ("marks", "marks_thinned"):
                learner["metrics"].pop(name, None)
            learner["switching"].pop("retired", None)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    digest = hashlib.blake2b(json.dumps(kept, sort_keys=True).encode())
    digest.update(memoryview(state)[length:])
    return digest.hexdigest()
