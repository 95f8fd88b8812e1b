"""Synthesis: queries made from sampled chunks, each answered by these and unlike the others.

Seeds are tried in waves, in the order in which they are sampled, until there are as many queries
as were asked for. What is kept depends on that order alone: neither on the size of the waves nor
on which reply came first.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from freshstack_dspy.config import BuildConfig, QueriesConfig
from freshstack_dspy.corpus.tree import Glob
from freshstack_dspy.errors import (
    ConfigError,
    DeferredError,
    FatalModelError,
    ReplyError,
    SourceError,
)
from freshstack_dspy.files import decoded, read_lines
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.programs.query_synthesizer import QuerySynthesizer
from freshstack_dspy.questions.reading import QueryReading
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.judge import ToJudge, judge_calls, merged
from freshstack_dspy.records import Attribution, Chunk, Judgment, LicenceFile, Query
from freshstack_dspy.text import jaccard, terms

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


class EarlierQuestions:
    """The questions that were kept, to compare the next one with.

    Two are alike from a Jaccard similarity of their sets of terms on.
    """

    def __init__(self, similarity: float) -> None:
        self._similarity = similarity
        self._kept: list[frozenset[str]] = []

    def holds_alike(self, query: Query) -> bool:
        """Whether a kept question asks nearly the same."""
        asked = _asked(query)
        return any(asked == kept or jaccard(asked, kept) >= self._similarity for kept in self._kept)

    def keep(self, query: Query) -> None:
        """Add a question."""
        self._kept.append(_asked(query))


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
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Choose the seeds; nothing is asked.

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
        try:
            made = self._recipe.nuggetizer(query=query)
        except ReplyError:
            made = None
        if made is None or made.failure is not None:
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


# Seeds: the chunks that queries are made from


_RELATED_BY = "lsa"
_LOOKED_AT = 10
"""Neighbours looked at for each chunk that is wanted: some are no seeds, or say the same."""


def sampled(config: QueriesConfig, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Put the chunks that can be seeds in the order in which they are sampled.

    Each chunk has its place by a hash of its id and `seed`, so those of a corpus that grows keep
    their order among themselves. With `sampling = "even"` the sources take turns.

    Raises:
        ConfigError: A glob cannot be understood.
        SourceError: No chunk can be a seed.
    """
    refused: Counter[str] = Counter()
    eligible = list(_eligible(config, chunks, refused))
    if not eligible:
        why = "; ".join(f"{number:,} {reason}" for reason, number in sorted(refused.items()))
        raise SourceError(
            f"none of the {len(chunks):,} chunks can be sampled ({why or 'the corpus is empty'}); "
            "lower min_tokens or widen sources, include and exclude of [queries], or add documents"
        )
    eligible.sort(key=lambda chunk: (_seed_place(config.seed, chunk), chunk.chunk_id))
    if config.sampling == "proportional":
        return eligible
    of_source: dict[str, list[Chunk]] = {}
    for chunk in eligible:
        of_source.setdefault(chunk.source, []).append(chunk)
    turns = zip_longest(*(of_source[source] for source in sorted(of_source)))
    return [chunk for chunk in chain.from_iterable(turns) if chunk is not None]


def related(
    config: QueriesConfig,
    index: HybridIndex | None,
    seeds: Sequence[Chunk],
    eligible: Mapping[str, Chunk],
) -> list[tuple[Chunk, ...]]:
    """Give each seed its nearest neighbours by the `lsa` vectors of the index.

    A neighbour that says nearly the same as the seed, or as a nearer one, is passed over.

    Returns:
        For each seed a tuple of `config.chunks` chunks, the seed first; of fewer where there are
        not so many.
    """
    if config.chunks == 1:
        return [(seed,) for seed in seeds]
    assert index is not None
    rankings = index.search(
        _RELATED_BY, [seed.passage for seed in seeds], _LOOKED_AT * config.chunks
    )
    groups = []
    for seed, ranking in zip(seeds, rankings, strict=True):
        group, said = [seed], [set(terms(seed.passage))]
        for chunk_id, _ in ranking:
            chunk = eligible.get(chunk_id)
            if chunk is None or chunk_id == seed.chunk_id or len(group) == config.chunks:
                continue
            found = set(terms(chunk.passage))
            if all(jaccard(found, other) < config.near_duplicate for other in said):
                group.append(chunk)
                said.append(found)
        groups.append(tuple(group))
    return groups


def _eligible(
    config: QueriesConfig, chunks: Sequence[Chunk], refused: Counter[str]
) -> Iterator[Chunk]:
    included, excluded = _globs("include", config.include), _globs("exclude", config.exclude)
    seen: set[str] = set()
    for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_id):
        if config.sources and chunk.source not in config.sources:
            refused["of other sources"] += 1
        elif included and not any(glob.matches(chunk.path) for glob in included):
            refused["outside include"] += 1
        elif any(glob.matches(chunk.path) for glob in excluded):
            refused["inside exclude"] += 1
        elif chunk.tokens < config.min_tokens:
            refused[f"shorter than min_tokens = {config.min_tokens}"] += 1
        elif chunk.passage in seen:
            refused["repeated word for word"] += 1
        else:
            seen.add(chunk.passage)
            yield chunk


def _globs(key: str, texts: Sequence[str]) -> list[Glob]:
    try:
        return [Glob.of(text) for text in texts]
    except ValueError as error:
        raise ConfigError(f"queries.{key}: {error}") from None


def _seed_place(seed: int, chunk: Chunk) -> bytes:
    return hashlib.sha256(f"{seed}/{chunk.chunk_id}".encode()).digest()


# What is refused


COPIED = "copied from its chunk"
OF_THE_PASSAGE = "about the passage itself"
NEAR_DUPLICATE = "near-duplicate of an earlier one"

_COPIED_RUN = 4
_WORD = re.compile(r"\w+")
_PASSAGE = re.compile(
    r"\b(?:the|this|these|that|given|provided) (?:given |provided |above )?"
    r"(?:passages?|excerpts?|(?:code )?snippets? above|text above|chunks? above)\b"
    r"|\b(?:according to|based on|as (?:described|stated|shown|mentioned) in) "
    r"(?:the|this|these) (?:above )?(?:texts?|passages?|excerpts?|documents?|snippets?|context)\b",
    re.IGNORECASE,
)


def refusal(query: Query, seeds: Iterable[Chunk], config: QueriesConfig) -> str | None:
    """Say why a question is refused, whatever other questions there are; None where it is not."""
    if _PASSAGE.search(query.text):
        return OF_THE_PASSAGE
    if any(copied_share(query.text, seed.text) >= config.copied for seed in seeds):
        return COPIED
    return None


def copied_share(question: str, text: str) -> float:
    """The share of a question's runs of four words that stand in a text, in [0, 1].

    Words are compared without case and punctuation. A shorter question, as of key words, has none.

    Source:
        Containment of word n-grams: A. Broder, On the Resemblance and Containment of
        Documents, 1997.
    """
    asked = _word_runs(question)
    return len(asked & _word_runs(text)) / len(asked) if asked else 0.0


def _asked(query: Query) -> frozenset[str]:
    return frozenset(terms(query.text))


def _word_runs(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return {
        tuple(words[start : start + _COPIED_RUN]) for start in range(len(words) - _COPIED_RUN + 1)
    }


# The style that is followed


SHOWN = 5
"""How many examples one request shows."""
_LONGEST_EXAMPLE = 8_000
"""Characters of an example; every request would pay for more."""
_JSON_LINES = (".jsonl", ".ndjson")


def read_style(path: Path) -> list[str]:
    """Read example questions: one a line, or JSON Lines of texts, `question`, or `title` and `body`.

    Raises:
        SourceError: It cannot be read, is not of this form, or holds no question.
    """
    found: list[str] = []
    for number, data in read_lines(path):
        place = f"{path}:{number}"
        text = decoded(data, place).strip()
        if text and path.suffix.lower() in _JSON_LINES:
            text = _question_in(text, place).strip()
        if len(text) > _LONGEST_EXAMPLE:
            raise SourceError(
                f"{place}: {len(text):,} characters; an example has at most {_LONGEST_EXAMPLE:,}, for "
                "requests are sent with it"
            )
        if text:
            found.append(text)
    if not found:
        raise SourceError(
            f"{path}: holds no question; write one a line, or leave the examples out for "
            "open-ended questions"
        )
    return list(dict.fromkeys(found))


def shown_examples(examples: Sequence[str], seed: int, chunk_ids: Sequence[str]) -> list[str]:
    """Choose at most `SHOWN` examples for a request, by a hash of its chunks; in the order given."""

    def place(example: str) -> bytes:
        return hashlib.sha256(json.dumps([seed, *chunk_ids, example]).encode()).digest()

    chosen = set(sorted(examples, key=place)[:SHOWN])
    return [example for example in examples if example in chosen]


def _question_in(line: str, place: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        raise SourceError(f"{place}: not valid JSON; a line is a text or an object") from None
    if isinstance(value, dict):
        value = value.get("question") or "\n".join(
            text for text in (value.get("title"), value.get("body")) if text
        )
    if not isinstance(value, str) or not value:
        raise SourceError(
            f"{place}: no question; a line is a text, or an object with question, or with title "
            "and body"
        )
    return value
