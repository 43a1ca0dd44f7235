"""The algorithm that core/learners/README.md adds as an example, from the text as it stands there."""

import re
import sys
from pathlib import Path
from types import ModuleType

README = Path(__file__).parents[3] / "core/learners/README.md"


def source():
    """The Python of the README, one block."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    return block


def example():
    """The algorithm; its module is there to be imported."""
    module = ModuleType("core.learners.passive_aggressive.algorithms")
    sys.modules[module.__name__] = module
    exec(compile(source(), str(README), "exec"), vars(module))
    (algorithm,) = module.ALGORITHMS
    return algorithm
