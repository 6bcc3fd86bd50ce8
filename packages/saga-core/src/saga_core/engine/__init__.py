"""The engine: scopes, steps and unwinding, written once and driven with and without an event loop."""
