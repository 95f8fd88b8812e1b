"""The judgments of a collection, selected by filters and shown with people's labels."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from freshstack_dspy.calibration.labels import AnyLabel, PairId, TaskId, pair_of, task_id
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.labelling.tasks import Tasks
from freshstack_dspy.records import SCALES, TECHNIQUES, HumanLabel, Judgment, LabelTask

_ROWS = 200
"""How many queries, or judgments of a query, are sent to the page at once."""
Own = Mapping[TaskId, Sequence[AnyLabel]]
"""The labels that are made on the page."""


class Filters(NamedTuple):
    """Which judgments are shown; an empty field leaves none out."""

    text: str = ""
    """The id of a query, or a part of its question."""
    label: str = ""
    """The judge's label; `none` for failed judgments."""
    technique: str = ""
    """A technique that pooled the chunk."""
    disputed: str = ""
    """If not empty, only judgments where the labels of the judge and of people differ."""


class JudgmentTasks(Tasks):
    """All judgments of a collection, query by query, with the labels that people gave.

    Attributes:
        techniques: The techniques that pooled any chunk.
    """

    def __init__(self, collection: Collection) -> None:
        order = {query.query_id: place for place, query in enumerate(collection.queries)}

        def place(judgment: Judgment) -> tuple[Any, ...]:
            label = -1 if judgment.label is None else judgment.label
            return order[judgment.query_id], judgment.nugget_id, -label, judgment.chunk_id

        self._judgments = sorted(collection.judgments, key=place)
        ids = {"query_id", "nugget_id", "chunk_id"}
        tasks = [
            LabelTask(kind="support", **judgment.model_dump(include=ids))
            for judgment in self._judgments
        ]
        super().__init__(collection, tasks)
        self._judgment_by_task = dict(zip(self.by_id, self._judgments, strict=True))
        self._people: dict[PairId, dict[str, HumanLabel]] = {}
        self._pooled = {
            (entry.query_id, entry.chunk_id): {by.technique: by.rank for by in entry.pooled_by}
            for entry in collection.pool
        }
        pooled_by = set().union(*self._pooled.values())
        self.techniques = [name for name in TECHNIQUES if name in pooled_by]
        self._highest = SCALES[collection.manifest.scale.name].highest

    def add(self, labels: Iterable[AnyLabel]) -> None:
        """Also show these labels of support."""
        for label in labels:
            if isinstance(label, HumanLabel) and label.kind == "support":
                self._people.setdefault(pair_of(label), {})[label.annotator] = label

    def queries(self, filters: Filters, own: Own, place: int) -> dict[str, Any]:
        """List queries with matching judgments, a page of them: that of the judgment at `place`."""
        numbers = self._matching(filters, own)
        counts = Counter(self._judgments[number].query_id for number in numbers)
        rows, start, chosen = [], 0, 0
        for query_id, count in counts.items():
            query = self._queries[query_id]
            title = (query.title or query.body)[:200]
            chosen += start + count <= place
            rows.append({"query_id": query_id, "title": title, "count": count, "place": start})
            start += count
        first = chosen // _ROWS * _ROWS
        return {"total": len(rows), "first": first, "rows": rows[first : first + _ROWS]}

    def around(
        self, filters: Filters, own: Own, place: int, number: int | None = None
    ) -> dict[str, Any]:
        """List matching judgments of one query: those around a place among all matching ones.

        A `number` names the judgment whose place is taken instead, if that judgment matches.
        """
        numbers = self._matching(filters, own)
        if not numbers:
            return {"total": 0, "rows": []}
        place = numbers.index(number) if number in numbers else min(place, len(numbers) - 1)
        query_id = self._judgments[numbers[place]].query_id
        places = [
            at for at, index in enumerate(numbers) if self._judgments[index].query_id == query_id
        ]
        first = (place - places[0]) // _ROWS * _ROWS
        shown = places[first : first + _ROWS]
        rows = [self._row(numbers[at], own) for at in shown]
        query = {"begin": places[0], "end": places[-1] + 1}  # of the query
        return {"total": len(numbers), "place": place, "first": shown[0], "rows": rows} | query

    def shown(self, task: LabelTask, *, whole: bool = False) -> dict[str, Any]:
        """Give what the page shows of a judgment, with what people say about it."""
        judgment = self._judgment_by_task[task_id(task)]
        people = self._people.get(pair_of(judgment), {}).values()
        return super().shown(task, whole=whole) | {
            "judged": self.in_characters(judgment),
            "people": [self.in_characters(label) for label in people],
            "pooled_by": self._pooled.get((task.query_id, judgment.chunk_id), {}),
        }

    def _matching(self, filters: Filters, own: Own) -> list[int]:
        """The numbers of the matching judgments."""
        text = filters.text.strip()
        wanted = {text} & self._queries.keys() or {
            query_id
            for query_id, query in self._queries.items()
            if text.casefold() in f"{query_id} {query.text}".casefold()
        }
        return [
            number
            for number, judgment in enumerate(self._judgments)
            if judgment.query_id in wanted
            and filters.label in ("", "none" if judgment.label is None else str(judgment.label))
            and (
                not filters.technique
                or filters.technique in self._pooled.get((judgment.query_id, judgment.chunk_id), ())
            )
            and (not filters.disputed or self._is_disputed(judgment, own))
        ]

    def _is_disputed(self, judgment: Judgment, own: Own) -> bool:
        """Whether its labels differ; a label above the scale counts as the scale's highest."""
        labels = {min(label, self._highest) for label in self._labels(judgment, own)}
        return len(labels if judgment.label is None else labels | {judgment.label}) > 1

    def _labels(self, judgment: Judgment, own: Own) -> list[int]:
        """People's labels of a pair."""
        pair = pair_of(judgment)
        mine = own.get(("support", *pair), ())
        people = {**self._people.get(pair, {}), **{label.annotator: label for label in mine}}
        return [label.label for label in people.values() if isinstance(label, HumanLabel)]

    def _row(self, number: int, own: Own) -> dict[str, Any]:
        judgment = self._judgments[number]
        return {
            "number": number,
            "nugget": self._texts[judgment.nugget_id],
            "chunk_id": judgment.chunk_id,
            "label": judgment.label,
            "people": self._labels(judgment, own),
            "disputed": self._is_disputed(judgment, own),
        }
