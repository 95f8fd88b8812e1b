"""The data card: README.md of a collection, with its sources, counts, limits and attribution."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
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
from freshstack_dspy.records import Attribution, Chunk, Query, QueryOrigin, SkippedFile, SliceName

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
_EXPORT_FIELDS = {
    "collection": "exported from the collection",
    "content_hash": "its content hash",
    "recipe": "its recipe",
    "model": "the model that it asked",
}
_SETTINGS = {
    "chunking": ("max_tokens",),
    "nuggets": ("limit", "importance"),
    "pool": ("techniques", "retrievers", "lists", "depth", "top_k"),
    "fusion": ("method", "weights"),
    "judge": ("shape", "batch", "window", "shuffle", "votes"),
}
"""The settings that shape the judgments and what is evaluated, by section of the configuration."""
_COUNTED = ("queries", "nuggets", "expansions", "pool", "judgments", "supported", "chunks")
_SLICES: dict[SliceName, str] = {
    "answerable": "every nugget has a supporting chunk",
    "partly_supported": "some nuggets have one",
    "unanswerable": "no nugget has one",
    "undetermined": "no nugget has one so far, and judgments failed or there are no nuggets",
}
_IN_PAPER: dict[SliceName, str] = {"partly_supported": "34.2%", "unanswerable": "11.8%"}
"""The share of the questions that the filters of the paper took out, on average (§4)."""
_TAGS, _LISTED = 10, 20
_CODE = re.compile(
    r"^ {0,3}(?:```|~~~)"  # a fence
    r"|(?:\A|\n[ \t]*\n)(?: {4}|\t)[ \t]*\S"  # an indented block
    r"|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)",  # a span
    re.MULTILINE,
)


def data_card(contents: Contents, chunks: Sequence[Chunk], manifest: Manifest) -> str:
    """Write the data card, as Markdown.

    It holds no time and no version, and its costs are what the replies cost when they were first
    asked for: the same data by the same recipe from the same replies has the same card.
    """
    sections = [
        _heading(contents, manifest),
        _queries(contents, manifest),
        _corpus(contents, chunks, manifest),
        _making(manifest),
        _counts(contents, manifest),
        _statistics(contents, chunks),
        _slices(contents, manifest),
        _contamination(manifest),
        _pool(contents),
        _limits(contents, manifest),
        _how_to_evaluate(manifest),
        attribution(contents.queries),
    ]
    return "\n".join(section for section in sections if section)


def attribution(queries: Sequence[Query]) -> str:
    """Write the section that says who wrote the questions and answers, and under which licence."""
    licences: Counter[str] = Counter()
    rows = []
    for query in queries:
        nobody = "made by a model" if query.origin == "synthetic" else UNKNOWN
        by_nobody = Attribution(author=nobody, url="", licence=nobody)
        for part, source in (("question", query.question_source), ("answer", query.answer_source)):
            by = source or by_nobody
            licences[by.licence] += 1
            cells = escape(by.author), link(by.url), escape(by.licence)
            rows.append((escape(query.query_id), escape(query.title), part, *cells))
    licence_rows = [(escape(licence), str(licences[licence])) for licence in sorted(licences)]
    return (
        "## Attribution\n\n"
        "The questions and answers belong to their authors and may be passed on under these "
        "licences, with this table.\n\n"
        f"{table(('licence', 'texts'), licence_rows)}\n"
        f"{table(('query', 'title', 'text', 'author', 'address', 'licence'), rows)}"
    )


def _section(manifest: Manifest, name: str) -> dict[str, Any]:
    value = manifest.config.get(name)
    return value if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    """A setting in a line of Markdown; nothing for what is empty or not set."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(_shown, value)))
    if isinstance(value, dict):
        return ", ".join(f"{escape(str(key))} {_shown(each)}" for key, each in value.items())
    return escape(str(value))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _heading(contents: Contents, manifest: Manifest) -> str:
    origins = {query.origin for query in contents.queries}
    made_of = " and ".join(text for origin, text in _ORIGINS.items() if origin in origins)
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


def _queries(contents: Contents, manifest: Manifest) -> str:
    queries, settings = contents.queries, _section(manifest, "queries")
    rows = [("source", _shown(settings.get("source")) or UNKNOWN)]
    rows += [(name, text) for name in _QUERY_SETTINGS if (text := _shown(settings.get(name)))]
    if imported := _section(manifest, "import"):
        rows = [("imported from the format", _shown(imported.get("format")) or UNKNOWN)]
        rows += [
            (_EXPORT_FIELDS[name], escape(one)) for name, one in exported_from(manifest).items()
        ]
    days = sorted(filter(None, map(_day, queries)))
    rows.append(("asked", f"{days[0]} to {days[-1]}" if days else UNKNOWN))
    if 0 < len(days) < len(queries):
        rows.append(("without a date", str(len(queries) - len(days))))
    if tags := Counter(tag for query in queries for tag in query.tags):
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


def _day(query: Query) -> str | None:
    try:
        return datetime.fromisoformat(query.asked_at or "").date().isoformat()
    except ValueError:
        return None


def _corpus(contents: Contents, chunks: Sequence[Chunk], manifest: Manifest) -> str:
    configured: Any = manifest.config.get("corpus")
    places = {
        str(each.get("name")): each
        for each in (configured if isinstance(configured, list) else ())
        if isinstance(each, dict)
    }
    counted = Counter(chunk.source for chunk in chunks)
    revisions: dict[str, set[str]] = defaultdict(set)
    for chunk in chunks:
        revisions[chunk.source].add(chunk.revision or UNKNOWN)
    skipped: dict[str, list[SkippedFile]] = defaultdict(list)
    for file in contents.skipped:
        skipped[file.source].append(file)
    rows = [
        (
            escape(name),
            _place(places.get(name, {})),
            ", ".join(map(escape, sorted(revisions[name] or {UNKNOWN}))),
            f"{counted[name]:,}",
            listed(count_kinds(skipped[name])),
            ", ".join(escape(file.path) for file in contents.licences if file.source == name),
        )
        for name in sorted({*places, *counted, *skipped})
    ]
    header = ("source", "from", "revision", "chunks", "files left out", "licences and notices")
    return (
        "## Sources of the corpus\n\n"
        "Each is under its own licence; the texts of the files named here are in "
        "licences.jsonl. Why a file was left out is in skipped.jsonl.\n\n"
        f"{table(header, rows)}"
    )


def _place(settings: dict[str, Any]) -> str:
    if url := settings.get("url"):
        return link(str(url))
    if package := settings.get("package"):
        return f"package {_shown(package)}"
    if path := settings.get("path"):
        return f"{'repository' if settings.get('revision') else 'path'} {_shown(path)}"
    return UNKNOWN


def _making(manifest: Manifest) -> str:
    asked = "the baseline" if is_baseline(manifest.model) else "the model"
    imported = manifest.recipe.startswith("import:")
    by = "" if imported else f", asking {asked} **{escape(manifest.model)}**"
    earlier = ", ".join(map(escape, manifest.earlier_models))
    parts = [
        "## How it was made\n\n"
        f"By the recipe **{escape(manifest.recipe)}** of freshstack_dspy{by}.\n"
        "`manifest.json` has the configuration, the versions and the account of calls.\n"
        f"Labels are on the scale `{manifest.scale.name}`, and support from "
        f"{manifest.scale.threshold} on.\n"
        + (f"Some of what it holds may still be by {earlier}, asked before.\n" if earlier else "")
    ]
    settings = [
        (f"`{name}.{key}`", text)
        for name, keys in _SETTINGS.items()
        for key in keys
        if (text := _shown(_section(manifest, name).get(key)))
    ]
    if settings:
        parts.append(table(("setting", "value"), settings))
    prompts = [(escape(name), f"`{escape(hash_)}`") for name, hash_ in manifest.prompts.items()]
    if prompts:
        parts.append(table(("signature", "SHA-256 of its prompt"), sorted(prompts)))
    parts += [_costs(manifest), _extensions(manifest)]
    return "\n".join(part for part in parts if part)


def _costs(manifest: Manifest) -> str:
    """What every reply cost when it was first asked for, so that a replay says the same."""
    accounts = {
        name: (one.calls + one.cached, one.tokens + one.cached_tokens, one.cost + one.cached_cost)
        for name, one in sorted(manifest.ledger.items())
        if one.calls + one.cached
    }
    if not accounts:
        return ""
    requests, tokens, cost = map(sum, zip(*accounts.values(), strict=True))
    rows = [
        (escape(name), f"{made:,}", f"{used:,}", f"${paid:.4f}")
        for name, (made, used, paid) in [*accounts.items(), ("all", (requests, tokens, cost))]
    ]
    return (
        f"{table(('step', 'requests', 'tokens', 'US dollars'), rows)}\n"
        "These are the tokens that the provider counted and what they cost when they were first "
        "asked for, whether or not this build paid for them; 0 where it is unknown.\n"
    )


def _extensions(manifest: Manifest) -> str:
    if not manifest.extensions:
        return ""
    rows = [
        (escape(one.run), f"{one.depth}", f"{one.judged:,}", escape(one.model), f"`{one.sha256}`")
        for one in manifest.extensions
    ]
    header = ("run", "depth", "pairs judged", "model", "SHA-256 of the run")
    return (
        f"It was extended with what these runs hold and nobody had judged:\n\n{table(header, rows)}"
    )


def _counts(contents: Contents, manifest: Manifest) -> str:
    from freshstack_dspy.collection.self_agreement import self_agreement

    rows = [(f"`{name}`", f"{getattr(manifest.counts, name):,}") for name in _COUNTED]
    rated = Counter(nugget.importance for nugget in contents.nuggets if nugget.importance)
    if rated:
        rows.append(("nuggets rated vital", f"{rated['vital']:,} of {rated.total():,}"))
    if alike := sum(nugget.duplicate_of is not None for nugget in contents.nuggets):
        rows.append(("nuggets that nearly duplicate another", f"{alike:,}"))
    rows += [
        (f"failures: {step}, {status}", str(number))
        for step, by_status in sorted(manifest.counts.failures.items())
        for status, number in sorted(by_status.items())
    ]
    votes = self_agreement(contents.judgments)
    if votes.pairs:
        rows += [
            ("pairs with several votes", f"{votes.pairs:,}"),
            ("two votes agree", _percent(votes.agreement.value)),
            ("all votes agree", _percent(votes.unanimous.value)),
        ]
    return f"## Counts\n\n{table(('what', 'number'), rows)}"


def _statistics(contents: Contents, chunks: Sequence[Chunk]) -> str:
    header = (
        "queries are", "#queries", "#docs", "#sources", "nuggets per query", "query words",
        "answer words", "queries with code", "answers with code", "relevant docs per nugget",
        "relevant docs per query",
    )  # fmt: skip
    kinds: list[tuple[str, Sequence[SliceName]]] = [
        ("supported", SUPPORTED),
        ("answerable", ("answerable",)),
    ]
    rows = [(label, *_statistics_of(contents, chunks, slices)) for label, slices in kinds]
    return (
        f"## Statistics\n\n{table(header, rows)}\n"
        "The columns are those of Table 3 of the FreshStack paper (arXiv 2504.13128), with "
        "lengths in words; a doc is a chunk.\n"
    )


def _statistics_of(
    contents: Contents, chunks: Sequence[Chunk], slices: Sequence[SliceName]
) -> list[str]:
    qrels = contents.qrels_of(slices).official()
    queries = [query for query in contents.queries if query.query_id in qrels.query_to_nuggets]

    def mean(values: Iterable[float], shown: Callable[[float], str] = "{:.1f}".format) -> str:
        found = list(values)
        return shown(fmean(found)) if found else "-"

    def with_code(texts: Iterable[str]) -> str:
        return mean((_CODE.search(text) is not None for text in texts), _percent)

    return [
        str(len(queries)),
        str(len(chunks)),
        str(len({chunk.source for chunk in chunks})),
        mean(map(len, qrels.query_to_nuggets.values())),
        mean(len(query.text.split()) for query in queries),
        mean(len(query.answer.split()) for query in queries),
        with_code(query.body for query in queries),
        with_code(query.answer for query in queries),
        mean(sum(labels.values()) for labels in qrels.qrels_nuggets.values()),
        mean(sum(n > 0 for n in counts.values()) for counts in qrels.qrels_query.values()),
    ]


def _slices(contents: Contents, manifest: Manifest) -> str:
    """How many queries are in each slice; those that are not answerable are listed."""
    counts = manifest.counts
    titles = {query.query_id: query.title for query in contents.queries}
    rows, lists = [], []
    for name in SLICES:
        number = counts.slices[name]
        share = _percent(number / counts.queries if counts.queries else None)
        measured = "yes" if name in SUPPORTED else "no"
        paper = _IN_PAPER.get(name, "")
        rows.append((f"`{name}`", _SLICES[name], f"{number:,}", share, paper, measured))
        parts = [part for part in contents.slices if part.slice == name]
        if parts and paper:
            shown = [
                (
                    escape(part.query_id),
                    escape(titles[part.query_id]),
                    f"{len(part.unsupported_nuggets)} of {part.nuggets}",
                )
                for part in parts[:_LISTED]
            ]
            lists.append(
                f"Of `{name}`, {'the first ' * (len(parts) > _LISTED)}{len(shown)} of "
                f"{len(parts):,}:\n\n{table(('query', 'title', 'unsupported nuggets'), shown)}"
            )
    header = ("slice", "queries where", "queries", "share", "paper", "measured by default")
    first = (
        f"## Slices\n\n{table(header, rows)}\n"
        "A query is measured on its supported nuggets. The FreshStack paper (§4) takes out "
        "queries with an unsupported nugget: its filter is `--slices answerable`.\n"
    )
    return "\n".join([first, *lists])


def _contamination(manifest: Manifest) -> str:
    found, settings = manifest.counts.contamination, _section(manifest, "contamination")
    queries = manifest.counts.queries if settings else 0
    cutoff, words = _shown(settings.get("cutoff")), _shown(settings.get("ngram")) or "n"
    dated = found.before_cutoff + found.after_cutoff
    after = cutoff and f", {cutoff}"
    rows = [
        (what, f"{number:,} of {total:,} ({number / total:.1%})" if total else UNKNOWN)
        for what, number, total in (
            ("nuggets that the closed-book answers support", found.known, found.nuggets),
            (
                "queries of which half the nuggets or more are known",
                found.contaminated,
                found.scored,
            ),
            (f"queries asked up to the model's cut-off{after}", found.before_cutoff, dated),
            (
                f"queries that share {words} words in a row with a supporting chunk",
                found.overlapping,
                queries,
            ),
            ("queries that nearly duplicate another", found.near_duplicates, queries),
        )
    ]
    return (
        f"## Contamination\n\n{table(('what', 'number'), rows)}\n"
        "What a model knows of a query without the corpus, no retriever has to find. "
        "`contamination.jsonl` has the numbers of every query.\n"
    )


def _pool(contents: Contents) -> str:
    """What would be lost without each technique and retriever."""
    from freshstack_dspy.collection.diagnose import leave_one_out, pooled

    pool = pooled(contents, SUPPORTED)
    if not pool.candidates:
        return ""
    rows = [
        (
            escape(one.without),
            one.kind,
            *map("{:,}".format, (one.chunks, one.relevant, one.nuggets)),
        )
        for one in leave_one_out(pool)
    ]
    whole = map(len, (pool.candidates, pool.relevant, pool.supported))
    rows.append(("(the whole pool)", "", *map("{:,}".format, whole)))
    header = ("without", "is a", "pooled chunks lost", "supporting ones", "supported nuggets")
    return (
        "## The pool\n\n"
        f"Of the {len(pool.qrels.nuggets):,} queries with a supported nugget. What only one technique "
        "or retriever brought in would be missing without it:\n\n"
        f"{table(header, rows)}\n"
        "`freshstack diagnose` also says what a shallower pool would have found.\n"
    )


def _limits(contents: Contents, manifest: Manifest) -> str:
    failed = sum(judgment.label is None for judgment in contents.judgments)
    warning = baseline_warning(manifest)
    first = f"- {warning}\n" if warning else ""
    return (
        f"## Limits\n\n{first}- {_by_whom(manifest)}\n"
        "- Only pooled chunks were judged. A chunk without a label is unknown; the measures "
        "count it as not relevant, and report how many they met.\n"
        f"- Judgments that failed: {failed}. They have no label and are counted, never "
        "made 0.\n"
    )


def _by_whom(manifest: Manifest) -> str:
    if manifest.recipe.startswith("import:"):
        asked = exported_from(manifest).get("model")
        whose = f"the exported collection that was imported, which asked {escape(asked or '')}."
        return "Nuggets and labels are those of " + (
            whose if asked else "the imported collection; who made them, it says itself."
        )
    made = "Labels" if manifest.recipe.startswith("rejudge:") else "Nuggets and labels"
    by = "by a language model, not by people"
    if is_baseline(manifest.model):
        by = "by a program that counts words, neither by people nor by a language model"
    return (
        f"{made} are {by}. How far they agree with people is unknown until it is measured: label "
        "a sample and compute the agreement."
    )


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
        "from freshstack_dspy import Collection\n\n"
        'collection = Collection.load("path/to/this/folder")\n'
        'print(collection.evaluate("path/to/run.txt").means)\n'
        "```\n"
    )
