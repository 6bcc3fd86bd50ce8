"""Suites that a part of somebody else's making must pass to be relied on."""
