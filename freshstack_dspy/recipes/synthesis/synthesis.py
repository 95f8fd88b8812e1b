"""Synthesis: queries made from sampled chunks, each answerable by these and unlike the others.

Seeds are tried in waves, in the order in which they are sampled, until there are as many queries
as were asked for. What is kept depends on that order alone: neither on the size of the waves nor
on which reply came first.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import DeferredError, FatalModelError, ReplyError, SourceError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.programs.query_synthesizer import QuerySynthesizer
from freshstack_dspy.questions.reading import QueryReading
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.judge import ToJudge, judge_calls, merged
from freshstack_dspy.recipes.synthesis.refusals import NEAR_DUPLICATE, EarlierQuestions, refusal
from freshstack_dspy.recipes.synthesis.seeds import related, sampled
from freshstack_dspy.recipes.synthesis.style import read_style, shown_examples
from freshstack_dspy.records import Attribution, Chunk, Judgment, LicenceFile, Query

EXPECTED_KEPT = 0.8
"""The share of questions that is expected to be kept, until some were tried."""
_LEAST_KEPT = 0.1
"""The share that a wave is made for where fewer were kept so far."""
_MOST_FAILED = 10
"""So many seeds may fail, where none has given a question, before nothing more is asked."""
_NOT_RECORDED = "not recorded"

UNCHECKED = "without a valid reply on its nuggets or their support"
UNSUPPORTED = "not answered by its chunks"
BY_ONE_CHUNK = "answered by one of its chunks alone"
_BY_JUDGMENT = frozenset([UNCHECKED, UNSUPPORTED, BY_ONE_CHUNK])

Item = TypeVar("Item")
Result = TypeVar("Result")
Tell = Callable[[], None]
Asking = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Applies a function to all items, several at once, and gives the results in order; raises
`DeferredError` where a reply is still missing."""


class _Draft(NamedTuple):
    """A question that may become a query, and what speaks against it, if anything does."""

    query: Query
    refused: str | None


class _Tried(NamedTuple):
    """What came of one seed: questions, or the error in their place."""

    drafts: tuple[_Draft, ...]
    error: ReplyError | None = None


class Synthesis:
    """Makes the synthetic queries of a build."""

    def __init__(
        self,
        config: BuildConfig,
        recipe: FreshStack,
        chunks: Sequence[Chunk],
        index: HybridIndex | None,
        licences: Sequence[LicenceFile] = (),
        *,
        failed: Tell = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            config: Of the build.
            recipe: With the nuggetizer and the judge.
            chunks: Of the whole corpus.
            index: Of these chunks; may be None where a question is made from one.
            licences: Files of the corpus that say under which licence it is.
            failed: Told of each request that gave no valid answer.

        Raises:
            ConfigError: A glob cannot be understood.
            SourceError: There are too few chunks, or the style cannot be read.
        """
        self._config, self._recipe = config, recipe
        self._queries = config.queries
        self._index = index
        self._failed = failed
        self._synthesizer = recipe.query_synthesizer or QuerySynthesizer(self._queries.per_seed)
        self._style = read_style(self._queries.style) if self._queries.style else []
        self._seeds = sampled(self._queries, chunks)
        self._eligible = {seed.chunk_id: seed for seed in self._seeds}
        self._addresses = {corpus.name: corpus.url for corpus in config.corpus}
        self._licences: dict[str, list[str]] = {}
        for file in licences:
            self._licences.setdefault(file.source, []).append(file.path)
        self._count = self._queries.count or 0
        if (most := len(self._seeds) * self._queries.per_seed) < self._count:
            raise SourceError(
                f"queries.count is {self._count:,}, and {len(self._seeds):,} chunks can be sampled "
                f"with {self._queries.per_seed} questions each, so there are at most {most:,}; "
                "lower count, raise per_seed, lower min_tokens, or add documents"
            )

    def run(self, ask: Asking, *, exactly: bool = True) -> QueryReading:
        """Make exactly as many queries as were asked for.

        Args:
            ask: Applies a function to the seeds of a wave.
            exactly: Whether it is an error if all seeds give fewer.

        Returns:
            The queries in the order of their seeds, and how many were refused, by reason.

        Raises:
            DeferredError: A reply is missing; once it is recorded, the next run goes on.
            FatalModelError: No seed gave a question.
            SourceError: All seeds were tried, and too few questions were kept.
        """
        kept: list[Query] = []
        refused: Counter[str] = Counter()
        earlier = EarlierQuestions(self._queries.near_duplicate)
        tried = asked = failed = 0
        while len(kept) < self._count:
            wave = self._seeds[tried : tried + self._wave_size(len(kept), tried)]
            if not wave and not exactly:
                break
            if not wave:
                raise self._exhausted(len(kept), refused)
            tried += len(wave)
            if self._index is None and self._queries.chunks > 1:
                raise DeferredError("there is no index yet to find related chunks by")
            groups = related(self._queries, self._index, wave, self._eligible)
            complete = [group for group in groups if len(group) == self._queries.chunks]
            refused["seed without related chunks"] += len(groups) - len(complete)
            asked += len(complete)
            for one in ask(lambda group: self._try(group, earlier), complete):
                if one.error is not None:
                    failed += 1
                    refused[f"seed without a valid reply: {one.error.status}"] += 1
                    self._check_only_failures(failed, asked, one.error)
                for draft in one.drafts:
                    reason = self._reason_against(draft, earlier, len(kept))
                    if reason is None:
                        kept.append(draft.query)
                        earlier.keep(draft.query)
                    else:
                        refused[reason] += 1
        return QueryReading(tuple(kept), {key: refused[key] for key in sorted(+refused)})

    def _reason_against(self, draft: _Draft, earlier: EarlierQuestions, kept: int) -> str | None:
        if kept == self._count:
            return "beyond count"
        if draft.refused is None or draft.refused in _BY_JUDGMENT:
            return NEAR_DUPLICATE if earlier.holds_alike(draft.query) else draft.refused
        return draft.refused

    def _wave_size(self, kept: int, tried: int) -> int:
        """How many seeds are likely to give what is still missing."""
        per_seed = self._queries.per_seed
        share = max(kept / (tried * per_seed), _LEAST_KEPT) if tried else EXPECTED_KEPT
        return math.ceil((self._count - kept) / (share * per_seed))

    def _try(self, seeds: Sequence[Chunk], earlier: EarlierQuestions) -> _Tried:
        """Ask for questions of one seed, and for what speaks against each."""
        examples = shown_examples(
            self._style, self._queries.seed, [seed.chunk_id for seed in seeds]
        )
        try:
            made = self._synthesizer(chunks=seeds, style_examples=examples).queries
        except ReplyError as error:
            self._failed()
            return _Tried((), error)
        reasons = _each(lambda query: self._refused(query, seeds, earlier), made)
        return _Tried(
            tuple(
                _Draft(self._attributed(query, seeds[0]), reason)
                for query, reason in zip(made, reasons, strict=True)
            )
        )

    def _refused(
        self, query: Query, seeds: Sequence[Chunk], earlier: EarlierQuestions
    ) -> str | None:
        """What speaks against a question; the cheap reasons first."""
        reason = refusal(query, seeds, self._queries)
        if reason is None and earlier.holds_alike(query):
            reason = NEAR_DUPLICATE
        if reason is not None:
            return reason
        made = self._recipe.nuggets_of(query)
        if made.failure is not None:
            self._failed()
            return UNCHECKED
        pair = ToJudge(query, made.nuggets, seeds)
        calls = judge_calls(self._config, self._recipe.support_judge, [pair])
        judged = _each(self._recipe.judged, calls)
        if any(one.failure is not None for one in judged):
            self._failed()
            return UNCHECKED
        return self._unanswered(
            {nugget.nugget_id for nugget in made.nuggets},
            merged(judged, self._config.judge.votes),
        )

    def _unanswered(self, nuggets: set[str], judgments: Sequence[Judgment]) -> str | None:
        """Whether the seeds together hold every nugget and, of several, none does alone."""
        threshold = self._config.judge.graded.threshold
        held: dict[str, set[str]] = {}
        for judgment in judgments:
            if judgment.label is not None and judgment.label >= threshold:
                held.setdefault(judgment.chunk_id, set()).add(judgment.nugget_id)
        if set().union(*held.values()) != nuggets:
            return UNSUPPORTED
        if self._queries.chunks > 1 and nuggets in held.values():
            return BY_ONE_CHUNK
        return None

    def _attributed(self, query: Query, seed: Chunk) -> Query:
        """Say where the answer comes from, if the corpus does."""
        address = seed.url or self._addresses.get(seed.source)
        licences = self._licences.get(seed.source, [])
        if address is None:
            return query
        source = Attribution(
            author=seed.source, url=address, licence=", ".join(licences) or _NOT_RECORDED
        )
        return query.model_copy(update={"answer_source": source})

    def _check_only_failures(self, failed: int, asked: int, last: ReplyError) -> None:
        """Stop before a whole corpus is paid for in vain."""
        if failed == asked >= min(_MOST_FAILED, len(self._seeds)):
            raise FatalModelError(
                f"no question came of any of {failed} seeds, so no more are tried; the last: {last}"
            )

    def _exhausted(self, kept: int, refused: Counter[str]) -> SourceError:
        why = "; ".join(f"{number:,} {reason}" for reason, number in sorted((+refused).items()))
        return SourceError(
            f"queries.count is {self._count:,}, and all {len(self._seeds):,} seeds gave {kept:,} "
            f"({why}); lower count, raise per_seed, lower min_tokens, loosen near_duplicate or "
            "copied, or add documents; every reply is recorded, and only what is new is asked"
        )


def _each(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function to all items, so that every request that is deferred is written down."""
    results: list[Result] = []
    deferred: DeferredError | None = None
    for item in items:
        try:
            results.append(function(item))
        except DeferredError as error:
            deferred = error
    if deferred is not None:
        raise deferred
    return results
