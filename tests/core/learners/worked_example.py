"""The algorithm that core/learners/README.md adds as an example, from the text as it stands there."""

import re
from pathlib import Path

README = Path(__file__).parents[3] / "core/learners/README.md"


def source():
    """The Python of the README, one block."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    return block


def example():
    """The algorithm."""
    names = {"__name__": "core.learners.passive_aggressive.algorithms"}
    exec(compile(source(), str(README), "exec"), names)
    (algorithm,) = names["ALGORITHMS"]
    return algorithm
