"""What `evaluate --labels` and `compare --labels` print: values corrected by labels of people."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.printing import Cell, PageFormat, Table, counted, cut, say_wrapped, show

if TYPE_CHECKING:
    from freshstack_dspy.calibration.correction import Correction
    from freshstack_dspy.measures.correction import Corrected

LabelsOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Labels of people: also print what it would be, had people made all; may be repeated."
    ),
]


def show_correction(found: "Correction | None", form: PageFormat | None = None) -> None:
    """Print the estimates of rates, means and differences, if any, and what they rest on."""
    if found is None:
        return
    rows: dict[str, list[tuple[tuple[str, ...], Corrected]]] = {
        "share of pairs that support": [((name,), one) for name, one in found.rates.items()],
        "run": [((run, name), one) for run, of in found.means.items() for name, one in of.items()],
        "difference": [
            ((f"{each.run}\n− {each.against}", each.measure), each.difference)
            for each in found.differences
        ],
    }
    between = ", " if form else "\n"
    intervals = f"95 %: these queries{between}95 %: new queries"
    reasons: dict[str, list[str]] = {}
    for key, of in rows.items():
        if any(one.value is not None for _, one in of):
            keys = (key, "measure")[: len(of[0][0])]
            header = (*keys, "judge", "corrected", intervals)
            sign = "+" if key == "difference" else ""
            cells = [(*map(_folded, named), *_cells(one, sign, between)) for named, one in of]
            title = "corrected by labels of people"
            print()
            show(Table(header, cells, title if form is None else "", keys=len(keys)), form)
        for names, one in of:
            if one.reason:
                what = "no interval" if one.value is not None else "not corrected"
                name = ", ".join(names[::-1]).replace("\n", " ")
                reasons.setdefault(f"{what}: {one.reason}", []).append(name)
    if form is not None:
        return
    if not any(one.value is not None for of in rows.values() for _, one in of):
        print()
    say_wrapped(
        "corrected: had people made all labels; its first interval is for these queries, where only "
        "the labels are a sample, the second for new queries of the same kind"
    )
    for reason, values in reasons.items():
        more = f" and {len(values) - 2} more" if len(values) > 2 else ""
        say_wrapped(f"{reason} ({'; '.join(values[:2])}{more})")
    parts = [f"labels of people of {counted(found.pairs, 'judged pair')}"]
    if found.whole_queries:
        parts.append(f"{counted(found.whole_queries, 'query', 'queries')} labelled in full")
    say_wrapped("; ".join((*parts, *found.notes)))


def _folded(name: str) -> str:
    return "\n".join(part for line in name.split("\n") for part in wrap(cut(line, 96), 24))


def _cells(one: "Corrected", sign: str, between: str) -> tuple[Cell, ...]:
    def ends(low: float | None, high: float | None) -> str:
        to = " to " if sign else "–"
        return "–" if low is None else f"{low:{sign}.3f}{to}{high:{sign}.3f}"

    intervals = f"{ends(one.low, one.high)}{between}{ends(one.wide_low, one.wide_high)}"
    value = "–" if one.value is None else f"{one.value:{sign}.4f}"
    return f"{one.judge:{sign}.4f}", value, intervals
