"""How far the queries can be known without the corpus."""

from freshstack_dspy.collection.card.attribution import UNKNOWN
from freshstack_dspy.collection.card.told import said, section
from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import table


def contamination_section(manifest: Manifest) -> str:
    """Say what the closed-book answers, the dates and the texts tell of it."""
    found, told = manifest.counts.contamination, section(manifest, "contamination")
    queries = manifest.counts.queries

    def of(number: int, all_: int) -> str:
        return f"{number:,} of {all_:,} ({number / all_:.1%})" if all_ else UNKNOWN

    dated = found.before_cutoff + found.after_cutoff
    cutoff, words = said(told.get("cutoff")), said(told.get("ngram")) or "n"
    rows = [
        ("nuggets that the closed-book answers support", of(found.known, found.nuggets)),
        (
            "queries of which half the nuggets or more are known",
            of(found.contaminated, found.scored),
        ),
        (
            f"queries asked up to the model's cut-off{cutoff and f', {cutoff}'}",
            of(found.before_cutoff, dated),
        ),
        (
            f"queries that share {words} words in a row with a supporting chunk",
            of(found.overlapping, queries) if told else UNKNOWN,
        ),
        (
            "queries that nearly duplicate another",
            of(found.near_duplicates, queries) if told else UNKNOWN,
        ),
    ]
    return (
        f"## Contamination\n\n{table(('what', 'number'), rows)}\n"
        "What a model knows of a query without the corpus, no retriever has to find. "
        "`contamination.jsonl` has the figures of every query.\n"
    )
