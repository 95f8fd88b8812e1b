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
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import DeferredError, FatalModelError, ReplyError, SourceError
from freshstack_dspy.files import decoded, json_value, read_lines
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.programs.documents import QuerySynthesizer
from freshstack_dspy.progress import report
from freshstack_dspy.questions.reading import QueryReading
from freshstack_dspy.recipes.judge import ToJudge, judge_calls, judge_once, merged
from freshstack_dspy.recipes.pooling import Searches
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Chunk, Query
from freshstack_dspy.rows import Row
from freshstack_dspy.text import ALIKE, is_alike, jaccard, terms

EXPECTED_KEPT = 0.8
"""The share of questions that is expected to be kept, until some were tried."""
_LEAST_KEPT = 0.1
"""The share that a wave is made for where fewer were kept so far."""
_MOST_FAILED = 10
"""So many seeds may fail, where none has given a question, before nothing more is asked."""

COPIED_SHARE = 0.5
"""The share of a question's runs of four words from which on it copies its chunk."""

COPIED = "copied from its chunk"
OF_THE_PASSAGE = "about the passage itself"
NEAR_DUPLICATE = "near-duplicate of an earlier one"
UNCHECKED = "without a valid reply on its nuggets or their support"
UNSUPPORTED = "not answered by its chunks"
BY_ONE_CHUNK = "answered by one of its chunks alone"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Synthesis:
    """Makes the synthetic queries of a build."""

    def __init__(self, session: Session, recipe: Any, searches: Searches) -> None:
        """Choose the seeds; nothing is asked. `recipe` is a `FreshStack`.

        Raises:
            SourceError: There are too few chunks, or the style cannot be read.
        """
        self._session, self._recipe, self._searches = session, recipe, searches
        queries = session.config.queries
        assert queries.count is not None
        self._queries = queries
        self._synthesizer = recipe.query_synthesizer or QuerySynthesizer(queries.per_seed)
        self._style = read_style(queries.style) if queries.style else []
        self._seeds = sampled(queries, searches.chunks())
        self._count = queries.count
        self._kept: list[Query] = []
        self._kept_terms: list[set[str]] = []
        if (most := len(self._seeds) * queries.per_seed) < self._count:
            raise SourceError(
                f"queries.count is {self._count:,}, and {len(self._seeds):,} chunks can be sampled "
                f"with {queries.per_seed} questions each, so there are at most {most:,}; lower "
                "count, raise per_seed, lower min_tokens, or add documents"
            )

    def run(self, *, exactly: bool = True) -> QueryReading:
        """Make exactly as many queries as were asked for, or as many as all seeds give.

        Returns:
            The queries in the order of their seeds, and how many were refused, by reason.

        Raises:
            DeferredError: A reply is missing; once it is recorded, the next run goes on.
            FatalModelError: No seed gave a question.
            SourceError: All seeds were tried, and they gave fewer than `exactly`.
        """
        refused: Counter[str] = Counter()
        kept, per_seed, size = self._kept, self._queries.per_seed, self._queries.chunks
        eligible = frozenset(self._seeds)
        tried = asked = failed = 0
        while len(kept) < self._count:
            share = max(len(kept) / (tried * per_seed), _LEAST_KEPT) if tried else EXPECTED_KEPT
            needed = math.ceil((self._count - len(kept)) / (share * per_seed))
            wave = list(self._searches.chunks_by_id(self._seeds[tried : tried + needed]).values())
            if not wave and exactly:
                raise SourceError(
                    f"queries.count is {self._count:,}, and all {len(self._seeds):,} seeds gave "
                    f"{len(kept):,} ({_listed(refused)}); lower count, raise per_seed, lower "
                    "min_tokens, or add documents; every reply is recorded, and only what is new "
                    "is asked"
                )
            if not wave:
                break
            tried += len(wave)
            groups: list[tuple[Chunk, ...]] = [(seed,) for seed in wave]
            if size > 1:
                groups = related(self._searches.index, wave, eligible, size)
            complete = [group for group in groups if len(group) == size]
            refused["seed without related chunks"] += len(groups) - len(complete)
            asked += len(complete)
            results = self._session.each("synthesis", self._try, complete)
            self._session.stop_if_deferred()
            for drafts in results:
                if isinstance(drafts, ReplyError):
                    failed += 1
                    refused[f"seed without a valid reply: {drafts.status}"] += 1
                    # Stop before a whole corpus is paid for in vain.
                    if failed == asked >= min(_MOST_FAILED, len(self._seeds)):
                        raise FatalModelError(
                            f"the model wrote no question from any of {failed} seeds, so no more "
                            f"are tried; the last failure: {drafts}; {self._session.how_to_ask_again}"
                        )
                    continue
                for query, reason in drafts:
                    if (final := self._reason_against(query, reason)) is not None:
                        refused[final] += 1
                        continue
                    kept.append(query)
                    self._kept_terms.append(set(terms(query.text)))
        note = f"{len(kept):,} synthetic; refused: {_listed(refused) or 'none'}"
        report(self._session.progress, "questions", note)
        return QueryReading(tuple(kept), {key: refused[key] for key in sorted(+refused)})

    def _try(self, seeds: Sequence[Chunk]) -> list[tuple[Query, str | None]] | ReplyError:
        """Ask for questions of one seed, and for what speaks against each."""
        ids = [seed.chunk_id for seed in seeds]
        examples = shown_examples(self._style, self._queries.seed, ids)
        try:
            made = self._synthesizer(chunks=seeds, style_examples=examples).queries
        except ReplyError as error:
            self._session.lm.ledger.enter(failed=1)
            return error
        return _each(lambda query: (query, self._refused(query, seeds)), made)

    def _refused(self, query: Query, seeds: Sequence[Chunk]) -> str | None:
        """What speaks against a question; the cheap reasons first."""
        if (reason := refusal(query, seeds)) is not None:
            return reason
        if is_alike(set(terms(query.text)), self._kept_terms):
            return NEAR_DUPLICATE
        config, recipe, session = self._session.config, self._recipe, self._session
        try:
            with session.asked_as("nuggets"):
                made = recipe.nuggetizer(query=query)
        except ReplyError:
            made = None
        if made is None or made.failure is not None:
            session.lm.ledger.enter(failed=1)
            return UNCHECKED
        nuggets = [nugget for nugget in made.nuggets if not nugget.doubtful]
        calls = judge_calls(config, recipe.support_judge, [ToJudge(query, nuggets, seeds)])
        with session.asked_as("judge"):
            judged = _each(partial(judge_once, recipe.support_judge), calls)
        if any(batch.failure is not None for batch in judged):
            session.lm.ledger.enter(failed=1)
            return UNCHECKED
        wanted = {nugget.nugget_id for nugget in nuggets}
        held: dict[str, set[str]] = {}
        for judgment in merged(judged, config.judge.votes):
            if judgment.label is not None and judgment.label >= config.judge.graded.threshold:
                held.setdefault(judgment.chunk_id, set()).add(judgment.nugget_id)
        if not wanted or set().union(*held.values()) != wanted:
            return UNSUPPORTED
        return BY_ONE_CHUNK if len(seeds) > 1 and wanted in held.values() else None

    def _reason_against(self, query: Query, refused: str | None) -> str | None:
        """The reason that counts, now that all questions before this one are known.

        That it is a near-duplicate goes before what the judge says: whether it was found before
        judging depends on the size of the wave.
        """
        if len(self._kept) == self._count:
            return "beyond count"
        by_words = refused in (COPIED, OF_THE_PASSAGE, NEAR_DUPLICATE)
        if not by_words and is_alike(set(terms(query.text)), self._kept_terms):
            return NEAR_DUPLICATE
        return refused


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


def _listed(counts: Counter[str]) -> str:
    return "; ".join(f"{number:,} {reason}" for reason, number in sorted((+counts).items()))


# Seeds: the chunks that queries are made from


_RELATED_BY = ("lsa", "bm25")
"""The first of them that the index has."""
_LOOKED_AT = 10
"""Neighbours looked at for each chunk that is wanted: some are no seeds, or nearly the same."""


def sampled(config: QueriesConfig, chunks: Iterable[Chunk]) -> list[str]:
    """Give the ids of the chunks that can be seeds in the order in which they are sampled.

    They are given in the order of their ids. The sources take turns. Within its source each chunk has its place by a hash of its id and
    `seed`, so those of a corpus that grows keep their order among themselves.

    Raises:
        SourceError: No chunk can be a seed.
    """
    refused: Counter[str] = Counter()
    seen: set[bytes] = set()
    of_source: dict[str, list[str]] = {}
    for chunk in chunks:
        content = hashlib.sha256(chunk.passage.encode()).digest()
        if config.sources and chunk.source not in config.sources:
            refused["of other sources"] += 1
        elif chunk.tokens < config.min_tokens:
            refused[f"shorter than min_tokens = {config.min_tokens}"] += 1
        elif content in seen:
            refused["repeated word for word"] += 1
        else:
            seen.add(content)
            of_source.setdefault(chunk.source, []).append(chunk.chunk_id)
    if not of_source:
        raise SourceError(
            f"none of the {refused.total():,} chunks can be sampled "
            f"({_listed(refused) or 'the corpus is empty'}); lower min_tokens or widen sources of "
            "[queries], or add documents"
        )

    def place(chunk_id: str) -> bytes:
        return hashlib.sha256(f"{config.seed}/{chunk_id}".encode()).digest()

    turns = zip_longest(*(sorted(of_source[source], key=place) for source in sorted(of_source)))
    return [chunk_id for chunk_id in chain.from_iterable(turns) if chunk_id is not None]


def related(
    index: HybridIndex, seeds: Sequence[Chunk], eligible: Set[str], size: int
) -> list[tuple[Chunk, ...]]:
    """Give each seed its nearest neighbours by the `lsa` vectors of the index, or its words.

    A neighbour that says nearly the same as the seed, or as a nearer one, is passed over.

    Returns:
        For each seed a tuple of `size` chunks, the seed first; of fewer where there are not so many.
    """
    texts = [seed.passage for seed in seeds]
    by = next(name for name in _RELATED_BY if name in index.retrievers)
    rankings = index.search(by, texts, _LOOKED_AT * size)
    near = index.chunks_by_id(
        chunk_id for ranking in rankings for chunk_id, _ in ranking if chunk_id in eligible
    )
    groups = []
    for seed, ranking in zip(seeds, rankings, strict=True):
        group, words = [seed], [set(terms(seed.passage))]
        for chunk_id, _ in ranking:
            chunk = near.get(chunk_id)
            if chunk is None or chunk_id == seed.chunk_id or len(group) == size:
                continue
            found = set(terms(chunk.passage))
            if all(jaccard(found, other) < ALIKE for other in words):
                group.append(chunk)
                words.append(found)
        groups.append(tuple(group))
    return groups


# What is refused


_COPIED_RUN = 4
_WORD = re.compile(r"\w+")
_PASSAGE = re.compile(
    r"\b(?:the|this|these|that|given|provided) (?:given |provided |above )?"
    r"(?:passages?|excerpts?|(?:code )?snippets? above|text above|chunks? above)\b"
    r"|\b(?:according to|based on|as (?:described|stated|shown|mentioned) in) "
    r"(?:the|this|these) (?:above )?(?:texts?|passages?|excerpts?|documents?|snippets?|context)\b",
    re.IGNORECASE,
)


def refusal(query: Query, seeds: Iterable[Chunk]) -> str | None:
    """Say why a question is refused for its words; None where it is not."""
    if _PASSAGE.search(query.text):
        return OF_THE_PASSAGE
    if any(copied_share(query.text, seed.text) >= COPIED_SHARE for seed in seeds):
        return COPIED
    return None


def copied_share(question: str, text: str) -> float:
    """The share of a question's runs of four words that are in a text, in [0, 1].

    Words are compared without case and punctuation. A shorter question, as of key words, has none.

    Source:
        Containment of word n-grams: A. Broder, On the Resemblance and Containment of
        Documents, 1997.
    """
    asked = _word_runs(question)
    return len(asked & _word_runs(text)) / len(asked) if asked else 0.0


def _word_runs(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return {
        tuple(words[start : start + _COPIED_RUN]) for start in range(len(words) - _COPIED_RUN + 1)
    }


# The style that is followed


SHOWN = 5
"""How many examples one request shows."""


def read_style(path: Path) -> list[str]:
    """Read example questions: one a line, or JSON Lines with `question`, or `title` and `body`.

    Raises:
        SourceError: It cannot be read, is not of this form, or holds no question.
    """
    examples: list[str] = []
    for number, data in read_lines(path):
        place = f"{path}:{number}"
        text = decoded(data, place).strip()
        if text and path.suffix.lower() in (".jsonl", ".ndjson"):
            values = Row.of(json_value(text, place), place).values
            names = ("question",) if "question" in values else ("title", "body")
            parts = (values.get(name) for name in names)
            text = "\n".join(part for part in parts if isinstance(part, str) and part).strip()
            if not text:
                raise SourceError(f"{place}: no question: name it question, or title and body")
        examples += [text] if text else []
    if not examples:
        raise SourceError(
            f"{path}: holds no question; write one a line, or leave [queries] style out for "
            "open-ended questions"
        )
    return list(dict.fromkeys(examples))


def shown_examples(examples: Sequence[str], seed: int, chunk_ids: Sequence[str]) -> list[str]:
    """Choose at most `SHOWN` examples for a request, by a hash of its chunks; in the order given."""

    def place(example: str) -> bytes:
        return hashlib.sha256(json.dumps([seed, *chunk_ids, example]).encode()).digest()

    chosen = set(sorted(examples, key=place)[:SHOWN])
    return [example for example in examples if example in chosen]
