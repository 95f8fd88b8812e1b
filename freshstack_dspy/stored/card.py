"""The data card: README.md of a collection, with its sources, counts, limits and attribution."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from statistics import fmean
from typing import Any

from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.pages.page import Cell, Page, Span, Table, Text, Value, cut, percent, prose
from freshstack_dspy.records import (
    DRY_RUN,
    Attribution,
    Query,
    QueryOrigin,
    SkippedFile,
    SliceName,
    in_order_of_steps,
)
from freshstack_dspy.stored.contents import SLICES, Contents
from freshstack_dspy.stored.counts import count_kinds, listed, some_of
from freshstack_dspy.stored.manifest import (
    NOT_MEASURED,
    Manifest,
    exported_from,
    is_baseline,
    is_dry_run,
    makers,
)
from freshstack_dspy.stored.slices import SUPPORTED

CARD_FILE = "README.md"
UNKNOWN = "not recorded"
_ORIGINS: dict[QueryOrigin, str] = {
    "community": "questions of a community",
    "synthetic": "questions that a model made from the documents",
    "imported": "the questions of an imported collection",
}
_QUERY_SETTINGS = (
    "path", "site", "split", "tags", "all_tags", "exclude_tags", "since", "until", "min_score",
    "min_answer_score", "licences", "limit",
)  # fmt: skip
_SHAPING = ("chunking", "nuggets", "pool", "fusion", "judge")
"""The sections of the configuration that shape the pool and the judgments."""
_COUNTED = (
    "queries",
    "nuggets",
    "expansions",
    "pool",
    "judgments",
    "supported",
    "evidence",
    "chunks",
)
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
"""How much is shown of a text of others."""
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
    """Give the data card, with the table of authors or without.

    It holds no time and no version, and its costs are what the replies cost when they were first
    asked for: the same data by the same recipe from the same replies has the same card.
    """
    warning = baseline_warning(manifest)
    parts: tuple[Text | Table | Page, ...] = (
        *([Text(warning, "warning")] if warning else []),
        *_heading(contents, manifest),
        _queries(contents.queries, manifest),
        _corpus(contents, chunks, manifest),
        Page("How it was made", tuple(_making(manifest))),
        _counts(contents, manifest),
        _statistics(contents, chunks),
        _slices(contents, manifest),
        contamination(manifest),
        *_pool(contents, manifest),
        Page("Limits", tuple(prose(line, "item") for line in _limits(contents, manifest))),
        _HOW_TO_EVALUATE,
        *([attribution(contents.queries)] if authors else []),
    )
    return Page(manifest.name, parts, data=manifest)


def attribution(queries: Sequence[Query]) -> Page:
    """Give the section that says who wrote the questions and answers, and under which licence."""
    licences: Counter[str] = Counter()
    rows: list[tuple[Cell, ...]] = []
    for query in queries:
        author = "made by a model" if query.origin == "synthetic" else UNKNOWN
        unknown = Attribution(author=author, url="", licence=author)
        parts = ("question", query.question_source), ("answer", query.answer_source)
        for part, source in parts[: 1 + bool(query.answer)]:
            by = source or unknown
            licences[by.licence] += 1
            cells = cut(by.author, _LONGEST), _link(by.url), cut(by.licence, _LONGEST)
            rows.append((query.query_id, cut(query.title, _LONGEST), part, *cells))
    return Page(
        "Attribution",
        (
            Text(
                "The questions and answers belong to their authors and may be passed on under "
                "these licences, with this table."
            ),
            Table(
                ("licence", "texts"),
                [(cut(licence, _LONGEST), licences[licence]) for licence in sorted(licences)],
            ),
            Table(("query", "title", "text", "author", "address", "licence"), rows),
        ),
    )


def baseline_warning(manifest: Manifest) -> str:
    """Warn, in one line, of labels that the baseline made; empty where there is none."""
    found = [model for model in makers(manifest) if is_baseline(model)]
    if not found:
        return ""
    return (
        f"{' and '.join(found)} is a baseline that counts words and understands nothing. "
        "The labels that it made are good for a dry run and as a floor to compare judges with; "
        "they are no ground for choosing a retriever."
    )


def _dry_run(manifest: Manifest) -> list[Text]:
    """Say first in a section that nothing is concluded, where the baseline labelled."""
    return [Text(f"{DRY_RUN}.")] if is_dry_run(manifest) else []


def _section(manifest: Manifest, name: str) -> dict[str, Any]:
    value = manifest.config.get(name)
    return value if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    """A setting in a line; nothing for what is empty or not set."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(_shown, value)))
    if isinstance(value, dict):
        return ", ".join(f"{cut(str(key), _LONGEST)} {_shown(each)}" for key, each in value.items())
    return cut(str(value), _LONGEST)


def _link(url: str) -> Span | str:
    """An address as a link if it is a plain web address; a writer shows any other as text."""
    return Span(url, href=url) if len(url) <= _LONGEST else cut(url, _LONGEST)


def _in_code(shown: str) -> Span:
    return Span(shown, "code")


def _share(number: int, of: int) -> str:
    return f"{number:,} of {of:,} ({number / of:.1%})" if of else UNKNOWN


def _heading(contents: Contents, manifest: Manifest) -> Iterator[Text]:
    origins = {query.origin for query in contents.queries}
    made_of = " and ".join(text for origin, text in _ORIGINS.items() if origin in origins)
    from_chunks = any(one.chunk_ids for one in contents.nuggets)
    source = "the passages that retrieval found" if from_chunks else "their answers"
    yield Text(
        f"A judged test collection for retrieval: {made_of or 'questions'}, nuggets (the atomic "
        f"facts of {source}), a corpus cut into chunks, and for each nugget the "
        "chunks that were judged to support it or not."
    )
    yield prose(
        f"The identity of its data is `{manifest.content_hash}`; `manifest.json` has the hash of "
        "every file."
    )


def _queries(queries: Sequence[Query], manifest: Manifest) -> Page:
    from freshstack_dspy.questions.selection import is_in_image

    settings = _section(manifest, "queries")
    rows = [("source", _shown(settings.get("source")) or UNKNOWN)]
    rows += [(name, text) for name in _QUERY_SETTINGS if (text := _shown(settings.get(name)))]
    if imported := _section(manifest, "import"):
        rows = [("imported from the format", _shown(imported.get("format")) or UNKNOWN)]
        rows += [
            (f"{name} of the export", cut(one, _LONGEST))
            for name, one in exported_from(manifest).items()
        ]
    days = sorted(filter(None, map(_day, queries)))
    rows.append(("asked", f"{days[0]} to {days[-1]}" if days else UNKNOWN))
    if 0 < len(days) < len(queries):
        rows.append(("without a date", str(len(queries) - len(days))))
    if tags := Counter(tag for query in queries for tag in query.tags):
        most = sorted(tags, key=lambda tag: (-tags[tag], tag))[:_TAGS]
        named = ", ".join(f"{cut(tag, _LONGEST)} ({tags[tag]})" for tag in most)
        others = f" and {len(tags) - _TAGS} others" if len(tags) > _TAGS else ""
        rows.append(("tags", named + others))
    if languages := Counter(query.language for query in queries if query.language):
        named = ", ".join(f"{name} ({languages[name]})" for name in sorted(languages))
        unknown = len(queries) - languages.total()
        rows.append(("languages", named + f"; undetermined ({unknown})" * bool(unknown)))
    rows.append(("queries", str(len(queries))))
    rows.append(("synthetic queries", str(manifest.counts.synthetic)))
    if in_images := sum(is_in_image(query.body) for query in queries):
        rows.append(("queries whose content is in an image", str(in_images)))
    for reason, number in sorted(manifest.counts.rejected.items()):
        rows.append((f"questions left out: {cut(reason, _LONGEST)}", str(number)))
    return Page("Source of the queries", (Table(("what", "value"), rows),))


def _day(query: Query) -> str | None:
    try:
        return datetime.fromisoformat(query.asked_at or "").date().isoformat()
    except ValueError:
        return None


def _corpus(contents: Contents, chunks: ChunkFile, manifest: Manifest) -> Page:
    configured: Any = manifest.config.get("corpus")
    places = {
        str(each.get("name")): each
        for each in (configured if isinstance(configured, list) else ())
        if isinstance(each, dict)
    }
    counted: Counter[str] = Counter()
    revisions: dict[str, set[str]] = defaultdict(set)
    for (source, revision), number in chunks.sources.items():
        counted[source] += number
        revisions[source].add(revision or UNKNOWN)
    skipped: dict[str, list[SkippedFile]] = defaultdict(list)
    for file in contents.skipped:
        skipped[file.source].append(file)
    rows = [
        (
            cut(name, _LONGEST),
            _place(places.get(name, {})),
            cut(", ".join(sorted(revisions[name] or {UNKNOWN})), _LONGEST),
            counted[name],
            listed(count_kinds(skipped[name])),
            ", ".join(
                cut(file.path, _LONGEST) for file in contents.licences if file.source == name
            ),
        )
        for name in sorted({*places, *counted, *skipped})
    ]
    header = ("source", "from", "revision", "chunks", "files left out", "licences and notices")
    return Page(
        "Sources of the corpus",
        (
            Text(
                "Each is under its own licence; the texts of the files named here are in "
                "licences.jsonl. Why a file was left out is in skipped.jsonl."
            ),
            Table(header, rows),
        ),
    )


def _place(settings: dict[str, Any]) -> Span | str:
    if url := settings.get("url"):
        return _link(str(url))
    if package := settings.get("package"):
        return f"package {_shown(package)}"
    if path := settings.get("path"):
        return f"{'repository' if settings.get('revision') else 'path'} {_shown(path)}"
    return UNKNOWN


def _models(manifest: Manifest) -> str:
    """The models with the steps that each answered in."""
    steps: dict[str, list[str]] = {}
    for step in in_order_of_steps(manifest.models):
        for name in manifest.models[step]:
            steps.setdefault(name, []).append(step.replace("_", " "))
    return ", ".join(f"{name} ({', '.join(of)})" for name, of in steps.items())


def _grading_own_words(manifest: Manifest) -> str:
    """The models that wrote questions or passages and judged them."""
    writers = {*manifest.models.get("passages", ())}
    if _section(manifest, "queries").get("source") == "synthetic":
        own = _section(manifest, "synthesis").get("model") or _section(manifest, "model")
        writers.add(str(own.get("name")))
    both = writers.intersection(manifest.models.get("support", ()))
    return " and ".join(sorted(name for name in both if not is_baseline(name)))


def _making(manifest: Manifest) -> Iterator[Text | Table]:
    asked = "the baseline" if is_baseline(manifest.model) else "the model"
    imported = manifest.recipe.startswith("import:")
    by: tuple[Span | str, ...] = ()
    if not imported:
        by = (f", asking {asked} ", Span(manifest.model, "strong"))
    if len({*chain(*manifest.models.values())}) > 1:
        by = (f", asking {_models(manifest)}",)
    recipe = Span(manifest.recipe, "strong")
    yield Text(("By the recipe ", recipe, " of freshstack_dspy", *by, "."))
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
    settings = [
        (f"{name}.{cut(key, _LONGEST)}", shown)
        for name in _SHAPING
        for key, value in sorted(_section(manifest, name).items())
        if (shown := _shown(value))
    ]
    if settings:
        yield Table(("setting", "value"), settings)
    if manifest.prompts:
        prompts = [(name, _in_code(hash_)) for name, hash_ in sorted(manifest.prompts.items())]
        yield Table(("signature", "SHA-256 of its prompt"), prompts, keys=2)
    yield from costs(manifest)
    if manifest.extensions:
        yield Text("It was extended with the unjudged chunks of these runs:")
        yield Table(
            ("run", "depth", "pairs judged", "model", "SHA-256 of the run"),
            [
                (one.run, one.depth, one.judged, one.model, _in_code(one.sha256))
                for one in manifest.extensions
            ],
        )


def costs(manifest: Manifest) -> Iterator[Text | Table]:
    """What every reply cost when it was first asked for, so that a replay says the same."""
    accounts = {
        name: (
            one.calls + one.cached,
            one.tokens + one.cached_tokens,
            one.cost + one.cached_cost,
        )
        for name, one in sorted(manifest.ledger.items())
        if one.calls + one.cached
    }
    if not accounts:
        return
    requests, tokens, cost = map(sum, zip(*accounts.values(), strict=True))
    rows = [
        (name, made, used, Value(paid))
        for name, (made, used, paid) in [*accounts.items(), ("all", (requests, tokens, cost))]
    ]
    yield Table(("step", "requests", "tokens", "US dollars"), rows)
    yield Text(
        "These are the tokens that the provider counted and what they cost when they were first "
        "asked for, whether or not this build paid for them; 0 where it is unknown."
    )


def _counts(contents: Contents, manifest: Manifest) -> Page:
    from freshstack_dspy.stored.diagnose import self_agreement

    rows: list[tuple[str | Span, str | int | Value]] = [
        (_in_code(name), getattr(manifest.counts, name)) for name in _COUNTED
    ]
    rated = Counter(nugget.importance for nugget in contents.nuggets if nugget.importance)
    if rated:
        rows.append(("nuggets rated vital", f"{rated['vital']:,} of {rated.total():,}"))
    if doubtful := sum(nugget.doubtful for nugget in contents.nuggets):
        rows.append(("doubtful nuggets, which are not judged", doubtful))
    if alike := sum(nugget.duplicate_of is not None for nugget in contents.nuggets):
        rows.append(("nuggets that nearly duplicate another", alike))
    rows += [
        (f"failures: {step}, {status}", number)
        for step, by_status in sorted(manifest.counts.failures.items())
        for status, number in sorted(by_status.items())
    ]
    votes = self_agreement(contents.judgments)
    if votes.agreement.value is not None and votes.unanimous.value is not None:
        rows += [
            ("pairs with several votes", votes.pairs),
            ("two votes agree", percent(votes.agreement.value)),
            ("all votes agree", percent(votes.unanimous.value)),
        ]
    return Page("Counts", (Table(("what", "number"), rows),))


def _statistics(contents: Contents, chunks: ChunkFile) -> Page:
    header = (
        "queries are", "#queries", "#docs", "#sources", "nuggets per query", "query words",
        "answer words", "queries with code", "answers with code", "relevant docs per nugget",
        "relevant docs per query",
    )  # fmt: skip
    kinds: dict[str, Sequence[SliceName]] = {"supported": SUPPORTED, "answerable": ("answerable",)}
    rows = [(name, *_statistics_of(contents, chunks, slices)) for name, slices in kinds.items()]
    note = (
        "The columns are those of Table 3 of the FreshStack paper (arXiv 2504.13128), with "
        "lengths in words; a doc is a chunk."
    )
    return Page("Statistics", (Table(header, rows), Text(note)))


def _statistics_of(
    contents: Contents, chunks: ChunkFile, slices: Sequence[SliceName]
) -> list[int | Value]:
    qrels = contents.qrels_of(slices).official()
    queries = [query for query in contents.queries if query.query_id in qrels.query_to_nuggets]

    def mean(values: Iterable[float], form: str = ".1f") -> Value:
        found = list(values)
        return Value(fmean(found) if found else None, form=form)

    return [
        len(queries),
        len(chunks),
        len({source for source, _ in chunks.sources}),
        mean(map(len, qrels.query_to_nuggets.values())),
        mean(len(query.text.split()) for query in queries),
        mean(len(query.answer.split()) for query in queries),
        mean((_CODE.search(query.body) is not None for query in queries), ".1%"),
        mean((_CODE.search(query.answer) is not None for query in queries), ".1%"),
        mean(sum(labels.values()) for labels in qrels.qrels_nuggets.values()),
        mean(sum(n > 0 for n in counts.values()) for counts in qrels.qrels_query.values()),
    ]


def _slices(contents: Contents, manifest: Manifest) -> Page:
    counts = manifest.counts
    rows = [
        (
            _in_code(name),
            _SLICES[name],
            counts.slices[name],
            percent(counts.slices[name] / counts.queries if counts.queries else None),
            "yes" if name in SUPPORTED else "no",
        )
        for name in SLICES
    ]
    without = some_of(part.query_id for part in contents.slices if not part.nuggets)
    header = ("slice", "queries where", "queries", "share", "measured by default")
    return Page(
        "Slices",
        (
            Table(header, rows),
            prose(
                "A query is measured on its supported nuggets. The FreshStack paper (§4) takes out "
                "queries with an unsupported nugget, on average 34.2% with some and 11.8% with all "
                "unsupported: its filter is `--slices answerable`. "
                "`freshstack show path/to/this/folder` lists the queries with their slices."
            ),
            *([Text(f"Queries without nuggets: {without}.")] if without else []),
        ),
    )


def contamination(manifest: Manifest) -> Page:
    """Say how far the model knows the queries without the corpus."""
    found, settings = manifest.counts.contamination, _section(manifest, "contamination")
    queries = manifest.counts.queries if settings else 0
    cutoff, words = _shown(settings.get("cutoff")), _shown(settings.get("ngram")) or "n"
    asked = f"queries asked up to the model's cut-off{cutoff and f', {cutoff}'}"
    dated = found.before_cutoff + found.after_cutoff
    shared = f"queries that share {words} words in a row with a supporting chunk"
    rows = [
        ("nuggets that the closed-book answers support", _share(found.known, found.nuggets)),
        (
            "queries of which half the nuggets or more are known",
            _share(found.contaminated, found.scored),
        ),
        (asked, _share(found.before_cutoff, dated)),
        (shared, _share(found.overlapping, queries)),
        ("queries that nearly duplicate another", _share(found.near_duplicates, queries)),
    ]
    without = (
        " With `--exclude-contaminated` a run is evaluated a second time, without the queries "
        "that the model can answer without the corpus."
    )
    note = prose(
        "What a model knows of a query without the corpus, no retriever has to find. "
        "`contamination.jsonl` has the numbers of every query."
        f"{without if found.scored else ''}"
    )
    return Page("Contamination", (*_dry_run(manifest), Table(("what", "number"), rows), note))


def _pool(contents: Contents, manifest: Manifest) -> Iterator[Page]:
    """What would be lost without each technique and retriever, where the pool is known."""
    from freshstack_dspy.stored.diagnose import leave_one_out, pooled

    pool = pooled(contents, SUPPORTED)
    if not pool.candidates:
        return
    rows: list[tuple[Cell, ...]] = [
        (one.without, one.kind, one.chunks, one.relevant, one.nuggets)
        for one in leave_one_out(pool)
    ]
    whole = len(pool.candidates), len(pool.relevant), len(pool.supported)
    header = ("without", "is a", "pooled chunks lost", "supporting ones", "supported nuggets")
    yield Page(
        "The pool",
        (
            *_dry_run(manifest),
            Text(
                f"Of the {len(pool.qrels.nuggets):,} queries with a supported nugget. What only one "
                "technique or retriever brought in would be missing without it:"
            ),
            Table(header, [*rows, ("(the whole pool)", "", *whole)], keys=2),
            prose("`freshstack diagnose` also says what a shallower pool would have found."),
        ),
    )


def _limits(contents: Contents, manifest: Manifest) -> Iterator[str]:
    from freshstack_dspy.stored.diagnose import from_passages

    failed, shared = manifest.counts.unlabelled, manifest.counts.shared
    made = None if is_dry_run(manifest) else from_passages(contents)
    yield _by_whom(manifest)
    yield _trust(manifest)
    yield (
        "Only pooled chunks were judged. A chunk without a label is unknown; the measures "
        "count it as not relevant, and report how many they met."
    )
    yield f"Judgments that failed: {failed}. They have no label and are counted, never made 0."
    yield f"Evidence: {manifest.counts.missing_evidence}."
    if made:
        yield f"{made}."
    if shared:
        yield (
            f"Judgments of chunks that say the same as another, which was judged: {shared:,}. "
            "`same_as` names that one."
        )


def _by_whom(manifest: Manifest) -> str:
    if manifest.recipe.startswith("import:"):
        asked = exported_from(manifest).get("model")
        whose = f"the exported collection that was imported, which asked {asked}."
        return "Nuggets and labels are those of " + (
            whose if asked else "the imported collection; who made them, it says itself."
        )
    made = "Labels" if manifest.recipe.startswith("rejudge:") else "Nuggets and labels"
    by = "by a language model, not by people"
    if is_baseline(manifest.model):
        by = "by a program that counts words, neither by people nor by a language model"
    return f"{made} are {by}."


def _trust(manifest: Manifest) -> str:
    """How far people agree with the labels, and with each other."""
    if manifest.trust is None:
        return (
            f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}. Label a sample (`freshstack sample`, "
            "`freshstack label`), and compare: `freshstack agree`."
        )
    line = manifest.trust.line
    return (
        f"{line[0].upper()}{line[1:]}. Cohen's κ of labels read as support or none, with 95% "
        "intervals over queries; that of people with each other is what a judge can be expected to "
        "reach."
    )
