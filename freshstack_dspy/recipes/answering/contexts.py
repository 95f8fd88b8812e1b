"""The contexts that a generator answers from: the top of a run, and the gold chunks."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.contexts import required_subset
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.programs.answer_generator import AnswerGenerator, generator_inputs
from freshstack_dspy.programs.passage import whole
from freshstack_dspy.recipes.judging.window import Window
from freshstack_dspy.records import Chunk, OmittedChunk, Query

GOLD = "gold"
"""In the place of a run's name, for what comes of the gold context."""


class Context(NamedTuple):
    """What a generator is to answer a query from."""

    run_id: str
    query: Query
    chunks: Sequence[Chunk]
    """In the order in which they are shown."""
    omitted: tuple[OmittedChunk, ...] = ()
    sample: int = 1
    temperature: float | None = None

    @property
    def is_withheld(self) -> bool:
        """Whether there were chunks, and none of them could be shown."""
        return bool(self.omitted) and not self.chunks


def gold_chunks(judged: Judged, depth: int) -> list[str]:
    """List the chunks that support a query's nuggets: those first that it takes to answer it.

    First the required subset (CRUX), in the order in which it is chosen; then the others that
    support a nugget, those that support more before those that support fewer, ties by id.

    Args:
        judged: The query's labels.
        depth: How many chunks at most, as many as are taken from a run.

    Returns:
        Chunk ids; none where no chunk supports a nugget.
    """
    candidates = sorted(judged.supported, key=lambda id_: (-len(judged.supported[id_]), id_))
    ratings = [[labels.get(id_) for labels in judged.labels.values()] for id_ in candidates]
    required = required_subset(ratings, judged.rel).required
    others = [place for place in range(len(candidates)) if place not in required]
    return [candidates[place] for place in (*required, *others)][:depth]


class Packing:
    """Shows a generator as many chunks of a ranking as its model's window takes, each whole.

    A chunk that does not fit beside those before it is passed over, and those below it that do
    are shown; what was left out, and why, is told with the context.
    """

    def __init__(self, collection: Collection, wanted: Iterable[str], model: ModelConfig) -> None:
        """Read the chunks.

        Args:
            collection: With the texts.
            wanted: Ids of all chunks that will be asked for.
            model: With its window and its longest reply.

        Raises:
            ConfigError: The longest reply leaves no room for a prompt.
            CollectionError: None of the chunks has a text.
        """
        ids = set(wanted)
        self._chunks = {one.chunk_id: one for one in collection.chunks() if one.chunk_id in ids}
        if ids and not any(chunk.passage for chunk in self._chunks.values()):
            raise CollectionError(
                f"{collection.name}: none of the {len(ids)} chunks has a text, so that there is "
                "nothing to answer from; import it with its corpus: freshstack import … --corpus PATH"
            )
        self._window = Window(model, AnswerGenerator().predict)

    def context(self, run_id: str, query: Query, ranking: Iterable[str]) -> Context:
        """Pack a ranking.

        Args:
            run_id: Whose it is.
            query: For which query.
            ranking: Ids of chunks, the best first.
        """
        room = self._window.room_beside(generator_inputs(query, []))
        shown: list[Chunk] = []
        omitted: list[OmittedChunk] = []
        for chunk in (self._chunks[chunk_id] for chunk_id in ranking):
            size = self._window.size(whole(chunk)) if room is not None else 0
            if not chunk.passage:
                omitted.append(OmittedChunk(chunk_id=chunk.chunk_id, reason="no_text"))
            elif room is not None and size > room:
                omitted.append(OmittedChunk(chunk_id=chunk.chunk_id, reason="no_room"))
            else:
                shown.append(chunk)
                room = room - size if room is not None else None
        return Context(run_id, query, shown, tuple(omitted))
