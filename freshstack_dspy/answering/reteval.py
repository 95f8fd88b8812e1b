"""LLM-retEval: the retriever through the answer (Alinejad, Kumar and Vahdat, arXiv 2406.06458).

A retriever is right about a query if the answer that a generator writes from what it found agrees
with the answer that the same generator writes from the gold chunks, those that support the nuggets
of the query. Each answer is also judged by the nuggets that it supports.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError, FatalModelError, ReplyError
from freshstack_dspy.formats.nuggetizer import assignment
from freshstack_dspy.lm.usage import step
from freshstack_dspy.measures.density import REQUIRED, required_chunks
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.similarity import SIMILARITIES
from freshstack_dspy.programs.answers import AnswerComparer, AnswerGenerator, generator_inputs
from freshstack_dspy.programs.own import program_in_place_of
from freshstack_dspy.recipes.judge import (
    ToJudge,
    Window,
    as_chunk,
    grouped,
    judge,
)
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Agreement,
    Answer,
    AnsweringFailure,
    AssignedAnswer,
    AssignedNugget,
    Assignment,
    Chunk,
    JudgedAnswer,
    JudgedCitation,
    JudgedSentence,
    Judgment,
    Nugget,
    OmittedChunk,
    Query,
    Scale,
    Step,
)
from freshstack_dspy.registry import Registry
from freshstack_dspy.stored.contents import nuggets_by_query

GOLD = "gold"
"""The run id of answers from gold chunks."""
SAMPLED_TEMPERATURE = 0.5
"""Of several gold answers (§3.2: three); at 0 they would all be the same."""
COMPARERS = {
    "yes_no": 1.0,
    "graded": 2.0,
    "exact_match": 1.0,
    "token_f1": 0.5,
    "rouge_l": 0.5,
    "embedding": 0.7,
}
"""What can compare answers (§2.2), and the score from which on two agree by default. A
model says yes (1) or no (0), or gives a grade from 0 to 3; the others are from 0 to 1."""
OTHER_COMPARERS = Registry("freshstack_dspy.comparers", "comparer", {})
"""Of other packages: functions of a gold answer and another, which give a number from 0 to 1."""
_HIGHEST = {"graded": 3.0}
_SUPPORT: dict[Assignment, Literal[-1, 0, 1, 2]] = {
    "support": 2,
    "partial_support": 1,
    "not_support": 0,
    "failed": -1,
}
YES_OR_NO = {"yes_no": COMPARERS["yes_no"]}
Comparer = Callable[[Query, Sequence[str], str], Mapping[str, Any]]
"""From a query, its gold answers and another answer to `score`, `reason` and perhaps `call_id`."""


class Context(NamedTuple):
    """What a generator answers a query from."""

    run_id: str
    query: Query
    chunks: Sequence[Chunk]
    omitted: tuple[OmittedChunk, ...] = ()
    sample: int = 1
    temperature: float | None = None


class Outcome(NamedTuple):
    """An answer or an agreement; with a failure it says nothing."""

    record: Any
    failure: AnsweringFailure | None = None


class Answering(NamedTuple):
    """Answers from runs and from gold chunks; records by run, then query, in the order of ids."""

    answers: tuple[Answer, ...]
    """One for each run and query."""
    gold_answers: tuple[Answer, ...]
    """For each query as many as were asked for."""
    agreements: tuple[Agreement, ...]
    """One for each run and query."""
    assignments: tuple[AssignedAnswer, ...]
    """The nuggets of each answer."""
    gold_assignments: tuple[AssignedAnswer, ...]
    """The nuggets of the first gold answer to each query."""
    citations: tuple[JudgedAnswer, ...]
    """Of each answer with sentences, how far the chunks that it cites support them."""
    gold_citations: tuple[JudgedAnswer, ...]
    """Of the first gold answers."""
    failures: tuple[AnsweringFailure, ...]


def answer_from_runs(
    session: Session,
    collection: Collection,
    runs: Sequence[Run],
    *,
    k: Sequence[int] = (10,),
    gold_answers: int = 1,
    comparers: Mapping[str, float] = YES_OR_NO,
) -> Answering:
    """Answer every query with gold chunks from these and from the top of every run, and compare.

    Args:
        session: Its `[model]` answers and compares; its `[judge]` judges answers by nuggets.
        collection: With the queries, the gold chunks and the texts.
        runs: Over its queries and its corpus; each has a name of its own.
        k: From how many chunks of a ranking an answer is written at most; for several there is an
            answer from each, see `at_depths`. The gold ones are as many as the largest.
        gold_answers: How often the gold context is answered; several are drawn at
            `SAMPLED_TEMPERATURE`.
        comparers: Some of `comparer_names()`, each with the score from which on answers agree. The first
            decides; the scores of the others are next to it.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: Replies leave no room for a prompt; or answers are to be compared by an
            embedder, and there is none.
        CollectionError: No query has a supported nugget, or a run cannot be used.
        FatalModelError: Not one answer came.
    """
    qrels = collection.qrels()
    by_id = {query.query_id: query for query in collection.queries}
    queries = {query_id: by_id[query_id] for query_id in sorted(qrels.nuggets)}
    gold = {query_id: gold_chunks(qrels.judged(query_id), max(k)) for query_id in queries}
    tops = _tops(collection, at_depths(runs, k), queries)
    _check_comparers(session, comparers)

    golds = _contexts(session, collection, {GOLD: gold}, queries, samples=gold_answers)
    contexts = _contexts(session, collection, tops, queries)
    ask = partial(_answered, AnswerGenerator())
    found = session.each("gold_answer", ask, golds) + session.each("answer", ask, contexts)
    session.stop_if_deferred()
    failures = [one.failure for one in found if one.failure is not None]
    asked = sum(one.record.status != "not_retrieved" for one in found)
    if failures and len(failures) == asked:
        raise FatalModelError(
            f"none of the {asked} answers came, so nothing was written; the first: "
            f"{failures[0].message}"
        )
    gold_records = [one.record for one in found[: len(golds)]]
    answers = [one.record for one in found[len(golds) :]]

    firsts = [one for one in gold_records if one.sample == 1]
    nuggets = nuggets_by_query(one for one in collection.nuggets if one.nugget_id in qrels.labels)
    assigned, unassigned = assign(session, [*firsts, *answers], queries, nuggets)
    wanted = {id_ for one in (*firsts, *answers) for id_ in one.references}
    chunks = {one.chunk_id: one for one in collection.chunks() if one.chunk_id in wanted}
    texts = dict.fromkeys(queries, chunks)
    cited, uncited = judge_citations(session, [*firsts, *answers], queries, texts)
    of_query: dict[str, list[Answer]] = {}
    for one in gold_records:
        of_query.setdefault(one.topic_id, []).append(one)
    agreements, uncompared = _agree(session, comparers, answers, queries, of_query)
    session.stop_if_deferred()
    failures += [*unassigned, *uncited, *uncompared]
    return Answering(
        answers=tuple(answers),
        gold_answers=tuple(gold_records),
        agreements=tuple(agreements),
        assignments=tuple(assigned[len(firsts) :]),
        gold_assignments=tuple(assigned[: len(firsts)]),
        citations=tuple(one for one in cited if one.run_id != GOLD),
        gold_citations=tuple(one for one in cited if one.run_id == GOLD),
        failures=tuple(failures),
    )


def gold_chunks(judged: Judged, k: int) -> list[str]:
    """List the chunks that support a query's nuggets: those first that it takes to answer it.

    First the required subset (CRUX), in the order in which it is chosen; then the others that
    support a nugget, those that support more before those that support fewer, ties by id.
    """
    candidates = sorted(judged.supported, key=lambda id_: (-len(judged.supported[id_]), id_))
    labels = required_chunks(judged, candidates)
    required = [chunk for chunk, label in labels.items() if label == REQUIRED]
    return [*required, *(chunk for chunk in candidates if chunk not in required)][:k]


def _contexts(
    session: Session,
    collection: Collection,
    tops: Mapping[str, Mapping[str, Sequence[str]]],
    queries: Mapping[str, Query],
    *,
    samples: int = 1,
) -> list[Context]:
    """Show as many chunks of each top as the model's window takes, each whole."""
    window = Window(session.config.model, AnswerGenerator())
    wanted = {chunk_id for top in tops.values() for ids in top.values() for chunk_id in ids}
    chunks = {one.chunk_id: one for one in collection.chunks() if one.chunk_id in wanted}
    temperature = SAMPLED_TEMPERATURE if samples > 1 else None
    contexts = []
    for run_id, top in tops.items():
        for query_id, ids in top.items():
            query = queries[query_id]
            of = (chunks[chunk_id] for chunk_id in ids)
            shown, omitted = window.packed(generator_inputs(query, []), of)
            contexts += [
                Context(run_id, query, shown, tuple(omitted), sample, temperature)
                for sample in range(1, samples + 1)
            ]
    return contexts


def check_shown(shown: Sequence[Chunk], omitted: Sequence[OmittedChunk]) -> None:
    """Raise a ReplyError where a context has chunks and none can be shown."""
    if omitted and not shown:
        raise ReplyError(
            f"none of the {len(omitted)} chunks of the context can be shown: they have no text "
            "(freshstack import … --corpus PATH), or do not fit into the model's window "
            "([model] context, max_tokens)",
            status="failed",
            call_id=None,
        )


def _answered(generator: AnswerGenerator, context: Context) -> Outcome:
    """The answer from a context, or the record that there is none."""
    try:
        check_shown(context.chunks, context.omitted)
        answer = generator(
            query=context.query,
            chunks=context.chunks,
            run_id=context.run_id,
            sample=context.sample,
            temperature=context.temperature,
        ).answer
    except ReplyError as error:
        answer = Answer(
            run_id=context.run_id,
            topic_id=context.query.query_id,
            topic=context.query.text,
            references=tuple(chunk.chunk_id for chunk in context.chunks),
            response_length=0,
            answer=(),
            sample=context.sample,
            omitted=context.omitted,
            status=error.status,
            call_id=error.call_id,
        )
        step: Step = "gold_answer" if context.run_id == GOLD else "answer"
        return Outcome(answer, _failure(answer, step, error))
    return Outcome(answer.model_copy(update={"omitted": context.omitted}))


def _agree(
    session: Session,
    comparers: Mapping[str, float],
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    golds: Mapping[str, Sequence[Answer]],
) -> tuple[list[Agreement], list[AnsweringFailure]]:
    """Compare every answer with the gold ones by every comparer; the first decides."""
    texts = [one.text for one in (*chain(*golds.values()), *answers)]
    columns: list[list[Outcome]] = []
    for name, threshold in comparers.items():
        ask = partial(_compared, _comparer(session, name, texts), name, threshold, queries, golds)
        asks_model = name in ("yes_no", "graded")
        columns.append(
            session.each("comparison", ask, answers) if asks_model else [*map(ask, answers)]
        )
    agreements = []
    for found in zip(*columns, strict=False):  # of deferred ones there are fewer
        scores = {name: score for one in found for name, score in one.record.scores.items()}
        agreements.append(found[0].record.model_copy(update={"scores": scores}))
    failures = [one.failure for one in chain(*columns) if one.failure is not None]
    return agreements, failures


def comparer_names() -> tuple[str, ...]:
    """Name what can compare answers: ours, and what installed packages have."""
    return (*COMPARERS, *OTHER_COMPARERS.names())


def _check_comparers(session: Session, comparers: Mapping[str, float]) -> None:
    """Check, before anything is asked, that there are all, and an embedder if one is to compare."""
    for name in comparers:
        if name not in COMPARERS and name not in (known := comparer_names()):
            raise ConfigError(f"no comparer {name!r}; allowed: {', '.join(known)}")
    if "embedding" in comparers and not session.models.embedders:
        raise ConfigError(
            f"{session.config.file}: comparing answers by an embedder needs an [[embedder]]; add "
            "one, or leave the comparer 'embedding' out"
        )


def answer_comparer(session: Session, name: str) -> Any:
    """The comparer `yes_no` or `graded`; the first may be one of the user's own."""
    plain, own = AnswerComparer(graded=name == "graded"), session.programs.get("comparer")
    if own is None or name != "yes_no":
        return plain
    return program_in_place_of(plain, own, "comparer", session.config.file.parent)


def _comparer(session: Session, name: str, texts: Sequence[str]) -> Comparer:
    """Make the comparer of a name; an embedder embeds all texts at once."""
    if name in ("yes_no", "graded"):
        program = answer_comparer(session, name)
        return lambda query, references, answer: program(query, references, answer).toDict()
    if name == "embedding":
        similarity = _cosine(session, sorted({text for text in texts if text}))
    else:
        similarity = SIMILARITIES.get(name) or OTHER_COMPARERS.get(name)

    def compare(_: Query, references: Sequence[str], answer: str) -> Mapping[str, Any]:
        score = max(similarity(one, answer) for one in references)
        return {"score": score, "reason": f"{name} with the nearest gold answer: {score:.3f}"}

    return compare


def _cosine(session: Session, texts: Sequence[str]) -> Callable[[str, str], float]:
    embedder = session.models.embedders[0]
    with step("comparison"):
        vectors = embedder.embed_passages(texts, lambda _: None).astype(float)
    vectors /= (vectors**2).sum(axis=1, keepdims=True) ** 0.5
    vector_of = dict(zip(texts, vectors, strict=True))
    return lambda one, other: float(vector_of[one] @ vector_of[other])


def _compared(
    compare: Comparer,
    name: str,
    threshold: float,
    queries: Mapping[str, Query],
    golds: Mapping[str, Sequence[Answer]],
    answer: Answer,
) -> Outcome:
    """Whether an answer agrees with a gold one by one comparer, asked only where it is not plain."""
    query, gold = queries[answer.topic_id], golds[answer.topic_id]
    references = [one.text for one in gold if one.is_answered]
    failed = next((one for one in gold if one.status != "ok"), None)
    found, failure = _known(answer, references, failed), None
    if not found:
        try:
            reply = compare(query, references, answer.text)
            agrees = reply["score"] >= threshold
            found = {"agrees": agrees, "reason": reply["reason"], "call_id": reply.get("call_id")}
            if failed is None or agrees:
                found["scores"] = {name: reply["score"]}
            else:
                reason = "it agrees with no gold answer, and one of them failed"
                found |= {"agrees": None, "status": failed.status, "reason": reason}
        except ReplyError as error:
            found = {"status": error.status, "reason": str(error), "call_id": error.call_id}
            failure = _failure(answer, "comparison", error)
    elif "agrees" in found:
        found["scores"] = {name: found["agrees"] * _HIGHEST.get(name, 1.0)}
    agreement = Agreement(
        run_id=answer.run_id,
        query_id=query.query_id,
        answer_call_id=answer.call_id,
        gold_call_ids=tuple(one.call_id for one in gold if one.call_id is not None),
        **{"agrees": None, "status": "ok", "call_id": None, **found},
    )
    return Outcome(agreement, failure)


def _known(answer: Answer, references: Sequence[str], failed: Answer | None) -> dict[str, Any]:
    """What is known of an agreement without a comparer; nothing where it has to be asked."""
    if answer.status not in ("ok", "not_retrieved"):
        reason = "the answer from the retrieved context failed"
        return {"status": answer.status, "reason": reason}
    if not references and failed is not None:
        return {"status": failed.status, "reason": "the answer from the gold context failed"}
    if not references:
        reason = "the generator found no answer in the gold context"
        return {"status": "no_gold_answer", "reason": reason}
    if answer.status == "not_retrieved":
        reason = "the run has nothing for the query, so nothing was asked"
        return {"status": "not_retrieved", "reason": reason}
    if not answer.is_answered:
        reason = "the generator found no answer in the retrieved context"
        return {"agrees": False, "reason": reason}
    return {"agrees": True, "reason": "the same text"} if answer.text in references else {}


class Depth(NamedTuple):
    """A run of which the first k chunks are shown."""

    run: Run
    k: int


def at_depths(runs: Sequence[Run], k: Sequence[int]) -> list[Depth]:
    """Give every run at every depth, by name and depth; of several depths it is named NAME@k."""
    depths = sorted(set(k))
    return [
        Depth(run if len(depths) == 1 else replace(run, name=f"{run.name}@{depth}"), depth)
        for run in sorted(runs, key=lambda run: run.name)
        for depth in depths
    ]


def _tops(
    collection: Collection, depths: Sequence[Depth], queries: Mapping[str, Query]
) -> dict[str, dict[str, list[str]]]:
    """Run name, query id -> ids of the chunks in its top, the best first."""
    names = Counter([GOLD, *(run.name for run, _ in depths)])
    if repeated := next((name for name, count in names.items() if count > 1), None):
        raise CollectionError(
            f"two runs are named {repeated!r} (answers from gold chunks are run {GOLD!r}); give "
            "each a name of its own, in the last field of its lines"
        )
    tops = {}
    for run, k in depths:
        tops[run.name] = {
            query_id: [one.chunk_id for one in run.rankings.get(query_id, ())[:k]]
            for query_id in queries
        }
        if not any(tops[run.name].values()):
            raise CollectionError(
                f"run {run.name!r} holds nothing for any of the {len(queries)} queries; retrieve "
                f"for those of {collection.name} with: freshstack retrieve"
            )
    return tops


def assign(
    session: Session,
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    nuggets: Mapping[str, Sequence[Nugget]],
) -> tuple[list[AssignedAnswer], list[AnsweringFailure]]:
    """Judge which nuggets each answer supports, as if it were a chunk: one call, one vote."""
    scale = session.config.judge.graded
    pairs = [
        ToJudge(queries[one.topic_id], nuggets[one.topic_id], [as_chunk(one.run_id, one.text)])
        for one in answers
        if one.is_answered
    ]
    found = judge(session, session.recipe.support_judge, pairs, step="assignment", once=True)
    judged = {(one.chunk_id, one.nugget_id): one for one in found.judgments}
    assigned = [
        AssignedAnswer(
            query=queries[answer.topic_id].text,
            qid=answer.topic_id,
            answer_text=answer.text,
            response_length=answer.response_length,
            run_id=answer.run_id,
            nuggets=tuple(
                _assigned(one, answer, judged.get((answer.run_id, one.nugget_id)), scale)
                for one in nuggets[answer.topic_id]
            ),
            status=answer.status,
        )
        for answer in answers
    ]
    failures = [
        AnsweringFailure(**{**dict(failure), "chunk_ids": ()}, run_id=failure.chunk_ids[0])
        for failure in found.failures
    ]
    return assigned, failures


def _assigned(
    nugget: Nugget, answer: Answer, judged: Judgment | None, scale: Scale
) -> AssignedNugget:
    """A nugget with nuggetizer's word for its label, or what is known without the judge.

    An answer that says that there is none supports nothing. Of one that failed, or whose run
    retrieved nothing, every nugget is `failed`.
    """
    if judged is not None:
        label, reason, call_id = judged.label, judged.reason, judged.call_id
    elif answer.status == "ok":
        label, reason, call_id = 0, "there is no answer", None
    else:
        label, reason, call_id = None, f"the answer is {answer.status}", None
    return AssignedNugget(
        text=nugget.text,
        importance=nugget.importance or "vital",
        assignment=assignment(label, scale),
        nugget_id=nugget.nugget_id,
        rated=nugget.importance is not None,
        label=label,
        reason=reason,
        call_id=call_id,
        evidence=() if judged is None else judged.evidence,
    )


def judge_citations(
    session: Session,
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    chunks: Mapping[str, Mapping[str, Chunk]],
) -> tuple[list[JudgedAnswer], list[AnsweringFailure]]:
    """Judge how far each cited chunk supports its sentence, as if that were a nugget.

    The chunks of an answer that the same sentences cite are in one call. `chunks` has those of each
    query by id; a citation of another has no label.
    """
    answers = [one for one in answers if one.is_answered]
    pairs: list[ToJudge] = []
    runs: dict[str, str] = {}
    for one in answers:
        sentences = [
            Nugget(query_id=one.topic_id, nugget_id=id_, text=sentence.text, call_id=one.call_id)
            for id_, sentence in zip(_sentence_ids(one), one.answer, strict=True)
        ]
        runs |= {sentence.nugget_id: one.run_id for sentence in sentences}
        cited = {
            (nugget.nugget_id, one.references[number])
            for nugget, sentence in zip(sentences, one.answer, strict=True)
            for number in sentence.citations
        }
        of = chunks.get(one.topic_id, {})
        shown = [of[id_] for id_ in one.references if id_ in of]
        pairs += grouped(queries[one.topic_id], sentences, shown, cited)
    found = judge(session, session.recipe.support_judge, pairs, step="citation", once=True)
    judged = {(one.nugget_id, one.chunk_id): one for one in found.judgments}
    failures = {
        (runs[one.nugget_id], one.query_id, one.call_id): AnsweringFailure(
            query_id=one.query_id,
            step="citation",
            status=one.status,
            message=one.reason,
            call_id=one.call_id,
            run_id=runs[one.nugget_id],
        )
        for one in found.judgments
        if one.status != "ok"
    }
    scale = session.config.judge.graded
    return [_cited(one, judged, scale) for one in answers], [*failures.values()]


def _cited(
    answer: Answer, judged: Mapping[tuple[str, str], Judgment], scale: Scale
) -> JudgedAnswer:
    """An answer with the judgments of its citations, by sentence and chunk."""
    sentences = []
    for number, (id_, sentence) in enumerate(
        zip(_sentence_ids(answer), answer.answer, strict=True)
    ):
        citations = []
        for place, cited in enumerate(sentence.citations):
            reference = answer.references[cited]
            found = judged.get((id_, reference))  # None: without a text, or deferred
            citations.append(
                JudgedCitation(
                    citationID=place,
                    reference=reference,
                    support=_SUPPORT[assignment(found.label if found else None, scale)],
                    reason=found.reason if found else "not judged, for its text is not there",
                    call_id=found.call_id if found else None,
                    evidence=found.evidence if found else (),
                )
            )
        sentences.append(
            JudgedSentence(sentenceID=number, text=sentence.text, citations=tuple(citations))
        )
    return JudgedAnswer(
        topic_id=answer.topic_id,
        run_id=answer.run_id,
        references=answer.references,
        sentences=tuple(sentences),
    )


def _sentence_ids(answer: Answer) -> list[str]:
    return [f"{answer.run_id}/{answer.topic_id}/{place}" for place in range(len(answer.answer))]


def _failure(answer: Answer, step: Step, error: ReplyError) -> AnsweringFailure:
    return AnsweringFailure(
        query_id=answer.topic_id,
        step=step,
        status=error.status,
        message=str(error),
        call_id=error.call_id,
        run_id=answer.run_id,
        sample=answer.sample,
    )
