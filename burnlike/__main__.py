"""`python -m burnlike`: the same as the command `burnlike`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
