"""What people note about a model: a description, and tags to find and group models by. Nothing depends on them."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from core.problems import Invalid

DESCRIPTION_MAX = 2000
"""Characters in a description."""
TAGS_MAX = 50
"""Tags of one model."""
KEY_MAX = 100
"""Characters in the name of a tag."""
VALUE_MAX = 500
"""Characters in the value of a tag."""
Description = Annotated[str, Field(max_length=DESCRIPTION_MAX)]
Tags = Annotated[
    Mapping[Annotated[str, Field(min_length=1, max_length=KEY_MAX)], Annotated[str, Field(max_length=VALUE_MAX)]],
    Field(max_length=TAGS_MAX),
]


def parse_description(raw: object) -> str:
    """A description as a client sends it.

    Raises:
        Invalid: not a string, too long, or not valid Unicode.
    """
    return _text(raw, "description", DESCRIPTION_MAX)


def parse_tags(raw: object) -> Mapping[str, str]:
    """Tags as a client sends them, by name.

    Raises:
        Invalid: naming the tag that is wrong.
    """
    if not isinstance(raw, Mapping) or len(raw) > TAGS_MAX:
        raise Invalid.of("tags", "is not an object of so many tags", f"at most {TAGS_MAX}, each a string by its name")
    for name in raw:
        if not isinstance(name, str) or not (1 <= len(name) <= KEY_MAX and name.isprintable()):
            raise Invalid.of("tags", "has a name that a tag cannot have", f"1 to {KEY_MAX} printable characters")
    return {name: _text(raw[name], f"tags.{name}", VALUE_MAX) for name in sorted(raw)}


def _text(value: object, field: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise Invalid.of(field, "is not a string, or too long", f"a string of at most {longest} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):  # half of a pair: no UTF-8 could carry it
        raise Invalid.of(field, "is not valid Unicode", "a string")
    return value
