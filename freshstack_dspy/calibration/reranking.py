"""Tune a reranker: the examples are queries with candidates, the metric a measure of runs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dspy

from freshstack_dspy.calibration.examples import LabelledExample
from freshstack_dspy.calibration.scoring import GOOD_ENOUGH, MeanMetric
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.corpus.shown_chunks import parts_of
from freshstack_dspy.errors import CollectionError, ReplyError
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.lm.typed import plain
from freshstack_dspy.measures.kappa import Values, share_of
from freshstack_dspy.measures.measure import MeasureSource, parse_measures
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.run import Run
from freshstack_dspy.pages.page import cut
from freshstack_dspy.programs.reranking import completed_order
from freshstack_dspy.programs.support_judge import passage_inputs
from freshstack_dspy.records import Query
from freshstack_dspy.stored.manifest import is_dry_run

SHOWN = ("alpha_nDCG@10", "Coverage@20")
"""The measures that are reported beside the one that programs are chosen by."""
BEST = "the best order"
_MOST_FAULTS, _FAULT_LENGTH = 8, 120


class RankingExample(LabelledExample):
    """A call of a reranker: its `query` and `passages`, and the `chunk_ids` of these.

    Optimizers that show examples to a model show its question and the starts of the best passages.
    """

    def __repr__(self) -> str:
        best = [cut(self.passages[place], _FAULT_LENGTH) for place in self.best[:3]]
        return repr({"question": cut(self.query.text, 4 * _FAULT_LENGTH), "best passages": best})


def ranking_examples(
    collection: Collection,
    run: Run,
    program: dspy.Module,
    *,
    depth: int = 50,
    fit: Callable[[str, Sequence[str]], Sequence[str]] = lambda _, passages: passages,
) -> list[dspy.Example]:
    """Make one example of each measured query: its first results in a run, to be put into order.

        run = retrieve(collection, "hybrid", depth=50)
        examples = ranking_examples(collection, run, program := ListwiseReranker())
        metric = RankingMetric(collection, "Coverage@20", against=run.name)
        optimize(examples, lm, program=program, metric=metric, optimizer="gepa")

    Args:
        collection: Its judgments say which order is best.
        run: The candidates, as `retrieve` gives or `read_run` reads them.
        program: The reranker. Where it ranks a list, each example has the best order of its first
            window, and so can be a demonstration.
        depth: How many results are reranked.
        fit: From a question and passages to the passages as they are shown.

    Raises:
        CollectionError: A candidate has no text.
    """
    qrels, queries = collection.qrels(), {query.query_id: query for query in collection.queries}
    candidates = {
        query_id: [result.chunk_id for result in run.rankings.get(query_id, ())[:depth]]
        for query_id in sorted(qrels.nuggets)
    }
    wanted = {chunk_id for ids in candidates.values() for chunk_id in ids}
    chunks = collection.corpus.chunks(wanted & collection.corpus.ids)
    if missing := sorted(each for each in wanted if each not in chunks or not chunks[each].text):
        raise CollectionError(
            f"{len(missing)} candidates of run {run.name!r} have no text in {collection.name}, such as "
            f"{missing[0]!r}: a reranker reads them (freshstack import … --corpus PATH)"
        )
    examples: list[dspy.Example] = []
    for query_id, ids in candidates.items():
        text = queries[query_id].text
        query = Query(query_id=query_id, title=text, body="")
        passages = list(fit(text, [indexed_text(chunks[each]) for each in ids]))
        best = _best_order(ids, qrels.judged(query_id))
        people = _best_reply(program, query, passages, best)
        example = RankingExample(
            query=query, passages=passages, chunk_ids=tuple(ids), best=best, people=people
        )
        examples.append(example.with_inputs("query", "passages"))
    return examples


def _best_order(ids: Sequence[str], judged: Judged) -> list[int]:
    """Order places by the greedy ideal of alpha-nDCG; ties, and what supports nothing, as given."""
    seen: Counter[int] = Counter()
    left, order = list(range(len(ids))), list[int]()

    def gain(place: int) -> float:
        return sum(0.5 ** seen[nugget] for nugget in judged.supported.get(ids[place], ()))

    while left:
        best = max(left, key=lambda place: (gain(place), -place))
        left.remove(best)
        order.append(best)
        seen.update(judged.supported.get(ids[best], ()))
    return order


def _best_reply(
    program: Any, query: Query, passages: Sequence[str], best: Sequence[int]
) -> dict[str, Any]:
    """Give the fields of a ranker's signature for the first window of passages."""
    shown = parts_of(passages[: getattr(program, "window", len(passages))])
    ranking = [place + 1 for place in best if place < len(shown)]
    reply: dict[str, Any] = plain({**passage_inputs(query, shown), "ranking": ranking})
    return reply


class RankingMetric(MeanMetric):
    """A measure of runs as the metric of a reranker.

    Beside it stand the values of the order as given, and of the best one: the greedy ideal of
    alpha-nDCG over the same candidates.
    """

    most_demonstrations = 2  # each is as long as a window of passages

    def __init__(
        self,
        collection: Collection,
        measure: MeasureSource = SHOWN[0],
        *,
        against: str = "the order as given",
    ) -> None:
        """Take the measure by which programs are chosen; `against` names whose order is given.

        Raises:
            ConfigError: There is no such measure.
        """
        super().__init__(self.feedback)
        self._measures = parse_measures([measure, *SHOWN])
        self.name = self._measures[0].name
        self.against = (against, BEST)
        dry = ": a dry run, from which nothing is concluded" * is_dry_run(collection.manifest)
        self.labels_by = f"{collection.labels_by}{dry}"
        self._qrels = collection.qrels()
        self._nuggets = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}

    def tally(self, example: Any, answer: Any) -> Any:
        """Give 1, the values of the answer's order, of the order as given, and of the best one."""
        import numpy as np

        query_id, given = example.query.query_id, example.chunk_ids
        orders = self._ranking(example, answer), given, [given[place] for place in example.best]
        return np.array([1.0, *(value for ids in orders for value in self._values(query_id, ids))])

    def without(self, tally: Any, place: int) -> Any:
        """Give the tally of the order as given (0) or of the best one (1)."""
        import numpy as np

        start, count = 1 + (1 + place) * len(self._measures), len(self._measures)
        return np.concatenate([tally[:1], tally[start : start + count], tally[1 + count :]])

    def reachable(self, examples: Sequence[Any]) -> tuple[float, float]:
        """Give the chosen measure's mean for the order as given, and for the best one."""
        as_given = dspy.Prediction(order=())
        sums = sum(self.tally(example, as_given) for example in examples)
        value, best = (self.values(each)[self.name] for each in (sums, self.without(sums, 1)))
        return float(value), float(best)

    def values(self, tallies: Any) -> dict[str, Values]:
        """Compute the means of all measures, the chosen one first."""
        return {
            measure.name: share_of(tallies[..., place], tallies[..., 0])
            for place, measure in enumerate(self._measures, 1)
        }

    def size(self, tally: Any) -> int:
        """Count the examples in a sum of tallies."""
        return int(tally[0])

    def _values(self, query_id: str, ranking: Sequence[str]) -> list[float]:
        return [
            each(ranking, self._qrels.judged(query_id, each.rel)) or 0.0 for each in self._measures
        ]

    def _ranking(self, example: Any, answer: Any) -> list[str]:
        """Give the chunks in a program's order.

        Raises:
            ReplyError: A call got no valid reply, so that its passages stay as they were.
        """
        if failed := answer.get("failed"):
            message = f"{failed} calls got no valid reply"
            raise ReplyError(message, status="failed", call_id=None)
        return [example.chunk_ids[n] for n in completed_order(answer.order, len(example.chunk_ids))]

    def feedback(
        self,
        example: Any,
        prediction: Any,
        trace: Any = None,
        pred_name: str | None = None,
        _: Any = None,
    ) -> Any:
        """Give the measure and what is wrong with the order, as for DSPy's optimizers.

        While demonstrations are collected (`trace` of all predictors), tell whether the value is at
        least 0.8, or better than that of the order as given.
        """
        try:
            ranking = self._ranking(example, prediction)
        except (AttributeError, ReplyError):
            return dspy.Prediction(score=0.0, feedback="There was no valid answer.")
        query_id = example.query.query_id
        score, given = (
            self._values(query_id, ids)[0] for ids in (ranking, list(example.chunk_ids))
        )
        if trace is not None and pred_name is None:
            return score >= GOOD_ENOUGH or score > given
        faults = [f"{self.name} is {score:.3f}; of the order as given it is {given:.3f}."]
        faults += self._faults(example, ranking)
        return dspy.Prediction(score=score, feedback="\n".join(faults))

    def _faults(self, example: Any, ranking: Sequence[str]) -> Iterator[str]:
        """Say at which ranks the passages are that state each nugget, and what stands above them."""
        judged = self._qrels.judged(example.query.query_id, self._measures[0].rel)
        supported = judged.supported
        texts = dict(zip(example.chunk_ids, example.passages, strict=True))
        for place, nugget_id in list(enumerate(judged.labels))[:_MOST_FAULTS]:
            found = [n for n, each in enumerate(ranking, 1) if place in supported.get(each, ())]
            text = cut(self._nuggets.get(nugget_id, nugget_id), _FAULT_LENGTH)
            ranks = ", ".join(map(str, found[:3]))
            yield (
                f"“{text}” is in the passages at rank {ranks}"
                if found
                else (f"“{text}” is in none of the passages")
            )
        last = max((n for n, each in enumerate(ranking) if each in supported), default=0)
        useless = [n for n in range(last) if ranking[n] not in supported][:3]
        for n in useless:
            excerpt = cut(" ".join(texts[ranking[n]].split()), _FAULT_LENGTH)
            yield f"Rank {n + 1} holds nothing of the answer: {excerpt}"
