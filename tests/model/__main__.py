"""`uv run python -m tests.model` prints the table of what survives what; `--write` puts it into the page."""

from __future__ import annotations

import sys

from .table import PAGE, page_with, table

if "--write" in sys.argv[1:]:
    PAGE.write_text(page_with(PAGE.read_text(), table()))
else:
    print(table(), end="")
