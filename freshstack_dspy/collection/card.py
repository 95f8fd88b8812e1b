"""All sections of the card, in their order."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any

from freshstack_dspy.collection.contents import SLICES, Contents
from freshstack_dspy.collection.counts import count_kinds, listed
from freshstack_dspy.collection.manifest import (
    Manifest,
    baseline_warning,
    exported_from,
    is_baseline,
)
from freshstack_dspy.collection.markdown import escape, link, table
from freshstack_dspy.collection.slices import SUPPORTED
from freshstack_dspy.records import (
    Attribution,
    Chunk,
    Query,
    QueryOrigin,
    Record,
    SkippedFile,
    SliceName,
)

UNKNOWN = "not recorded"
_BY_MODEL = "made by a model"


def attribution(queries: Sequence[Query]) -> str:
    """Write the section that says who wrote the questions and answers, and under which licence."""
    licences: Counter[str] = Counter()
    rows = []
    for query in queries:
        for part, source in (("question", query.question_source), ("answer", query.answer_source)):
            nobody = _BY_MODEL if query.origin == "synthetic" else UNKNOWN
            licences[source.licence if source else nobody] += 1
            rows.append(
                (escape(query.query_id), escape(query.title), part, *_cells(source, nobody))
            )
    licence_rows = [(escape(licence), str(licences[licence])) for licence in sorted(licences)]
    return (
        "## Attribution\n\n"
        "The questions and answers belong to their authors and may be passed on under these "
        "licences, with this table.\n\n"
        f"{table(('licence', 'texts'), licence_rows)}\n"
        f"{table(('query', 'title', 'text', 'author', 'address', 'licence'), rows)}"
    )


def _cells(source: Attribution | None, nobody: str) -> tuple[str, str, str]:
    if source is None:
        return nobody, "", nobody
    return escape(source.author), link(source.url), escape(source.licence)


Told = Mapping[str, Any]


def section(manifest: Manifest, name: str) -> Told:
    """Give one section of the configuration; an empty one where there is none."""
    value = manifest.config.get(name)
    return value if isinstance(value, dict) else {}


def sections(manifest: Manifest, name: str) -> Iterator[Told]:
    """Give every section of a name that stands several times."""
    value = manifest.config.get(name)
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            yield each


def said(value: object) -> str:
    """Say a value in a line of Markdown; nothing for what is empty or not set."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(said, value)))
    if isinstance(value, dict):
        return ", ".join(f"{escape(str(key))} {said(each)}" for key, each in value.items())
    return escape(str(value))


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


_BLOCK = re.compile(
    r"^ {0,3}(?:```|~~~)"  # a fence
    r"|(?:\A|\n[ \t]*\n)(?: {4}|\t)[ \t]*\S",  # an indented block
    re.MULTILINE,
)
_TICKS = re.compile(r"`+")


class Statistics(Record):
    """The statistics of some queries of a collection; a mean over nothing is None."""

    queries: int
    chunks: int
    """Chunks of the corpus."""
    sources: int
    """Repositories or folders of the corpus."""
    nuggets_per_query: float | None
    query_words: float | None
    """Mean length of title and body, in words between white space."""
    answer_words: float | None
    queries_with_code: float | None
    """Share of queries with a code block or code span in the Markdown, 0 to 1."""
    answers_with_code: float | None
    relevant_per_nugget: float | None
    """Mean number of chunks that support a nugget."""
    relevant_per_query: float | None
    """Mean number of chunks that support any nugget of a query."""


def collection_statistics(
    contents: Contents, slices: tuple[SliceName, ...], *, chunks: int, sources: int
) -> Statistics:
    """Describe the queries of some slices.

    Args:
        contents: The records of the collection.
        slices: Whose queries; those without nuggets are left out, as from every evaluation.
        chunks: How many chunks the corpus has.
        sources: How many sources they come from.
    """
    qrels = contents.qrels_of(slices).official()
    queries = [query for query in contents.queries if query.query_id in qrels.query_to_nuggets]

    def mean(measure: Callable[[Query], float]) -> float | None:
        return _mean(measure(query) for query in queries)

    return Statistics(
        queries=len(queries),
        chunks=chunks,
        sources=sources,
        nuggets_per_query=_mean(map(len, qrels.query_to_nuggets.values())),
        query_words=mean(lambda query: len(query.text.split())),
        answer_words=mean(lambda query: len(query.answer.split())),
        queries_with_code=mean(lambda query: holds_code(query.body)),
        answers_with_code=mean(lambda query: holds_code(query.answer)),
        relevant_per_nugget=_mean(sum(labels.values()) for labels in qrels.qrels_nuggets.values()),
        relevant_per_query=_mean(
            sum(count > 0 for count in counts.values()) for counts in qrels.qrels_query.values()
        ),
    )


def holds_code(markdown: str) -> bool:
    """Tell whether Markdown has a code block or a code span."""
    return _BLOCK.search(markdown) is not None or any(map(_holds_span, markdown.split("\n")))


def _holds_span(line: str) -> bool:
    """Tell whether two runs of backticks are of one length: what stands between them is code."""
    lengths = set()
    for run in _TICKS.finditer(line):
        length = run.end() - run.start()
        if length in lengths:
            return True
        lengths.add(length)
    return False


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None


_COUNTED = ("queries", "nuggets", "expansions", "pool", "judgments", "supported", "chunks")


def counts_section(contents: Contents, manifest: Manifest) -> str:
    """Count records, failures and slices."""
    counts = manifest.counts
    rows = [(f"`{name}`", f"{getattr(counts, name):,}") for name in _COUNTED]
    vital = sum(nugget.importance == "vital" for nugget in contents.nuggets)
    rated = sum(nugget.importance is not None for nugget in contents.nuggets)
    if rated:
        rows.append(("nuggets rated vital", f"{vital:,} of {rated:,}"))
    alike = sum(nugget.duplicate_of is not None for nugget in contents.nuggets)
    if alike:
        rows.append(("nuggets that nearly duplicate another", f"{alike:,}"))
    for step, by_status in sorted(counts.failures.items()):
        rows += [
            (f"failures: {step}, {status}", str(by_status[status])) for status in sorted(by_status)
        ]
    return f"## Counts\n\n{table(('what', 'number'), rows)}"


def statistics_section(contents: Contents, chunks: Sequence[Chunk], manifest: Manifest) -> str:
    """Describe the queries in the columns of the paper's Table 3."""
    names = len({chunk.source for chunk in chunks})
    rows = []
    for label, slices in (("supported", SUPPORTED), ("answerable", ("answerable",))):
        found = collection_statistics(contents, slices, chunks=len(chunks), sources=names)
        rows.append((label, *_row(found)))
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


def _row(found: Statistics) -> list[str]:
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


_LISTED = 20
_SLICES: dict[SliceName, str] = {
    "answerable": "every nugget has a supporting chunk",
    "partly_supported": "some nuggets have one",
    "unanswerable": "no nugget has one",
    "undetermined": "no nugget has one so far, and judgments failed or there are no nuggets",
}
_IN_PAPER: dict[SliceName, str] = {"partly_supported": "34.2%", "unanswerable": "11.8%"}
"""The share of the questions that the filters of the paper took out, on average (§4)."""


def slices_section(contents: Contents, manifest: Manifest) -> str:
    """Say how many queries are in each slice, and list those that are not answerable."""
    counts = manifest.counts
    titles = {query.query_id: query.title for query in contents.queries}
    rows, lists = [], []
    for name in SLICES:
        number = counts.slices[name]
        share = f"{number / counts.queries:.1%}" if counts.queries else "-"
        measured = "yes" if name in SUPPORTED else "no"
        rows.append(
            (f"`{name}`", _SLICES[name], f"{number:,}", share, _IN_PAPER.get(name, ""), measured)
        )
        parts = [part for part in contents.slices if part.slice == name]
        if parts and name in _IN_PAPER:
            listed = [
                (
                    escape(part.query_id),
                    escape(titles[part.query_id]),
                    f"{len(part.unsupported_nuggets)} of {part.nuggets}",
                )
                for part in parts[:_LISTED]
            ]
            lists.append(
                f"Of `{name}`, {'the first ' * (len(parts) > _LISTED)}{len(listed)} of "
                f"{len(parts):,}:\n\n{table(('query', 'title', 'unsupported nuggets'), listed)}"
            )
    header = ("slice", "queries where", "queries", "share", "paper", "measured by default")
    first = (
        f"## Slices\n\n{table(header, rows)}\n"
        "A query is measured on its supported nuggets. The FreshStack paper (§4) takes out "
        "queries with an unsupported nugget: its filter is `--slices answerable`.\n"
    )
    return "\n".join([first, *lists])


def agreement_section(contents: Contents) -> str:
    """Say how far labels depend on what else a call held; nothing where nothing was judged twice."""
    from freshstack_dspy.collection.self_agreement import batch_agreement, self_agreement

    rows = []
    if contents.single_judgments:
        alone = batch_agreement(contents)
        rows += [
            ("pairs judged in a call with others and alone", f"{alone.pairs:,}"),
            ("the same label both ways", _share(alone.exact.value)),
            ("Cohen's kappa of both ways", _number(alone.kappa.value)),
            ("the same as to support", _share(alone.support_exact.value)),
        ]
    votes = self_agreement(contents.judgments)
    if votes.pairs:
        rows += [
            ("pairs with several votes", f"{votes.pairs:,}"),
            ("two votes agree", _share(votes.agreement.value)),
            ("all votes agree", _share(votes.unanimous.value)),
        ]
    if not rows:
        return ""
    return (
        f"## Agreement of the judge\n\n{table(('what', 'value'), rows)}\n"
        "It says how steady the judge is, and not whether it is right.\n"
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


_SETTINGS = {
    "chunking": ("max_tokens",),
    "nuggets": ("limit", "importance"),
    "pool": ("techniques", "retrievers", "lists", "depth", "top_k"),
    "fusion": ("method", "weights"),
    "judge": ("shape", "batch", "window", "shuffle", "votes", "compare"),
}
"""The settings that shape the judgments and what is evaluated, by section of the configuration."""


def making_section(manifest: Manifest) -> str:
    """Say how the collection was made; of an imported one, that its model is not known."""
    asked = "the baseline" if is_baseline(manifest.model) else "the model"
    asking = f", asking {asked} **{escape(manifest.model)}**"
    if manifest.recipe.startswith("import:"):
        asking = ""
    earlier = ", ".join(map(escape, manifest.earlier_models))
    how = (
        "## How it was made\n\n"
        f"By the recipe **{escape(manifest.recipe)}** of freshstack_dspy{asking}.\n"
        "`manifest.json` has the configuration, the versions and the account of calls.\n"
        f"Labels are on the scale `{manifest.scale.name}`, and support from "
        f"{manifest.scale.threshold} on.\n"
        + (f"Some of what it holds may still be by {earlier}, asked before.\n" if earlier else "")
    )
    parts = [
        how,
        _settings(manifest),
        _prompts(manifest),
        _costs(manifest),
        _extensions(manifest),
    ]
    return "\n".join(part for part in parts if part)


def _settings(manifest: Manifest) -> str:
    rows = [
        (f"`{name}.{key}`", said(told[key]))
        for name, keys in _SETTINGS.items()
        for told in [section(manifest, name)]
        for key in keys
        if said(told.get(key))
    ]
    return table(("setting", "value"), rows) if rows else ""


def _prompts(manifest: Manifest) -> str:
    rows = [
        (escape(name), f"`{escape(manifest.prompts[name])}`") for name in sorted(manifest.prompts)
    ]
    return table(("signature", "SHA-256 of its prompt"), rows) if rows else ""


def _costs(manifest: Manifest) -> str:
    """What every reply cost when it was first asked for, so that a replay says the same."""
    rows = []
    requests, tokens, cost = 0, 0, 0.0
    for name in sorted(manifest.ledger):
        account = manifest.ledger[name]
        asked = account.calls + account.cached
        if asked:
            used, paid = account.tokens + account.cached_tokens, account.cost + account.cached_cost
            rows.append((escape(name), f"{asked:,}", f"{used:,}", f"${paid:.4f}"))
            requests, tokens, cost = requests + asked, tokens + used, cost + paid
    if not rows:
        return ""
    rows.append(("all", f"{requests:,}", f"{tokens:,}", f"${cost:.4f}"))
    header = ("step", "requests", "tokens", "US dollars")
    return (
        f"{table(header, rows)}\n"
        "These are the tokens that the provider counted and what they cost when they were first "
        "asked for, whether or not this build paid for them; 0 where nobody said.\n"
    )


def _extensions(manifest: Manifest) -> str:
    if not manifest.extensions:
        return ""
    rows = [
        (escape(one.run), str(one.depth), f"{one.judged:,}", escape(one.model), f"`{one.sha256}`")
        if one.sha256.isalnum()
        else (escape(one.run), str(one.depth), f"{one.judged:,}", escape(one.model), "")
        for one in manifest.extensions
    ]
    header = ("run", "depth", "pairs judged", "model", "SHA-256 of the run")
    return (
        f"It was extended with what these runs hold and nobody had judged:\n\n{table(header, rows)}"
    )


_DEPTHS = (1, 5, 10, 20, 50, 100)


def pool_section(contents: Contents, manifest: Manifest) -> str:
    """Leave each technique and retriever out, and cut the pool at a few depths.

    It is about the queries with nuggets that are answerable or partly supported; nothing is
    written where no record says who found what.
    """
    from freshstack_dspy.collection.diagnose import depth_curve, leave_one_out, pooled

    pool = pooled(contents, ("answerable", "partly_supported"))
    if not pool.candidates:
        return ""
    found = leave_one_out(pool)
    rows: list[tuple[str, ...]] = [
        (
            escape(loss.without),
            loss.kind,
            f"{loss.chunks:,}",
            f"{loss.relevant:,}",
            f"{loss.nuggets:,}",
        )
        for loss in found.without
    ]
    rows.append(
        ("(the whole pool)", "", f"{found.chunks:,}", f"{found.relevant:,}", f"{found.nuggets:,}")
    )
    header = ("without", "is a", "pooled chunks lost", "supporting ones", "supported nuggets")
    curve = {point.depth: point for point in depth_curve(pool)}
    shown = [curve[depth] for depth in sorted({*_DEPTHS, max(curve)} & curve.keys())]
    depths = [
        (
            str(point.depth),
            f"{point.chunks:,}",
            "-" if point.relevant_share is None else f"{point.relevant_share:.1%}",
            "-" if point.nugget_share is None else f"{point.nugget_share:.1%}",
        )
        for point in shown
    ]
    depth_header = ("depth", "chunks to judge", "supporting ones", "supported nuggets")
    return (
        "## The pool\n\n"
        f"Of the {len(pool.queries):,} queries with a supported nugget. What only one technique "
        "or retriever brought in would be missing without it:\n\n"
        f"{table(header, rows)}\n"
        "and a shallower pool would have found this much of it:\n\n"
        f"{table(depth_header, depths)}\n"
        "`freshstack diagnose` tells more of it.\n"
    )


_TAGS = 10
_CHOSEN = (
    "path", "site", "split", "tags", "all_tags", "exclude_tags", "since", "until", "min_score",
    "min_answer_score", "licences", "limit",
)  # fmt: skip
"""What of the query source's settings the card says, where it is set."""

_EXPORTED = {
    "collection": "exported from the collection",
    "content_hash": "its content hash",
    "recipe": "its recipe",
    "model": "the model that it asked",
}


def queries_section(contents: Contents, manifest: Manifest) -> str:
    """Say where the questions come from, from when they are, and what they are about."""
    queries = contents.queries
    told = section(manifest, "queries")
    rows = [("source", said(told.get("source")) or UNKNOWN)]
    rows += [(name, said(told[name])) for name in _CHOSEN if said(told.get(name))]
    imported = section(manifest, "import")
    if imported:
        rows = [("imported from the format", said(imported.get("format")) or UNKNOWN)]
        rows += [(_EXPORTED[name], escape(one)) for name, one in exported_from(manifest).items()]
    days = _days(queries)
    rows.append(("asked", f"{days[0]} to {days[-1]}" if days else UNKNOWN))
    if len(days) < len(queries) and days:
        rows.append(("without a date", str(len(queries) - len(days))))
    tags = Counter(tag for query in queries for tag in query.tags)
    if tags:
        most = sorted(tags, key=lambda tag: (-tags[tag], tag))[:_TAGS]
        named = ", ".join(f"{escape(tag)} ({tags[tag]})" for tag in most)
        others = f" and {len(tags) - _TAGS} others" if len(tags) > _TAGS else ""
        rows.append(("tags", named + others))
    rows.append(("queries", str(len(queries))))
    rows.append(("synthetic queries", str(manifest.counts.synthetic)))
    for reason, number in sorted(manifest.counts.rejected.items()):
        rows.append((f"questions left out: {escape(reason)}", str(number)))
    note = (
        "\nA synthetic query was made by the model from chunks of the corpus, and nobody asked it: "
        "its `origin` is `synthetic`, and its `seed_chunk_ids` name the chunks.\n"
        if manifest.counts.synthetic
        else ""
    )
    return f"## Source of the queries\n\n{table(('what', 'value'), rows)}{note}"


def corpus_section(contents: Contents, chunks: Sequence[Chunk], manifest: Manifest) -> str:
    """Say where each part of the corpus comes from, and under which licence."""
    told = {str(each.get("name")): each for each in sections(manifest, "corpus")}
    revisions: dict[str, set[str]] = defaultdict(set)
    counted: Counter[str] = Counter()
    for chunk in chunks:
        counted[chunk.source] += 1
        revisions[chunk.source].add(chunk.revision or UNKNOWN)
    skipped: dict[str, list[SkippedFile]] = defaultdict(list)
    for file in contents.skipped:
        skipped[file.source].append(file)
    rows = [
        (
            escape(name),
            _place(told.get(name, {})),
            ", ".join(map(escape, sorted(revisions[name] or {UNKNOWN}))),
            f"{counted[name]:,}",
            listed(count_kinds(skipped[name])),
            ", ".join(escape(file.path) for file in contents.licences if file.source == name),
        )
        for name in sorted({*told, *counted, *skipped})
    ]
    header = ("source", "from", "revision", "chunks", "files left out", "licences and notices")
    return (
        "## Sources of the corpus\n\n"
        "Each is under its own licence; the texts of the files named here stand in "
        "licences.jsonl. Why a file was left out is in skipped.jsonl.\n\n"
        f"{table(header, rows)}"
    )


def _place(told: Told) -> str:
    if url := told.get("url"):
        return link(str(url))
    if package := told.get("package"):
        return f"package {said(package)}"
    if path := told.get("path"):
        return f"{'repository' if told.get('revision') else 'path'} {said(path)}"
    return UNKNOWN


def _days(queries: Sequence[Query]) -> list[str]:
    """The days on which questions were asked, in order; what is no date is left out."""
    days = []
    for query in queries:
        try:
            days.append(datetime.fromisoformat(query.asked_at or "").date().isoformat())
        except ValueError:
            continue
    return sorted(days)


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
        slices_section(contents, manifest),
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
