"""The section of a page that says what values would be, had people made all labels."""

from typing import TYPE_CHECKING

from freshstack_dspy.pages.page import Cell, Page, Table, Text, Value, counted

if TYPE_CHECKING:
    from freshstack_dspy.calibration.correction import Correction
    from freshstack_dspy.measures.ppi import Corrected


def correction_page(found: "Correction") -> Page:
    """Give the estimates of rates, means and differences, if any, and what they rest on."""
    rows: dict[str, list[tuple[tuple[str, ...], Corrected]]] = {
        "share of pairs that support": [((name,), one) for name, one in found.rates.items()],
        "run": [((run, name), one) for run, of in found.means.items() for name, one in of.items()],
        "difference": [
            ((f"{each.run}\n− {each.against}", each.measure), each.difference)
            for each in found.differences
        ],
    }
    parts: list[Table | Text] = []
    reasons: dict[str, list[str]] = {}
    for key, of in rows.items():
        if any(one.value is not None for _, one in of):
            keys = (key, "measure")[: len(of[0][0])]
            header = (*keys, "judge", "corrected", "95 %: these queries\n95 %: new queries")
            sign = "+" if key == "difference" else ""
            cells = [(*named, *_cells(one, sign)) for named, one in of]
            parts.append(Table(header, cells, keys=len(keys), ids=(0,)))
        for names, one in of:
            if one.reason:
                what = "no interval" if one.value is not None else "not corrected"
                name = ", ".join(names[::-1]).replace("\n", " ")
                reasons.setdefault(f"{what}: {one.reason}", []).append(name)
    rest = (
        "corrected: had people made all labels; its first interval is for these queries, where only "
        "the labels are a sample, the second for new queries of the same kind"
    )
    lines = [rest]
    for reason, values in reasons.items():
        more = f" and {len(values) - 2} more" if len(values) > 2 else ""
        lines.append(f"{reason} ({'; '.join(values[:2])}{more})")
    left_out = [note for note in found.notes if note.endswith("left out")]
    notes = [note for note in found.notes if note not in left_out]
    resting = [f"labels of people of {counted(found.pairs, 'judged pair')}"]
    if found.whole_queries:
        resting.append(f"{counted(found.whole_queries, 'query', 'queries')} labelled in full")
    lines.append("; ".join((*resting, *notes)))
    parts += (Text(line, "note") for line in lines)
    parts[:0] = (Text(line, "warning") for line in left_out)
    return Page("corrected by labels of people", tuple(parts), data=found)


def _cells(one: "Corrected", sign: str) -> tuple[Cell, ...]:
    form, ends = f"{sign}.4f", f"{sign}.3f"
    narrow = Value(one.value, one.low, one.high, form, ends)
    wide = Value(one.value, one.wide_low, one.wide_high, form, ends)
    return Value(one.judge, form=form), narrow.number, (narrow.interval, wide.interval)
