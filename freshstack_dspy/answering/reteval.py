"""LLM-retEval: the retriever through the answer (Alinejad, Kumar and Vahdat, arXiv 2406.06458).

A retriever is right about a query if the answer that a generator writes from the retrieved chunks
agrees with the answer that it writes from the gold chunks, which support the query's nuggets. Each
answer is also judged by the nuggets that it supports. Answers of systems of one's own are taken as
they are, and judged in the same way.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from freshstack_dspy.answering.comparing import (
    YES_OR_NO,
    RecordAndFailure,
    agree,
    check_comparers,
)
from freshstack_dspy.answering.judging import assign, check_answers, judge_citations
from freshstack_dspy.answering.own_answers import NO_ANSWERS, OwnAnswers
from freshstack_dspy.answering.scores import Combination
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import Role
from freshstack_dspy.errors import CollectionError, FatalModelError, ReplyError
from freshstack_dspy.lm.typed import Program
from freshstack_dspy.measures.density import REQUIRED, required_chunks
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.spans import Place
from freshstack_dspy.programs.answers import AnswerGenerator
from freshstack_dspy.programs.support_judge import passage_inputs
from freshstack_dspy.recipes.judge import Window
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Agreement,
    Answer,
    AnsweringFailure,
    AnswerStatus,
    AssignedAnswer,
    CheckedAnswer,
    Chunk,
    CitedPassage,
    CitedSentence,
    JudgedAnswer,
    OmittedChunk,
    Query,
    StepName,
)
from freshstack_dspy.stored.contents import nuggets_by_query

GOLD = "gold"
"""The run id of answers from gold chunks."""
ACCEPTED = "accepted"
"""That of the answers that people accepted."""
COPIED = 20
"""The fewest words of an answer that counts as copied from inside of a passage."""
SAMPLED_TEMPERATURE = 0.5
"""The temperature for several gold answers (§3.2: three); at 0 they would all be the same."""


class Context(NamedTuple):
    """The context from which a generator answers a query."""

    run_id: str
    query: Query
    chunks: Sequence[Chunk]
    omitted: tuple[OmittedChunk, ...] = ()
    sample: int = 1
    temperature: float | None = None

    def answer(self, text: str = "", *, status: AnswerStatus = "ok", call_id: str | None) -> Answer:
        """Make an answer from this context, without citations."""
        return Answer(
            run_id=self.run_id,
            topic_id=self.query.query_id,
            topic=self.query.text,
            references=tuple(chunk.chunk_id for chunk in self.chunks),
            response_length=len(text.split()),
            answer=(CitedSentence(text=text, citations=()),) if text else (),
            sample=self.sample,
            status=status,
            call_id=call_id,
        )


class Answering(NamedTuple):
    """Answers from runs, of systems and from gold chunks; by run, then query, in the order of ids."""

    answers: tuple[Answer, ...]
    """One for each run and query; then for each system and query, `not_retrieved` where it has
    none."""
    gold_answers: tuple[Answer, ...]
    """For each query, as many as requested."""
    agreements: tuple[Agreement, ...]
    """One for each run and query."""
    assignments: tuple[AssignedAnswer, ...]
    """The nuggets of each answer."""
    gold_assignments: tuple[AssignedAnswer, ...]
    """The nuggets of the first gold answer to each query."""
    citations: tuple[JudgedAnswer, ...]
    """For each answer with sentences, how far the chunks that it cites support them."""
    gold_citations: tuple[JudgedAnswer, ...]
    """The same for the first gold answers."""
    failures: tuple[AnsweringFailure, ...]
    accepted: tuple[Agreement, ...] = ()
    """Whether the answers of systems agree with the answers that people accepted, if there are any."""
    checks: tuple[CheckedAnswer, ...] = ()
    """What the answers of systems are, and what they contradict."""


def answer_from_runs(  # noqa: PLR0913 - each is a choice of the caller's
    session: Session,
    collection: Collection,
    runs: Sequence[Run],
    *,
    k: Sequence[int] = (10,),
    gold_answers: int = 1,
    comparers: Mapping[str, float] = YES_OR_NO,
    combine: Combination = "first",
    chunks_per_call: int | None = None,
    gold_per_call: int | None = None,
    own: OwnAnswers = NO_ANSWERS,
) -> Answering:
    """Answer every query from its gold chunks and from the top of every run, and compare.

    Args:
        session: Its `[generator]` answers, and its `[gold_generator]` from gold chunks; its `[judge]`
            compares, and judges answers by nuggets.
        collection: The collection with the queries, the gold chunks and the texts.
        runs: Runs over its queries and its corpus, with distinct names.
        k: The most chunks of a ranking that an answer is written from; several values give an
            answer for each, see `at_depths`. For gold chunks the largest value holds.
        gold_answers: How many answers are written from the gold context; several are sampled at
            `SAMPLED_TEMPERATURE`. With 0, nothing is compared with them.
        comparers: Some of `comparer_names()`, each with the score from which on answers agree.
        combine: Which of them an answer has to agree by; the rates of all are reported.
        chunks_per_call: How many chunks of a context the generator is shown in a call (§2.1: all at
            once, one by one, or in batches); the answer is the sentences of all calls, each once.
        gold_per_call: How many gold answers a model compares an answer with in a call; by default
            all (Figure 3). Agreeing with any of them is enough either way.
        own: Answers of systems, which are judged and compared as those from runs.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written to a file.
        ConfigError: Replies leave no room for a prompt, or there is no such comparer.
        CollectionError: No query has a supported nugget, or a run cannot be used.
        FatalModelError: All answers failed.
    """
    qrels = collection.qrels()
    by_id = {query.query_id: query for query in collection.queries}
    queries = {query_id: by_id[query_id] for query_id in sorted(qrels.nuggets)}
    gold = {query_id: gold_chunks(qrels.judged(query_id), max(k)) for query_id in queries}
    tops = _tops(collection, at_depths(runs, k), queries, own)
    given = _for_all(own, queries)
    check_comparers(comparers)

    generator = AnswerGenerator()

    def generate(context: Context) -> Answer:
        run_id, query, chunks, _, sample, temperature = context
        options: Any = {"run_id": run_id, "sample": sample, "temperature": temperature}
        return generator(query, chunks, **options).answer

    show = partial(
        shown_contexts, program=generator, inputs=passage_inputs, chunks_per_call=chunks_per_call
    )
    golds = show(session, collection, {GOLD: gold}, queries, samples=gold_answers)
    contexts = show(session, collection, tops, queries)
    ask = partial(answered, generate)
    parts = session.each("gold_answer", ask, golds) + session.each("answer", ask, contexts)
    session.stop_if_deferred()
    outcomes = [
        _joined([*of_context])
        for _, of_context in groupby(
            parts, lambda part: (part.record.run_id, part.record.topic_id, part.record.sample)
        )
    ]
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    asked = sum(outcome.record.status != "not_retrieved" for outcome in outcomes)
    if failures and len(failures) == asked:
        raise FatalModelError(
            f"none of the {asked} answers came, so nothing was written; the first: "
            f"{failures[0].message}"
        )
    records: list[Answer] = [outcome.record for outcome in outcomes]
    of_gold = [answer for answer in records if answer.run_id == GOLD]
    answers = [*(answer for answer in records if answer.run_id != GOLD), *given]
    failures += [failure for failure in own.failures if failure.query_id in queries]
    judged = [*(answer for answer in of_gold if answer.sample == 1), *answers]

    nuggets = nuggets_by_query(
        nugget for nugget in collection.nuggets if nugget.nugget_id in qrels.labels
    )
    assigned, unassigned = assign(session, judged, queries, nuggets)
    texts = cited_texts(collection, judged)
    cited, uncited = judge_citations(session, judged, queries, dict.fromkeys(queries, texts))
    copies = copied_from(collection, given, texts)
    checks, unchecked = (
        check_answers(session, given, queries, nuggets, copies) if given else ([], [])
    )
    by_query: dict[str, list[Answer]] = {}
    for answer in of_gold:
        by_query.setdefault(answer.topic_id, []).append(answer)
    agreements, uncompared = (
        agree(
            session,
            comparers,
            answers,
            queries,
            by_query,
            combine=combine,
            gold_per_call=gold_per_call,
        )
        if gold_answers
        else ([], [])
    )
    accepted, incomparable = (
        _correct(session, comparers, given, queries, combine) if given else ([], [])
    )
    session.stop_if_deferred()
    failures += [*unassigned, *uncited, *unchecked, *uncompared, *incomparable]
    return Answering(
        answers=tuple(answers),
        gold_answers=tuple(of_gold),
        agreements=tuple(agreements),
        assignments=tuple(answer for answer in assigned if answer.run_id != GOLD),
        gold_assignments=tuple(answer for answer in assigned if answer.run_id == GOLD),
        citations=tuple(answer for answer in cited if answer.run_id != GOLD),
        gold_citations=tuple(answer for answer in cited if answer.run_id == GOLD),
        failures=tuple(failures),
        accepted=tuple(accepted),
        checks=tuple(checks),
    )


def place_of(passage: CitedPassage) -> Place:
    """Give the place of a passage in the corpus."""
    return Place(passage.source, passage.path, passage.start_byte, passage.end_byte)


def cited_texts(collection: Collection, answers: Iterable[Answer]) -> dict[str, Chunk]:
    """Give the chunks and passages that answers refer to, by id, as far as their texts are there."""
    wanted: set[str] = set()
    passages: dict[str, CitedPassage] = {}
    for answer in answers:
        wanted.update(answer.references)
        passages |= {passage.passage_id: passage for passage in answer.passages}
    texts = collection.corpus.chunks(wanted & collection.corpus.ids)
    for id_, passage in passages.items():
        source, path, start, end = place = place_of(passage)
        texts[id_] = Chunk(
            chunk_id=id_,
            source=source,
            path=path,
            start_byte=start,
            end_byte=end,
            text=collection.files.passage(place),
            tokens=0,
        )
    return texts


def _correct(
    session: Session,
    comparers: Mapping[str, float],
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    combine: Combination,
) -> tuple[list[Agreement], list[AnsweringFailure]]:
    """Compare answers with those that people accepted, where there are any."""
    accepted = {
        query.query_id: [Context(ACCEPTED, query, ()).answer(query.answer, call_id=None)]
        for query in queries.values()
        if query.answer.strip()
    }
    answers = [answer for answer in answers if answer.topic_id in accepted]
    return agree(
        session, comparers, answers, queries, accepted, combine=combine, step="correctness"
    )


def copied_from(
    collection: Collection, answers: Iterable[Answer], texts: Mapping[str, Chunk]
) -> dict[str, str]:
    """Give the ids of passages that answers are word for word, by the text of the answer.

    These are whole chunks of the corpus; and, for answers of at least `COPIED` words, also parts of
    what they cite or of gold chunks, whose `texts` are known.
    """
    wanted = {_bare(answer.text): answer.text for answer in answers if answer.is_answered}
    copies: dict[str, str] = {}
    for batch in collection.corpus.batches(["chunk_id", "text"]) if wanted else ():
        for id_, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if (answer := wanted.get(_bare(text))) is not None:
                copies.setdefault(answer, id_)
    bare_texts = {id_: _bare(chunk.text) for id_, chunk in texts.items()}
    for bare, answer in wanted.items():
        if len(answer.split()) >= COPIED:
            holding = (id_ for id_, text in bare_texts.items() if bare in text)
            if (id_ := next(holding, None)) is not None:
                copies.setdefault(answer, id_)
    return copies


def _bare(text: str) -> str:
    return "".join(text.split())


def _for_all(own: OwnAnswers, queries: Mapping[str, Query]) -> list[Answer]:
    """Give an answer of every system to every query; one that is missing is `not_retrieved`."""
    answers = {(answer.run_id, answer.topic_id): answer for answer in own.answers}
    return [
        answers.get((system, query.query_id))
        or Context(system, query, ()).answer(status="not_retrieved", call_id=None)
        for system in own.systems
        for query in queries.values()
    ]


def gold_chunks(judged: Judged, k: int) -> list[str]:
    """List the chunks that support a query's nuggets, beginning with those needed to answer it.

    The required subset (CRUX) comes first, in the order in which it is chosen; then the other chunks
    that support a nugget, sorted by how many they support (most first), ties by id.
    """
    candidates = sorted(judged.supported, key=lambda id_: (-len(judged.supported[id_]), id_))
    labels = required_chunks(judged, candidates)
    required = [chunk for chunk, label in labels.items() if label == REQUIRED]
    return [*required, *(chunk for chunk in candidates if chunk not in required)][:k]


def shown_contexts(
    session: Session,
    collection: Collection,
    tops: Mapping[str, Mapping[str, Sequence[str]]],
    queries: Mapping[str, Query],
    program: Program,
    inputs: Callable[[Query, Sequence[Chunk]], dict[str, Any]],
    *,
    samples: int = 1,
    chunks_per_call: int | None = None,
) -> list[Context]:
    """Fit as many whole chunks of each top, or of each part of it, as possible into a window."""
    role: Role = "gold_generator" if GOLD in tops else "generator"
    window = Window(session.config.model_of(role), program)
    wanted = {chunk_id for top in tops.values() for ids in top.values() for chunk_id in ids}
    chunks = collection.corpus.chunks(wanted & collection.corpus.ids)
    temperature = SAMPLED_TEMPERATURE if samples > 1 else None
    contexts = []
    for run_id, top in tops.items():
        for query_id, ids in top.items():
            query, ranked = queries[query_id], [chunks[chunk_id] for chunk_id in ids]
            size = chunks_per_call or len(ranked) or 1
            parts = [
                window.packed(inputs(query, []), ranked[start : start + size])
                for start in range(0, len(ranked), size)
            ]
            omitted = tuple(chunk for _, left_out in parts for chunk in left_out)
            contexts += [
                Context(run_id, query, part, omitted, sample, temperature)
                for sample in range(1, samples + 1)
                for part in [shown for shown, _ in parts if shown] or [[]]
            ]
    return contexts


def answered(make: Callable[[Context], Answer], context: Context) -> RecordAndFailure:
    """Make the answer from a context, or a record of the failure."""
    failure = None
    try:
        if context.omitted and not context.chunks:
            why = (
                f"none of the {len(context.omitted)} chunks of the context can be shown: they have "
                "no text (freshstack import … --corpus PATH), or do not fit into the model's window "
                "([model] context, max_tokens)"
            )
            raise ReplyError(why, status="failed", call_id=None)  # noqa: TRY301
        answer = make(context)
    except ReplyError as error:
        answer = context.answer(status=error.status, call_id=error.call_id)
        step: StepName = "gold_answer" if context.run_id == GOLD else "answer"
        failure = AnsweringFailure.of(answer, step, error)
    return RecordAndFailure(answer.model_copy(update={"omitted": context.omitted}), failure)


def _joined(parts: Sequence[RecordAndFailure]) -> RecordAndFailure:
    """Join the answers from the parts of a context; if one of them failed, there is none."""
    failed = next((part for part in parts if part.failure is not None), None)
    if failed is not None or len(parts) == 1:
        return failed or parts[0]
    references: list[str] = []
    citations: dict[str, list[int]] = {}
    for answer in (part.record for part in parts):
        for sentence in answer.answer:
            places = [len(references) + place for place in sentence.citations]
            citations.setdefault(sentence.text, []).extend(places)
        references += answer.references
    joined = {
        "references": tuple(references),
        "answer": tuple(
            CitedSentence(text=text, citations=tuple(places)) for text, places in citations.items()
        ),
        "response_length": sum(len(text.split()) for text in citations),
    }
    return RecordAndFailure(parts[0].record.model_copy(update=joined))


class RunAtDepth(NamedTuple):
    """A run, and how many of its first chunks are shown."""

    run: Run
    k: int


def at_depths(runs: Sequence[Run], k: Sequence[int]) -> list[RunAtDepth]:
    """Give every run at every depth, by name and depth; with several depths, as NAME@k."""
    depths = sorted(set(k))
    return [
        RunAtDepth(
            run if len(depths) == 1 else Run(f"{run.name}@{depth}", run.scores),
            depth,
        )
        for run in sorted(runs, key=lambda run: run.name)
        for depth in depths
    ]


def _tops(
    collection: Collection,
    depths: Sequence[RunAtDepth],
    queries: Mapping[str, Query],
    own: OwnAnswers,
) -> dict[str, dict[str, list[str]]]:
    """Give run name -> query id -> ids of the chunks in its top, the best first."""
    names = Counter([GOLD, *(run.name for run, _ in depths), *own.systems])
    if repeated := next((name for name, count in names.items() if count > 1), None):
        raise CollectionError(
            f"two runs are named {repeated!r} (answers from gold chunks are run {GOLD!r}); give "
            "each a name of its own, in the last field of its lines, or the run_id of its answers"
        )
    if own.answers and not any(answer.topic_id in queries for answer in own.answers):
        raise CollectionError(
            f"no answer is to one of the {len(queries)} queries of {collection.name} with a "
            f"supported nugget, such as {min(queries)!r}"
        )
    tops = {}
    for run, k in depths:
        tops[run.name] = {
            query_id: [chunk.chunk_id for chunk in run.rankings.get(query_id, ())[:k]]
            for query_id in queries
        }
        if not any(tops[run.name].values()):
            raise CollectionError(
                f"run {run.name!r} holds nothing for any of the {len(queries)} queries; retrieve "
                f"for those of {collection.name} with: freshstack retrieve"
            )
    return tops
