"""Errors that a user can fix; all of them are a `FreshError`."""


class FreshError(Exception):
    """Base of all errors of this package."""


class ConfigError(FreshError, ValueError):
    """Settings that cannot be used, one problem a line."""


class DataError(FreshError, ValueError):
    """Data that cannot be used."""


class RowError(DataError):
    """One row that cannot be used, while the others can."""

    def __init__(self, place: str, problem: str, way_out: str, *, set_aside: bool = False) -> None:
        super().__init__(f"{place}: {problem} {way_out}")
        self.brief = f"{place}: {problem}"
        # Rejected by its annotators: always left out and counted, whatever the settings say.
        self.set_aside = set_aside


class TooLongError(FreshError, ValueError):
    """A text that is too long for the encoder."""


class OutputError(FreshError, ValueError):
    """A file or folder that cannot be written, or must not be replaced."""


class ModelError(FreshError, ValueError):
    """A model folder that cannot be read."""


class EncoderError(ModelError):
    """An encoder that cannot be loaded, or cannot be trusted."""


class CertificateError(FreshError, ValueError):
    """Certificates that cannot be written or read."""


class StudyError(FreshError, ValueError):
    """A request that a study cannot fulfil."""


class InactiveAnnotatorError(StudyError):
    """A request of an annotator who has left the study or was excluded."""


class StudyPausedError(StudyError):
    """A request for an item while the study is paused."""


class NotAssignedError(StudyError):
    """An answer to an item that is not assigned to the annotator."""


class RepeatedRequestError(StudyError):
    """A request that must take effect only once, and did so before."""


class MissingExtraError(FreshError, ImportError):
    """A feature needs a package that is not installed."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error message."""
    return str(error).strip().partition("\n")[0].rstrip()
