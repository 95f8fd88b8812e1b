"""Tree-ring widths: read, detrend, crossdate, build chronologies.

All widths are whole micrometres (µm) and all years are astronomical, so the year
before 1 is 0 (1 BC) and the one before that is -1 (2 BC).
"""

from xylochron.chronology import Chronology, build_chronology
from xylochron.crossdate import Match, batch_crossdate, crossdate, segment_check
from xylochron.detrend import detrend
from xylochron.errors import XylochronError
from xylochron.formats import read, read_chronology, write
from xylochron.series import Series

__version__ = "3.2.1"

__all__ = [
    "Chronology",
    "Match",
    "Series",
    "XylochronError",
    "batch_crossdate",
    "build_chronology",
    "crossdate",
    "detrend",
    "read",
    "read_chronology",
    "segment_check",
    "write",
]
