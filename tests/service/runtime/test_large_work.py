"""What takes time in proportion to a body or a state is given to runtime/threads.py, not called where it stands."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
THREADS = {"asyncio.to_thread", "to_thread", "loop.run_in_executor", "run_in_executor"}
"""Ways into a thread or a process; everything but the helper's own goes through the helper."""
HEAVY = {
    "json_body.decode", "json_body.read", "json_body.large", "read_table", "json_body.json_object",
    "save.from_bytes", "save.to_bytes", "hashlib.blake2b", "blake2b", "codec.encode",
    "codec.entry", "codec.decode", "classification_batch", "regression_batch", "large_answer",
    "read.weights", "read.weight_deviations", "read.posterior",
}  # fmt: skip
"""Calls that take time in proportion to a body, a state or an entry."""

OWN_THREADS = {
    ("service/runtime/threads.py", "in_thread_if_large", "loop.run_in_executor"),
    ("service/runtime/threads.py", "in_thread_if_long", "asyncio.to_thread"),
    ("service/runtime/threads.py", "call", "loop.run_in_executor"),  # the large bodies' own
    ("service/runtime/threads.py", "call_if_large", "loop.run_in_executor"),  # of those in between
    ("service/api/models/weights.py", "_recovered", "asyncio.to_thread"),  # always long: of a sparse model's names
    ("service/runtime/threads.py", "load_algorithm", "asyncio.to_thread"),  # always long: kernels are loaded
    ("service/api/models/effects.py", "show_effects", "asyncio.to_thread"),  # always long: up to 256 rows are explained
    ("service/api/models/state.py", "import_state", "asyncio.to_thread"),  # a state of any size may load them
    ("service/runtime/copies.py", "create", "asyncio.to_thread"),  # likewise
    ("service/store/states/pieces.py", "gather", "asyncio.to_thread"),  # always a whole state
    ("service/api/http/keys.py", "run", "asyncio.to_thread"),  # a disk that does not answer
    ("service/pages/api_pages.py", "document", "asyncio.to_thread"),  # half a second, once
    ("service/app.py", "lifespan", "asyncio.to_thread"),  # the private store starts and stops
    ("service/store_keeper.py", "run", "asyncio.to_thread"),  # and is started again
}
"""Where work goes to a thread: the helper, and what is always large."""

GIVEN_TO_THREADS = {
    ("service/api/oip/requests.py", "_read", "json_body.decode"),
    ("service/api/rows/formats/json_tables.py", "read_json", "json_body.read"),
    ("service/api/rows/formats/json_tables.py", "_one", "json_body.decode"),
    ("service/api/rows/feedback.py", "_learnt", "large_answer"),
    ("service/api/rows/batch_metrics.py", "metrics_of", "classification_batch"),
    ("service/api/rows/batch_metrics.py", "metrics_of", "regression_batch"),
    ("service/api/rows/batch_metrics.py", "metrics_of_outside", "regression_batch"),
    ("service/runtime/rows/ids.py", "digest", "hashlib.blake2b"),
    ("service/store/log/codec.py", "digest_of", "hashlib.blake2b"),
    ("service/api/models/state.py", "_config", "save.from_bytes"),
    ("service/runtime/copies.py", "_imported", "save.from_bytes"),
    ("service/runtime/copies.py", "_made", "save.to_bytes"),
    ("service/api/models/effects.py", "_document", "save.from_bytes"),
    ("service/store/states/pieces.py", "digest", "blake2b"),
    ("service/api/models/weights.py", "_linear", "read.weights"),
    ("service/api/models/weights.py", "_read_off", "read.weight_deviations"),
    ("service/api/models/posterior.py", "_document", "read.posterior"),
    ("service/api/models/effects.py", "_document", "read.posterior"),
}  # fmt: skip
"""Functions that are themselves handed to the helper, or called by one that is."""

SMALL = {
    ("service/api/rows/batches.py", "read_row", "json_body.decode"),  # up to THREAD_BYTES
    ("service/runtime/commit/actor.py", "submit", "codec.encode"),  # behind LITTLE_BYTES
    ("service/runtime/commit/jobs.py", "_together", "codec.encode"),  # single rows, up to TICK_BYTES_MAX
    ("service/client/states.py", "state_digest", "hashlib.blake2b"),  # a command: no requests wait for it
}
"""Calls of what has been found to be small."""


def calls(source: str) -> Iterator[tuple[str, str]]:
    """Every call in a source: the innermost function that it stands in ("" outside), and what is called.

    Of a chain of attributes the last two names: ``model.save.to_bytes`` is "save.to_bytes".
    """
    yield from _calls(ast.parse(source), "")


def _calls(node: ast.AST, within: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else within
        if isinstance(child, ast.Call):
            yield inner, ".".join(ast.unparse(child.func).split(".")[-2:])
        yield from _calls(child, inner)


def found(names: set[str]) -> set[tuple[str, str, str]]:
    """File, function and name of every call of one of some names in service/."""
    paths = sorted((ROOT / "service").rglob("*.py"))
    return {
        (path.relative_to(ROOT).as_posix(), within, called)
        for path in paths
        for within, called in calls(path.read_text())
        if called in names
    }


def test_threads_are_entered_by_the_helper():
    """Other ways into a thread are listed above, and what is listed is there."""
    assert OWN_THREADS == found(THREADS)


def test_heavy_calls_are_given_to_the_helper():
    """A heavy function is handed over, not called; the exceptions are listed above, and what is listed is there."""
    assert GIVEN_TO_THREADS | SMALL == found(HEAVY)
