"""The FreshStack recipe (arXiv 2504.13128 §3): nuggets, pools, and which chunk supports which nugget."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import dspy

from freshstack_dspy.collection.contamination import Knowledge, contamination, overlap
from freshstack_dspy.config import BuildConfig, ContaminationConfig, QueriesConfig
from freshstack_dspy.corpus.shown_chunks import as_chunk
from freshstack_dspy.errors import FatalModelError, SourceError, file_named
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.languages import language_of
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.lm.typed import UNRECORDED
from freshstack_dspy.programs.answers import ClosedBookAnswerer, QuestionDecomposer
from freshstack_dspy.programs.documents import QuerySynthesizer
from freshstack_dspy.programs.nuggetizer import Nuggetizer, with_near_duplicates
from freshstack_dspy.programs.own import put_programs
from freshstack_dspy.programs.reranking import reranker_of
from freshstack_dspy.programs.support_judge import SupportJudge
from freshstack_dspy.progress import Progress
from freshstack_dspy.questions.filters import corpus_overlaps, overlap_note
from freshstack_dspy.questions.masking import counts_of
from freshstack_dspy.questions.reading import QueryReading, read_queries
from freshstack_dspy.recipes.flow import Stages, Work, ask, by_query, run_stages
from freshstack_dspy.recipes.judge import ToJudge, judge
from freshstack_dspy.recipes.known import edited_nuggets
from freshstack_dspy.recipes.pooling import Searches, blocks, with_seeds
from freshstack_dspy.recipes.session import SingleCall
from freshstack_dspy.records import (
    Chunk,
    Contamination,
    Expansion,
    ExpansionKind,
    Failure,
    Judgment,
    Nugget,
    Query,
)
from freshstack_dspy.stored.contents import Contents, nuggets_by_query

LITTLE_OVERLAP = 0.7
"""Questions with a smaller share of their rare terms in the corpus are named; benchmarks/LOG.md has
how many of them the corpus could not answer, and how many others."""


def nuggetize(work: Work, made: Contents) -> Contents:
    """Cut every accepted answer into nuggets (§3.3)."""
    queries, known = made.queries, work.known
    edited = edited_nuggets(work.config.nuggets.edited, queries, ())
    reused = {one.query_id: edited.get(one.query_id, known.nuggets(one)) for one in queries}
    missing = [one for one in queries if not reused[one.query_id] and one.query_id not in edited]
    asked = [{"query": query} for query in missing]
    new, failures = ask(work.session, "nuggets", work.recipe.nuggetizer, asked, nuggets_in)
    nuggets = list(chain(*reused.values(), *new))
    if (new or failures) and all(nugget.doubtful for nugget in nuggets):
        work.session.stop_if_deferred()
        why = "try a larger model"
        if failures:
            why = f"the first failure: {failures[0].message}; {work.session.how_to_ask_again}"
        raise FatalModelError(
            f"none of the {len(asked)} answers has a nugget, so nothing was written; {why}"
        )
    still = (known.failures(one, "nuggets") for one in queries if reused[one.query_id])
    failed = (*made.failures, *chain(*still), *failures)
    return replace(made, nuggets=tuple(nuggets), failures=failed)


def nuggets_in(query: Query, reply: Any, call_id: str | None) -> Sequence[Nugget]:
    """Take the nuggets of a prediction: records, or their texts."""
    if isinstance(reply.nuggets, str):
        raise TypeError("nuggets is a text; it must be a list")
    if all(isinstance(one, Nugget) for one in reply.nuggets):
        if others := {one.query_id for one in reply.nuggets} - {query.query_id}:
            raise ValueError(f"nuggets of query {others.pop()!r} for {query.query_id!r}")
        return tuple(reply.nuggets)
    ids = {"query_id": query.query_id, "call_id": call_id}
    return with_near_duplicates(
        [
            Nugget(nugget_id=f"{query.query_id}_{number}", text=text, **ids)
            for number, text in enumerate(reply.nuggets)
        ]
    )


def expansion_in(kind: ExpansionKind, query: Query, reply: Any, call_id: str | None) -> Expansion:
    """Take the expansion of a prediction: a record, or its texts."""
    if "expansion" in reply:
        made: Expansion = reply.expansion
        return made
    id_ = query.query_id
    return Expansion(query_id=id_, kind=kind, texts=reply.texts, call_id=call_id or UNRECORDED)


def expand(work: Work, made: Contents) -> Contents:
    """Ask for the sub-questions and the closed-book answers of questions (§3.4)."""
    expansions: list[Expansion] = []
    failures: list[Failure] = []
    for kind, program in work.recipe.expanders.items():
        reused = {one.query_id: work.known.expansion(one, kind) for one in made.queries}
        asked = [{"query": query} for query in made.queries if reused[query.query_id] is None]
        new, failed = ask(work.session, kind, program, asked, partial(expansion_in, kind))
        expansions += [*(one for one in reused.values() if one is not None), *new]
        failures += failed
    return replace(made, expansions=tuple(expansions), failures=(*made.failures, *failures))


def pool_chunks(work: Work, made: Contents) -> Contents:
    """Pool chunks for every query that has nuggets (§3.4)."""
    nuggets_of = nuggets_by_query(made.nuggets)
    return pool_for(work, made, [one for one in made.queries if one.query_id in nuggets_of])


def pool_for(work: Work, made: Contents, queries: Sequence[Query]) -> Contents:
    """Pool chunks for some queries, with what there is to search with."""
    texts = made.texts(queries)
    progress = work.session.progress
    progress.start("pool", 0)
    with span("pool", items=len(texts)):
        pooled = with_seeds(made.queries, work.corpus.pool(texts))
    progress.finish("pool", f"{len(pooled):,} chunks for {len(texts):,} queries")
    candidates = work.known.candidates(made.queries, pooled, work.corpus.chunks)
    return replace(made, pool=tuple(candidates))


def judge_pool(work: Work, made: Contents) -> Contents:
    """Judge each pooled chunk against each nugget of its query (§3.5)."""
    nuggets_of, pooled = nuggets_by_query(made.nuggets), by_query(made.pool)
    queries = [query for query in made.queries if query.query_id in nuggets_of]

    def pairs() -> Iterator[ToJudge]:
        for block in blocks(queries):
            of_query = [pooled.get(query.query_id, ()) for query in block]
            chunks = work.chunks(made, (one.chunk_id for one in chain(*of_query)))
            for query, shown in zip(block, of_query, strict=True):
                texts = [chunks[one.chunk_id] for one in shown]
                yield ToJudge(query, nuggets_of[query.query_id], texts)

    judge_by = work.recipe.support_judge
    judged = judge(work.session, judge_by, pairs(), work.known, of=len(queries))
    wanted = sum(len(nuggets_of.get(one.query_id, ())) for one in made.pool)
    if judged.failures and wanted == sum(one.label is None for one in judged.judgments):
        work.session.stop_if_deferred()
        raise FatalModelError(
            f"the judge labelled none of the {wanted} pairs of nugget and chunk, so nothing was "
            f"written; the first failure: {judged.failures[0].message}; {work.session.how_to_ask_again}"
        )
    failures = (*made.failures, *judged.failures)
    return replace(made, judgments=judged.judgments, failures=failures)


def contaminate(work: Work, made: Contents) -> Contents:
    """Tell for every query with nuggets how far it can be answered without the corpus.

    Its closed-book answer is judged as if it were a chunk, in the step `contamination`; known is
    what an answer holds that has a label for every nugget. A failure names no chunk.
    """
    knowledge: dict[str, Knowledge] = {}
    failures: list[Failure] = []
    threshold = work.config.judge.graded.threshold
    nuggets_of, pairs = nuggets_by_query(made.nuggets), []
    answers = {one.query_id: one for one in made.expansions if one.kind == "closed_book_answer"}
    for query in made.queries if work.config.contamination.score else ():
        query_id = query.query_id
        if query_id in nuggets_of and query_id in answers:
            if (known := work.known.knowledge(query, threshold)) is not None:
                knowledge[query_id] = known
            else:
                shown = as_chunk("closed-book answer", "\n".join(answers[query_id].texts))
                pairs.append(ToJudge(query, nuggets_of[query_id], [shown]))
    if pairs:
        program = work.recipe.support_judge
        judged = judge(work.session, program, pairs, step="contamination", once=True)
        for query_id, judgments in by_query(judged.judgments).items():
            if all(one.label is not None for one in judgments):
                ids = sorted(one.nugget_id for one in judgments if one.label >= threshold)
                knowledge[query_id] = Knowledge(tuple(ids), judgments[0].call_id)
        failures = [one.model_copy(update={"chunk_ids": ()}) for one in judged.failures]
    found = contamination_of(
        work.config.contamination,
        threshold,
        made.queries,
        made.nuggets,
        made.judgments,
        partial(work.chunks, made),
        knowledge,
    )
    return replace(made, contamination=found, failures=(*made.failures, *failures))


def contamination_of(
    settings: ContaminationConfig,
    threshold: int,
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    judgments: Iterable[Judgment],
    chunks: Callable[[Iterable[str]], Mapping[str, Chunk]],
    knowledge: Mapping[str, Knowledge],
) -> tuple[Contamination, ...]:
    """For every query with nuggets, how far it can be answered without the corpus.

    `chunks` gives those of the corpus by their ids.
    """
    supporting: dict[str, set[str]] = {}
    for judgment in judgments:
        if judgment.label is not None and judgment.label >= threshold:
            supporting.setdefault(judgment.query_id, set()).add(judgment.chunk_id)
    overlaps: dict[str, float | None] = {}
    for block in blocks(query for query in queries if query.query_id in supporting):
        gold = chunks({id_ for query in block for id_ in supporting[query.query_id]})
        for query in block:
            texts = [gold[id_].passage for id_ in supporting[query.query_id]]
            overlaps[query.query_id] = overlap(query.text, texts, settings.ngram)
    return tuple(contamination(queries, nuggets, overlaps, knowledge, settings))


# The questions


def sampled(queries: Sequence[Query], most: int | None) -> Sequence[Query]:
    """At most `most` of the queries, evenly spread; None: all."""
    every = -(-len(queries) // most) or 1 if most else 1
    return queries[(every - 1) // 2 :: every]


def read_questions(
    queries: QueriesConfig, progress: Progress, *, answered: bool = True
) -> QueryReading:
    """Read the questions, with `answered` only those with an accepted answer.

    Where `min_corpus_overlap` is set, `limit` does not hold yet: `check_overlap` applies it.

    Raises:
        SourceError: They cannot be read, or none is left.
    """
    progress.start("questions", 1)
    unlimited = {"limit": None} if queries.min_corpus_overlap is not None else {}
    reading = read_queries(queries.model_copy(update=unlimited), answered=answered)
    if not reading.queries:
        left_out = "; ".join(f"{number} {why}" for why, number in reading.rejected.items())
        raise SourceError(
            f"{queries.place}: no question is left ({left_out or 'it holds none'}); widen "
            "the filters of [queries], or name another file"
        )
    progress.advance("questions")
    rejected = sum(reading.rejected.values())
    kept = ", ".join(dict.fromkeys(name for query in reading.queries for name in query.fields))
    note = f"{len(reading.queries):,}; {rejected:,} left out"
    masked = counts_of(reading.masked)
    note += f"; masked: {masked}" * bool(masked)
    progress.finish("questions", note + (f"; other columns kept: {kept}" if kept else ""))
    return reading


def check_overlap(
    queries: QueriesConfig, reading: QueryReading, index: HybridIndex, progress: Progress
) -> tuple[QueryReading, dict[str, float]]:
    """Name the questions that use words that the corpus lacks, before anything is asked.

    Returns:
        The questions without those below `min_corpus_overlap`; and by id the share of rare terms
        that the corpus has of each that is left and below `LITTLE_OVERLAP`, the lowest first.

    Raises:
        SourceError: No question is left.
    """
    progress.start("overlap", 0)
    shares = corpus_overlaps(
        reading.queries, index.frequencies, len(index), index.manifest.languages
    )
    least = queries.min_corpus_overlap
    too_far = 0
    if least is not None:
        near = [query for query in reading.queries if shares[query.query_id] >= least]
        if not near:
            raise SourceError(
                f"all {len(shares):,} questions have less in common with the corpus than "
                f"min_corpus_overlap = {least}; the most is {max(shares.values()):.2f}"
            )
        kept = tuple(near[: queries.limit])
        too_far = len(reading.queries) - len(near)
        left_out = {
            "below min_corpus_overlap": too_far,
            "beyond limit": len(near) - len(kept),
        }
        rejected = reading.rejected | {why: number for why, number in left_out.items() if number}
        reading = QueryReading(kept, dict(sorted(rejected.items())))
    ids = [query.query_id for query in reading.queries if shares[query.query_id] < LITTLE_OVERLAP]
    little = {query_id: shares[query_id] for query_id in sorted(ids, key=shares.__getitem__)}
    note = overlap_note(little, len(reading.queries))
    if least is not None:
        note = f"{too_far:,} questions left out; {note}"
    progress.finish("overlap", note)
    return reading, little


def with_inputs(work: Work, made: Contents, queries: Sequence[Query]) -> Contents:
    """Add the questions of a build, and what was left out of its corpus.

    They lose the seeds that this corpus lacks, for they were made from other documents or an earlier
    state of these; and get a language of the configuration where they do not name theirs.
    """
    cut, languages = work.corpus.corpus, work.config.languages
    taken = []
    for query in queries:
        update: dict[str, Any] = {}
        if query.seed_chunk_ids:
            known = work.corpus.chunk_ids
            update["seed_chunk_ids"] = tuple(id_ for id_ in query.seed_chunk_ids if id_ in known)
        if languages and not query.language:
            own = work.config.queries.language
            update["language"] = own or language_of(query.text, languages)
        taken.append(query.model_copy(update=update) if update else query)
    skipped, licences = tuple(cut.skipped), tuple(cut.licences)
    return replace(made, queries=tuple(taken), skipped=skipped, licences=licences)


# The recipe


class FreshStack(dspy.Module):
    """Nuggets, expansions, pool and support judgments, by steps that any recipe may use.

    Attributes:
        stages: The steps of a build, in order.
        needs_answers: Whether a question without an accepted answer is left out.
        made_anew: What no build can reuse of the last, so that it cannot be refreshed.
    """

    stages: ClassVar[Stages] = (
        (nuggetize, expand),
        (pool_chunks,),
        (judge_pool, contaminate),
    )
    needs_answers: ClassVar[bool] = True
    made_anew: ClassVar[str] = ""

    def __init__(self, config: BuildConfig) -> None:
        """Make the programs, from the optimized ones that the configuration names."""
        super().__init__()
        self.config = config
        self.nuggetizer = Nuggetizer(config.nuggets.limit)
        self.question_decomposer = QuestionDecomposer(config.sub_questions.limit)
        self.closed_book_answerer = ClosedBookAnswerer()
        self.support_judge = SupportJudge(config.judge.scale)
        self.query_synthesizer = (
            QuerySynthesizer(config.queries.per_seed)
            if config.queries.source == "synthetic"
            else None
        )
        self.reranker = reranker_of(config.reranker)
        own = {name: of for name, of in config.programs.named.items() if hasattr(self, name)}
        put_programs(self, own, config.file.parent)

    @property
    def expanders(self) -> dict[ExpansionKind, dspy.Module]:
        """The programs whose texts are searched with, as `[pool] techniques` wants them."""
        programs: dict[ExpansionKind, dspy.Module] = {
            "sub_questions": self.question_decomposer,
            "closed_book_answer": self.closed_book_answerer,
        }
        techniques = self.config.pool.techniques
        return {kind: program for kind, program in programs.items() if kind in techniques}

    def begin(self, work: Work, made: Contents) -> Contents:
        """Read or make the questions, and cut the corpus: the step before all others of a build."""
        from freshstack_dspy.recipes.synthesis import Synthesis

        session: Any = work.session
        config, progress, corpus = work.config, session.progress, work.corpus
        queries = config.queries
        synthetic = queries.source == "synthetic"
        if not synthetic:
            with file_named(config.file):
                work.reading = read_questions(queries, progress, answered=self.needs_answers)
        if session.mode != "replay" or session.dry:
            _ = corpus.own  # what is wrong with them shows now
        _ = corpus.corpus  # cut
        if session.mode != "replay":
            _ = corpus.index  # what is wrong with it shows before anything is paid for
        if synthetic:
            work.reading = Synthesis(session, self, corpus).run(exactly=work.most is None)
        elif session.mode != "replay" or work.most or queries.min_corpus_overlap is not None:
            work.reading, work.little_overlap = check_overlap(
                queries, work.reading, corpus.index, progress
            )
        if session.mode != "replay":
            corpus.try_own(Contents().texts(work.reading.queries))
        return with_inputs(work, made, sampled(work.reading.queries, work.most))

    async def aforward(self, query: Query, index: HybridIndex) -> dspy.Prediction:
        """Run every step for one query, in a thread."""
        forward: Any = self.forward
        return await dspy.asyncify(forward)(query, index)

    def forward(self, query: Query, index: HybridIndex) -> dspy.Prediction:
        """Run every step for one query.

        Returns:
            A prediction with `nuggets`, `expansions`, `pool`, `judgments`, `contamination`, `notes`
            and `failures`, tuples of records; judgments that failed have no label.

        Raises:
            FatalModelError: No nuggets came, or not one label.
        """
        single = SingleCall(self.config)
        work = Work(single, self, Searches(single, over=index))
        made = run_stages(work, Contents(queries=(query,)), self.stages)
        names = ("nuggets", "expansions", "pool", "judgments", "contamination", "notes", "failures")
        return dspy.Prediction(**{name: getattr(made, name) for name in names})
