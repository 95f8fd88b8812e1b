"""The data card: the README of a collection, for who gets it from somebody else."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from freshstack_dspy.collection.contents import SLICES, Contents
from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import escape, link, table
from freshstack_dspy.collection.statistics import Statistics, collection_statistics
from freshstack_dspy.records import Attribution, Chunk, LicenceFile, Query

CARD_FILE = "README.md"
_BASELINE = "extractive/"
_UNKNOWN = "not recorded"


class _Source(NamedTuple):
    name: str
    revision: str


def data_card(contents: Contents, chunks: Sequence[Chunk], manifest: Manifest) -> str:
    """Write the data card, as Markdown.

    It holds no time, no cost and no version: the same data by the same recipe has the same card.

    Args:
        contents: The records of the collection.
        chunks: The chunks of its corpus.
        manifest: Its manifest.
    """
    sources = Counter(_Source(chunk.source, chunk.revision or "") for chunk in chunks)
    sections = [
        _heading(manifest),
        _how_it_was_made(manifest),
        _counts(manifest),
        _statistics(contents, manifest, sources),
        _limits(contents, manifest),
        _how_to_evaluate(),
        attribution(contents.queries),
        _corpus_sources(sources, contents.licences),
    ]
    return "\n".join(sections)


def _heading(manifest: Manifest) -> str:
    return (
        f"# {escape(manifest.name)}\n\n"
        "A judged test collection for retrieval: questions of a community, nuggets (the atomic "
        "facts of their accepted answers), a corpus cut into chunks, and for each nugget the "
        "chunks that were judged to support it or not.\n"
        f"The identity of its data is `{manifest.content_hash}`; `manifest.json` has the hash of "
        "every file.\n"
    )


def _how_it_was_made(manifest: Manifest) -> str:
    text = (
        "## How it was made\n\n"
        f"By the recipe **{escape(manifest.recipe)}** of freshstack_dspy, asking the model "
        f"**{escape(manifest.model)}**.\n"
        "`manifest.json` has the configuration, the versions and the account of calls.\n"
    )
    if manifest.prompts:
        rows = [
            (escape(name), f"`{escape(manifest.prompts[name])}`")
            for name in sorted(manifest.prompts)
        ]
        text += "\n" + table(("signature", "SHA-256 of its prompt"), rows)
    return text


def _counts(manifest: Manifest) -> str:
    counts = manifest.counts
    rows = [
        (f"`{name}`", str(getattr(counts, name)))
        for name in ("queries", "nuggets", "expansions", "pool", "judgments", "chunks")
    ]
    for kind, number in counts.skipped.items():
        rows.append((f"files left out: {escape(kind)}", str(number)))
    for step, by_status in sorted(counts.failures.items()):
        rows += [
            (f"failures: {step}, {status}", str(by_status[status])) for status in sorted(by_status)
        ]
    for reason, number in sorted(counts.rejected.items()):
        rows.append((f"questions left out: {escape(reason)}", str(number)))
    slices = [
        (
            f"`{name}`",
            str(counts.slices[name]),
            "yes" if name in manifest.evaluated_slices else "no",
        )
        for name in SLICES
    ]
    return (
        f"## Counts\n\n{table(('what', 'number'), rows)}\n"
        f"{table(('slice', 'queries', 'evaluated'), slices)}\n"
        "In an `answerable` query every nugget has a supporting chunk, in a `partly_supported` "
        "one some have none, in an `unanswerable` one none has; where failures leave it open it "
        "is `undetermined`.\n"
    )


def _statistics(contents: Contents, manifest: Manifest, sources: Counter[_Source]) -> str:
    names = len({source.name for source in sources})
    rows = []
    for label, slices in (("evaluated", manifest.evaluated_slices), ("all with nuggets", SLICES)):
        found = collection_statistics(contents, slices, chunks=sources.total(), sources=names)
        rows.append((label, *_statistics_row(found)))
    header = (
        "queries are", "#queries", "#docs", "#sources", "nuggets per query", "query words",
        "answer words", "queries with code", "answers with code", "relevant docs per nugget",
        "relevant docs per query",
    )  # fmt: skip
    return (
        f"## Statistics\n\n{table(header, rows)}\n"
        "The columns are those of Table 3 of the FreshStack paper (arXiv 2504.13128), with "
        "lengths in words; a doc is a chunk.\n"
    )


def _statistics_row(found: Statistics) -> list[str]:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.1%}"

    return [
        str(found.queries),
        str(found.chunks),
        str(found.sources),
        number(found.nuggets_per_query),
        number(found.query_words),
        number(found.answer_words),
        share(found.queries_with_code),
        share(found.answers_with_code),
        number(found.relevant_per_nugget),
        number(found.relevant_per_query),
    ]


def _limits(contents: Contents, manifest: Manifest) -> str:
    without_label = sum(judgment.label is None for judgment in contents.judgments)
    warning = ""
    if manifest.model.startswith(_BASELINE):
        warning = (
            f"- **{escape(manifest.model)} is a baseline that compares words and understands "
            "nothing. Its labels are good for a dry run and as a floor to compare judges with, "
            "not for choosing a retriever.**\n"
        )
    return (
        f"## Limits\n\n{warning}"
        "- Nuggets and labels are by a language model, not by people. How far they agree with "
        "people is unknown until it is measured: label a sample and compute the agreement.\n"
        "- Only pooled chunks were judged. A chunk without a label is unknown; the measures "
        "count it as not relevant, and report how many they met.\n"
        f"- Judgments that failed: {without_label}. They have no label and are counted, never "
        "made 0.\n"
    )


def _how_to_evaluate() -> str:
    return (
        "## How to evaluate a run\n\n"
        "A run is a TREC file: `query_id Q0 chunk_id rank score run_name` on each line.\n\n"
        "```sh\n"
        "freshstack evaluate path/to/this/folder path/to/run.txt\n"
        "```\n\n"
        "or, in Python:\n\n"
        "```python\n"
        "from freshstack_dspy.collection import Collection\n"
        "from freshstack_dspy.measures import evaluate, read_run\n\n"
        'collection = Collection.load("path/to/this/folder")\n'
        'evaluation = evaluate(collection.qrels(), read_run("path/to/run.txt"))\n'
        "print(evaluation.means)\n"
        "```\n"
    )


def attribution(queries: Sequence[Query]) -> str:
    """Write the section that says who wrote the questions and answers, and under which licence."""
    licences = Counter(
        source.licence if source else _UNKNOWN
        for query in queries
        for source in (query.question_source, query.answer_source)
    )
    rows = [
        (escape(query.query_id), escape(query.title), part, *_attribution_cells(source))
        for query in queries
        for part, source in (("question", query.question_source), ("answer", query.answer_source))
    ]
    licence_rows = [(escape(licence), str(licences[licence])) for licence in sorted(licences)]
    return (
        "## Attribution\n\n"
        "The questions and answers belong to their authors and may be passed on under these "
        "licences, with this table.\n\n"
        f"{table(('licence', 'texts'), licence_rows)}\n"
        f"{table(('query', 'title', 'text', 'author', 'address', 'licence'), rows)}"
    )


def _attribution_cells(source: Attribution | None) -> tuple[str, str, str]:
    if source is None:
        return _UNKNOWN, "", _UNKNOWN
    return escape(source.author), link(source.url), escape(source.licence)


def _corpus_sources(sources: Counter[_Source], licences: Sequence[LicenceFile]) -> str:
    rows = [
        (
            escape(source.name),
            escape(source.revision) or _UNKNOWN,
            str(sources[source]),
            ", ".join(escape(file.path) for file in licences if file.source == source.name),
        )
        for source in sorted(sources)
    ]
    return (
        "## Sources of the corpus\n\n"
        "Each is under its own licence; the texts of the files named here stand in "
        "licences.jsonl.\n\n"
        f"{table(('source', 'revision', 'chunks', 'licences and notices'), rows)}"
    )
