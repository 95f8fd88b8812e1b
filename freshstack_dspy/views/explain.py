"""What is shown of a chunk of a query: its evidence, what found it, and who judged it."""

from collections.abc import Iterator

from freshstack_dspy.collection.explain import Call, Explanation, JudgedNugget
from freshstack_dspy.pages.page import (
    Page,
    Span,
    Text,
    counted,
    cut,
    marked,
)
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.records import (
    TECHNIQUES,
    CandidateOrigin,
)
from freshstack_dspy.views.queries import about_query, title_of

_ORIGINS: dict[CandidateOrigin, str] = {
    "pooled": "pooled by",
    "run": "added for a run, pooled by no technique",
    "seed": "the query was made from it, pooled by no technique",
    "document": "of the documents that the report was written from",
    "reused": "judged before a refresh, and pooled no more",
    "imported": "imported: the format does not say what found it",
}


@page_of.register
def explanation_page(explanation: Explanation) -> Page:
    """Give the page of an explanation."""
    scale = explanation.scale
    judgments = (
        f"judgments of {counted(len(explanation.nuggets), 'nugget')} (scale {scale.name}, support from "
        f"{scale.threshold} on)"
    )
    calls = "calls" if explanation.calls else "calls: no reply is named by these judgments"
    return Page(
        title_of(explanation.query),
        (
            about_query(explanation.query, explanation.slice.slice),
            Page(f"chunk {explanation.chunk.chunk_id}", tuple(_chunk(explanation))),
            _candidate(explanation),
            Page(judgments, tuple(_judgments(explanation))),
            Page(calls, tuple(line for call in explanation.calls for line in _call(call))),
            Text(explanation.labels_by, "note"),
        ),
        data=explanation,
    )


def _chunk(explanation: Explanation) -> Iterator[Text]:
    chunk = explanation.chunk
    revision = f", revision {chunk.revision}" if chunk.revision else ""
    revision += f" of {explanation.true_at[:10]}" if explanation.true_at else ""
    where = (
        f"{chunk.path} of {chunk.source}{revision}, bytes {chunk.start_byte:,} to "
        f"{chunk.end_byte:,}, {chunk.tokens:,} tokens"
    )
    link = (" ", Span(chunk.url, href=chunk.url)) if chunk.url else ()
    yield Text((where, *link), "note")
    if chunk.headings:
        yield Text(f"below {' > '.join(chunk.headings)}", "note")
    title = len(chunk.titled) - len(chunk.text)
    places = [
        (title + chunk.place_at(start), title + chunk.place_at(end))
        for one in explanation.nuggets
        if one.judgment is not None
        for start, end in one.judgment.evidence
    ]
    yield Text(tuple(marked(chunk.titled, places)), "excerpt")


def _candidate(explanation: Explanation) -> Page:
    """What found a chunk: each technique's fused rank, and the ranks in its retrievers' lists."""
    candidate = explanation.candidate
    if candidate is None:
        return Page("judged without being a candidate: what found it is not known")
    fused = {by.technique: f"{by.rank:,}" for by in candidate.pooled_by}
    fused |= {by.technique: f"{by.rank:,} (below the pool)" for by in candidate.ranked_below}
    lines = []
    for technique in TECHNIQUES:
        lists = [by for by in candidate.found_by if by.technique == technique]
        if technique in fused or lists:
            ranks = ", ".join(f"{by.retriever} {by.rank:,}" for by in lists)
            ranks = ranks or "in no retriever's list"
            lines.append(f"{technique}: rank {fused.get(technique, '–')}; {ranks}")
    lines += [f"run {run.run}: rank {run.rank:,}" for run in candidate.runs]
    if candidate.lost_without:
        lines.append(f"not pooled without {', nor without '.join(candidate.lost_without)}")
    return Page(_ORIGINS[candidate.origin], tuple(Text(line, "item") for line in lines))


def _judgments(explanation: Explanation) -> Iterator[Text]:
    for judged in explanation.nuggets:
        yield from _judgment(judged)
    for one in explanation.reasons:
        ids = one.nugget_ids
        of = f"nugget {ids[0]}" if len(ids) == 1 else f"the chunk as a whole, {len(ids)} nuggets"
        yield Text(f"reason for {of}: {one.text}{_by(one.call_id)}", "item")
    for failure in explanation.failures:
        why = f"failed in step {failure.step}, {failure.status}: {failure.message}"
        yield Text(f"{why}{_by(failure.call_id)}", "item")


def _judgment(judged: JudgedNugget) -> Iterator[Text]:
    nugget, judgment = judged.nugget, judged.judgment
    name = Span(nugget.nugget_id, "code")
    importance = f", {nugget.importance}" if nugget.importance else ""
    if judgment is None:
        why = "doubtful, so not judged" if nugget.doubtful else "not judged"
        yield Text((name, f"{importance}: {why}: {nugget.text}"), "item")
        return
    verdict = {True: "supports", False: "does not support", None: "no label"}[judged.supports]
    label = judgment.status if judgment.label is None else judgment.label
    number = f", nugget {judged.number} in its call" if judged.number else ""
    yield Text((name, f"{importance}: ", Span(verdict, "strong"), f" ({label}){number}"), "item")
    yield Text(nugget.text, "item", 1)
    if judgment.same_as:
        yield Text(f"judged as {judgment.same_as}, which says the same", "item", 1)
    if judgment.followed_from:
        what = "the label followed the quoted words into it, and the rest was not judged"
        yield Text(f"judged as {judgment.followed_from}, before an edit: {what}", "item", 1)
    for (start, end), words in zip(judgment.evidence, judged.evidence, strict=True):
        yield Text(f"bytes {start:,} to {end:,}: “{' '.join(words.split())}”", "item", 1)
    for vote in judgment.votes:
        part = f", part {vote.part}" if judgment.parts > 1 else ""
        given = f"label {vote.label}" if vote.label is not None else f"no label ({vote.status})"
        yield Text(f"vote {vote.vote}{part}: {given}{_by(vote.call_id)}", "item", 2)


def _call(call: Call) -> Iterator[Text]:
    yield Text(Span(call.call_id, "code"), "item")
    facts = ""
    if reply := call.reply:
        cost = "cost unknown" if reply.cost is None else f"${reply.cost:.4f}"
        tokens = "tokens unknown"
        if reply.input_tokens is not None:
            tokens = f"{reply.input_tokens} + {reply.output_tokens} tokens"
        facts = (
            f"{reply.request.model}, {reply.request.task or 'no named task'}; {tokens}, {cost}; "
            f"{reply.status}, finish reason {reply.finish_reason}, {reply.received_at}; "
        )
    judgments = counted(call.judgments, "judgment")
    yield Text(f"{facts}named by {judgments} of the collection", "item", 1)


def _by(call_id: str | None) -> str:
    return "" if call_id is None else f" [call {cut(call_id, 12)}]"
