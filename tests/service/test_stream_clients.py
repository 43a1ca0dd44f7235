"""The clients of README's section on streams of rows, as they stand there, against a running service."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

README = (Path(__file__).resolve().parents[2] / "service" / "README.md").read_text()
SECTION = README.partition("\n## Streams of rows\n")[2].partition("\n## ")[0]
ROWS = [{"features": {"t": row / 7}, "label": row / 3, "id": f"r{row}"} for row in range(2500)]
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


@pytest.fixture
def boiler(url: str) -> Iterator[str]:
    """With the model of the examples."""
    body = {"algorithm": "rls", "task": "regression", "features": ["t"]}
    assert 201 == httpx.put(f"{url}/models/boiler", json=body).status_code
    yield url
    assert 204 == httpx.delete(f"{url}/models/boiler").status_code


def block(language: str) -> str:
    """The example in one language."""
    found = re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    assert found is not None
    return found[1]


def check(answers: list[dict[str, Any]]) -> None:
    """Every row was learned, in order."""
    assert [*range(1, len(ROWS) + 1)] == [answer["rows"] for answer in answers]


def test_the_python_client(boiler: str) -> None:
    """It has some 20 lines, and reads answers while rows are yet to be made."""
    source = block("python")
    assert 22 >= len([line for line in source.splitlines() if line.strip()])
    names: dict[str, Any] = {}
    exec(source, names)
    where = urlsplit(boiler)
    answered, waited = Event(), []

    def rows() -> Iterator[dict[str, Any]]:
        """The last row is made when an answer has been read."""
        yield from ROWS[:-1]
        waited.append(answered.wait(timeout=30))
        yield ROWS[-1]

    answers = []
    for answer in names["learn"](rows(), where.hostname, where.port):
        answers.append(answer)
        answered.set()
    check(answers)
    assert [True] == waited


def test_curl(boiler: str) -> None:
    """One command, with the rows on its standard input."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl here")
    command = next(line.strip() for line in SECTION.splitlines() if line.strip().startswith("curl "))
    command = command.replace("localhost:8000", urlsplit(boiler).netloc).replace("< rows.ndjson", "")
    told = subprocess.run(["/bin/sh", "-c", command], input=LINES, capture_output=True, check=True, timeout=60)
    check([json.loads(line) for line in told.stdout.splitlines() if line])


def test_node(boiler: str, tmp_path: Path) -> None:
    """The script, with the rows above it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here")
    script = block("js").replace("localhost:8000", urlsplit(boiler).netloc)
    script = script.replace("console.log(JSON.parse(line))", "console.log(JSON.stringify(JSON.parse(line)))")
    file = tmp_path / "client.mjs"
    file.write_text(f"const rows = {json.dumps(ROWS)};\n{script}")
    told = subprocess.run([node, str(file)], capture_output=True, check=True, timeout=60)
    check([json.loads(line) for line in told.stdout.splitlines()])


def test_a_client_that_reads_last(boiler: str) -> None:
    """Half duplex: httpx sends the whole body first, which works while that fits the buffers on the way."""
    headers = {"Content-Type": "application/x-ndjson"}
    some = b"".join(LINES.splitlines(keepends=True)[:1000])
    answer = httpx.post(f"{boiler}/models/boiler/feedback/stream", content=iter([some]), headers=headers, timeout=30)
    found = [json.loads(line) for line in answer.text.splitlines() if line]
    assert [*range(1, 1001)] == [line["rows"] for line in found]
