"""Golden sets: questions with what is expected of a retriever, as teams and evaluation tools keep them.

A row is a question, perhaps with a reference answer, and what is expected: texts, ids of documents or
chunks, or files. Rows of judgment lists are one expected document each. `_NAMES` says which columns
hold which part, for all tools; objects within a row (LangSmith, Phoenix, Braintrust) are columns too,
as `inputs.question`. What a system retrieved or answered is not read as expected.

Everything expected is looked up in the corpus: a text is there word for word, except for white space,
an id or a file is one that the corpus has. What is not found stays with its query, in `failures.jsonl`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from freshstack_dspy.corpus.chunks import chunks as cut
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.files import canonical_json
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.imported import Imported, shown, smallest_scale
from freshstack_dspy.measures.spans import Place, Span, merged
from freshstack_dspy.questions.reading import field_text
from freshstack_dspy.records import Chunk, Note, Query, Scale, Spans
from freshstack_dspy.rows import Row, decoded_cell, plain_name, read_rows
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import is_collection
from freshstack_dspy.stored.passages import File, Files

Kind = Literal["text", "id", "file"]
Part = Literal["query_id", "question", "answer", "texts", "ids", "files", "grade"]
PARTS: tuple[Part, ...] = get_args(Part)
_NAMES: dict[Part, tuple[tuple[str, ...], ...]] = {
    "query_id": (
        *(("queryid",), ("qid",), ("questionid",), ("exampleid",), ("testcaseid",), ("id",)),
    ),
    "question": (
        ("question", "userinput", "query", "querytext"),
        ("input", "inputs", "prompt"),
    ),
    "answer": (
        ("reference", "referenceanswer", "expectedoutput", "expectedanswer", "groundtruth"),
        ("expected", "answer", "goldanswer", "ideal"),
        ("output", "outputs"),
    ),
    "texts": (
        ("referencecontexts", "expectedtexts", "expectedcontexts", "goldcontexts", "texts"),
        ("context", "contexts", "passage", "passages", "expectedtext"),
        ("text", "content", "pagecontent"),
    ),
    "ids": (
        ("referencecontextids", "expectedids", "expectedchunkids", "chunkids", "documentids"),
        ("docid", "docids", "documentid", "chunkid", "corpusid", "relevantids"),
        ("ratings", "judgments", "judgements", "documents", "relevantdocs", "relevantdocuments"),
    ),
    "files": (
        ("files", "expectedfiles", "paths", "filepaths"),
        ("file", "path", "filepath", "filename", "sourcefile"),
    ),
    "grade": (
        ("rating", "grade", "grades", "relevance"),
        ("judgment", "judgement", "gain", "score", "label"),
    ),
}
"""What the columns of each part are called, in lower case without marks. If names of an earlier group
are there, later groups do not count: `answer` is the system's where there is a `ground_truth`."""
_RATINGS = frozenset({"ratings", "judgments", "judgements"})
"""Objects of these names are grades by document, as Quepid writes them in JSON."""
_QUEPID = ("query", "docid", "rating")
"""Quepid's CSV; a query without ratings is a row of one cell."""
_HIGHEST_GRADE = 5
_MOST_PLACES = 10
"""A text that is in more places does not say which is meant."""
_FEWEST_WORDS = 3
"""A part of a cell with fewer words is not taken for a text of its own."""
_BAD_GRADES = 0.1
"""From which share of the grades on the scale is another one."""
_HOP = re.compile(r"^<\d+-hop>\s*")
"""With this, ragas marks the contexts of a question that needs several."""
_LISTS = re.compile(r"\s*[|;,\n]\s*")
"""What stands between the ids of a cell that holds several."""


class Expected(NamedTuple):
    """One thing that is expected for a question."""

    kind: Kind
    value: str
    grade: Any
    """As it was written; None where there is none."""
    path: str | None = None
    """For a text: the file that it is said to be in."""


# Columns


_ALL_NAMES = frozenset(chain.from_iterable(chain.from_iterable(_NAMES.values())))


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Give the values of a row, those within objects as `inputs.question`; empty ones are left out."""
    for name, value in values.items():
        decoded = decoded_cell(value)
        if isinstance(decoded, Mapping) and plain_name(name) in _RATINGS:
            decoded = [{"docid": id_, "rating": grade} for id_, grade in decoded.items()]
        if isinstance(decoded, Mapping):
            yield from _flat(decoded, f"{above}{name}.")
        elif decoded is not None and decoded not in ("", []):
            yield f"{above}{name}", decoded


def find_columns(present: Iterable[str], named: Mapping[str, str], place: str) -> dict[Part, str]:
    """Say which column holds each part.

    Args:
        present: The names of all columns.
        named: Those that the user named, by part; an empty name says that there is none.
        place: The file, for messages.

    Raises:
        ConfigError: A name is not that of a part or column.
        SourceError: Several columns may hold a part, or none the question.
    """
    columns, listed = list(present), ", ".join(present)
    for part, column in named.items():
        if part not in PARTS or (column and column not in columns):
            allowed = ", ".join(PARTS) if part not in PARTS else listed
            raise ConfigError(f"columns: {part}={column}: allowed: {allowed}")
    chosen: dict[Part, str] = {part: named[part] for part in PARTS if named.get(part)}
    for part, groups in _NAMES.items():
        if part in named:
            continue
        for group in groups:
            like = [
                name
                for name in columns
                if plain_name(name.rpartition(".")[2]) in group and name not in named.values()
            ]
            top = min((name.count(".") for name in like), default=0)
            like = [name for name in like if name.count(".") == top]
            if len(like) > 1:
                either = " or ".join(f"--columns {part}={name}" for name in like)
                raise SourceError(f"{place}: which column is the {part}? Type {either}")
            if like:
                chosen[part] = like[0]
                break
    if "question" not in chosen:
        raise SourceError(
            f"{place}: no column has a usual name for the question; name it: --columns "
            f"question=NAME; columns: {listed or 'none'}"
        )
    return chosen


def _rows(imported: Imported) -> list[Row]:
    """Read the rows of a file; where it is a single object, these are the rows within it."""
    path = imported.path
    imported.files.append(path)
    names = {*_ALL_NAMES, *imported.columns.values()}
    rows = list(read_rows(path, csv_names=names, short=_QUEPID))
    if len(rows) == 1 and not _has_question(rows[0].values):
        rows = list(_rows_within(rows[0].values, str(path))) or rows
    return rows


def _rows_within(values: Mapping[str, Any], place: str) -> Iterator[Row]:
    """Give the objects of each list in which one has a question, at any depth."""
    for name, value in values.items():
        if not _objects(value):
            continue
        inner = [value] if isinstance(value, dict) else value
        rows = [Row(f"{place}: {name}[{n}]", each) for n, each in enumerate(inner)]
        if any(_has_question(row.values) for row in rows):
            yield from rows
        else:
            for row in rows:
                yield from _rows_within(row.values, row.place)


def _objects(value: Any) -> bool:
    values = [value] if isinstance(value, dict) else value
    return isinstance(values, list) and bool(values) and all(isinstance(v, dict) for v in values)


def _has_question(values: Mapping[str, Any]) -> bool:
    names = {plain_name(name.rpartition(".")[2]) for name, _ in _flat(values)}
    return not names.isdisjoint(chain.from_iterable(_NAMES["question"]))


# Questions


class _Question:
    """What all rows of one question say."""

    def __init__(self, query_id: str, text: str, row: Row) -> None:
        self.query_id, self.text, self.row = query_id, text, row
        self.answer = ""
        self.fields: dict[str, str] = {}
        self.expected: list[Expected] = []
        self.notes: dict[str, list[str]] = {}

    def note(self, kind: str, value: str) -> None:
        self.notes.setdefault(kind, []).append(value)


def _questions(imported: Imported, rows: Sequence[Row]) -> list[_Question]:
    """Put the rows of each question together; those that repeat one, or have none, are counted.

    A question is known by its id, and where there is none but that of the row, by its text.
    """
    flat = [dict(_flat(row.values)) for row in rows]
    present = dict.fromkeys(chain.from_iterable(flat))
    columns = find_columns(present, imported.columns, str(imported.path))
    id_column, others = columns.get("query_id", ""), present.keys() - columns.values()
    by_text = not id_column or plain_name(id_column.rpartition(".")[2]) == "id"
    questions: dict[str, _Question] = {}
    seen: set[str] = set()
    rejected: Counter[str] = Counter()
    for row, values in zip(rows, flat, strict=True):
        text = _text_of(row, values, columns, "question").strip()
        content = canonical_json(
            {name: value for name, value in values.items() if not by_text or name != id_column}
        )
        if not text or content in seen:
            rejected["repeated row" if text else "no question"] += 1
            continue
        seen.add(content)
        query_id = str(values.get(id_column, len(questions) + 1))
        key = text if by_text else query_id
        question = questions.setdefault(key, _Question(query_id, text, row))
        if question.text != text:
            raise SourceError(
                f"{row.place}: the question {shown(query_id)} has another text at "
                f"{question.row.place}; give it another id"
            )
        answer = _text_of(row, values, columns, "answer")
        if answer and question.answer not in ("", answer):
            question.note("other_answer", answer)
        question.answer = question.answer or answer
        fields = {name: field_text(values.get(name)) for name in sorted(others)}
        question.fields |= {name: value for name, value in fields.items() if value}
        question.expected += _expected(row, values, columns)
    imported.rejected = dict(rejected)
    return list(questions.values())


def _text_of(row: Row, values: Mapping[str, Any], columns: Mapping[Part, str], part: Part) -> str:
    name = columns.get(part, "")
    value = values.get(name, "")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SourceError(
            f"{row.place}: the {part} is {name}, {value!r:.80}; allowed: a text; name another "
            f"column: --columns {part}=NAME, or none: --columns {part}="
        )
    return str(value)


def _expected(
    row: Row, values: Mapping[str, Any], columns: Mapping[Part, str]
) -> Iterator[Expected]:
    """Give what a row expects, each with its grade."""
    texts, ids, files = (
        _listed(values.get(columns.get(part, ""))) for part in ("texts", "ids", "files")
    )
    grade = values.get(columns.get("grade", ""))
    hints: list[Any] = [None] * len(texts)
    if texts and len(ids) == len(texts):
        hints, ids = ids, []
    elif texts and len(files) in (1, len(texts)):
        hints, files = files * (len(texts) // len(files)), []
    items: list[tuple[Kind, Any, Any]] = [
        *(("text", value, hint) for value, hint in zip(texts, hints, strict=True)),
        *(("id", value, None) for value in ids),
        *(("file", value, None) for value in files),
    ]
    grades = grade if isinstance(grade, list) else [grade] * len(items)
    if len(grades) != len(items):
        raise SourceError(
            f"{row.place}: has {len(grades)} grades of {len(items)} that are expected"
        )
    for (kind, value, hint), own in zip(items, grades, strict=True):
        if isinstance(value, Mapping):
            yield _of_object(row, value, own)
        else:
            yield Expected(kind, str(value), own, None if hint is None else str(hint))


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _of_object(row: Row, value: Mapping[str, Any], grade: Any) -> Expected:
    """Read an object of a list, as `{"docId": …, "rating": …}`."""
    values = dict(_flat(value))
    parts: dict[str, str] = {}
    for part in ("texts", "ids", "files", "grade"):
        names = {*chain.from_iterable(_NAMES[part]), *(["id"] if part == "ids" else ())}
        for name in values:
            if plain_name(name.rpartition(".")[2]) in names:
                parts[part] = name
    grade = values.get(parts.get("grade", ""), grade)
    text, id_, file = (values.get(parts.get(part, "")) for part in ("texts", "ids", "files"))
    if text is not None:
        hint = id_ if id_ is not None else file
        return Expected("text", str(text), grade, None if hint is None else str(hint))
    if id_ is None and file is None:
        raise SourceError(f"{row.place}: {dict(value)!r:.80} has neither an id nor a text or file")
    return Expected("file" if id_ is None else "id", str(file if id_ is None else id_), grade)


# Places in the corpus


class _Lost(Exception):  # noqa: N818 - a result that is no error of the user's
    """Why something expected is not in the corpus."""


class _Placing:
    """Where in a corpus the expected things are."""

    def __init__(self, corpus: Sequence[Chunk]) -> None:
        self._ids = frozenset(chunk.chunk_id for chunk in corpus)
        self._files = Files(corpus)

    def pieces(self, expected: Expected) -> list[Expected]:
        """Take a cell apart that is not in the corpus as a whole, and of which some pieces are."""
        separator = re.compile(r"\|") if expected.kind == "text" else _LISTS
        values = [value for value in separator.split(expected.value) if value.strip()]
        if expected.kind == "text":
            values = [value for value in values if len(value.split()) >= _FEWEST_WORDS]
        pieces = [expected._replace(value=value) for value in values]
        there = [self._is_there(piece) for piece in pieces]
        # A path may be a part of what is behind the last comma, a text does not end at a bar.
        whole = self._is_there(expected) and (expected.kind == "text" or not all(there))
        return pieces if len(pieces) > 1 and any(there) and not whole else [expected]

    def _is_there(self, expected: Expected) -> bool:
        try:
            self.chunks(expected)
        except _Lost:
            return False
        return True

    def chunks(self, expected: Expected) -> tuple[dict[str, Spans], str]:
        """Give the chunks that hold it, with the spans of a text, and what is to be noted of it.

        A text belongs to the chunks that hold half of it, or of which it is half.
        """
        if expected.kind != "text":
            return dict.fromkeys(self._document(expected.value), ()), ""
        text, note = _HOP.sub("", expected.value).strip(), ""
        if not text:
            raise _Lost("it is empty")
        near = [] if expected.path is None else self._named(expected.path)
        places = self._files.places(text, near) if near else []
        if not places:
            places = self._files.places(text)
            files = ", ".join(dict.fromkeys(place.path for place in places))
            note = f"the text said to be in {expected.path!r} is in {files}: {_opening(text)}"
        if not places:
            raise _Lost("its text is in no file")
        if len(places) > _MOST_PLACES:
            raise _Lost(f"its text is in {len(places)} places, which does not say which is meant")
        spans: dict[str, Spans] = {}
        for place in places:
            size = place.end - place.start
            for chunk_id in self._files.chunks_at(place):
                own = self._files.place(chunk_id)
                start, end = max(place.start, own.start), min(place.end, own.end)
                if 2 * (end - start) >= min(size, own.end - own.start):
                    spans[chunk_id] = (*spans.get(chunk_id, ()), (start, end))
        return spans, note if expected.path is not None else ""

    def _named(self, document: str) -> list[File]:
        if document in self._ids:
            place = self._files.place(document)
            return [(place.source, place.path)]
        return self._files.files_named(document)

    def _document(self, document: str) -> list[str]:
        if document in self._ids:
            return [document]
        named = self._files.files_named(document)
        if not named:
            raise _Lost("the corpus has no such chunk or file")
        if len(named) > 1:
            files = ", ".join("/".join(file) for file in named[:3])
            raise _Lost(f"it may be {files}: give the source and the whole path")
        size = self._files.text(*named[0]).size
        return self._files.chunks_at(Place(*named[0], 0, size))


def _opening(text: str) -> str:
    return repr(" ".join(text.split())[:80])


# Grades


def _label(grade: Any) -> int | None:
    """Read a grade; None where it is no whole number from 0 to 5."""
    try:
        number = float(grade)
    except (TypeError, ValueError):
        return None
    return int(number) if number in range(_HIGHEST_GRADE + 1) else None


def _check_grades(imported: Imported, questions: Sequence[_Question]) -> bool:
    """Say whether there are grades; a few that are none stay failures, many are another scale."""
    graded = [
        (question, each.grade)
        for question in questions
        for each in question.expected
        if each.grade is not None
    ]
    bad = [(question, grade) for question, grade in graded if _label(grade) is None]
    if bad and (len(bad) > max(1, _BAD_GRADES * len(graded)) or bad == graded):
        question, grade = bad[0]
        raise SourceError(
            f"{imported.path}: {len(bad)} of {len(graded)} grades are no whole numbers from 0 to "
            f"{_HIGHEST_GRADE}, such as {grade!r} at {question.row.place}; write them so, or say that "
            "there are none: --columns grade="
        )
    imported.use_scale(
        Scale(
            name=smallest_scale(max((_label(grade) or 0 for _, grade in graded), default=1))
            or "graded_5",
            threshold=1,
        )
    )
    return bool(graded)


# The collection


def _corpus(imported: Imported) -> list[Chunk]:
    """Read the corpus: a folder of documents, which are cut; a collection's; or rows, as they are."""
    path = imported.corpus
    if path is None:
        raise SourceError(
            f"{imported.path}: what is expected is looked up in a corpus; name it: --corpus FOLDER"
        )
    if isinstance(path, Path) and is_collection(path):
        return list(StoredCollection.load(path).chunks())
    if isinstance(path, Path) and path.is_dir():
        return cut(path)
    imported.find_corpus("the corpus")
    return list(imported.documents or ())


def _read(imported: Imported) -> None:
    """Read questions, each with its text as its one nugget, and what is expected as its labels.

    What is not in the corpus becomes a failure, and a grade off the scale a judgment without a
    label. A question for which nothing was placed has no nugget.
    """
    if not imported.path.is_file():
        raise SourceError(f"{imported.path}: is a folder; name the file of the golden set")
    questions = _questions(imported, _rows(imported))
    graded = _check_grades(imported, questions)
    corpus = _corpus(imported)
    imported.documents = corpus
    placing = _Placing(corpus)
    for question in questions:
        query = imported.add_query(
            Row(question.row.place, {}),
            question.query_id,
            title=question.text,
            body="",
            answer=question.answer,
            fields=question.fields,
        )
        labels: dict[str, _Label] = {}
        for expected in chain.from_iterable(map(placing.pieces, question.expected)):
            try:
                chunks, note = placing.chunks(expected)
            except _Lost as lost:
                step, value = f"expected_{expected.kind}", expected.value
                imported.fail(query.query_id, step, "failed", f"{value!r}: {lost}", value)
                continue
            if note:
                question.note("moved", note)
            grade = _label(expected.grade) if graded else 1
            for chunk_id, spans in chunks.items():
                label = labels.setdefault(chunk_id, _Label())
                label.add(grade, spans, expected.grade)
        _judge(imported, question, query, labels)
        imported.notes += [
            Note(query_id=query.query_id, kind=kind, value="\n".join(values))
            for kind, values in question.notes.items()
        ]


class _Label:
    """What the rows of a question say of one chunk."""

    def __init__(self) -> None:
        self.grades: list[int] = []
        self.spans: set[Span] = set()
        self.faults: list[Any] = []

    def add(self, grade: int | None, spans: Spans, written: Any) -> None:
        if grade is None:
            self.faults.append(written)
        else:
            self.grades.append(grade)
            self.spans.update(spans if grade else ())


def _judge(
    imported: Imported, question: _Question, query: Query, labels: Mapping[str, _Label]
) -> None:
    if not labels:
        return
    nugget = imported.add_nugget(question.row, query.query_id, f"{query.query_id}_0", query.text)
    for chunk_id, label in labels.items():
        if not label.grades:
            grade = label.faults[0]
            reason = "no grade" if grade is None else f"grade {grade}"
            imported.judge(nugget, chunk_id, None, "failed", reason)
            continue
        if len(set(label.grades)) > 1:
            question.note("grades_differ", f"{chunk_id}: {sorted(set(label.grades))}")
        evidence = tuple(merged(label.spans))
        imported.judge(nugget, chunk_id, max(label.grades), evidence=evidence)


GOLDEN = Format(name="golden", how_to_load="", read=_read)
