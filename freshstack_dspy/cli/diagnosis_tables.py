"""What `freshstack diagnose` prints."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from freshstack_dspy.cli.lines import say, say_wrapped
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.diagnose import (
        Depth,
        Diagnosis,
        Finders,
        Losses,
        MissingSupport,
        PoolingResult,
    )
    from freshstack_dspy.measures.evaluation import Unjudged
    from freshstack_dspy.measures.statistics import Estimate

UnjudgedOfRuns = Sequence[tuple[str, "Unjudged"]]
_SHOWN_DEPTHS = (1, 2, 3, 5, 10, 15, 20, 30, 50, 75, 100)
_SETTINGS = {"inference": "inference setting", "oracle": "oracle setting"}


def diagnosis_json(collection: "Collection", diagnosis: "Diagnosis", runs: UnjudgedOfRuns) -> None:
    """Print everything as one JSON object."""
    found = {
        "collection": collection.name,
        "content_hash": collection.manifest.content_hash,
        "diagnosis": diagnosis.model_dump(mode="json"),
        "runs": [{"file": name, **found.model_dump(mode="json")} for name, found in runs],
    }
    print(json.dumps(found, indent=2))


def diagnosis_tables(
    collection: "Collection", diagnosis: "Diagnosis", runs: UnjudgedOfRuns
) -> None:
    """Print one table for each diagnostic."""
    _summary(collection, diagnosis)
    if diagnosis.finders:
        _finders_table(diagnosis.finders)
    if diagnosis.losses:
        _losses_table(diagnosis.losses)
    if diagnosis.depths:
        _depths_table(diagnosis.depths)
    if diagnosis.results:
        _results_table(diagnosis.results)
    if diagnosis.missing:
        _missing_table(diagnosis.missing)
    if diagnosis.votes or diagnosis.alone:
        _agreement_lines(diagnosis)
    if runs:
        _runs_table(runs)


def _summary(collection: "Collection", diagnosis: "Diagnosis") -> None:
    say_wrapped(f"{collection.name}: {diagnosis.queries:,} queries ({', '.join(diagnosis.slices)})")
    say(f"{diagnosis.pooled:,} pooled chunks, {diagnosis.relevant:,} relevant ones, query by query")
    if diagnosis.outside:
        outside = ", ".join(f"{number:,} {origin}" for origin, number in diagnosis.outside.items())
        say(f"candidates that no technique pooled: {outside}")
    if diagnosis.relevant_outside:
        say(f"relevant chunks that no technique pooled: {diagnosis.relevant_outside:,}")
    if diagnosis.unknown:
        say_wrapped(f"who found what is not known: {diagnosis.unknown}")


def _finders_table(found: "Finders") -> None:
    table = _table(("technique", "retriever"), ("found", "first", "alone"))
    for one in found.finders:
        counts = (f"{one.found:,}", f"{one.first:,.1f}", f"{one.alone:,}")
        table.add_row(one.technique, one.retriever, *counts)
    _show(f"Who found the {found.relevant:,} relevant chunks of the pool", table)
    say_wrapped(
        f"found: among its first {found.top_k}. first: nobody ranks it better, ties are shared. "
        f"alone: among nobody else's first {found.top_k}. {found.by_fusion:,} are among nobody's "
        f"first {found.top_k}: only fusion raised them."
    )


def _losses_table(losses: "Losses") -> None:
    table = _table(("without",), ("chunks", "relevant", "nuggets", "queries"))
    for kind in ("technique", "retriever"):
        table.add_row(f"a {kind}")
        for loss in losses.without:
            if loss.kind == kind:
                table.add_row(
                    f"  {loss.without}",
                    _part(loss.chunks, losses.chunks),
                    _part(loss.relevant, losses.relevant),
                    _part(loss.nuggets, losses.nuggets),
                    _part(loss.queries, losses.queries),
                )
        table.add_section()
    there = (losses.chunks, losses.relevant, losses.nuggets, losses.queries)
    table.add_row("there are", *(f"{number:,}" for number in there))
    _show("What would be lost without one technique, or without one retriever", table)
    say_wrapped(
        "nuggets: they lose all their support. queries: answerable ones that lose a nugget."
    )


def _depths_table(depths: "Sequence[Depth]") -> None:
    table = _table(("depth",), ("chunks", "relevant", "nuggets"))
    for each in depths:
        if each.depth in _SHOWN_DEPTHS or each is depths[-1]:
            table.add_row(
                f"{each.depth}",
                _share(each.chunks, each.chunk_share),
                _share(each.relevant, each.relevant_share),
                _share(each.nuggets, each.nugget_share),
            )
    _show("What a pool of each depth would hold", table)


def _results_table(results: "Sequence[PoolingResult]") -> None:
    measures = tuple(results[0].means)
    table = _table(("technique", "retriever"), measures)
    for setting, said in _SETTINGS.items():
        rows = [each for each in results if each.setting == setting]
        if rows:
            table.add_section()
            table.add_row(said)
        for each in rows:
            means = (f"{each.means[measure]:.3f}" for measure in measures)
            table.add_row(f"  {each.technique}", each.retriever or "fusion", *means)
    _show("Pooling results, as Table 4 of the FreshStack paper", table)
    say_wrapped(
        "inference: techniques that know the question only. oracle: they know the answer. "
        "fusion: of all retrievers, from which the pool is taken."
    )
    if behind := [each for each in results if each.without_results]:
        worst = max(behind, key=lambda each: each.without_results)
        say_wrapped(
            f"queries without results count 0; the most, {worst.without_results:,}, has "
            f"{worst.technique} by {worst.retriever or 'fusion'}"
        )


def _missing_table(missing: "MissingSupport") -> None:
    bottom = range(missing.bottom_from, missing.top_k + 1)
    table = _table(("best rank",), ("chunks", "relevant", "rate"))
    for each in missing.rates:
        if each.rank == 1 or each.rank in bottom:
            found = (f"{each.chunks:,}", f"{each.relevant:,}", f"{each.rate:.1%}")
            table.add_row(f"{each.rank}", *found)
    _show("Signs of support below the pool", table)
    say_wrapped(
        f"only at ranks {bottom.start} to {missing.top_k}: "
        f"{_part(missing.bottom_relevant, missing.relevant)} relevant chunks, and all support of "
        f"{missing.bottom_nuggets:,} nuggets"
    )
    counts = ", ".join(f"{number:,} by {n}" for n, number in missing.by_techniques.items())
    say_wrapped(f"relevant chunks by how many techniques pooled them: {counts}")
    say_wrapped(f"Chao1: {_estimated(missing.chao1, missing.relevant)}")
    say_wrapped(f"Chao1, bias-corrected: {_estimated(missing.chao1_corrected, missing.relevant)}")
    say_wrapped(
        "Chao1 takes the techniques for independent, and they are not: read it as a lower bound, of "
        "what they could reach."
    )


def _agreement_lines(diagnosis: "Diagnosis") -> None:
    print()
    say("How far the judge agrees with itself")
    if votes := diagnosis.votes:
        say_wrapped(
            f"{votes.pairs:,} pairs with several votes: two votes agree on "
            f"{_percent(votes.agreement)}, all votes on {_percent(votes.unanimous)}; "
            f"{votes.failed_votes:,} failed votes"
        )
    if alone := diagnosis.alone:
        kappa = "–" if alone.kappa.value is None else f"{alone.kappa.value:.3f}"
        say_wrapped(
            f"{alone.pairs:,} pairs judged in batches and alone: the same label for "
            f"{_percent(alone.exact)}, kappa {kappa}, the same as to support for "
            f"{_percent(alone.support_exact)}; {alone.failed:,} without a label"
        )


def _runs_table(runs: UnjudgedOfRuns) -> None:
    k = runs[0][1].k
    table = _table(("run",), (f"unjudged@{k}", "queries", "failed"))
    for name, found in runs:
        unjudged = "–" if found.mean is None else f"{found.mean:.3f}"
        failed = sum(found.failed.values())
        table.add_row(name, unjudged, f"{len(found.shares):,}", f"{failed:,}")
    _show(f"What runs have in their first {k} without a label", table)
    say_wrapped("queries: of these slices, with results. failed: failed judgments that were met.")


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table()
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _show(title: str, table: Table) -> None:
    print()
    show(title, table)


def _part(number: int, of: int) -> str:
    return _share(number, number / of if of else None)


def _share(number: int, share: float | None) -> str:
    return f"{number:,}" if share is None else f"{number:,} ({share:.1%})"


def _estimated(estimate: "Estimate", found: int) -> str:
    if estimate.value is None:
        return f"none, for {estimate.reason}"
    missing = estimate.value - found
    return (
        f"{estimate.value:,.0f} in all, so {missing:,.0f} missing ({_of(missing, estimate.value)})"
    )


def _percent(share: "Estimate") -> str:
    return "–" if share.value is None else f"{share.value:.1%}"


def _of(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "–"
