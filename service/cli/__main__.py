"""``python -m service.cli``: the command without its script."""

import sys

from service.cli import main

if __name__ == "__main__":
    sys.exit(main())
