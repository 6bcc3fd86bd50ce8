"""The command `saga`: what a person asks of a store."""

from saga_core.cli.program import main

__all__ = ["main"]
