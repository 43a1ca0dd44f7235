"""``python -m service.first_run``: see ``steps``."""

import sys

from service.first_run.steps import main

if __name__ == "__main__":
    sys.exit(main())
