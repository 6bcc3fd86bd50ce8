"""Recorded, undoable calls for the systems that agents change; import the vendor's module, each has its own extra."""

__all__: list[str] = []
