"""`python -m saga_connectors.testing stripe` prints one JSON line with the url and serves until it is ended."""

import argparse
import sys
from contextlib import suppress

from saga_connectors.testing.server import serve

parser = argparse.ArgumentParser(prog="python -m saga_connectors.testing", description="Serve a local vendor.")
parser.add_argument("vendor", help="stripe or salesforce")
parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
parser.add_argument("--until-stdin-closes", action="store_true", help="end when whoever started this has ended")
asked = parser.parse_args()
with suppress(KeyboardInterrupt):
    serve(asked.vendor, asked.port, until=sys.stdin.read if asked.until_stdin_closes else None)
