"""What `freshstack explain` prints: lines, for texts are long."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from freshstack_dspy.cli.lines import one_line, say, say_wrapped, width
from freshstack_dspy.records import TECHNIQUES

if TYPE_CHECKING:
    from freshstack_dspy.collection.explain import Call, Explanation, JudgedNugget
    from freshstack_dspy.records import Candidate, Chunk, Judgment

_FIRST_LINES = 6
"""How many lines of a chunk are shown."""
_LONGEST_QUESTION = 400
"""How many characters of a question without a title are shown."""
_KEY = 12
"""How much of a key is shown where it stands for a call that is listed below."""


def print_explanation(explained: "Explanation") -> None:
    """Print the path of the judgments of one query and one chunk."""
    query, chunk = explained.query, explained.chunk
    say_wrapped(f"query {query.query_id}: {_cut(query.title or query.body, _LONGEST_QUESTION)}")
    say_wrapped(f"slice {explained.slice.slice}, origin {query.origin}", 2)
    print()
    _chunk(chunk)
    print()
    _found(explained)
    print()
    scale = explained.scale
    say_wrapped(
        f"judgments (scale {scale.name}, support from {scale.threshold} on) of "
        f"{len(explained.nuggets)} nuggets"
    )
    before: Judgment | None = None
    for nugget in explained.nuggets:
        _nugget(nugget, before)
        before = nugget.judgment
    for label in explained.stray_labels:
        say_wrapped(
            f"{label.annotator} labelled nugget {label.nugget_id!r} {label.label}, which this "
            "query does not have",
            2,
        )
    for failure in explained.failures:
        said = f"failed in step {failure.step}, {failure.status}: {failure.message}"
        say_wrapped(f"{said}{_by(failure.call_id)}", 2)
    print()
    _calls(explained)


def _chunk(chunk: "Chunk") -> None:
    say_wrapped(f"chunk {chunk.chunk_id}")
    revision = f", revision {chunk.revision}" if chunk.revision else ""
    say_wrapped(
        f"{chunk.path} of {chunk.source}{revision}, bytes {chunk.start_byte:,} to "
        f"{chunk.end_byte:,}, {chunk.tokens:,} tokens",
        2,
    )
    if chunk.url:
        say_wrapped(chunk.url, 2)
    lines = [line for line in chunk.titled.splitlines() if line.strip()]
    for line in lines[:_FIRST_LINES]:
        say(f"  | {_cut(one_line(line).rstrip(), width() - 4)}")
    if len(lines) > _FIRST_LINES:
        say(f"  | … and {len(lines) - _FIRST_LINES:,} more lines")


def _found(explained: "Explanation") -> None:
    candidate = explained.candidate
    if candidate is None:
        say("judged without being a candidate: nothing says how it was found")
        return
    by_origin = {
        "pooled": "pooled by",
        "run": "added for a run, pooled by no technique",
        "seed": "the query was made from it, pooled by no technique",
        "carried": "carried over: judged before a refresh, and pooled no more",
        "imported": "imported: the format does not say what found it",
    }
    say(by_origin[candidate.origin])
    if explained.is_seed and candidate.origin != "seed":
        say("  the query was made from it")
    _ranks(candidate)
    for run in candidate.runs:
        say_wrapped(f"run {run.run}: rank {run.rank:,}", 2)
    if candidate.lost_without:
        say_wrapped(f"not pooled without {', nor without '.join(candidate.lost_without)}", 2)


def _ranks(candidate: "Candidate") -> None:
    """Each technique's fused rank, and the ranks in its retrievers' lists."""
    fused: dict[str, str] = {
        **{by.technique: f"{by.rank:,} (below the pool)" for by in candidate.ranked_below},
        **{by.technique: f"{by.rank:,}" for by in candidate.pooled_by},
    }
    found: dict[str, list[str]] = {}
    for each in candidate.found_by:
        found.setdefault(each.technique, []).append(f"{each.retriever} {each.rank:,}")
    for technique in TECHNIQUES:
        if technique in fused or technique in found:
            ranks = ", ".join(found.get(technique, ["in no retriever's list"]))
            say_wrapped(f"{technique}: rank {fused.get(technique, '–')}; {ranks}", 2)


def _nugget(judged: "JudgedNugget", before: "Judgment | None") -> None:
    """Print one nugget; a reason that was just told is told again only where there is support."""
    nugget, judgment = judged.nugget, judged.judgment
    said = {True: "supports", False: "does not support", None: "no label"}[judged.supports]
    if judgment is None:
        said = "not judged"
    elif judgment.label is not None:
        said = f"{said} ({judgment.label})"
    else:
        said = f"{said} ({judgment.status})"
    rated = f", {nugget.importance}" if nugget.importance else ""
    number = f", nugget {judged.number} in its call" if judged.number else ""
    say_wrapped(f"{nugget.nugget_id}{rated}: {said}{number}", 2)
    say_wrapped(nugget.text, 4)
    if judgment is not None:
        same = before is not None and (before.reason, before.call_id, before.votes) == (
            judgment.reason,
            judgment.call_id,
            judgment.votes,
        )
        if same and not judged.supports:
            say("    reason: as above")
        else:
            _judgment(judgment)
    if judged.judged_alone is not None:
        say_wrapped("judged alone:", 4)
        _judgment(judged.judged_alone, labelled=True)
    for label in judged.labels:
        time = f" at {label.time}" if label.time else ""
        say_wrapped(f"human label {label.label} by {label.annotator}{time}", 4)


def _judgment(judgment: "Judgment", *, labelled: bool = False) -> None:
    label = "" if not labelled else f"{_label(judgment.label, judgment.status)}; "
    parts = f", in {judgment.parts} parts" if judgment.parts > 1 else ""
    reason = judgment.reason or "(none given)"
    say_wrapped(f"{label}reason: {reason}{parts}{_by(judgment.call_id)}", 4)
    for vote in judgment.votes:
        part = f", part {vote.part}" if judgment.parts > 1 else ""
        said = _label(vote.label, vote.status)
        say_wrapped(f"vote {vote.vote}{part}: {said}; {vote.reason}{_by(vote.call_id)}", 6)


def _calls(explained: "Explanation") -> None:
    if not explained.calls:
        say("calls: no reply is named by these judgments")
        return
    say("calls")
    for call in explained.calls:
        say_wrapped(call.call_id, 2)
        say_wrapped("; ".join(_facts(call, looked_up=explained.looked_up)), 4)
    if not explained.looked_up:
        say_wrapped(
            "replies were not looked up: --config BUILD.toml names the store and the bundles", 2
        )


def _facts(call: "Call", *, looked_up: bool) -> Iterable[str]:
    if call.recorded:
        yield f"{call.model}, {call.task or 'no named task'}"
        yield _tokens(call)
        yield "cost unknown" if call.cost is None else f"${call.cost:.4f}"
        yield f"{call.status}, finish reason {call.finish_reason}, {call.received_at}"
    elif looked_up:
        yield "not recorded in this store or these bundles"
    yield f"{call.judgments:,} judgments of the collection name it"


def _tokens(call: "Call") -> str:
    if call.input_tokens is None or call.output_tokens is None:
        return "tokens not counted"
    return f"{call.input_tokens:,} + {call.output_tokens:,} tokens"


def _label(label: int | None, status: str) -> str:
    return f"label {label}" if label is not None else f"no label ({status})"


def _by(call_id: str | None) -> str:
    return "" if call_id is None else f" [call {_cut(call_id, _KEY)}]"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
