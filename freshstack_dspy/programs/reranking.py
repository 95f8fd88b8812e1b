"""Rerank passages for a question by a chat model: listwise, setwise or pointwise."""

from collections.abc import Iterable, Iterator, Sequence

from freshstack_dspy.config import RerankerConfig
from freshstack_dspy.corpus.shown_chunks import ChunkPart, parts_of
from freshstack_dspy.errors import DeferredError, ReplyError
from freshstack_dspy.lm.typed import Prediction, Program
from freshstack_dspy.programs.support_judge import passage_inputs
from freshstack_dspy.records import Chunk, Query, as_query
from freshstack_dspy.signatures.reranking import ChooseBestPassage, RankPassages
from freshstack_dspy.signatures.without_answers import GradeRelevance


class Reranked(Prediction):
    """Passages in another order."""

    order: tuple[int, ...]
    """The places of the passages as they were given, from 0; the best first."""
    calls: int
    """How often the model was asked, re-asks left out."""
    completed: int
    """Replies that repeated or left out passages; those left out follow in the order as given."""
    failed: int
    """Calls without a valid reply; their passages stay in the order as given."""


class ListwiseReranker(Program):
    """From a question and passages to an order, by windows that slide from the end to the top.

    RankGPT (Sun et al., EMNLP 2023, arXiv 2304.09542, §3.2): a model orders the last `window`
    passages, then those `step` places above, and so on up to the first, so that what is good moves
    up. n passages take 1 + ⌈(n − window) / step⌉ calls, and one where they fit into one window.
    """

    def __init__(self, window: int = 20, step: int | None = None) -> None:
        """Make it; None: the window moves by half its passages."""
        super().__init__(RankPassages)
        self.window, self.step = window, step or window // 2

    def forward(self, query: Query | str, passages: Sequence[Chunk | ChunkPart | str]) -> Reranked:
        """Rerank; fewer than two passages are not asked about."""
        query, shown = as_query(query), parts_of(passages)
        order, completed, failed = list(range(len(shown))), 0, 0
        starts = list(window_starts(len(shown), self.window, self.step))
        for start in starts:
            window = order[start : start + self.window]
            try:
                reply = self.ask(**passage_inputs(query, [shown[place] for place in window]))
            except ReplyError:
                failed += 1
                continue
            numbers = [number - 1 for number in reply.ranking]
            completed += sorted(numbers) != list(range(len(window)))
            places = completed_order(numbers, len(window))
            order[start : start + self.window] = [window[place] for place in places]
        return Reranked(order=tuple(order), calls=len(starts), completed=completed, failed=failed)


def window_starts(count: int, window: int, step: int) -> Iterator[int]:
    """Where the windows of a list begin, from the last to the first."""
    if count < 2:
        return
    start = max(0, count - window)
    while start:
        yield start
        start = max(0, start - step)
    yield 0


def completed_order(order: Iterable[int], count: int) -> list[int]:
    """The places of an order that are there, each once, and behind them those that it leaves out."""
    there = (place for place in order if 0 <= place < count)
    return list(dict.fromkeys([*there, *range(count)]))


class SetwiseReranker(Program):
    """From a question and passages to an order whose first `top_k` are the best, by heapsort.

    Setwise prompting (Zhuang et al., SIGIR 2024, arXiv 2310.09497, §3): a model says which of
    `window` passages is the best, a node of the heap and its `window` − 1 children. Passages below
    the top stay in the order as given.
    """

    def __init__(self, window: int = 4, top_k: int = 10) -> None:
        super().__init__(ChooseBestPassage)
        self.window, self.top_k = window, top_k

    def forward(self, query: Query | str, passages: Sequence[Chunk | ChunkPart | str]) -> Reranked:
        """Rerank; fewer than two passages are not asked about."""
        query, shown = as_query(query), parts_of(passages)
        heap, top, calls, failed = list(range(len(shown))), list[int](), 0, 0

        def sift(node: int, size: int) -> None:
            """Let the best of a node and its children rise, and go on with the one that sank."""
            nonlocal calls, failed
            while children := self._children(node, size):
                calls += 1
                nodes = [node, *children]
                chunks = [shown[heap[each]] for each in nodes]
                try:
                    best = nodes[self.ask(**passage_inputs(query, chunks)).best - 1]
                except ReplyError:
                    failed += 1
                    return
                if best == node:
                    return
                heap[node], heap[best] = heap[best], heap[node]
                node = best

        for node in self._inner_nodes(len(heap)):
            sift(node, len(heap))
        for size in self._heap_sizes(len(heap)):
            top.append(heap[0])
            heap[0] = heap[size]
            sift(0, size)
        if len(top) < min(self.top_k, len(shown)):
            top.append(heap[0])
        order = tuple(completed_order(top, len(shown)))
        return Reranked(order=order, calls=calls, completed=0, failed=failed)

    def most_calls(self, count: int) -> int:
        """The most calls that so many passages can take."""
        sifts = [(node, count) for node in self._inner_nodes(count)]
        sifts += [(0, size) for size in self._heap_sizes(count)]
        calls = 0
        for node, size in sifts:
            while children := self._children(node, size):
                calls, node = calls + 1, children[0]  # noqa: PLW2901 - the way to the deepest leaf
        return calls

    def _children(self, node: int, size: int) -> range:
        first = node * (self.window - 1) + 1
        return range(min(first, size), min(first + self.window - 1, size))

    def _inner_nodes(self, size: int) -> range:
        """The nodes with children, from the last."""
        return range((size - 2) // (self.window - 1), -1, -1)

    def _heap_sizes(self, size: int) -> range:
        """The sizes of the heap after each of the best but the last is taken out."""
        return range(size - 1, max(0, size - self.top_k), -1)


class PointwiseReranker(Program):
    """From a question and passages to an order by the grade of each, 0 to 3, asked one by one.

    Equal grades stay in the order as given, and a passage without a grade stays at its place.
    """

    def __init__(self) -> None:
        super().__init__(GradeRelevance)

    def forward(self, query: Query | str, passages: Sequence[Chunk | ChunkPart | str]) -> Reranked:
        """Rerank, with one call for each passage."""
        query, grades = as_query(query), dict[int, int]()
        deferred: DeferredError | None = None
        for place, passage in enumerate(parts_of(passages)):
            try:
                answered, _ = self.ask_each(**passage_inputs(query, [passage]))
            except DeferredError as error:  # the other passages can be asked about already
                deferred = error
            except ReplyError:
                continue
            else:
                if answered:
                    grades[place] = answered[1].item.grade
        if deferred is not None:
            raise deferred
        best = iter(sorted(grades, key=lambda place: (-grades[place], place)))
        order = tuple(next(best) if place in grades else place for place in range(len(passages)))
        count = len(passages)
        return Reranked(order=order, calls=count, completed=0, failed=count - len(grades))


_BY_METHOD: dict[str, type[Program]] = {
    "listwise": ListwiseReranker,
    "setwise": SetwiseReranker,
    "pointwise": PointwiseReranker,
}


def reranker_of(config: RerankerConfig | None) -> Program | None:
    """Make the program of a `[reranker]`, if a chat model reranks."""
    if config is None or not config.asks_chat:
        return None
    settings = config.model_dump(include={"window", "step", "top_k"}, exclude_none=True)
    return _BY_METHOD[config.method](**settings)
