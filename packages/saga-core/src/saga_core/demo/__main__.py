"""`python -m saga_core.demo` plays the demo on the simulated world, whatever else is installed."""

import logging
import sys

from saga_core.demo.acts import run
from saga_core.demo.simulated import open_world

if __name__ == "__main__":
    logging.getLogger("saga_core").setLevel(logging.ERROR)
    sys.exit(run(sys.argv[1:], open_world))
