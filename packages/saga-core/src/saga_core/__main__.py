"""`python -m saga_core` is the command `saga`."""

import sys

from saga_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
