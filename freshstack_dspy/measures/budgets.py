"""Token budgets: the top of a ranking by the sum of its lengths, and what a budget could hold."""

from collections.abc import Callable, Collection, Sequence

from freshstack_dspy.measures.qrels import Judged

Worth = tuple[Callable[[str], float], Callable[[str], None]]
"""What a chunk is worth now; and a callback for each chunk that is taken."""


def within_budget(ranking: Sequence[str], judged: Judged, tokens: int) -> Sequence[str]:
    """Give the longest top of a ranking that fits a budget of tokens.

    The first document that does not fit is left out, with all after it, as a context is filled
    in the order of its ranking.
    """
    for place, document in enumerate(ranking):
        tokens -= judged.length(document)
        if tokens < 0:
            return ranking[:place]
    return ranking


def affordable(judged: Judged, worth: Callable[[], Worth]) -> list[Collection[str]]:
    """Give the sets of relevant chunks of which the better one is the ideal for the budget.

    Each is filled greedily with what still fits: one with the chunk that is worth most, one with
    the chunk that is worth most for its length. The better of the two is worth at least
    (1 - 1/e) / 2 of the best that fits. Where no relevant chunk fits, it is the best one alone.
    Without a budget there is one set, all of them.

    Source: Leskovec et al., Cost-effective Outbreak Detection in Networks, KDD 2007 (CEF).
    """
    relevant = judged.of.supported
    if judged.budget is None:
        return [relevant.keys()]
    lengths = {chunk: judged.of.length(chunk) for chunk in relevant}
    return [_filled(lengths, judged.budget, *worth(), by_length=each) for each in (False, True)]


def _filled(
    lengths: dict[str, int],
    budget: int,
    gain: Callable[[str], float],
    take: Callable[[str], None],
    *,
    by_length: bool,
) -> list[str]:
    def rate(chunk: str) -> tuple[float, int, str]:
        length = lengths[chunk]
        return gain(chunk) / (max(1, length) if by_length else 1), -length, chunk

    taken: list[str] = []
    waiting = set(lengths)
    while fitting := [chunk for chunk in waiting if lengths[chunk] <= budget]:
        best = max(fitting, key=rate)
        take(best)
        taken.append(best)
        waiting.remove(best)
        budget -= lengths[best]
    return taken or [max(lengths, key=rate)]
