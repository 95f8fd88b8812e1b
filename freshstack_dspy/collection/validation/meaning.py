"""What the records of a collection say of each other, beyond the ids that they name."""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.imports.rows import shown
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.validation.findings import Findings
from freshstack_dspy.records import Judgment, Nugget, Vote

_LONGEST_ID = 512


def check_meaning(contents: Contents, chunk_ids: Iterable[str], findings: Findings) -> None:
    """Check spans, votes, slices, contamination, and ids that other tools cannot read.

    Args:
        contents: The records.
        chunk_ids: Of the corpus.
        findings: Takes what is found.
    """
    _check_nuggets(contents, findings)
    for name in ("judgments", "single_judgments"):
        for judgment in getattr(contents, name):
            if (wrong := vote_fault(judgment)) is not None:
                findings.fault(f"{name}.jsonl", f"{_pair(judgment)}: {wrong}")
    _check_slices(contents, findings)
    _check_contamination(contents, findings)
    _check_judged(contents, findings)
    _check_ids(contents, chunk_ids, findings)


def _check_nuggets(contents: Contents, findings: Findings) -> None:
    answers = {query.query_id: query.answer for query in contents.queries}
    by_id = {nugget.nugget_id: nugget for nugget in contents.nuggets}
    for nugget in contents.nuggets:
        named = f"nugget {shown(nugget.nugget_id)}"
        answer = answers.get(nugget.query_id)
        if nugget.answer_span is not None and answer is not None:
            start, end = nugget.answer_span
            if not 0 <= start < end <= len(answer):
                findings.fault(
                    "nuggets.jsonl",
                    f"{named}: answer_span is {start} to {end}, and the answer has "
                    f"{len(answer)} characters",
                )
        original: Nugget | None = by_id.get(nugget.duplicate_of or "")
        if original is not None and (
            original.query_id != nugget.query_id or original.nugget_id == nugget.nugget_id
        ):
            findings.fault(
                "nuggets.jsonl",
                f"{named}: duplicate_of is {shown(original.nugget_id)}, which is no other nugget "
                "of its query",
            )


def vote_fault(judgment: Judgment) -> str | None:
    """Say how a judgment is not what its votes make it; None where it is, or has none.

    A vote on a chunk in parts is the highest label of its parts, and none if one of them failed.
    The label is that of most votes, the lower one of a tie, and none where not even a majority of
    the votes has a label.
    """
    if not judgment.votes:
        return None
    by_vote: dict[int, list[Vote]] = {}
    for vote in judgment.votes:
        by_vote.setdefault(vote.vote, []).append(vote)
        if (vote.status == "ok") != (vote.label is not None):
            return f"vote {vote.vote} has status {vote.status} and label {vote.label}"
    labels = [label for each in by_vote.values() if (label := _of_parts(each)) is not None]
    expected = None
    if 2 * len(labels) > len(by_vote):
        counts = Counter(labels)
        expected = min(counts, key=lambda label: (-counts[label], label))
    if judgment.label != expected:
        return f"its label is {judgment.label}, and its votes give {expected}"
    return None


def _of_parts(parts: Sequence[Vote]) -> int | None:
    labels = [part.label for part in parts if part.label is not None]
    return max(labels) if len(labels) == len(parts) else None


def _check_slices(contents: Contents, findings: Findings) -> None:
    queries = {query.query_id for query in contents.queries}
    nuggets = [nugget for nugget in contents.nuggets if nugget.query_id in queries]
    expected = {
        part.query_id: part
        for part in slice_queries(contents.queries, nuggets, contents.judgments, contents.threshold)
    }
    for part in contents.slices:
        now = expected.get(part.query_id)
        if now is None:
            continue  # a query that there is not, which the references say
        for name in type(part).model_fields:
            told, found = getattr(part, name), getattr(now, name)
            if told != found:
                findings.fault(
                    "slices.jsonl",
                    f"query {shown(part.query_id)}: {name} is {told!r}, and its judgments give "
                    f"{found!r}",
                )


def _check_contamination(contents: Contents, findings: Findings) -> None:
    own = _nuggets_of(contents.nuggets)
    for one in contents.contamination:
        named = f"query {shown(one.query_id)}"
        nuggets = own.get(one.query_id, set())
        if one.query_id in one.near_duplicates:
            findings.fault("contamination.jsonl", f"{named}: is a near-duplicate of itself")
        if one.known_nuggets is None:
            continue
        if foreign := sorted(set(one.known_nuggets) - nuggets):
            findings.fault(
                "contamination.jsonl",
                f"{named}: knows nugget {shown(foreign[0])}, which is not its own "
                f"({len(foreign)} such)",
            )
        share = len(one.known_nuggets) / len(nuggets) if nuggets else None
        told = one.closed_book_coverage
        if told is not None and share is not None and abs(told - share) > 1e-9:
            findings.fault(
                "contamination.jsonl",
                f"{named}: closed_book_coverage is {told}, and {len(one.known_nuggets)} of its "
                f"{len(nuggets)} nuggets are known",
            )


def _check_judged(contents: Contents, findings: Findings) -> None:
    """A nugget with no judgment, and a judgment of a chunk that is not in the pool."""
    judged = {judgment.nugget_id for judgment in contents.judgments}
    unjudged = (one.nugget_id for one in contents.nuggets if one.nugget_id not in judged)
    findings.warn_of("nuggets.jsonl", "nuggets have no judgment", unjudged)
    pool = {(one.query_id, one.chunk_id) for one in contents.pool}
    strangers = {
        one.chunk_id for one in contents.judgments if (one.query_id, one.chunk_id) not in pool
    }
    findings.warn_of("judgments.jsonl", "chunks were judged and are not in the pool", strangers)


def _check_ids(contents: Contents, chunk_ids: Iterable[str], findings: Findings) -> None:
    """Ids that a TREC run cannot hold, by which retrievers are compared."""
    queries = [query.query_id for query in contents.queries]
    findings.warn_of(
        "queries.jsonl",
        "query ids hold white space, which a TREC run cannot",
        (id_ for id_ in queries if any(char.isspace() for char in id_)),
    )
    every = (("queries.jsonl", "query", queries), ("corpus.parquet", "chunk", list(chunk_ids)))
    for file, kind, ids in every:
        findings.warn_of(
            file,
            f"{kind} ids hold characters that are not printed, as line ends and tabs, which no "
            "line of another tool can",
            (id_ for id_ in ids if not id_.isprintable()),
        )
        findings.warn_of(
            file,
            f"{kind} ids are longer than {_LONGEST_ID} characters",
            (id_ for id_ in ids if len(id_) > _LONGEST_ID),
        )


def _nuggets_of(nuggets: Iterable[Nugget]) -> dict[str, AbstractSet[str]]:
    own: dict[str, set[str]] = {}
    for nugget in nuggets:
        own.setdefault(nugget.query_id, set()).add(nugget.nugget_id)
    return dict(own)


def _pair(judgment: Judgment) -> str:
    return f"nugget {shown(judgment.nugget_id)} and chunk {shown(judgment.chunk_id)}"
