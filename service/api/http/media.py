"""The media types of bodies."""

from core.problems import Problem
from service.errors import WrongMedia

JSON = "application/json"
CSV = "text/csv"
NPY = "application/x-npy"
SVMLIGHT = "text/x-svmlight"
NDJSON = "application/x-ndjson"
DENSE_TABLES = (JSON, NDJSON, CSV, NPY)
SPARSE_TABLES = (JSON, NDJSON, SVMLIGHT)
"""Media types of batches for models with features, and for models of named sparse rows."""


def wrong_media(
    allowed: tuple[str, ...], problem: str = "is not a media type that this route accepts", why: str = ""
) -> WrongMedia:
    """The error for a media type that a route, or the model, does not accept."""
    return WrongMedia(f"send one of {', '.join(allowed)}{why}", [Problem("Content-Type", problem, list(allowed))])


def check_media_type(kind: str, sparse: bool) -> None:
    """``WrongMedia``, which lists the right formats, for a format that does not suit the model's rows."""
    allowed = SPARSE_TABLES if sparse else DENSE_TABLES
    if kind not in allowed:
        rows = "takes named sparse rows" if sparse else "has features of its own, not sparse rows"
        raise wrong_media(allowed, f"does not go with this model, which {rows}", f": the model {rows}")
