"""The tasks of an annotator: read from a file or a collection, shown, and turned into labels."""

import inspect
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePath
from time import monotonic
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from pygments import lexers
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from freshstack_dspy.calibration.following import with_texts
from freshstack_dspy.calibration.labels import AnyLabel, check_labels, pair_of, read_label, task_id
from freshstack_dspy.calibration.sampling import read_tasks
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.records import SCALES, HumanLabel, LabelTask, Nugget, ReportLabel, ScaleName
from freshstack_dspy.signatures.judge_support import JUDGES
from freshstack_dspy.stored.contents import nuggets_by_query
from freshstack_dspy.stored.record_files import records_of

_SHOWN = 20_000
"""How many characters of a text are shown at first."""
_GIVEN = TypeAdapter(list[dict[str, Any]])


class Grade(NamedTuple):
    """One of the labels to choose from, and its key."""

    label: int
    key: str
    name: str
    meaning: str


class Tasks:
    """The tasks of one annotator.

    Attributes:
        collection: The collection whose pairs, nuggets, answers or reports are labelled.
        by_id: The tasks, in order.
        grades: The labels to choose from, by kind of task.
    """

    def __init__(self, collection: Collection, tasks: Sequence[LabelTask]) -> None:
        self.collection = collection
        self._queries = {query.query_id: query for query in collection.queries}
        self._nuggets = nuggets_by_query(collection.nuggets, doubtful=True)
        self._texts = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
        self.by_id = {task_id(task): task for task in tasks}
        self._of_report: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
        for number, task in enumerate(self.by_id.values()):
            if task.kind == "report":
                self._of_report[task.query_id, task.run_id].append(number)
        self.grades = {
            "support": grades_of(collection.manifest.scale.name),
            "answerability": [
                Grade(0, "0", "no", "the passage does not answer the sub-question"),
                Grade(1, "1", "yes", "the passage answers it, if only in part"),
            ],
            "report": [
                Grade(0, "0", "no", "the report does not say it, whatever you know yourself"),
                Grade(1, "1", "yes", "someone who reads only the report has the answer: mark it"),
            ],
            "answer": [
                Grade(1, "y", "yes", "the answer agrees with the gold answer"),
                Grade(0, "n", "no", "it does not agree, or gives no answer"),
            ],
        }

    @classmethod
    def open(cls, path: Path) -> "Tasks":
        """Read a file of tasks.

        Raises:
            CollectionError: The file has no tasks, or was drawn from another collection.
        """
        header, tasks = read_tasks(path)
        folder = path.parent / header.collection
        if not os.path.exists(folder):  # noqa: PTH110 - False for a name that no file can have
            raise CollectionError(
                f"{path}: the collection that it was drawn from is not at "
                f"{str(folder)[-200:]!r}; tasks name it relative to their own folder"
            )
        collection = Collection.load(folder)
        read_tasks(path, collection)
        check_labels(((f"{path}:{n}", task) for n, task in enumerate(tasks, start=2)), collection)
        return cls(collection, tasks)

    def shown(self, task: LabelTask, *, whole: bool = False) -> dict[str, Any]:
        """Give what the page shows of a task; long texts are cut unless `whole`."""
        query = self._queries[task.query_id]

        def shown(title: str, text: str, path: str, language: str | None, below: str = "") -> Any:
            return {
                "title": title,
                "below": below,
                "blocks": blocks_of(text if whole else text[:_SHOWN], path),
                "left": 0 if whole else max(0, len(text) - _SHOWN),
                "language": language or "",
            }

        def passage(chunk_id: str, number: str = "") -> Any:
            chunk = self.collection.chunk(chunk_id)
            below = " › ".join((*filter(None, [chunk.title]), *chunk.headings))
            title = f"{number}{chunk.source}/{chunk.path}"
            return shown(title, chunk.text, chunk.path, chunk.language, below)

        source, nuggets = "The answer", list[dict[str, Any]]()
        if task.kind == "answer":
            gold = shown("Gold answer", task.gold_answer or "", "answer.md", query.language)
            texts = [gold, shown("Answer", task.answer or "", "answer.md", None)]
        elif task.kind == "report":
            texts = [shown("Report", task.answer or "", "report.md", query.language)]
        elif task.kind == "nuggets":
            listed = self._nuggets.get(task.query_id, [])
            of_answer = bool(query.answer) and not any(nugget.chunk_ids for nugget in listed)
            sources = {
                nugget.nugget_id: () if of_answer else self._sources(nugget) for nugget in listed
            }
            ids = list(dict.fromkeys(chain.from_iterable(sources.values())))
            texts = [passage(id_, f"Passage {number}: ") for number, id_ in enumerate(ids, 1)]
            if of_answer:
                texts = [shown("Accepted answer", query.answer, "answer.md", query.language)]
            else:
                source = "A passage that it is from"
            nuggets = [
                {
                    "nugget_id": nugget.nugget_id,
                    "text": nugget.text,
                    "passages": sorted(ids.index(id_) + 1 for id_ in sources[nugget.nugget_id]),
                }
                for nugget in listed
            ]
        else:
            texts = [passage(task.chunk_id or "")]
        return {
            "kind": task.kind,
            "language": query.language or "",
            "title": query.title,
            "body": blocks_of(query.body, "question.md"),
            "nugget": blocks_of(self._texts.get(task.nugget_id or "", ""), "nugget.md"),
            "nuggets": nuggets,
            "source": source,
            "texts": texts,
            "of_report": self._of_report.get((task.query_id, task.run_id), []),
        }

    def _sources(self, nugget: Nugget) -> tuple[str, ...]:
        """The chunks that a nugget was made from; if people wrote it, the chunks that support it."""
        supporting = (
            judgment.chunk_id
            for judgment in records_of(self.collection.judgments, nugget.query_id)
            if judgment.nugget_id == nugget.nugget_id and self.collection.supports(judgment)
        )
        return nugget.chunk_ids or tuple(supporting)

    def verdict(self, task: LabelTask) -> dict[str, Any] | None:
        """Give the judge's judgment of a pair; None if there is none with a label."""
        pair = (task.query_id, task.nugget_id, task.chunk_id)
        of_query = records_of(self.collection.judgments, task.query_id)
        judged = (judgment for judgment in of_query if pair_of(judgment) == pair)
        verdict = next((judgment for judgment in judged if judgment.label is not None), None)
        return self.in_characters(verdict) if verdict else None

    def labels(self, task: LabelTask, sent: bytes, **by: str) -> list[AnyLabel]:
        """Read the labels of a task from the page's request; `by` has the annotator and the time.

        Raises:
            ConfigError: A label is off the scale or outside the passage, labels are missing, or no
                words show that a report answers.
        """
        common: dict[str, Any] = {"query_id": task.query_id, **by}
        if task.stratum:
            common |= {"stratum": task.stratum, "probability": task.probability}
        if task.kind == "answer":
            texts = task.model_dump(include={"run_id", "sample", "answer", "gold_answer"})
            common |= {**texts, "question": self._queries[task.query_id].text}
        elif task.kind == "report":
            common |= {
                "run_id": task.run_id,
                "nugget_id": task.nugget_id,
                "report": task.answer,
                "question": self._queries[task.query_id].text,
                "nugget": self._texts[task.nugget_id or ""],
            }
        elif task.kind != "nuggets":
            common |= {"nugget_id": task.nugget_id, "chunk_id": task.chunk_id}
        try:
            entries = _GIVEN.validate_json(sent)
            labels = [read_label(to_json(entry | common), "the page") for entry in entries]
        except ValidationError as error:
            raise ConfigError(f"not a list of labels: {first_fault(error)}") from None
        except CollectionError as error:
            raise ConfigError(str(error)) from None
        wanted: list[tuple[str, str | None]] = [(task.kind, task.nugget_id)]
        if task.kind == "nuggets":
            nuggets = self._nuggets.get(task.query_id, [])
            wanted = [("nugget_list", None), *(("nugget", nugget.nugget_id) for nugget in nuggets)]
        if [(label.kind, getattr(label, "nugget_id", None)) for label in labels] != wanted:
            raise ConfigError(f"not all that is asked for; wanted: {wanted}")
        if any(isinstance(each, ReportLabel) and each.label and not each.marked for each in labels):
            raise ConfigError("label 1 needs evidence: mark the words of the report that answer it")
        return [
            self._in_bytes(label) if isinstance(label, HumanLabel) else label for label in labels
        ]

    def _in_bytes(self, label: HumanLabel) -> HumanLabel:
        """Check a label of a pair, and convert its evidence from characters to bytes."""
        chunk = self.collection.chunk(label.chunk_id)
        allowed = [grade.label for grade in self.grades[label.kind]]
        if label.label not in allowed:
            raise ConfigError(f"label {label.label!r:.20} is not on the scale; allowed: {allowed}")
        if any(not 0 <= start < end <= len(chunk.text) for start, end in label.evidence):
            raise ConfigError(f"evidence {label.evidence!r:.200} is not within the passage")
        spans = [(chunk.byte_at(start), chunk.byte_at(end)) for start, end in label.evidence]
        in_bytes = label.model_copy(update={"evidence": tuple(sorted(spans))})
        return with_texts(
            in_bytes, self._queries[label.query_id], self._texts[label.nugget_id], chunk
        )

    def in_characters(self, record: Any) -> dict[str, Any]:
        """Give the fields of a label or judgment, with its evidence in characters."""
        fields: dict[str, Any] = record.model_dump()
        if fields.get("evidence") and "chunk_id" in fields:
            chunk = self.collection.chunk(record.chunk_id)
            fields["evidence"] = [
                [chunk.place_at(start), chunk.place_at(end)] for start, end in record.evidence
            ]
        return fields


def instructions(scale: ScaleName) -> str:
    """Give the judge's instructions for a scale, so that people follow the same rules."""
    text = inspect.cleandoc(JUDGES[scale].__doc__ or "")
    return re.sub(r"(?<!\n)\n(?![\n\d])", " ", text)  # paragraphs as single lines


def grades_of(scale: ScaleName) -> list[Grade]:
    """List the labels of a scale and what they mean.

    Raises:
        ConfigError: There is no such scale.
    """
    if scale not in SCALES:
        raise ConfigError(f"scale {scale!r:.100} is not known; allowed: {', '.join(SCALES)}")
    return [
        Grade(label, str(label), grade.name, grade.meaning)
        for label, grade in enumerate(SCALES[scale].grades)
    ]


# Texts in blocks of code and prose. The pieces join up to the text, so that a selection on the page
# has a place in it.

Piece = tuple[str, str]
"""A style class (Pygments' short names, `url`, `control` or empty), and the text."""


class Block(NamedTuple):
    """A part of a text that is all code or all prose."""

    code: bool
    pieces: tuple[Piece, ...]


_MARKDOWN = (".md", ".markdown", ".mdx", ".html", ".htm", ".xhtml", ".ipynb")
"""Pages and notebooks are Markdown in a corpus."""
_PROSE = (".rst", ".txt", ".text")
_LONGEST_STYLED, _PLAIN_BLOCK, _MOST_SPECIAL = 200_000, 20_000, 500
"""Limits: characters of a styled text, characters of a block of a longer text, special pieces in a
block. Beyond these, browsers need seconds to lay out a hostile text."""
_STYLING = 0.3
"""Seconds for styling a text; a lexer can need quadratic time on a hostile text."""
_FENCED = re.compile(
    r"(?P<begin>^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+#.-]*)[^\n`]*\n)"
    r"(?P<code>.*?)(?P<end>^ {0,3}(?P=fence)[`~]*[ \t]*$\n?|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SPECIAL = re.compile(
    r"(?P<url>https?://[^\s<>\"'`\\)\]]+)|"
    # Invisible characters, and those that change the order of others; not \t, \n and \r.
    r"(?P<control>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ufeff]+)"
)


def blocks_of(text: str, path: str) -> list[Block]:
    """Cut a text into blocks; the name of its file tells the language."""
    suffix = PurePath(path).suffix.lower()
    lexer = _lexer(lexers.get_lexer_for_filename, "a.md" if suffix in _MARKDOWN else path)
    is_code = lexer is not None and suffix not in _MARKDOWN + _PROSE
    if len(text) > _LONGEST_STYLED:
        starts = range(0, len(text), _PLAIN_BLOCK)
        return [Block(is_code, (("", text[start : start + _PLAIN_BLOCK]),)) for start in starts]
    blocks, done, end = [], 0, monotonic() + _STYLING
    if suffix in _MARKDOWN:
        for fenced in _FENCED.finditer(text):
            blocks.append(Block(False, tuple(_pieces(text[done : fenced.start()], lexer, end))))
            inner = _lexer(lexers.get_lexer_by_name, fenced["language"])
            code = _pieces(fenced["code"], inner, end)
            pieces = (("fence", fenced["begin"]), *code, ("fence", fenced["end"]))
            blocks.append(Block(True, pieces))
            done = fenced.end()
    blocks.append(Block(is_code, tuple(_pieces(text[done:], lexer, end))))
    return [block for block in blocks if block.pieces]


def _lexer(find: Any, name: str) -> Any:
    try:
        return find(name)
    except ClassNotFound:
        return None


def _pieces(text: str, lexer: Any, end: float) -> Iterator[Piece]:
    """Cut a text by addresses and control characters, and by syntax if that is done before `end`."""
    styled: list[Piece] = []
    for _, kind, value in lexer.get_tokens_unprocessed(text) if lexer else ():
        if monotonic() > end:
            break
        style = STANDARD_TYPES.get(kind, "")
        joined = styled.pop()[1] if styled and styled[-1][0] == style else ""
        styled.append((style, joined + value))
    if "".join(value for _, value in styled) != text:  # no lexer; it drops something, or is slow
        styled = [("", text)]
    left = iter(range(_MOST_SPECIAL))
    for style, value in styled:
        done = 0
        for special, _ in zip(_SPECIAL.finditer(value), left, strict=False):
            if done < special.start():
                yield style, value[done : special.start()]
            yield str(special.lastgroup), special[0]
            done = special.end()
        if value[done:]:
            yield style, value[done:]
