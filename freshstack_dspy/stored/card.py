"""The data card: README.md of a collection, with its sources, counts, limits and attribution.

It holds no time and no version, and its costs are those of first asking for the replies, so the
same data, recipe and replies give the same card.
"""

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from statistics import fmean
from typing import Any, get_args

from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.measures.density import CHUNK_KINDS, ChunkKind, chunk_kinds
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.pages.page import Cell, Page, Span, Table, Text, Value, cut, percent, prose
from freshstack_dspy.records import (
    DRY_RUN,
    Attribution,
    Query,
    QueryOrigin,
    SliceName,
    in_order_of_steps,
)
from freshstack_dspy.stored.contents import (
    SLICES,
    SUPPORTED,
    Contents,
    count_kinds,
    listed,
    some_of,
)
from freshstack_dspy.stored.folder import GRADED, ChunkLengths
from freshstack_dspy.stored.manifest import (
    Manifest,
    by_hand,
    exported_from,
    is_baseline,
    is_dry_run,
    makers,
    trust_line,
)

CARD_FILE = "README.md"
UNKNOWN = "not recorded"
_ORIGINS: dict[QueryOrigin, str] = {
    "community": "questions of a community",
    "synthetic": "questions that a model made from the documents",
    "imported": "the questions of an imported collection",
}
_SHAPING = ("queries", "chunking", "nuggets", "pool", "fusion", "judge")
"""The sections of the configuration that are shown."""
_COUNTED = "queries nuggets expansions pool judgments supported evidence chunks".split()
_SLICES: dict[SliceName, str] = {
    "answerable": "every nugget has a supporting chunk",
    "partly_supported": "some nuggets have one",
    "unanswerable": "no nugget has one",
    "undetermined": "no nugget has one so far, and judgments failed",
    "without_nuggets": "there is no nugget: the answer states no fact, or was not cut into nuggets",
}
_TAGS = 10
_CODE = re.compile(
    r"^ {0,3}(?:```|~~~)"  # a fence
    r"|(?:\A|\n[ \t]*\n)(?: {4}|\t)[ \t]*\S"  # an indented block
    r"|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)",  # a span
    re.MULTILINE,
)
_LONGEST = 200
"""How much of other people's texts is shown."""
_HOW_TO_EVALUATE = Page(
    "How to evaluate a run",
    (
        prose("A run is a TREC file: `query_id Q0 chunk_id rank score run_name` on each line."),
        Text("freshstack evaluate path/to/this/folder path/to/run.txt", "code"),
        Text("or, in Python:"),
        Text(
            """\
from freshstack_dspy import Collection

collection = Collection.load("path/to/this/folder")
print(collection.evaluate("path/to/run.txt").means)""",
            "code",
        ),
    ),
)


def data_card(contents: Contents, chunks: ChunkFile, manifest: Manifest) -> str:
    """Write the data card, as Markdown."""
    return page_markdown(card_page(contents, chunks, manifest))


def card_page(
    contents: Contents, chunks: ChunkFile, manifest: Manifest, *, authors: bool = True
) -> Page:
    """Give the data card, with the table of authors or without."""
    warning = baseline_warning(manifest)
    origins = {query.origin for query in contents.queries}
    questions = " and ".join(text for origin, text in _ORIGINS.items() if origin in origins)
    from_chunks = any(nugget.chunk_ids for nugget in contents.nuggets)
    source = "the passages that retrieval found" if from_chunks else "their answers"
    about = (
        f"A judged test collection for retrieval: {questions or 'questions'}, nuggets (the atomic "
        f"facts of {source}), a corpus cut into chunks, and for each nugget the chunks that were "
        "judged to support it or not."
    )
    identity = (
        f"The identity of its data is `{manifest.content_hash}`; `manifest.json` has the hash of "
        "every file."
    )
    parts: tuple[Text | Table | Page, ...] = (
        *([Text(warning, "warning")] if warning else []),
        *(Text(about), prose(identity)),
        _facts("Source of the queries", _queries(contents.queries, manifest), "value"),
        _corpus(contents, chunks, manifest),
        Page("How it was made", tuple(_making(manifest))),
        _facts("Counts", _counts(contents, manifest), "number"),
        _statistics(contents, chunks),
        *_required(contents, chunks, manifest),
        _slices(contents, manifest),
        contamination(manifest),
        Page("Limits", tuple(prose(line, "item") for line in _limits(contents, manifest))),
        _HOW_TO_EVALUATE,
        *([attribution(contents.queries)] if authors else []),
    )
    return Page(manifest.name, parts, data=manifest)


def attribution(queries: Sequence[Query]) -> Page:
    """Give the section that says who wrote the questions and answers, and under which licence."""
    texts = []
    for query in queries:
        author = "made by a model" if query.origin == "synthetic" else UNKNOWN
        unknown = Attribution(author=author, url="", licence=author)
        texts.append((query, "question", query.question_source or unknown))
        if query.answer:
            texts.append((query, "answer", query.answer_source or unknown))
    columns: dict[str, Any] = {
        "query": lambda text: text[0].query_id,
        "title": lambda text: cut(text[0].title, _LONGEST),
        "text": lambda text: text[1],
        "author": lambda text: cut(text[2].author, _LONGEST),
        "address": lambda text: _link(text[2].url),
        "licence": lambda text: cut(text[2].licence, _LONGEST),
    }
    licences = Counter(by.licence for *_, by in texts)
    terms = (
        "The questions and answers belong to their authors and may be passed on under these "
        "licences, with this table."
    )
    counts = [(cut(licence, _LONGEST), licences[licence]) for licence in sorted(licences)]
    parts = Text(terms), Table(("licence", "texts"), counts), Table.of(texts, columns)
    return Page("Attribution", parts)


def baseline_warning(manifest: Manifest) -> str:
    """Warn, in one line, of labels that the baseline made; empty where there is none."""
    baselines = [model for model in makers(manifest) if is_baseline(model)]
    if not baselines:
        return ""
    return (
        f"{' and '.join(baselines)} is a baseline that counts words and understands nothing. "
        "The labels that it made are good for a dry run and as a floor to compare judges with; "
        "they are no ground for choosing a retriever."
    )


def _facts(title: str, facts: Mapping[str | Span, Cell], what: str) -> Page:
    """A table of the known values."""
    return Page(title, (Table(("what", what), [row for row in facts.items() if row[1]]),))


def _section(manifest: Manifest, name: str) -> dict[str, Any]:
    value = manifest.config.get(name)
    return value if isinstance(value, dict) else {}


def _link(url: str) -> Span | str:
    """An address as a link if it is a plain web address; a writer shows any other as text."""
    return Span(url, href=url) if len(url) <= _LONGEST else cut(url, _LONGEST)


def _share(number: int, total: int) -> str:
    return f"{number:,} of {total:,} ({number / total:.1%})" if total else UNKNOWN


def _dry_run(manifest: Manifest) -> list[Text]:
    """Begin a section with the warning that the baseline made the labels, if it did."""
    return [Text(f"{DRY_RUN}.")] if is_dry_run(manifest) else []


def _queries(queries: Sequence[Query], manifest: Manifest) -> dict[str | Span, Cell]:
    imported, counts = _section(manifest, "import"), manifest.counts
    days = sorted(filter(None, map(_day, queries)))
    tags = Counter(tag for query in queries for tag in query.tags)
    most = sorted(tags, key=lambda tag: (-tags[tag], tag))
    named = [f"{cut(tag, _LONGEST)} ({tags[tag]})" for tag in most[:_TAGS]]
    others = f" and {len(tags) - _TAGS} others" if len(tags) > _TAGS else ""
    languages = Counter(query.language or "undetermined" for query in queries)
    spoken = [f"{name} ({languages[name]})" for name in sorted(languages)]
    return {
        "source": cut(str(_section(manifest, "queries").get("source", UNKNOWN)), _LONGEST),
        "imported from the format": cut(str(imported.get("format", "")), _LONGEST),
        **{
            f"{name} of the export": cut(value, _LONGEST)
            for name, value in exported_from(manifest).items()
        },
        "asked": f"{days[0]} to {days[-1]}" if days else UNKNOWN,
        "without a date": len(queries) - len(days) if days else None,
        "tags": ", ".join(named) + others,
        "languages": ", ".join(spoken) if {*languages} != {"undetermined"} else "",
        "queries": len(queries),
        "synthetic queries": str(counts.synthetic),
        **{
            f"questions left out: {cut(reason, _LONGEST)}": number
            for reason, number in sorted(counts.rejected.items())
        },
    }


def _day(query: Query) -> str | None:
    try:
        return datetime.fromisoformat(query.asked_at or "").date().isoformat()
    except ValueError:
        return None


def _corpus(contents: Contents, chunks: ChunkFile, manifest: Manifest) -> Page:
    configured: Any = manifest.config.get("corpus")
    places: dict[str, Any] = {
        str(each.get("name")): each
        for each in (configured if isinstance(configured, list) else ())
        if isinstance(each, dict)
    }
    sources, skipped = chunks.sources, contents.skipped

    def source_row(name: str) -> tuple[Cell, ...]:
        revisions = {revision or UNKNOWN for source, revision in sources if source == name}
        left_out = count_kinds(file for file in skipped if file.source == name)
        licences = (file.path for file in contents.licences if file.source == name)
        return (
            cut(name, _LONGEST),
            _place(places.get(name, {})),
            cut(", ".join(sorted(revisions or {UNKNOWN})), _LONGEST),
            sum(number for (source, _), number in sources.items() if source == name),
            listed(left_out),
            ", ".join(cut(path, _LONGEST) for path in licences),
        )

    about = (
        "Each is under its own licence; the texts of the files named here are in licences.jsonl. "
        "Why a file was left out is in skipped.jsonl."
    )
    names = {*places, *(source for source, _ in sources), *(file.source for file in skipped)}
    header = ("source", "from", "revision", "chunks", "files left out", "licences and notices")
    return Page(
        "Sources of the corpus", (Text(about), Table(header, [*map(source_row, sorted(names))]))
    )


def _place(settings: dict[str, Any]) -> Span | str:
    kind = next((kind for kind in ("url", "package", "path") if settings.get(kind)), "")
    place = str(settings.get(kind, UNKNOWN))
    return _link(place) if kind == "url" else cut(f"{kind} {place}".strip(), _LONGEST)


def _making(manifest: Manifest) -> Iterator[Text | Table]:
    by: tuple[Span | str, ...] = ()
    if not manifest.recipe.startswith("import:"):
        asked = "the baseline" if is_baseline(manifest.model) else "the model"
        by = (f", asking {asked} ", Span(manifest.model, "strong"))
    if len({*chain(*manifest.models.values())}) > 1:
        by = (f", asking {_models(manifest)}",)
    yield Text(("By the recipe ", Span(manifest.recipe, "strong"), " of freshstack_dspy", *by, "."))
    yield prose("`manifest.json` has the configuration, the versions and the account of calls.")
    scale = manifest.scale
    yield prose(f"Labels are on the scale `{scale.name}`, and support from {scale.threshold} on.")
    if names := _grading_own_words(manifest):
        yield Text(
            f"{names} grades its own words: it wrote what is asked and what answers it, and judged "
            "it too."
        )
    if earlier := ", ".join(manifest.earlier_models):
        yield Text(f"Some of what it holds may still be by {earlier}, asked before.")
    if projected := _section(manifest, "rechunked"):
        collection = cut(str(projected.get("collection")), _LONGEST)
        yield prose(
            f"Its files were cut anew: its labels are those of the collection {collection} "
            f"(`{projected.get('content_hash')}`), moved to the chunks that hold their evidence; "
            f"{projected.get('lost')} labels of support were lost."
        )
    sections = {name: _section(manifest, name) for name in _SHAPING}
    settings = {
        name: {key: value for key, value in section.items() if value not in (None, "", [], {})}
        for name, section in sections.items()
        if section
    }
    if settings:  # in ASCII, and without what opens a tag
        lines = [f"{name} = {json.dumps(section)}" for name, section in settings.items()]
        yield Text("\n".join(lines).replace("<", "\\u003c"), "code")
    if manifest.prompts:
        prompts = [(name, Span(hash_, "code")) for name, hash_ in sorted(manifest.prompts.items())]
        yield Table(("signature", "SHA-256 of its prompt"), prompts, keys=2)
    yield from costs(manifest)
    if manifest.extensions:
        yield Text("It was extended with the unjudged chunks of these runs:")
        columns: dict[str, Any] = {
            "run": "run",
            "depth": "depth",
            "pairs judged": "judged",
            "model": "model",
            "SHA-256 of the run": lambda run: Span(run.sha256, "code"),
        }
        yield Table.of(manifest.extensions, columns)


def _models(manifest: Manifest) -> str:
    """The models with the steps that each answered in."""
    steps: dict[str, list[str]] = {}
    for step in in_order_of_steps(manifest.models):
        for name in manifest.models[step]:
            steps.setdefault(name, []).append(step.replace("_", " "))
    return ", ".join(f"{name} ({', '.join(step_names)})" for name, step_names in steps.items())


def _grading_own_words(manifest: Manifest) -> str:
    """The models that wrote questions or passages and judged them."""
    writers = {*manifest.models.get("passages", ())}
    if _section(manifest, "queries").get("source") == "synthetic":
        own = _section(manifest, "synthesis").get("model") or _section(manifest, "model")
        writers.add(str(own.get("name")))
    both = writers.intersection(manifest.models.get("support", ()))
    return " and ".join(sorted(name for name in both if not is_baseline(name)))


def costs(manifest: Manifest) -> Iterator[Text | Table]:
    """The cost of first asking for every reply, so that a replay says the same."""
    rows = [
        (
            name,
            usage.calls + usage.cached,
            usage.tokens + usage.cached_tokens,
            usage.cost + usage.cached_cost,
        )
        for name, usage in sorted(manifest.ledger.items())
        if usage.calls + usage.cached
    ]
    if not rows:
        return
    _, *numbers = zip(*rows, strict=True)
    requests, tokens, cost = map(sum, numbers)
    yield Table(
        ("step", "requests", "tokens", "US dollars"), [*rows, ("all", requests, tokens, cost)]
    )
    yield Text(
        "These are the tokens that the provider counted and what they cost when they were first "
        "asked for, whether or not this build paid for them; 0 where it is unknown."
    )


def _counts(contents: Contents, manifest: Manifest) -> dict[str | Span, Cell]:
    counts, nuggets = manifest.counts, contents.nuggets
    rated = Counter(nugget.importance for nugget in nuggets if nugget.importance)
    alike = sum(nugget.duplicate_of is not None for nugget in nuggets)
    return {
        **{Span(name, "code"): f"{getattr(counts, name):,}" for name in _COUNTED},
        "nuggets rated vital": f"{rated['vital']:,} of {rated.total():,}" if rated else "",
        "doubtful nuggets, which are not judged": sum(nugget.doubtful for nugget in nuggets),
        "nuggets that nearly duplicate another": alike,
        **{
            f"failures: {step}, {status}": number
            for step, by_status in sorted(counts.failures.items())
            for status, number in sorted(by_status.items())
        },
    }


def _statistics(contents: Contents, chunks: ChunkFile) -> Page:
    kinds: dict[str, Sequence[SliceName]] = {"supported": SUPPORTED, "answerable": ("answerable",)}
    tokens = functools.cache(functools.partial(count_tokens, vocabulary="o200k_base"))
    rows = [
        {"queries are": name, **_statistics_of(contents, chunks, slices, tokens)}
        for name, slices in kinds.items()
    ]
    note = (
        "The columns are those of Table 3 of the FreshStack paper (arXiv 2504.13128), and the "
        "lengths of nuggets and docs. Tokens are GPT-4o's (o200k_base), as there; those of docs, "
        "which are chunks, are of cl100k_base, by which they are cut."
    )
    return Page(
        "Statistics", (Table(tuple(rows[0]), [tuple(row.values()) for row in rows]), Text(note))
    )


def _statistics_of(
    contents: Contents,
    chunks: ChunkFile,
    slices: Sequence[SliceName],
    tokens: Callable[[str], int],
) -> dict[str, Cell]:
    qrels = contents.qrels_of(slices).official()
    queries = [query for query in contents.queries if query.query_id in qrels.query_to_nuggets]
    ids = set(chain.from_iterable(qrels.query_to_nuggets.values()))
    nuggets = (nugget.text for nugget in contents.nuggets if nugget.nugget_id in ids)

    def mean(values: Iterable[float], form: str = ".1f") -> Value:
        numbers = list(values)
        return Value(fmean(numbers) if numbers else None, form=form)

    return {
        "#queries": len(queries),
        "#docs": len(chunks),
        "#sources": len({source for source, _ in chunks.sources}),
        "nuggets per query": mean(map(len, qrels.query_to_nuggets.values())),
        "query tokens": mean(tokens(query.text) for query in queries),
        "answer tokens": mean(tokens(query.answer) for query in queries),
        "nugget tokens": mean(map(tokens, nuggets)),
        "doc tokens": Value(float(chunks.tokens.mean()) if len(chunks) else None, form=".1f"),
        "queries with code": mean(map(_has_code, (query.body for query in queries)), ".1%"),
        "answers with code": mean(map(_has_code, (query.answer for query in queries)), ".1%"),
        "relevant docs per nugget": mean(
            sum(labels.values()) for labels in qrels.qrels_nuggets.values()
        ),
        "relevant docs per query": mean(
            sum(n > 0 for n in counts.values()) for counts in qrels.qrels_query.values()
        ),
    }


def _required(contents: Contents, chunks: ChunkFile, manifest: Manifest) -> Iterator[Page]:
    """The statistics of CRUX's Table 4: how many judged chunks are required, and how long they are."""
    if manifest.recipe in GRADED or not contents.query_ids():
        return
    qrels = contents.qrels_of(tokens=ChunkLengths(chunks))
    judged = [qrels.judged(query_id) for query_id in qrels.nuggets]
    kinds = [chunk_kinds(sorted(of_query.chunks), of_query) for of_query in judged]
    lengths: dict[ChunkKind, list[int]] = {
        kind: [qrels.tokens.get(id_, 0) for of_query in kinds for id_ in of_query[kind]]
        for kind in get_args(ChunkKind)
        if kind != "unjudged"
    }

    def row(kind: ChunkKind) -> tuple[Cell, ...]:
        tokens, a_query = lengths[kind], Value(len(lengths[kind]) / len(kinds), form=".1f")
        return (
            CHUNK_KINDS[kind],
            len(tokens),
            a_query,
            Value(sum(tokens) / len(kinds) if all(tokens) else None, form=",.0f"),
        )

    note = (
        "The required chunks of a query support all of its supported nuggets together; they are "
        "chosen greedily, as P** of CRUX (arXiv 2506.20051, Table 4). The others that support a "
        "nugget are redundant."
    )
    if manifest.recipe == "crux":
        queries = [query for query in contents.queries if query.query_id in qrels.nuggets]
        texts = {
            "query": [query.text for query in queries],
            "sub-question": [
                each.text for each in contents.nuggets if each.query_id in qrels.nuggets
            ],
            "report": [query.answer for query in queries],
        }
        tokens = {what: [*map(count_tokens, of_all)] for what, of_all in texts.items()}
        tokens["judged passage"] = [*chain(*lengths.values())]
        means = (f"{what} {fmean(numbers):,.0f}" for what, numbers in tokens.items())
        note += f" Mean tokens: {', '.join(means)}."
    columns = ("judged chunks", "number", "a query", "tokens a query")
    yield Page("Required and redundant chunks", (Table(columns, [*map(row, lengths)]), Text(note)))


def _has_code(text: str) -> bool:
    return _CODE.search(text) is not None


def _slices(contents: Contents, manifest: Manifest) -> Page:
    counts = manifest.counts
    columns: dict[str, Any] = {
        "slice": lambda name: Span(name, "code"),
        "queries where": _SLICES.get,
        "queries": counts.slices.get,
        "share": lambda name: percent(counts.slices[name] / (counts.queries or 1)),
        "measured by default": lambda name: "yes" if name in SUPPORTED else "no",
    }
    without = some_of(part.query_id for part in contents.slices if not part.nuggets)
    about = prose(
        "A query is measured on its supported nuggets. The FreshStack paper (§4) takes out queries "
        "with an unsupported nugget, on average 34.2% with some and 11.8% with all unsupported: its "
        "filter is `--slices answerable`. `freshstack show path/to/this/folder` lists the queries "
        "with their slices."
    )
    bare = [Text(f"Queries without nuggets: {without}.")] if without else []
    return Page("Slices", (Table.of(SLICES, columns), about, *bare))


def contamination(manifest: Manifest) -> Page:
    """Say how far the model knows the queries without the corpus."""
    counts, settings = manifest.counts.contamination, _section(manifest, "contamination")
    queries = manifest.counts.queries if settings else 0
    cutoff, words = settings.get("cutoff"), cut(str(settings.get("ngram", "n")), _LONGEST)
    until = f", {cut(str(cutoff), _LONGEST)}" if cutoff else ""
    asked = f"queries asked up to the model's cut-off{until}"
    dated = counts.before_cutoff + counts.after_cutoff
    shared = f"queries that share {words} words in a row with a supporting chunk"
    rows = [
        ("nuggets that the closed-book answers support", _share(counts.known, counts.nuggets)),
        (
            "queries of which half the nuggets or more are known",
            _share(counts.contaminated, counts.scored),
        ),
        (asked, _share(counts.before_cutoff, dated)),
        (shared, _share(counts.overlapping, queries)),
        ("queries that nearly duplicate another", _share(counts.near_duplicates, queries)),
    ]
    about = "What a model knows of a query without the corpus, no retriever has to find."
    if by_hand(manifest, "closed_book_answer"):
        rows = rows[2:]
        about = (
            "The closed-book answers are an agent's, which may have read the documents, so that they "
            "do not say what a model knows."
        )
    elif counts.scored:
        about += (
            " With `--exclude-contaminated` a run is evaluated a second time, without the queries "
            "that the model can answer without the corpus."
        )
    note = prose(f"{about} `contamination.jsonl` has the numbers of every query.")
    return Page("Contamination", (*_dry_run(manifest), Table(("what", "number"), rows), note))


def _limits(contents: Contents, manifest: Manifest) -> Iterator[str]:
    """Who made the labels, how far people agree with them, and what they lack."""
    from freshstack_dspy.stored.diagnose import from_passages

    counts = manifest.counts
    if not makers(manifest):
        yield "Nuggets and labels are those of the imported collection; who made them, it says itself."
    elif is_dry_run(manifest):
        yield "Some labels are by a program that counts words, neither by people nor by a language model."
    else:
        yield f"Labels are by {' and '.join(makers(manifest))}, not by people."
    trust = trust_line(manifest)
    hint = " Label a sample (`freshstack sample`, `freshstack label`), and compare: `freshstack agree`."
    yield f"{trust[0].upper()}{trust[1:]}.{'' if manifest.trust else hint}"
    yield (
        "Only pooled chunks were judged. A chunk without a label is unknown; the measures count it "
        "as not relevant, and report how many they met. `freshstack diagnose` says what each "
        "technique and retriever brought in, and what the pool may lack."
    )
    yield f"Judgments that failed: {counts.unlabelled}. They have no label and are counted, never made 0."
    yield f"Evidence: {counts.missing_evidence}."
    if not is_dry_run(manifest) and (missing := from_passages(contents)):
        yield f"{missing}."
    if counts.shared:
        yield (
            f"Judgments of chunks that say the same as another, which was judged: {counts.shared:,}. "
            "`same_as` names that one."
        )
    if counts.followed:
        yield (
            "Labels of support that followed their evidence into a chunk that was edited, and that "
            f"the judge has not seen: {counts.followed:,}. `followed_from` names what was judged."
        )
