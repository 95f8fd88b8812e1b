"""Tucson decadal files (``.rwl``): eight columns of id, four of year, ten of width.

The unit of a series is told by its stop marker and by nothing else: ``999`` closes a
series in 1/100 mm, ``-9999`` one in 1/1000 mm. Both kinds may stand in one file.
"""

import warnings
from collections.abc import Sequence
from typing import Literal

from xylochron.errors import FormatError, IdTooLongError, StopMarkerCollisionWarning, StopMarkerError
from xylochron.formats import Format
from xylochron.series import Series

Units = Literal["1/100mm", "1/1000mm"]
STOP: dict[str, int] = {"1/100mm": 999, "1/1000mm": -9999}
FACTOR: dict[str, int] = {"1/100mm": 10, "1/1000mm": 1}
"""Micrometres in one unit of the file."""
NOT_MEASURED = -999


def read(text: str, *, units: Units | None = None, wide_years: bool = False) -> list[Series]:
    """Read all series of a file.

    Args:
        text: The file.
        units: Used for series without a stop marker; never overrides a marker.
        wide_years: Ids have seven columns and years five, as in files with years
            before -999.
    """
    id_end = 7 if wide_years else 8
    rows: dict[str, list[tuple[int, list[int]]]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            year = int(line[id_end:12])
            values = [int(field) for field in line[12:].split()]
        except ValueError as error:
            raise FormatError(f"line {number}: {error}") from error
        rows.setdefault(line[:id_end].strip(), []).append((year, values))
    return [_series(name, lines, units) for name, lines in rows.items()]


def _series(name: str, lines: list[tuple[int, list[int]]], units: Units | None) -> Series:
    values = [value for _, line in lines for value in line]
    marked = next((unit for unit, stop in STOP.items() if values and values[-1] == stop), None)
    unit = marked or units
    if unit is None:
        raise StopMarkerError(
            f"series {name!r} has no stop marker; pass units='1/100mm' or units='1/1000mm'"
        )
    if marked:
        values = values[:-1]
    factor = FACTOR[unit]
    widths = tuple(None if value == NOT_MEASURED else value * factor for value in values)
    return Series(name, widths, lines[0][0], meta={"units": unit})


def write(
    series: Sequence[Series],
    *,
    units: Units = "1/1000mm",
    wide_years: bool = False,
    long_ids: Literal["error", "truncate"] = "error",
) -> str:
    """Write series, by default in 1/1000 mm so that nothing is rounded."""
    room = 7 if wide_years else 8
    lines: list[str] = []
    for one in series:
        name = one.id
        if len(name) > room:
            if long_ids == "error":
                raise IdTooLongError(
                    f"id {name!r} has {len(name)} characters, Tucson holds {room}; "
                    "rename it or pass long_ids='truncate'"
                )
            name = name[:room]
        lines += _lines(one, name.ljust(room), units, 12 - room)
    return "\n".join(lines) + "\n"


def _lines(one: Series, name: str, units: Units, year_width: int) -> list[str]:
    year = one.between(-10_000, 10_000).first_year or 0
    if len(str(year)) > year_width:
        raise FormatError(f"year {year} of {one.id!r} needs wide_years=True")
    values = [_value(width, units, one.id) for width in one.widths] + [STOP[units]]
    lines = []
    while values:
        room = 10 - year % 10
        row, values = values[:room], values[room:]
        lines.append(f"{name}{year:>{year_width}}" + "".join(f"{value:>6}" for value in row))
        year += room
    return lines


def _value(width: int | None, units: Units, name: str) -> int:
    if width is None:
        return NOT_MEASURED
    value = round(width / FACTOR[units])
    if value == STOP[units]:
        warnings.warn(
            f"series {name!r}: a width of {width} µm would read as the stop marker "
            f"{STOP[units]}; written as {value - 1}",
            StopMarkerCollisionWarning,
            stacklevel=4,
        )
        return value - 1
    return value


def sniff(head: str) -> bool:
    """Whether the first data line has a year in columns 9–12 and integers behind it."""
    for line in head.splitlines():
        if line.strip() and not line.startswith("#"):
            fields = line[12:].split()
            return line[8:12].strip().lstrip("-").isdigit() and bool(fields) and all(
                field.lstrip("-").isdigit() for field in fields
            )
    return False


TUCSON = Format("tucson", (".rwl", ".tuc"), read, sniff, write)
