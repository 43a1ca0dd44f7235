"""``python -m service.client``: the command without its script."""

import sys

from service.client.app import main

if __name__ == "__main__":
    sys.exit(main())
