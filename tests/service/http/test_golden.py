"""What the service shows of itself is what its files say; what has changed on purpose is written anew."""

from difflib import unified_diff

import pytest

from tests.service.golden import COMMAND, FILES, WRITTEN

SHOWN = 60
"""Lines of a difference that are shown."""


def test_there_is_a_file_of_each():
    """And no other."""
    assert {*WRITTEN} == {path.name for path in FILES.iterdir()}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_file_is_what_the_service_shows(name):
    """Whoever changes it sees the difference here, and writes the file anew."""
    written, shown = (FILES / name).read_text().splitlines(), WRITTEN[name]().splitlines()
    found = [*unified_diff(written, shown, f"golden_files/{name}", "this code", lineterm="", n=1)]
    if found:
        pytest.fail("\n".join([*found[:SHOWN], f"If that is meant: {COMMAND}"]), pytrace=False)
