"""Speed, shown as ratios within one run: `uv run python -m benchmarks.<name> [--json]`."""
