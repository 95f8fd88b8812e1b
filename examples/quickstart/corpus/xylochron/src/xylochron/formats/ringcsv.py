"""Ring tables (``.csv``): a column of years and one column a series.

The first line may name the unit (``# unit: µm``, ``# unit: 1/100 mm``, ``# unit: mm``).
Delimiter and decimal sign belong together: ``;`` goes with a decimal comma, as German and
French spreadsheets write it, ``,`` and TAB with a decimal point.
"""

from collections.abc import Sequence

from xylochron.errors import FormatError
from xylochron.formats import Format
from xylochron.series import Series

FACTOR = {"µm": 1.0, "um": 1.0, "1/1000 mm": 1.0, "1/100 mm": 10.0, "mm": 1000.0}
DELIMITERS = (";", "\t", ",")


def read(
    text: str, *, unit: str | None = None, decimal: str | None = None, empty: str = "gap"
) -> list[Series]:
    """Read a ring table.

    Args:
        text: The file.
        unit: Overrides the ``# unit:`` line; without either it is ``mm``.
        decimal: The decimal sign; by default ``,`` with ``;`` and ``.`` otherwise.
        empty: What an empty cell inside a series is: ``gap`` (not measured, ``None``)
            or ``absent`` (a ring of width 0). Empty cells before and after are no rings.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    comments = [line for line in lines if line.startswith("#")]
    rows = [line for line in lines if not line.startswith("#")]
    named = next((c.partition(":")[2].strip() for c in comments if "unit:" in c), None)
    chosen = unit or named or "mm"
    if chosen not in FACTOR:
        raise FormatError(f"unit {chosen!r} is not one of {', '.join(FACTOR)}")
    delimiter = next((sign for sign in DELIMITERS if sign in rows[0]), ",")
    sign = decimal or ("," if delimiter == ";" else ".")
    header = [cell.strip().strip('"') for cell in rows[0].split(delimiter)]
    table = [[cell.strip() for cell in row.split(delimiter)] for row in rows[1:]]
    years = [int(row[0]) for row in table]
    for before, after in zip(years, years[1:], strict=False):
        if after != before + 1:
            raise FormatError(f"year {after} follows {before}: years must rise by one")
    return [
        _column(name, [row[index] for row in table], years, FACTOR[chosen], sign, empty)
        for index, name in enumerate(header[1:], start=1)
    ]


def _column(
    name: str, cells: list[str], years: list[int], factor: float, sign: str, empty: str
) -> Series:
    filled = [index for index, cell in enumerate(cells) if cell]
    if not filled:
        raise FormatError(f"column {name!r} is empty")
    widths: list[int | None] = []
    for cell in cells[filled[0] : filled[-1] + 1]:
        if not cell:
            widths.append(None if empty == "gap" else 0)
            continue
        try:
            widths.append(round(float(cell.replace(sign, ".")) * factor))
        except ValueError as error:
            raise FormatError(
                f"column {name!r}: {cell!r} is not a number; is the decimal sign {sign!r}?"
            ) from error
    return Series(name, tuple(widths), years[filled[0]])


def write(series: Sequence[Series]) -> str:
    """Write a table in µm with commas; a ring that was not measured is an empty cell."""
    first = min(one.between(-10_000, 10_000).first_year or 0 for one in series)
    last = max(one.last_year for one in series)
    lines = ["# unit: µm", ",".join(["year", *(one.id for one in series)])]
    for year in range(first, last + 1):
        cells = [str(year)]
        for one in series:
            index = year - (one.first_year or 0)
            inside = 0 <= index < len(one)
            cells.append("" if not inside or one.widths[index] is None else str(one.widths[index]))
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def sniff(head: str) -> bool:
    """Whether the first line that is no comment starts with a column named year."""
    rows = [line for line in head.splitlines() if line.strip() and not line.startswith("#")]
    return bool(rows) and rows[0].lower().lstrip('"').startswith(("year", "jahr", "année", "年"))


RINGCSV = Format("ringcsv", (".csv", ".tsv"), read, sniff, write)
