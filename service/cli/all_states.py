"""All models of a service as a tar of their states, and the models of a tar brought into a service."""

import json
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO

import httpx

from service.cli.connection import Connection, Refused, console
from service.cli.state_files import put_state, rows_of, state_of, written
from service.cli.tar_members import SUFFIX, StateMember, members, state_digest
from service.replay.wording import counted

PAGE = 1000
"""Models that are listed at once."""
IN_MEMORY = 2**24
"""Bytes of a state above which it waits on disk until it is whole."""
STRONG = {"consistency": "strong"}
"""With all that was acknowledged before, whichever service is asked."""
RESUMED = "the same command goes on from there"
"""What is said where an import ends early."""
ENDING = (None, httpx.codes.UNAUTHORIZED)
"""What is so of every model: the service cannot be reached, or does not know the key."""


@dataclass(slots=True)
class Imported:
    """What became of the models of a tar, by name.

    Attributes:
        imported: made, or without a row before.
        replaced: had another state.
        skipped: had this state already.
        refused: with the reason.
    """

    imported: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)


def export(connection: Connection, name: str, as_json: bool) -> None:
    """Write the states of all models to a tar; a model that is out of service is left out, and named.

    Args:
        connection: the service.
        name: of the file; ``-`` is standard output.
        as_json: whether what was done is printed as JSON.

    Raises:
        Refused: models are left out, or there is no tar at all.
    """
    models, size, left_out = 0, 0, list[dict[str, str]]()
    with written(name) as out, tarfile.open(fileobj=out, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
        for model in _listed(connection):
            try:
                size += _add(connection, model, tar)
                models += 1
            except Refused as refused:
                if refused.status in ENDING:
                    raise
                if refused.status != httpx.codes.NOT_FOUND:  # else it was deleted since it was listed
                    left_out.append({"name": model, "detail": str(refused)})
    if name != "-" and as_json:
        print(json.dumps({"file": name, "models": models, "bytes": size, "left_out": left_out}))
    elif name != "-":
        console().print(f"{_models(models)}, {size:,} bytes in {name}", soft_wrap=True)
    only = connection.ask("GET", "key").json()["models"]
    if only:
        print(f"this key sees {', '.join(only)} only; other models are not in the file", file=sys.stderr)
    if left_out:
        raise Refused("\n".join([f"{_models(len(left_out))} left out", *_lines(left_out)]))


def _listed(connection: Connection) -> Iterator[str]:
    cursor = None
    while True:
        asked = {"limit": PAGE} | ({} if cursor is None else {"cursor": cursor})
        page = connection.ask("GET", "models", params=asked).json()
        yield from (one["name"] for one in page["models"])
        cursor = page["next"]
        if cursor is None:
            return


def _add(connection: Connection, model: str, tar: tarfile.TarFile) -> int:
    """Add a state once it is whole; its bytes."""
    with SpooledTemporaryFile(IN_MEMORY) as state:
        with state_of(connection, model) as arriving:
            for piece in arriving:
                state.write(piece)
        member = tarfile.TarInfo(f"{model}{SUFFIX}")
        member.size, member.mtime = state.tell(), int(time.time())
        state.seek(0)
        tar.addfile(member, state)
    return member.size


def bring(connection: Connection, name: str, overwrite: bool, as_json: bool) -> None:
    """Bring the models of a tar into a service.

    Args:
        connection: the service.
        name: of the tar.
        overwrite: whether models that have learned something else are replaced.
        as_json: whether what was done is printed as JSON.

    Raises:
        Refused: a member cannot be, and nothing was done; or models are refused, or missing, and the others are there.
    """
    done, damage = Imported(), ""
    try:
        with Path(name).open("rb") as file:
            found, whole = members(file, name)
            if not whole:
                damage = f"{name} is cut off or damaged after {_models(len(found))}"
            for member in found:
                _bring_one(connection, file, member, overwrite, done)
    except OSError as error:
        damage = f"{name}: {error.strerror}"
    except Refused as refused:
        if refused.status not in ENDING or not (done.imported or done.replaced):
            raise
        damage = f"{refused}\n  {RESUMED}"
    except KeyboardInterrupt:
        damage = f"interrupted\n  {RESUMED}"
    if as_json:
        print(json.dumps(asdict(done)))
    else:
        counts = _models(len(done.imported)), len(done.replaced), len(done.skipped)
        console().print("{} imported, {:,} replaced, {:,} there already".format(*counts), soft_wrap=True)
    if damage:
        there = ", ".join([*done.imported, *done.replaced]) or "nothing"
        raise Refused("\n".join([f"{damage}\n  imported: {there}", *_lines(done.refused)]))
    if done.refused:
        raise Refused("\n".join([f"{_models(len(done.refused))} refused", *_lines(done.refused)]))


def _bring_one(connection: Connection, file: IO[bytes], member: StateMember, overwrite: bool, done: Imported) -> None:
    """Bring one model in, or note why not.

    Raises:
        Refused: no other one can be brought in either.
    """
    model = member.model
    try:
        has, known = _state_there(connection, model)
        if has and known is not None and known == state_digest(member.read(file)):
            done.skipped.append(model)
            return
        learned = has and rows_of(connection, model) > 0
        if learned and not overwrite:
            raise Refused("is here with another state; --overwrite replaces it", httpx.codes.CONFLICT)
        put_state(connection, model, member.read(file), member.size)
        (done.replaced if learned else done.imported).append(model)
    except Refused as refused:
        if refused.status in ENDING:
            raise
        other = f"take {model}{SUFFIX} out of the tar and import it under another name"
        said = str(refused).replace("import it under another name", other)
        done.refused.append({"name": model, "detail": said})


def _state_there(connection: Connection, model: str) -> tuple[bool, str | None]:
    """Whether there is a model of this name, and the digest of its state."""
    try:
        with state_of(connection, model, STRONG) as state:
            return True, state_digest(state)
    except Refused as refused:
        if refused.status != httpx.codes.NOT_FOUND:
            raise
        return False, None


def _models(count: int) -> str:
    return counted(count, "model")


def _lines(of: list[dict[str, str]]) -> list[str]:
    return [f"  {one['name']}: {one['detail']}" for one in of]
