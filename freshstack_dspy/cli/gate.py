"""`freshstack gate`: whether a change of the retriever may be merged."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import MATTERS, Matters, Outcome, command
from freshstack_dspy.errors import ConfigError, ReplayMissError
from freshstack_dspy.pages.page import Page, Span, Text
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.measures.compare import Comparison

WORSE, CHANGED, UNDECIDED = 5, 6, 7
"""Exit codes; 1 is an error."""
_LOST = 3
"""How many lost queries are shown with their evidence."""


@command
def gate(
    source: Path,
    *,
    baseline: Path,
    run: Path | None = None,
    retriever: str | None = None,
    measure: Annotated[str, typer.Option("--measure", "-m")] = "alpha_nDCG@10",
    matters: Matters = MATTERS,
    strict: bool = False,
) -> Outcome:
    """Say whether a new run may take the place of the baseline; no model is asked.

    Exit codes: 0 it may; 5 it is worse; 6 the documents changed, so that labels are missing; with
    --strict also 7, where nothing is decided.

    Args:
        source: Folder of a collection; or TOML file of a build, which is replayed first.
        baseline: Run of the retriever in use.
        run: The new run; or --retriever, which is run now.
        retriever: As for `freshstack retrieve`; package.module:name is one of your own.
        measure: What decides.
        strict: Also fail where it cannot be told whether the run is worse.
    """
    from freshstack_dspy.views.measures import comparison_page

    if (run is None) == (retriever is None):
        raise ConfigError("freshstack gate needs --run FILE or --retriever NAME, one of the two")
    with ProgressBars() as bars:
        try:
            collection = (
                fs.build(source, mode="replay", progress=bars)
                if source.suffix == ".toml"
                else fs.Collection.load(source)
            )
        except ReplayMissError as error:
            hint = ("to type: ", Span(f"freshstack refresh {source}", "code"))
            return _changed(f"{error}", Text(hint))
        old = fs.read_run(baseline)
        new = fs.read_run(run) if run is not None else _retrieved(collection, retriever, bars)
    ranked = {chunk for each in (old, new) for scores in each.scores.values() for chunk in scores}
    if unknown := sorted(ranked - collection.corpus.ids):
        why = f"{len(unknown):,} chunks of the runs are not in the collection, as {unknown[0]}"
        return _changed(why, Text("run both retrievers on the documents of the collection"))
    names = {"baseline": old, "new": new}
    comparison = fs.compare(collection, names, measure, baseline="baseline", matters=matters)
    analysis = fs.analyze(collection, new, old, measure=measure, limit=_LOST)
    analysis = analysis.model_copy(update={"run": "new", "against": "baseline"})
    paths = {"baseline": baseline} | ({} if run is None else {"new": run})
    page, code = comparison_page(comparison, paths=paths), _code(comparison, strict=strict)
    first = []
    if code == WORSE and comparison.decisions[0].ship is None:
        why = comparison.differences[0].conclusion
        first = [Text((Span("Worse", "strong"), f": {why}."), "decision")]
    parts = (*first, *page.parts, analysis.page())
    data = page.data | {"analysis": analysis}
    return Outcome(replace(page, parts=parts, data=data), code=code)


def _retrieved(collection: "fs.Collection", retriever: str | None, bars: ProgressBars) -> Any:
    assert retriever is not None
    run = fs.retrieve(collection, retriever, progress=bars)
    if not isinstance(run, fs.Run):
        raise ConfigError(
            f"--retriever {retriever} gives passages, and freshstack gate takes chunks of the "
            "collection; write runs with freshstack retrieve, and compare them"
        )
    return run


def _changed(why: str, hint: Text) -> Outcome:
    line = Text((Span("The documents changed", "strong"), f": {why}"), "decision")
    return Outcome(Page("", (line, hint), {"outcome": "changed", "reason": why}), code=CHANGED)


def _code(comparison: "Comparison", *, strict: bool) -> int:
    """A run is worse if that is decided, or was found and is not shown to be too small to matter."""
    (decision,), (found,) = comparison.decisions, comparison.differences
    same = decision.outcome == "no difference that matters"
    if decision.ship == "baseline" or (found.verdict == "lower" and not same):
        return WORSE
    decided = same or decision.ship == "new" or found.verdict == "higher"
    return 0 if decided or not strict else UNDECIDED
