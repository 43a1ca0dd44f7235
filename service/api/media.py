"""The media types of bodies."""

from importlib.util import find_spec

from core.problems import Problem
from service.errors import WrongMedia

JSON = "application/json"
CSV = "text/csv"
NPY = "application/x-npy"
SVMLIGHT = "text/x-svmlight"
NDJSON = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
ARROW_STREAM, ARROW_FILE = "application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file"
ARROW_TABLES = (PARQUET, ARROW_STREAM, ARROW_FILE)
"""Read by pyarrow alone."""
ARROW = find_spec("pyarrow") is not None
"""Whether it is installed."""
DENSE_TABLES = (JSON, NDJSON, CSV, NPY, *(ARROW_TABLES if ARROW else ()))
SPARSE_TABLES = (JSON, NDJSON, SVMLIGHT)
"""What batches of models with features come as, and those of models of named sparse rows."""


def wrong_media(kind: str, allowed: tuple[str, ...]) -> WrongMedia:
    """The error for a media type that a route does not read."""
    reason = "is not a media type this route reads"
    if kind in ARROW_TABLES and NPY in allowed:
        reason = "is read where pyarrow is installed: pip install '.[arrow]' in a checkout"
    return WrongMedia(f"send one of {', '.join(allowed)}", [Problem("Content-Type", reason, list(allowed))])


def check_media_type(kind: str, sparse: bool) -> None:
    """Refuse a table in a form that the model's rows do not have.

    Raises:
        WrongMedia: ``allowed`` lists those they have.
    """
    allowed = SPARSE_TABLES if sparse else DENSE_TABLES
    if kind not in allowed:
        rows = "takes named sparse rows" if sparse else "has features of its own, not sparse rows"
        problem = Problem("Content-Type", f"does not go with this model, which {rows}", list(allowed))
        raise WrongMedia(f"send one of {', '.join(allowed)}: the model {rows}", [problem])
