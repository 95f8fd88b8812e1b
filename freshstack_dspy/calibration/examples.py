"""From people's labels to the examples that DSPy's optimizers take."""

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mode
from typing import Any, Literal, NamedTuple

import dspy
from pydantic import BaseModel, TypeAdapter

from freshstack_dspy.baseline.words import support
from freshstack_dspy.calibration.agreement import binary
from freshstack_dspy.calibration.following import follow, lost_lines
from freshstack_dspy.calibration.labels import PairId, Paths, pair_of, read_labels
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.corpus.shown_chunks import whole
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.typed import plain
from freshstack_dspy.programs.nuggetizer import likeness
from freshstack_dspy.programs.support_judge import judge_inputs
from freshstack_dspy.records import (
    AnswerLabel,
    Chunk,
    HumanLabel,
    Nugget,
    NuggetList,
    Query,
    Scale,
    ScaleName,
)
from freshstack_dspy.rows import read_rows
from freshstack_dspy.signatures.answers import ReferenceAnswer
from freshstack_dspy.signatures.judge_support import verdicts_on
from freshstack_dspy.signatures.nuggets import NuggetText
from freshstack_dspy.signatures.question import ShownQuestion
from freshstack_dspy.stored.near_duplicates import alike_questions
from freshstack_dspy.text import clusters, find_quotation, restates

_NEARLY_THE_SAME = 0.8
"""The similarity (Jaccard of their terms) from which on two questions count as the same."""
_REASON = {True: "A person found these nuggets in the chunk.", False: "A person found none in it."}
_MOST_QUOTES = 2
_TEST_SHARE, _DEV_SHARE = 0.4, 0.2
_SAME_FACT = 0.5

SUPPORT = Scale()
CHUNKS = 5
"""Most chunks in one example of the judge."""


class LabelledExample(dspy.Example):
    """A call of a program: its inputs as records, and `people`, what people said.

    `people` is JSON with the fields of the program's signature, including the question's, so that it
    is a demonstration too; optimizers that show examples to a model show only `people`.
    """

    def __repr__(self) -> str:
        return repr(self.get("people") or dict(self.items()))


class Examples(NamedTuple):
    """Examples for DSPy, divided by query: each query is on one side only."""

    train: list[dspy.Example]
    dev: list[dspy.Example]
    """The examples that an optimizer chooses by, its `valset`."""
    test: list[dspy.Example]
    """The examples that no optimizer sees."""


def examples(
    labels: Paths | Sequence[HumanLabel | NuggetList | AnswerLabel],
    collection: Collection | Path | str | None = None,
    *,
    kind: Literal["support", "nugget_list", "answer"] = "support",
    scale: Scale | None = None,
    limit: int = 10,
) -> Examples:
    """Turn people's labels into examples for DSPy's optimizers and `dspy.Evaluate`.

        train, dev, test = examples("labels.jsonl", "collections/mine")
        tuned = dspy.GEPA(metric=agreement, …).compile(SupportJudge(), trainset=train, valset=dev)

    The inputs of an example are those of the program: `query`, `nuggets` and `chunks` for a
    `SupportJudge`; `query` for a `Nuggetizer`; `query`, `references` and `answer` for an
    `AnswerComparer`. The example also has what people said, which `agreement` reads.

    Args:
        labels: One or several files of labels, or records of one kind.
        collection: The collection that was labelled; lists of nuggets need one. Labels of something
            that it no longer has are left out, with a warning. Without a collection, the labels'
            own texts are shown.
        kind: The kind of labels to read from files.
        scale: The judge's scale; by default that of the collection, or else `support`.
        limit: The largest number of nuggets.

    Returns:
        `train`, `dev` and `test`, divided by query: 40, 20 and 40 %, the same on every machine.

    Raises:
        CollectionError: As in `read_labels`; a text is neither in a label nor in the collection; or
            there are fewer than three queries.
        ConfigError: Lists of nuggets are given without a collection.
    """
    if isinstance(collection, Path | str):
        collection = Collection.load(collection)
    records: Any = labels
    if isinstance(labels, Path | str) or all(isinstance(each, Path | str) for each in labels):
        records = read_labels(records, kind)
    records, lost = followed(records, collection)
    if lost:
        warnings.warn("; ".join(lost_lines(lost)), stacklevel=2)
    scale = scale or (collection.manifest.scale if collection else SUPPORT)
    return split_by_query(labelled_examples(records, collection, scale, limit))


def followed(labels: Any, collection: Collection | None) -> tuple[Any, Mapping[str, Sequence[Any]]]:
    """Follow labels of pairs to a collection, and give the lost ones by reason; leave other kinds."""
    if collection is None or not labels or not isinstance(labels[0], HumanLabel):
        return labels, {}
    kept_labels, lost = follow(labels, collection, collection.corpus)
    if not kept_labels:
        raise CollectionError(f"no label is of {collection.name!r}: {'; '.join(lost_lines(lost))}")
    return kept_labels, lost


def _labelled(scale: Scale, inputs: Mapping[str, Any], **people: Any) -> LabelledExample:
    example: LabelledExample = LabelledExample(
        **inputs, people=plain(people), scale=scale
    ).with_inputs(*inputs)
    return example


def labelled_examples(
    labels: Sequence[Any], collection: Collection | None, scale: Scale, limit: int
) -> list[LabelledExample]:
    """Make examples from labels of one kind; arguments and errors are those of `examples`."""
    if isinstance(labels[0], HumanLabel):
        return judge_examples(labels, collection, scale)
    if isinstance(labels[0], AnswerLabel):
        return answer_examples(labels, collection)
    if collection is None:
        raise ConfigError("nuggets are of the answers of a collection; name it")
    return nugget_examples(labels, collection, limit)


def judge_examples(
    labels: Sequence[HumanLabel],
    collection: Collection | None,
    scale: Scale = SUPPORT,
    batch: int = CHUNKS,
) -> list[LabelledExample]:
    """Make one example for each batch of chunks of a query that have labels for the same nuggets.

    If several people labelled a pair, the majority counts; a tie is left out. On the scale
    `support`, a person's yes is full support, and the judge is to quote the words that people
    marked, or else the chunk's sentence that is nearest to the nugget.

    Args:
        labels: Labels with ids of the collection, or with their texts.
        collection: The collection whose texts are shown; None: those of the labels.
        scale: The scale of the judge and of the labels; for a binary judge, any label from 1 on is
            support.
        batch: Most chunks in one example.

    Raises:
        CollectionError: Without a collection: a label lacks a text, or two labels give different
            texts for the same id.
    """
    records = _records(labels, collection)
    marked: dict[PairId, Sequence[str]] = {}
    for label in reversed(labels):
        words = label.marked
        if collection is not None:
            chunk = records["chunk", label.chunk_id]
            words = tuple(chunk.text_at(*span) for span in label.evidence)
        if words:
            marked[pair_of(label)] = words[:_MOST_QUOTES]
    grades = _majorities(labels, scale)
    nuggets: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for query_id, nugget_id, chunk_id in sorted(grades):
        nuggets[query_id, chunk_id].append(nugget_id)
    groups: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (query_id, chunk_id), nugget_ids in sorted(nuggets.items()):
        groups[query_id, tuple(nugget_ids)].append(chunk_id)
    return [
        _judged(
            query_id, nugget_ids, chunk_ids[start : start + batch], grades, records, marked, scale
        )
        for (query_id, nugget_ids), chunk_ids in groups.items()
        for start in range(0, len(chunk_ids), batch)
    ]


def _judged(
    query_id: str,
    nugget_ids: Sequence[str],
    chunk_ids: Sequence[str],
    grades: Mapping[PairId, int],
    records: Mapping[tuple[str, str], Any],
    marked: Mapping[PairId, Sequence[str]],
    scale: Scale,
) -> LabelledExample:
    """Make the example of one call of the judge, with people's verdicts."""
    query = records["question", query_id]
    nuggets = [records["nugget", nugget_id] for nugget_id in nugget_ids]
    chunks = [records["chunk", chunk_id] for chunk_id in chunk_ids]
    said: list[dict[str, Any]] = []
    for number, chunk in enumerate(chunks, 1):
        pairs = [(query_id, nugget_id, chunk.chunk_id) for nugget_id in nugget_ids]
        labels = [grades[pair] for pair in pairs]
        quotes: list[Sequence[str]] = []
        if scale.name == "support":
            text = chunk.passage
            statements = [nugget.text for nugget in nuggets]
            matches = support(query.text, statements, [text])[0]
            for pair, match in zip(pairs, matches, strict=True):
                quoted = [each for each in marked.get(pair, ()) if find_quotation(each, text)]
                quotes.append(quoted or [match.nearest])
        said.append(verdict_on(scale.name, number, _REASON[any(labels)], labels, quotes))
    shown = [whole(chunk) for chunk in chunks]  # as in a build
    asked = judge_inputs(query, nuggets, shown)
    verdicts = verdicts_on(scale.name).validate_python(said)
    inputs = {"query": query, "nuggets": nuggets, "chunks": shown}
    return _labelled(scale, inputs, **asked, verdicts=verdicts)


def _records(
    labels: Sequence[HumanLabel], collection: Collection | None
) -> dict[tuple[str, str], Any]:
    """Give queries, nuggets and chunks of labels by kind and id, from the collection or the labels."""
    records: dict[tuple[str, str], Any] = {}
    if collection is not None:
        records |= {("question", query.query_id): query for query in collection.queries}
        records |= {("nugget", nugget.nugget_id): nugget for nugget in collection.nuggets}
        chunks = collection.corpus.chunks({label.chunk_id for label in labels})
        return records | {("chunk", chunk_id): chunk for chunk_id, chunk in chunks.items()}
    for label in labels:
        for (what, id_), record in _own_records(label).items():
            if record is None:
                raise CollectionError(
                    f"the labels do not carry the text of {what} {id_!r}: give each label its "
                    f"{what!r}, or name the collection"
                )
            if records.setdefault((what, id_), record) != record:
                raise CollectionError(
                    f"two labels give {what} {id_!r} different texts; one id is one {what}"
                )
    return records


def _own_records(label: HumanLabel) -> dict[tuple[str, str], Any]:
    """Make records from a label's own texts; None for a missing text."""
    query_id, nugget_id, chunk_id = pair_of(label)
    return {
        ("question", query_id): label.question
        and Query(query_id=query_id, title="", body=label.question),
        ("nugget", nugget_id): label.nugget
        and Nugget(nugget_id=nugget_id, query_id=query_id, text=label.nugget, call_id=None),
        ("chunk", chunk_id): label.chunk
        and Chunk(
            chunk_id=chunk_id,
            source="",
            path=chunk_id,
            start_byte=0,
            end_byte=len(label.chunk.encode()),
            text=label.chunk,
            tokens=0,
        ),
    }


def nugget_examples(
    lists: Sequence[NuggetList], collection: Collection, limit: int
) -> list[LabelledExample]:
    """Make one example from each list of nuggets that a person made for an answered query.

    The example asks for at most `limit` nuggets, or for as many as the person listed if more.

    Raises:
        CollectionError: A query is not in the collection, or has no answer.
    """
    answered = {query.query_id: query for query in collection.queries if query.answer.strip()}
    examples = []
    for listed in sorted(lists, key=lambda listed: (listed.query_id, listed.annotator)):
        query = answered.get(listed.query_id)
        if query is None:
            raise CollectionError(
                f"{collection.name}: the collection has no query {listed.query_id!r} with an answer, "
                "for which people listed nuggets: take this list out, or name another collection"
            )
        # A nugget that only restates the question is not valid, and programs should not write it.
        texts = {
            nugget.text: nugget
            for nugget in listed.nuggets
            if not restates(nugget.text, query.text)
        }
        matches = support(query.text, list(texts), [query.answer])[0]
        nuggets = [
            NuggetText(
                quote=match.nearest if find_quotation(match.nearest, query.answer) else "",
                text=nugget.text,
                importance=nugget.importance or "vital",
                doubtful=False,
            )
            for nugget, match in zip(texts.values(), matches, strict=True)
        ]
        example = _labelled(
            SUPPORT,
            {"query": query},
            question=ShownQuestion.of(query),
            answer=query.answer,
            limit=max(limit, len(nuggets)),
            nuggets=nuggets,
        )
        examples.append(example)
    return examples


def same_facts(nuggets: Sequence[str], listed: Sequence[str]) -> dict[int, int]:
    """Match nuggets one to one with listed ones, the most similar first; give their places.

    Two nuggets state the same fact if their `likeness` is at least 0.5.
    """
    matched: dict[int, int] = {}
    pairs = product(enumerate(nuggets), enumerate(listed))
    alike = ((-likeness(text, other), at, there) for (at, text), (there, other) in pairs)
    for less, at, there in sorted(alike):
        if -less >= _SAME_FACT and at not in matched and there not in matched.values():
            matched[at] = there
    return matched


def answer_examples(
    labels: Sequence[AnswerLabel], collection: Collection | None
) -> list[LabelledExample]:
    """Make one example from each label of an answer that a person compared with a gold one.

    Raises:
        CollectionError: A label lacks one of its texts.
    """
    asked = {query.query_id: query for query in collection.queries} if collection else {}
    examples = []
    for label in labels:
        own = (
            Query(query_id=label.query_id, title="", body=label.question)
            if label.question
            else None
        )
        query = asked.get(label.query_id, own)
        if query is None or label.answer is None or label.gold_answer is None:
            raise CollectionError(
                f"the label of the answer of {label.run_id!r} to query {label.query_id!r} lacks texts: "
                "give its 'answer' and 'gold_answer', and its 'question' or the collection"
            )
        example = _labelled(
            SUPPORT,
            {"query": query, "references": [label.gold_answer], "answer": label.answer},
            question=ShownQuestion.of(query),
            references=[ReferenceAnswer(number=1, text=label.gold_answer)],
            answer=label.answer,
            reason=label.note or "A person compared them.",
            agrees="yes" if label.agrees else "no",
        )
        examples.append(example)
    return examples


def query_of(example: dspy.Example) -> tuple[str, ShownQuestion]:
    """Give an example's id and question, from its `query`, or else its `query_id`, or its inputs.

    Raises:
        ConfigError: The example does not say which of its fields are inputs.
    """
    try:
        inputs = example.inputs()
    except ValueError:
        raise ConfigError(
            "an example does not say what its inputs are: dspy.Example(…).with_inputs('query')"
        ) from None
    query = example.get("query")
    if isinstance(query, Query):
        return query.query_id, ShownQuestion.of(query)
    question = ShownQuestion(body=as_text(inputs))
    return str(example.get("query_id", question.body)), question


def read_examples(path: Path, collection: Collection | None) -> list[dspy.Example]:
    """Read examples of programs that take a query: lines with a `query_id` and what people say.

    Raises:
        CollectionError: The query of a line is not in the collection.
        SourceError: The file cannot be read, or a line is not an object.
    """
    queries = {query.query_id: query for query in collection.queries} if collection else {}
    examples = []
    for row in read_rows(path):
        query = queries.get(str(row.values.get("query_id")))
        if query is None:
            raise CollectionError(
                f"{row.place}: no query {row.values.get('query_id')!r:.80} here; name the "
                "collection that the lines are of, and give each its query's 'query_id'"
            )
        examples.append(dspy.Example(**row.values, query=query).with_inputs("query"))
    return examples


def as_text(example: Any) -> str:
    """Give an example or a label as JSON; other objects, such as an index, become their type's name."""
    values = example if isinstance(example, BaseModel) else dict(example.items())
    dumped = TypeAdapter(Any).dump_json(values, fallback=lambda value: type(value).__qualname__)
    return dumped.decode()


def split_by_query(examples: Sequence[dspy.Example]) -> Examples:
    """Divide examples by query, 40 % to train, 20 to dev, 40 to test, the same on every machine.

    Queries that ask nearly the same stay on one side; otherwise the test would repeat the training.

    Raises:
        CollectionError: There are fewer than three distinct queries.
    """
    questions = dict(map(query_of, examples))
    queries = sorted(
        questions,
        key=lambda query_id: hashlib.sha256(f"0\n{query_id}".encode()).hexdigest(),
    )
    groups = clusters(queries, alike_questions(questions, _NEARLY_THE_SAME))
    if len(groups) < 3:
        same = " that do not ask nearly the same" if len(queries) > 2 else ""
        raise CollectionError(
            f"labels of at least three queries{same} are needed, for train, dev and test; "
            f"here is {len(groups)}"
        )
    tested = _taken(groups, round(len(queries) * _TEST_SHARE), leaving=2)
    rest = [group for group in groups if not tested.issuperset(group)]
    dev = _taken(rest, round(len(queries) * _DEV_SHARE), leaving=1)
    sides: dict[str, list[dspy.Example]] = {"train": [], "dev": [], "test": []}
    for example in examples:
        id_, _ = query_of(example)
        sides["test" if id_ in tested else "dev" if id_ in dev else "train"].append(example)
    return Examples(**sides)


def _taken(groups: Sequence[Sequence[str]], count: int, leaving: int) -> set[str]:
    """Take groups, in order, as long as they bring the number of queries nearer to a count."""
    taken: set[str] = set()
    left = len(groups)
    for group in groups:
        nearer = abs(len(taken) + len(group) - count) <= abs(len(taken) - count)
        if nearer and left > leaving:
            taken.update(group)
            left -= 1
    smallest: Sequence[str] = min(groups, key=len)
    return taken or set(smallest)


def verdict_on(
    scale: ScaleName,
    number: int,
    reason: str,
    grades: Sequence[int],
    quotes: Sequence[Sequence[str]],
) -> dict[str, Any]:
    """Make a verdict on a chunk, in the form of a scale's judge, from each nugget's grade and quotes."""
    graded = [{"nugget": place, "grade": grade} for place, grade in enumerate(grades, 1)]
    supported = [entry for entry in graded if entry["grade"]]
    answer: dict[str, Any] = {"grades": graded}
    if scale == "binary":
        answer = {"supported": [entry["nugget"] for entry in supported]}
    elif scale == "support":
        quoted = [{**entry, "quotes": [*quotes[entry["nugget"] - 1]]} for entry in supported]
        answer = {"supported": quoted}
    return {"chunk": number, "reason": reason, **answer}


def _majorities(labels: Sequence[HumanLabel], scale: Scale) -> dict[PairId, int]:
    """Give the label of each pair on the judge's scale: the mode of the labels in the majority."""
    yes_and_no = scale.name == "support" and all(label.label <= 1 for label in labels)
    full = 2 if yes_and_no else 1  # yes is full support
    votes: defaultdict[PairId, list[int]] = defaultdict(list)
    for label in labels:
        votes[pair_of(label)].append(label.label * full)
    grades: dict[PairId, int] = {}
    for pair, labels_of_pair in votes.items():
        supporting = [label for label in labels_of_pair if binary(label, scale.threshold)]
        if 2 * len(supporting) != len(labels_of_pair):  # a tie is left out
            wins = 2 * len(supporting) > len(labels_of_pair)
            winners = (
                supporting
                if wins
                else [label for label in labels_of_pair if label not in supporting]
            )
            grades[pair] = int(wins) if scale.name == "binary" else mode(sorted(winners))
    return grades
