"""`freshstack gate`: whether a change of the retriever may be merged."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import MATTERS, Matters, Outcome, command
from freshstack_dspy.errors import ConfigError, ReplayMissError
from freshstack_dspy.pages.page import Page, Span, Text, counted
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.measures.compare import Comparison

WORSE, CHANGED, UNDECIDED = 5, 6, 7
"""Exit codes; 1 is an error."""


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
    from freshstack_dspy.views.gate import gate_page

    if (run is None) == (retriever is None):
        raise ConfigError("freshstack gate needs either --run FILE or --retriever NAME")
    config = source.suffix == ".toml"
    with ProgressBars() as bars:
        try:
            collection = (
                fs.build(source, mode="replay", progress=bars)
                if config
                else fs.Collection.load(source)
            )
        except ReplayMissError as error:
            from freshstack_dspy.lm.request import BY_HAND

            defer = " --mode defer" * fs.load_config(source).model.name.startswith(BY_HAND)
            hint = ("to type: ", Span(f"freshstack refresh {source}{defer}", "code"))
            return _changed(f"{error}".partition(":")[0], Text(hint))
        old = fs.read_run(baseline)
        new = fs.read_run(run) if run is not None else _retrieved(collection, retriever, bars)
    for what, each in (("baseline", old), ("new run", new)):
        ranked = {chunk for scores in each.scores.values() for chunk in scores}
        if unknown := sorted(ranked - collection.corpus.ids):
            number = counted(len(unknown), "chunk")
            why = f"the collection lacks {number} of the {what}, such as {unknown[0]}"
            return _changed(why, Text("run that retriever again on the documents as they are now"))
    names = {"baseline": old, "new": new}
    comparison = fs.compare(collection, names, measure, baseline="baseline", matters=matters)
    analysis = fs.analyze(collection, new, old, measure=measure)
    analysis = analysis.model_copy(update={"run": "new", "against": "baseline"})
    code = _code(comparison, strict=strict)
    folder = os.path.relpath(collection.path or source)
    judge = f"freshstack extend {folder} {run or 'RUN'} --config {source if config else 'CONFIG'}"
    return Outcome(gate_page(comparison, analysis, worse=code == WORSE, judge=judge), code=code)


def _retrieved(collection: "fs.Collection", retriever: str | None, bars: ProgressBars) -> Any:
    assert retriever is not None
    run = fs.retrieve(collection, retriever, progress=bars)
    if not isinstance(run, fs.Run):
        raise ConfigError(
            f"--retriever {retriever} returns passages, and freshstack gate compares chunks of the "
            "collection; write runs with freshstack retrieve, and compare those"
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
