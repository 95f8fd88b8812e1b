"""One measured radius: a run of yearly ring widths in micrometres."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from xylochron.errors import FloatingSeriesError, GapError

Anchor = Literal["last", "first"]
Bark = Literal["none", "sapwood", "waney_edge"]


@dataclass(frozen=True)
class Series:
    """Ring widths of one radius, oldest ring first.

    ``widths`` holds whole micrometres. Two values are special and must not be mixed up:
    ``0`` is a ring that was not formed on this radius (an absent or "missing" ring), and
    ``None`` is a ring that exists but was not measured (a crack, a rotten spot).

    A series whose ``first_year`` is ``None`` is *floating*: it has an order but no dates.
    """

    id: str
    widths: tuple[int | None, ...]
    first_year: int | None = None
    species: str = ""
    pith_offset: int | None = None
    """Estimated rings between the pith and the first measured ring."""
    sapwood_rings: int = 0
    bark: Bark = "none"
    meta: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.widths)

    @property
    def is_floating(self) -> bool:
        """Whether the series has no calendar dates."""
        return self.first_year is None

    @property
    def last_year(self) -> int:
        """The year of the outermost ring.

        Raises:
            FloatingSeriesError: the series is not dated.
        """
        return self._start() + len(self.widths) - 1

    @property
    def widths_mm(self) -> tuple[float | None, ...]:
        """The widths in millimetres, for plots and for code written before 3.0."""
        return tuple(None if width is None else width / 1000 for width in self.widths)

    def shift_to(self, first_year: int) -> "Series":
        """Date the series: its innermost ring becomes ``first_year``."""
        return replace(self, first_year=first_year)

    def between(self, start: int, end: int) -> "Series":
        """The rings from ``start`` to ``end``, both included."""
        first = self._start()
        low, high = max(start, first), min(end, self.last_year)
        return replace(self, widths=self.widths[low - first : high - first + 1], first_year=low)

    def insert_ring(self, year: int, width: int = 0, *, anchor: Anchor = "last") -> "Series":
        """Put a ring in at ``year``, by default an absent one of width 0.

        With ``anchor="last"`` the outermost ring keeps its date and everything older than
        ``year`` moves back by one year: right for cores taken from living trees, where the
        bark year is known. With ``anchor="first"`` the innermost ring keeps its date and
        everything younger moves forward.
        """
        first = self._start()
        if anchor == "last":
            index, new_first = year - first + 1, first - 1
        else:
            index, new_first = year - first, first
        widths = (*self.widths[:index], width, *self.widths[index:])
        return replace(self, widths=widths, first_year=new_first)

    def merge_rings(self, year: int, *, anchor: Anchor = "last") -> "Series":
        """Join the ring of ``year`` with the next younger one: undoes a false ring."""
        index = year - self._start()
        first_half, second_half = self.widths[index], self.widths[index + 1]
        if first_half is None or second_half is None:
            raise GapError(f"series {self.id!r}: cannot merge an unmeasured ring at {year}")
        widths = (*self.widths[:index], first_half + second_half, *self.widths[index + 2 :])
        new_first = self._start() + (1 if anchor == "last" else 0)
        return replace(self, widths=widths, first_year=new_first)

    def fill_gaps(self, how: Literal["neighbours", "mean"] = "neighbours") -> "Series":
        """Replace each ``None`` by the mean of its measured neighbours, or of all rings."""
        known = [width for width in self.widths if width is not None]
        filled = list(self.widths)
        for index, width in enumerate(self.widths):
            if width is None:
                around = _neighbours(self.widths, index) if how == "neighbours" else known
                filled[index] = round(sum(around) / len(around))
        return replace(self, widths=tuple(filled))

    def complete_widths(self) -> list[int]:
        """The widths, every one of them a number.

        Raises:
            GapError: a ring was not measured; call ``fill_gaps`` first.
        """
        if None in self.widths:
            count = self.widths.count(None)
            raise GapError(
                f"series {self.id!r} has {count} unmeasured ring(s); call fill_gaps() first"
            )
        return [width for width in self.widths if width is not None]

    def _start(self) -> int:
        if self.first_year is None:
            raise FloatingSeriesError(
                f"series {self.id!r} is floating; date it with shift_to(first_year)"
            )
        return self.first_year


def _neighbours(widths: Sequence[int | None], index: int) -> list[int]:
    """The nearest measured width on either side."""
    left = [width for width in widths[:index] if width is not None][-1:]
    right = [width for width in widths[index + 1 :] if width is not None][:1]
    return left + right
