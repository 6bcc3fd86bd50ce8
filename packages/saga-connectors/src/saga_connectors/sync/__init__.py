"""The same actions for synchronous callers: one declaration, two callables."""
