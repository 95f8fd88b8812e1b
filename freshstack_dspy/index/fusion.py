"""Fusion: the rankings of several retrievers for one text become one.

Only the best `depth` chunks of each ranking count. With n for a chunk's min-max normalised score
in a ranking and r for its rank there from 1, the methods are:

- `normalised_sum`: the sum of n (FreshStack §3.4; CombSUM of Fox & Shaw, TREC-2, 1993).
- `weighted`: the sum of w × n, with a weight w for each retriever.
- `rrf`: the sum of 1 / (60 + r) (Cormack, Clarke & Büttcher, SIGIR 2009).
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import CollectionError, IndexingError
from freshstack_dspy.measures.run import PassageRun, Run, RunSource, to_run
from freshstack_dspy.records import (
    ScoredChunk,
    Technique,
    is_oracle,
    ranked,
    searched_with,
    technique_of,
)

PAPER_FUSION = FusionConfig(method="normalised_sum")
"""FreshStack's, and the default."""
_RRF_K = 60
_DECIMALS = 12
"""Sums are rounded, for the same terms added in another order differ near the 16th digit."""


def fuse(
    rankings: Mapping[str, Sequence[ScoredChunk]], depth: int, fusion: FusionConfig
) -> list[ScoredChunk]:
    """Fuse the rankings of one text, each cut to its best `depth` chunks.

    Scores are normalised by `(score - lowest) / (highest - lowest)` over the chunks that count;
    where all scores are equal each chunk gets 1. A chunk that a ranking lacks gets 0 from it.
    Weights are taken relative to the largest of them, and a ranking of weight 0 is left out.
    """
    best = {name: ranked(dict(ranking), depth) for name, ranking in rankings.items()}
    if fusion.method == "rrf":
        terms = [
            (chunk_id, 1 / (_RRF_K + rank))
            for ranking in best.values()
            for rank, (chunk_id, _) in enumerate(ranking, 1)
        ]
    else:
        weights = _weights(best, fusion)
        terms = [
            (chunk_id, weights[name] * value)
            for name, ranking in best.items()
            if weights[name]
            for chunk_id, value in _normalised(ranking)
        ]
    by_chunk: dict[str, list[float]] = {}
    for chunk_id, term in terms:
        by_chunk.setdefault(chunk_id, []).append(term)
    scores = {chunk_id: round(math.fsum(parts), _DECIMALS) for chunk_id, parts in by_chunk.items()}
    return ranked(scores, depth)


def fuse_texts(
    search: Callable[[Sequence[str]], Sequence[Sequence[ScoredChunk]]],
    searches: Sequence[Sequence[str]],
    depth: int,
    fusion: FusionConfig,
) -> list[Sequence[ScoredChunk]]:
    """Give one ranking for each group of texts: that of its text, or those of its texts fused."""
    rankings = iter(search([text for texts in searches for text in texts]))
    fused: list[Sequence[ScoredChunk]] = []
    for texts in searches:
        # No retriever has a name with a space, so no weight is meant for one of these.
        by_text = {f"text {number}": next(rankings) for number, _ in enumerate(texts, 1)}
        alone = len(by_text) == 1
        fused.append(by_text["text 1"] if alone else fuse(by_text, depth, fusion))
    return fused


def fuse_runs(
    runs: Mapping[str, RunSource] | Sequence[RunSource],
    fusion: FusionConfig = PAPER_FUSION,
    *,
    depth: int = 100,
    name: str | None = None,
) -> Run:
    """Fuse the runs of any systems, query by query; no collection and no judgments are needed.

    A query that a run lacks is fused from the others, with a warning that counts them.

    Args:
        runs: Two runs or more by the names that `fusion.weights` has; without names, by their own.
            Each is a `Run`, a file in TREC's format, or {query: {id: score}}.
        fusion: The method, and the weights of `weighted`.
        depth: How many results of each run count, and how many the fused run has, for each query.
        name: Of the fused run; None: that of the method. If a run is an oracle, so is the fused one,
            and its name says so.

    Raises:
        CollectionError: A run cannot be read or has passages, two have one name, they have no query
            in common, or a weight is for none of them.
        IndexingError: All weights are 0.
    """
    named = list(runs.items()) if isinstance(runs, Mapping) else [("", each) for each in runs]
    read = [(key, to_run(each, f"run {n}")) for n, (key, each) in enumerate(named, 1)]
    by_name = {key or run.name: run for key, run in read if isinstance(run, Run)}
    if passages := [key or run.name for key, run in read if isinstance(run, PassageRun)]:
        raise CollectionError(f"{passages[0]} is a run of passages; only runs of chunks are fused")
    if len(by_name) < len(read):
        ((twice, _),) = Counter(key or run.name for key, run in read).most_common(1)
        raise CollectionError(f"two runs are called {twice!r}; give them as {{name: run}}")
    if len(by_name) < 2:
        raise CollectionError(f"a fusion needs two runs, not {len(by_name)}")
    if unknown := sorted(fusion.weights.keys() - by_name):
        raise CollectionError(f"no run is named {unknown[0]!r}; there are: {', '.join(by_name)}")
    queries = dict.fromkeys(query for run in by_name.values() for query in run.rankings)
    lacking = {key: len(queries) - len(run) for key, run in by_name.items()}
    if not set(queries).intersection(*by_name.values()):
        raise CollectionError(f"{', '.join(by_name)} have no query in common")
    if counts := ", ".join(f"{key} {number:,}" for key, number in lacking.items() if number):
        warnings.warn(f"of {len(queries):,} queries these runs lack some: {counts}", stacklevel=2)
    name = name or fusion.method
    known: list[Technique] = [
        technique_of(run.name) for run in by_name.values() if is_oracle(run.name)
    ]
    return Run(
        searched_with(name, known[0]) if known and not is_oracle(name) else name,
        {
            query: fuse(
                {key: run.rankings.get(query, ()) for key, run in by_name.items()}, depth, fusion
            )
            for query in queries
        },
    )


def _weights(names: Mapping[str, object], fusion: FusionConfig) -> dict[str, float]:
    weights = {name: fusion.weights.get(name, 1.0) for name in names}
    heaviest = max(weights.values(), default=1.0)
    if heaviest == 0:
        raise IndexingError(f"{', '.join(names)} all weigh 0 in [fusion.weights]; raise one")
    return {name: weight / heaviest for name, weight in weights.items()}


def _normalised(ranking: Sequence[ScoredChunk]) -> list[tuple[str, float]]:
    if not ranking:
        return []
    lowest, span = ranking[-1].score, ranking[0].score - ranking[-1].score
    return [(chunk_id, (score - lowest) / span if span else 1.0) for chunk_id, score in ranking]
