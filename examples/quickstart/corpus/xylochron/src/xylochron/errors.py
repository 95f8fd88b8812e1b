"""The errors and warnings of xylochron.

    XylochronError
    ├── ConfigError               a key or value of the configuration
    ├── DataError                 something is wrong with a file or a series
    │   ├── FormatError           the file is not what its format promises
    │   │   ├── UnknownFormatError
    │   │   ├── StopMarkerError
    │   │   └── ChronologyFileError
    │   ├── FloatingSeriesError   calendar years asked of an undated series
    │   ├── GapError              unmeasured rings where a value is needed
    │   ├── IdTooLongError        the id does not fit the columns of the format
    │   └── NegativeCurveError    a growth curve reaches zero
    └── OverlapTooShortError      too few common rings to date with

The command line shows the message alone and exits with the error's ``exit_code``.
"""


class XylochronError(Exception):
    """The base of all errors raised on purpose."""

    exit_code = 1


class ConfigError(XylochronError):
    """A key or a value of the configuration is not known."""

    exit_code = 2


class DataError(XylochronError):
    """Something is wrong with a file or a series."""

    exit_code = 3


class FormatError(DataError):
    """The file is not what its format promises."""


class UnknownFormatError(FormatError):
    """No registered format recognises the file."""


class StopMarkerError(FormatError):
    """A Tucson series ends without 999 or -9999, so its unit is not known."""


class ChronologyFileError(FormatError):
    """A file of chronology values was given to a reader of ring widths, or the reverse."""


class FloatingSeriesError(DataError):
    """Calendar years were asked of a series that is not dated."""


class GapError(DataError):
    """A series has unmeasured rings (``None``) where every ring needs a value."""


class IdTooLongError(DataError):
    """A series id does not fit into the columns of the format."""


class NegativeCurveError(DataError):
    """A fitted growth curve reaches zero, so ratios to it are meaningless."""


class OverlapTooShortError(XylochronError):
    """Fewer common rings than any of the crossdating statistics can bear."""

    exit_code = 3


class EncodingFallbackWarning(UserWarning):
    """A file was not UTF-8 and was read as Windows-1252."""


class StopMarkerCollisionWarning(UserWarning):
    """A true width equal to the stop marker was written one unit smaller."""
