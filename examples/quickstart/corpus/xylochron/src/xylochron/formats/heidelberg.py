"""Heidelberg files (``.fh``): a block of ``Key=Value`` lines, then the rings.

Two kinds of block are in use. ``DATA:Tree`` (also ``Single``) holds one width a ring;
``DATA:Chrono`` (also ``Quadro``) holds four numbers a ring: value, sample depth, and the
counts of rising and falling samples. Years are historical there: no year 0.
"""

import re

from xylochron.chronology import Chronology
from xylochron.errors import ChronologyFileError, FormatError
from xylochron.formats import Format
from xylochron.series import Series

UNIT = {"1/100 mm": 10, "1/1000 mm": 1, "mm/100": 10, "mm/1000": 1}
"""Micrometres in one unit of the file."""
RINGS = {"tree", "single"}
CHRONO = {"chrono", "quadro"}


def read(text: str) -> list[Series]:
    """Read every ``DATA:Tree`` block of a file.

    Raises:
        ChronologyFileError: a block is ``DATA:Chrono``; use ``read_chronology``.
    """
    result = []
    for header, kind, values in _blocks(text):
        if kind in CHRONO:
            raise ChronologyFileError(
                f"{header.get('KeyCode', '?')!r} is a DATA:Chrono block of mean values, "
                "not ring widths; use read_chronology()"
            )
        factor = _factor(header)
        # The last line is padded with zeros: only Length tells them from absent rings.
        values = values[: int(header.get("Length", len(values)))]
        widths = tuple(None if value < 0 else value * factor for value in values)
        result.append(
            Series(
                id=header.get("KeyCode", f"series{len(result) + 1}"),
                widths=widths,
                first_year=_first_year(header, len(widths)),
                species=header.get("Species", ""),
                sapwood_rings=int(header.get("SapWoodRings", "0")),
                bark="waney_edge" if header.get("WaldKante", "") == "WKF" else "none",
                meta=header,
            )
        )
    return result


def read_chronology(text: str) -> Chronology:
    """Read the first ``DATA:Chrono`` block."""
    for header, kind, values in _blocks(text):
        if kind in CHRONO:
            rings = [values[start : start + 4] for start in range(0, len(values) - 3, 4)]
            rings = [ring for ring in rings if ring[1] > 0]
            first = _first_year(header, len(rings))
            if first is None:
                raise FormatError("a chronology needs DateEnd")
            return Chronology(
                name=header.get("KeyCode", "chronology"),
                first_year=first,
                values=tuple(ring[0] / 100 for ring in rings),
                depth=tuple(ring[1] for ring in rings),
            )
    raise ChronologyFileError("no DATA:Chrono block; this file holds ring widths, use read()")


def _blocks(text: str) -> list[tuple[dict[str, str], str, list[int]]]:
    blocks = []
    for part in re.split(r"(?m)^HEADER:\s*$", text)[1:]:
        head, marker, data = part.partition("DATA:")
        if not marker:
            raise FormatError("a HEADER: without DATA:")
        kind, _, numbers = data.partition("\n")
        pairs = (line.partition("=") for line in head.splitlines() if "=" in line)
        header = {key.strip(): value.strip() for key, _, value in pairs}
        blocks.append((header, kind.strip().lower(), [int(n) for n in numbers.split()]))
    return blocks


def _factor(header: dict[str, str]) -> int:
    unit = header.get("Unit", "1/100 mm")
    if unit not in UNIT:
        raise FormatError(f"Unit={unit!r} is not one of {', '.join(UNIT)}")
    return UNIT[unit]


def _first_year(header: dict[str, str], length: int) -> int | None:
    """From ``DateEnd``, made astronomical: -1 in the file is 1 BC, the year 0."""
    if header.get("Dated", "Dated") == "Undated" or "DateEnd" not in header:
        return None
    end = int(header["DateEnd"])
    return (end + 1 if end < 0 else end) - length + 1


def sniff(head: str) -> bool:
    """Whether the file opens with ``HEADER:``."""
    return head.lstrip().startswith("HEADER:")


HEIDELBERG = Format("heidelberg", (".fh",), read, sniff, read_chronology=read_chronology)
