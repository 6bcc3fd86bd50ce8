"""What every connector can fail with, whatever its vendor."""

from saga_core import SagaError


class MissingExtra(ImportError):
    """A connector was imported without its vendor's library; nothing was called."""

    code = "SG600"

    def __init__(self, connector: str, extra: str, *, library: str) -> None:
        super().__init__(
            f"{connector} [{self.code}] needs {library!r}, which is not installed.\n"
            f'  next   pip install "saga-connectors[{extra}]"',
            name=library,
        )
        self.connector = connector
        self.extra = extra
        self.library = library

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_missing_extra, (self.connector, self.extra, self.library)


class CredentialMissing(SagaError):
    """A credential reference leads to nothing; no vendor was asked for anything."""

    code = "SG601"


class CredentialMalformed(SagaError):
    """A credential reference leads to a value that its connector cannot use; no vendor was asked for anything."""

    code = "SG602"


def _rebuild_missing_extra(connector: str, extra: str, library: str) -> MissingExtra:
    return MissingExtra(connector, extra, library=library)
