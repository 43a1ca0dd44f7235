"""Sessions in documents, run as they stand: calls from a shell, programs in Python, and the answers shown for them.

What an answer shows is compared with what comes, line breaks apart; ``...`` stands for anything.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from service.pages.markdown import session

FENCE = re.compile(r"```(console|python|output)\n(.*?)```", re.DOTALL)
TIMEOUT_S = 60


class Example(NamedTuple):
    """What is run, in which language, and what is shown for it."""

    language: str
    source: str
    shown: str


def examples(text: str) -> list[Example]:
    """The examples of a document in Markdown, in order."""
    found: list[Example] = []
    for language, source in FENCE.findall(text):
        if language == "console":
            found += [Example("console", step.call, step.answer) for step in session(source)]
        elif language == "python":
            found.append(Example("python", source, ""))
        else:
            assert not found[-1].shown, f"two answers: {source}"
            found[-1] = found[-1]._replace(shown=source)
    return found


def run(text: str, url: str, folder: Path) -> int:
    """Run a document's examples in a folder against a service; how many there are."""
    found = examples(text)
    for example in found:
        source = re.sub(r"(http://)?localhost:8000", url, example.source)
        answer = shell(source, folder) if example.language == "console" else python(source, folder)
        agree(example.shown, answer, source)
    return len(found)


def shell(source: str, folder: Path) -> str:
    """What a call prints."""
    done = subprocess.run(source, shell=True, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder)
    return done.stdout + done.stderr


def python(source: str, folder: Path) -> str:
    """What a program prints; it may import the client that a call has fetched."""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder)
    return done.stdout + done.stderr


def agree(shown: str, answer: str, source: str) -> None:
    """Check an answer by what is shown of it: all of it, but for what ``...`` stands for."""
    if not shown:
        assert '"/problems/' not in answer, f"{source}\nanswered {answer}"
        return
    pieces = shown.replace("\n", "").split("...")
    pattern = ".*".join(re.escape(piece) for piece in pieces)
    assert re.fullmatch(pattern, answer.replace("\n", "").strip(), re.DOTALL), (
        f"{source}\nanswered\n{answer}\nand is shown as\n{shown}"
    )
