"""All sections of the card, in their order."""

from collections import Counter
from collections.abc import Sequence

from freshstack_dspy.collection.card.attribution import attribution
from freshstack_dspy.collection.card.contaminated import contamination_section
from freshstack_dspy.collection.card.counted import counts_section, statistics_section
from freshstack_dspy.collection.card.filtered import filters_section
from freshstack_dspy.collection.card.judged import agreement_section
from freshstack_dspy.collection.card.making import making_section
from freshstack_dspy.collection.card.pool import pool_section
from freshstack_dspy.collection.card.sources import corpus_section, queries_section
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.makers import baseline_warning, exported_from, is_baseline
from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import escape
from freshstack_dspy.records import Chunk, QueryOrigin

CARD_FILE = "README.md"
_ORIGINS: dict[QueryOrigin, str] = {
    "community": "questions of a community",
    "synthetic": "questions that a model made from the documents",
    "imported": "the questions of an imported collection",
}


def data_card(contents: Contents, chunks: Sequence[Chunk], manifest: Manifest) -> str:
    """Write the data card, as Markdown.

    It holds no time and no version, and its costs are what the replies cost when they were first
    asked for: the same data by the same recipe from the same replies has the same card.

    Args:
        contents: The records of the collection.
        chunks: The chunks of its corpus.
        manifest: Its manifest.
    """
    sections = [
        _heading(contents, manifest),
        queries_section(contents, manifest),
        corpus_section(contents, chunks, manifest),
        making_section(manifest),
        counts_section(contents, manifest),
        statistics_section(contents, chunks, manifest),
        filters_section(contents, manifest),
        contamination_section(manifest),
        pool_section(contents, manifest),
        agreement_section(contents),
        _limits(contents, manifest),
        _how_to_evaluate(manifest),
        attribution(contents.queries),
    ]
    return "\n".join(section for section in sections if section)


def _heading(contents: Contents, manifest: Manifest) -> str:
    origins = Counter(query.origin for query in contents.queries)
    made_of = " and ".join(said for origin, said in _ORIGINS.items() if origins[origin])
    warning = baseline_warning(manifest)
    return (
        f"# {escape(manifest.name)}\n\n"
        + (f"{warning}\n\n" if warning else "")
        + f"A judged test collection for retrieval: {made_of or 'questions'}, nuggets (the atomic "
        "facts of their answers), a corpus cut into chunks, and for each nugget the "
        "chunks that were judged to support it or not.\n"
        f"The identity of its data is `{manifest.content_hash}`; `manifest.json` has the hash of "
        "every file.\n"
    )


def _limits(contents: Contents, manifest: Manifest) -> str:
    without_label = sum(judgment.label is None for judgment in contents.judgments)
    warning = baseline_warning(manifest)
    first = f"- {warning}\n" if warning else ""
    return (
        f"## Limits\n\n{first}- {_by_whom(manifest)}\n"
        "- Only pooled chunks were judged. A chunk without a label is unknown; the measures "
        "count it as not relevant, and report how many they met.\n"
        f"- Judgments that failed: {without_label}. They have no label and are counted, never "
        "made 0.\n"
    )


def _by_whom(manifest: Manifest) -> str:
    """Say who made nuggets and labels."""
    if manifest.recipe.startswith("import:"):
        if by := exported_from(manifest).get("model"):
            return (
                "Nuggets and labels are those of the exported collection that was imported, "
                f"which asked {escape(by)}."
            )
        return (
            "Nuggets and labels are those of the imported collection; who made them, it says "
            "itself."
        )
    made = "Labels" if manifest.recipe.startswith("rejudge:") else "Nuggets and labels"
    unknown = (
        "How far they agree with people is unknown until it is measured: label a sample and "
        "compute the agreement."
    )
    if is_baseline(manifest.model):
        return (
            f"{made} are by a program that counts words, neither by people nor by a "
            f"language model. {unknown}"
        )
    return f"{made} are by a language model, not by people. {unknown}"


def _how_to_evaluate(manifest: Manifest) -> str:
    without = ""
    if manifest.counts.contamination.scored:
        without = (
            "With `--exclude-contaminated` it is evaluated a second time, without the queries "
            "that the model can answer without the corpus.\n\n"
        )
    return (
        "## How to evaluate a run\n\n"
        "A run is a TREC file: `query_id Q0 chunk_id rank score run_name` on each line.\n\n"
        "```sh\n"
        "freshstack evaluate path/to/this/folder path/to/run.txt\n"
        "```\n\n"
        f"{without}"
        "or, in Python:\n\n"
        "```python\n"
        "from freshstack_dspy.collection import Collection\n"
        "from freshstack_dspy.measures import evaluate, read_run\n\n"
        'collection = Collection.load("path/to/this/folder")\n'
        'evaluation = evaluate(collection.qrels(), read_run("path/to/run.txt"))\n'
        "print(evaluation.means)\n"
        "```\n"
    )
