"""Validating what is in the layouts of BEIR and MTEB."""

import csv
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Ids
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import ValidationError

from freshstack_dspy.collection.collection import CORPUS_FILE, Corpus
from freshstack_dspy.collection.contents import RECORD_FILES, Contents, RecordFile, reference_faults
from freshstack_dspy.collection.counts import Counts, count
from freshstack_dspy.collection.imports.foreign import Row, read_lines, read_rows, shown
from freshstack_dspy.collection.layouts import (
    BEIR_CORPUS,
    BEIR_QRELS,
    BEIR_QUERIES,
    CRUX_CONTEXT_QRELS,
    CRUX_DIVERSITY_QRELS,
    CRUX_DOCUMENT_QRELS,
    CRUX_JUDGEMENTS,
    CRUX_NO_RATING,
    CRUX_PASSAGES,
    CRUX_RANKING,
    CRUX_TOPICS,
    CRUX_TOPICS_JSON,
    EXPORT_FILE,
    FRESHSTACK_CORPUS,
    FRESHSTACK_QUERIES,
    IDS_FILE,
    MTEB_TASK,
    MTEB_TASK_VALUES,
    NUGGETIZER_ASSIGNMENTS,
    NUGGETIZER_INPUT,
    NUGGETIZER_NUGGETS,
    README_FILE,
    TREC_CORPUS,
    TREC_DIVERSITY_QRELS,
    TREC_NUGGETS,
    TREC_QRELS,
    TREC_TOPICS,
    TREC_TOPICS_JSON,
)
from freshstack_dspy.collection.manifest import (
    MANIFEST_FILE,
    Manifest,
    hash_content,
    manifest_values,
    read_manifest,
)
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import COLLECTION_FILES, FOLDER, fingerprint_folder
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.files import (
    canonical_line,
    check_regular,
    decoded,
    first_fault,
    json_file,
    json_object,
    names_in,
    standing_folder,
)
from freshstack_dspy.records import (
    Assignment,
    Candidate,
    Chunk,
    Judgment,
    Nugget,
    Query,
    Record,
    Vote,
)


class Finding(NamedTuple):
    """One thing that is wrong, or that may be."""

    place: str
    """The file, with the line where there is one."""
    message: str
    is_fault: bool
    """Whether it makes the data wrong; a warning does not."""


@dataclass(frozen=True)
class Report:
    """What was validated, and what was found.

    Attributes:
        format: `collection`, or the layout of an export.
        findings: Faults first, each kind in the order in which it was found.
        counts: How many records of each kind were read.
    """

    format: str
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is wrong."""
        return tuple(finding for finding in self.findings if finding.is_fault)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What may be wrong."""
        return tuple(finding for finding in self.findings if not finding.is_fault)


@dataclass
class Findings:
    """Takes what is found while data are read."""

    found: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def fault(self, place: str, message: str) -> None:
        """Take a fault."""
        self.found.append(Finding(place, message, is_fault=True))

    def warn(self, place: str, message: str) -> None:
        """Take a warning."""
        self.found.append(Finding(place, message, is_fault=False))

    def warn_of(self, place: str, what: str, ids: Iterable[str]) -> None:
        """Warn once of many ids, naming the first."""
        if named := sorted(ids):
            self.warn(place, f"{len(named)} {what}, as {shown(named[0])}")

    def report(self, format_: str) -> Report:
        """Give everything that was found."""
        ordered = sorted(self.found, key=lambda finding: not finding.is_fault)
        return Report(format_, tuple(ordered), dict(self.counts))


_GRADE = re.compile(r"-?[0-9]{1,9}")


class Line(NamedTuple):
    """The fields of a line of text."""

    place: str
    fields: list[str]


class ExportReading:
    """Reads the files of an export, and takes note of what is wrong with them."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        """Prepare.

        Args:
            folder: Of the export.
            findings: Takes what is found.
        """
        self.folder = folder
        self.findings = findings
        self._dangling: dict[tuple[str, str, str], list[str]] = {}

    def rows(self, name: str) -> Iterator[Row]:
        """Give the rows of a file of JSON Lines, or of a folder of Parquet; those that are none are faults."""
        path = self.folder / name
        if not path.exists():
            self.findings.fault(name, "is missing")
            return
        if path.is_dir():
            try:
                for row in read_rows(path):
                    yield row._replace(file=self._name(row.file))
            except SourceError as error:
                self.findings.fault(name, str(error).removeprefix(f"{path}: "))
            return
        for place, text in self._texts(name):
            if not text.strip():
                continue
            try:
                values = json_object(text, place)
            except SourceError as error:
                self.findings.fault(place, str(error).removeprefix(f"{place}: "))
                continue
            yield Row(name, int(place.rpartition(":")[2]), values)

    def table(self, name: str, columns: int, *, header: bool = False) -> Iterator[Line]:
        """Give the lines of a table with tabs, as BEIR's loader takes them apart."""
        for number, (place, text) in enumerate(self._texts(name), start=1):
            if header and number == 1:
                # BEIR's loader passes over the first line, whatever it is.
                if _GRADE.fullmatch(text.rpartition("\t")[2]):
                    self.findings.fault(place, "a judgment where the names of the columns belong")
                continue
            try:
                fields = next(csv.reader([text], delimiter="\t", strict=True), [])
            except csv.Error as error:
                self.findings.fault(place, f"not a line of a table: {error}")
                continue
            if self._counted(place, fields, columns):
                yield Line(place, fields)

    def words(self, name: str, columns: int) -> Iterator[Line]:
        """Give the lines of a file whose fields are parted by white space."""
        for place, text in self._texts(name):
            if self._counted(place, fields := text.split(), columns):
                yield Line(place, fields)

    def take_ids(self, kind: str, rows: Iterable[Row], id_name: str, text_name: str) -> set[str]:
        """Take the ids of rows that each have one and a text.

        An id that stands twice is a fault; a text that is empty a warning.
        """
        seen: dict[str, str] = {}
        empty, file = [], ""
        for row in rows:
            file = row.file
            try:
                id_, text = row.id(id_name), row.text(text_name)
            except SourceError as error:
                self.findings.fault(row.place, str(error).removeprefix(f"{row.place}: "))
                continue
            if (first := seen.setdefault(id_, row.place)) != row.place:
                self.findings.fault(row.place, f"{kind} {shown(id_)} stands at {first} already")
            if not text.strip():
                empty.append(id_)
        self.findings.warn_of(file, f"{kind} texts are empty", empty)
        self.findings.counts[kind] = len(seen)
        return set(seen)

    def lead(self, place: str, kind: str, id_: str, known: Ids[str]) -> bool:
        """Note an id that leads nowhere; tell whether it leads somewhere."""
        if id_ in known:
            return True
        file, _, number = place.rpartition(":")
        self._dangling.setdefault((file, kind, id_), []).append(number)
        return False

    def grade(self, line: Line) -> int | None:
        """Give the last field of a line as a whole number; a fault where it is none."""
        text = line.fields[-1]
        if _GRADE.fullmatch(text):
            return int(text)
        self.findings.fault(line.place, f"the grade is {shown(text)}; allowed: a whole number")
        return None

    def once(self, place: str, what: tuple[str, ...], seen: dict[tuple[str, ...], str]) -> None:
        """Note what stands twice."""
        if (first := seen.setdefault(what, place)) != place:
            named = ", ".join(map(shown, what))
            self.findings.fault(place, f"{named} stand at {first} already")

    def unjudged(self, queries: Ids[str], judged: Ids[str]) -> None:
        """Warn of queries that no line of qrels names."""
        left = (query_id for query_id in queries if query_id not in judged)
        self.findings.warn_of("qrels", "queries have no qrels", left)

    def finish(self) -> None:
        """Say what leads nowhere: one fault for each id."""
        for (file, kind, id_), numbers in self._dangling.items():
            more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
            self.findings.fault(
                f"{file}:{numbers[0]}", f"names {kind} {shown(id_)}{more}, and there is none such"
            )

    def _texts(self, name: str) -> Iterator[tuple[str, str]]:
        path = self.folder / name
        if not path.is_file():
            self.findings.fault(name, "is missing")
            return
        try:
            for number, line in read_lines(path):
                place = f"{name}:{number}"
                try:
                    text = decoded(line, place)
                except SourceError as error:
                    self.findings.fault(place, str(error).removeprefix(f"{place}: "))
                    continue
                yield place, text
        except SourceError as error:
            self.findings.fault(name, str(error).removeprefix(f"{path}: "))

    def _counted(self, place: str, fields: list[str], columns: int) -> bool:
        if len(fields) != columns or not all(fields):
            self.findings.fault(place, f"has {len(fields)} fields; a line has {columns}")
            return False
        return True

    def _name(self, file: str) -> str:
        path = Path(file)
        inside = path.is_relative_to(self.folder)
        return path.relative_to(self.folder).as_posix() if inside else file


def check_beir(reading: ExportReading) -> None:
    """Check corpus, queries and every table of qrels."""
    chunks = reading.take_ids("chunks", reading.rows(BEIR_CORPUS), "_id", "text")
    queries = reading.take_ids("queries", reading.rows(BEIR_QUERIES), "_id", "text")
    folder = reading.folder / BEIR_QRELS.split("/", maxsplit=1)[0]
    tables = sorted(f"{folder.name}/{path.name}" for path in folder.glob("*.tsv")) or [BEIR_QRELS]
    judged: set[str] = set()
    for table in tables:
        seen: dict[tuple[str, ...], str] = {}
        for line in reading.table(table, 3, header=True):
            query_id, chunk_id, _ = line.fields
            reading.once(line.place, (query_id, chunk_id), seen)
            reading.lead(line.place, "query", query_id, queries)
            reading.lead(line.place, "chunk", chunk_id, chunks)
            reading.grade(line)
            judged.add(query_id)
    reading.unjudged(queries, judged)


def check_mteb(reading: ExportReading) -> None:
    """Check BEIR's files, and that the task is there."""
    check_beir(reading)
    for name in (MTEB_TASK, MTEB_TASK_VALUES):
        if not (reading.folder / name).is_file():
            reading.findings.fault(name, "is missing")


_LONGEST_ID = 512


def check_meaning(contents: Contents, chunk_ids: Iterable[str], findings: Findings) -> None:
    """Check spans, votes, slices, contamination, and ids that other tools cannot read.

    Args:
        contents: The records.
        chunk_ids: Of the corpus.
        findings: Takes what is found.
    """
    _check_nuggets(contents, findings)
    for name in ("judgments", "single_judgments"):
        for judgment in getattr(contents, name):
            if (wrong := vote_fault(judgment)) is not None:
                findings.fault(f"{name}.jsonl", f"{_pair(judgment)}: {wrong}")
    _check_slices(contents, findings)
    _check_contamination(contents, findings)
    _check_judged(contents, findings)
    _check_ids(contents, chunk_ids, findings)


def _check_nuggets(contents: Contents, findings: Findings) -> None:
    answers = {query.query_id: query.answer for query in contents.queries}
    by_id = {nugget.nugget_id: nugget for nugget in contents.nuggets}
    for nugget in contents.nuggets:
        named = f"nugget {shown(nugget.nugget_id)}"
        answer = answers.get(nugget.query_id)
        if nugget.answer_span is not None and answer is not None:
            start, end = nugget.answer_span
            if not 0 <= start < end <= len(answer):
                findings.fault(
                    "nuggets.jsonl",
                    f"{named}: answer_span is {start} to {end}, and the answer has "
                    f"{len(answer)} characters",
                )
        original: Nugget | None = by_id.get(nugget.duplicate_of or "")
        if original is not None and (
            original.query_id != nugget.query_id or original.nugget_id == nugget.nugget_id
        ):
            findings.fault(
                "nuggets.jsonl",
                f"{named}: duplicate_of is {shown(original.nugget_id)}, which is no other nugget "
                "of its query",
            )


def vote_fault(judgment: Judgment) -> str | None:
    """Say how a judgment is not what its votes make it; None where it is, or has none.

    A vote on a chunk in parts is the highest label of its parts, and none if one of them failed.
    The label is that of most votes, the lower one of a tie, and none where not even a majority of
    the votes has a label.
    """
    if not judgment.votes:
        return None
    by_vote: dict[int, list[Vote]] = {}
    for vote in judgment.votes:
        by_vote.setdefault(vote.vote, []).append(vote)
        if (vote.status == "ok") != (vote.label is not None):
            return f"vote {vote.vote} has status {vote.status} and label {vote.label}"
    labels = [label for each in by_vote.values() if (label := _of_parts(each)) is not None]
    expected = None
    if 2 * len(labels) > len(by_vote):
        counts = Counter(labels)
        expected = min(counts, key=lambda label: (-counts[label], label))
    if judgment.label != expected:
        return f"its label is {judgment.label}, and its votes give {expected}"
    return None


def _of_parts(parts: Sequence[Vote]) -> int | None:
    labels = [part.label for part in parts if part.label is not None]
    return max(labels) if len(labels) == len(parts) else None


def _check_slices(contents: Contents, findings: Findings) -> None:
    queries = {query.query_id for query in contents.queries}
    nuggets = [nugget for nugget in contents.nuggets if nugget.query_id in queries]
    expected = {
        part.query_id: part
        for part in slice_queries(contents.queries, nuggets, contents.judgments, contents.threshold)
    }
    for part in contents.slices:
        now = expected.get(part.query_id)
        if now is None:
            continue  # a query that there is not, which the references say
        for name in type(part).model_fields:
            told, found = getattr(part, name), getattr(now, name)
            if told != found:
                findings.fault(
                    "slices.jsonl",
                    f"query {shown(part.query_id)}: {name} is {told!r}, and its judgments give "
                    f"{found!r}",
                )


def _check_contamination(contents: Contents, findings: Findings) -> None:
    own = _nuggets_of(contents.nuggets)
    for one in contents.contamination:
        named = f"query {shown(one.query_id)}"
        nuggets = own.get(one.query_id, set())
        if one.query_id in one.near_duplicates:
            findings.fault("contamination.jsonl", f"{named}: is a near-duplicate of itself")
        if one.known_nuggets is None:
            continue
        if foreign := sorted(set(one.known_nuggets) - nuggets):
            findings.fault(
                "contamination.jsonl",
                f"{named}: knows nugget {shown(foreign[0])}, which is not its own "
                f"({len(foreign)} such)",
            )
        share = len(one.known_nuggets) / len(nuggets) if nuggets else None
        told = one.closed_book_coverage
        if told is not None and share is not None and abs(told - share) > 1e-9:
            findings.fault(
                "contamination.jsonl",
                f"{named}: closed_book_coverage is {told}, and {len(one.known_nuggets)} of its "
                f"{len(nuggets)} nuggets are known",
            )


def _check_judged(contents: Contents, findings: Findings) -> None:
    """A nugget with no judgment, and a judgment of a chunk that is not in the pool."""
    judged = {judgment.nugget_id for judgment in contents.judgments}
    unjudged = (one.nugget_id for one in contents.nuggets if one.nugget_id not in judged)
    findings.warn_of("nuggets.jsonl", "nuggets have no judgment", unjudged)
    pool = {(one.query_id, one.chunk_id) for one in contents.pool}
    strangers = {
        one.chunk_id for one in contents.judgments if (one.query_id, one.chunk_id) not in pool
    }
    findings.warn_of("judgments.jsonl", "chunks were judged and are not in the pool", strangers)


def _check_ids(contents: Contents, chunk_ids: Iterable[str], findings: Findings) -> None:
    """Ids that a TREC run cannot hold, by which retrievers are compared."""
    queries = [query.query_id for query in contents.queries]
    findings.warn_of(
        "queries.jsonl",
        "query ids hold white space, which a TREC run cannot",
        (id_ for id_ in queries if any(char.isspace() for char in id_)),
    )
    every = (("queries.jsonl", "query", queries), ("corpus.parquet", "chunk", list(chunk_ids)))
    for file, kind, ids in every:
        findings.warn_of(
            file,
            f"{kind} ids hold characters that are not printed, as line ends and tabs, which no "
            "line of another tool can",
            (id_ for id_ in ids if not id_.isprintable()),
        )
        findings.warn_of(
            file,
            f"{kind} ids are longer than {_LONGEST_ID} characters",
            (id_ for id_ in ids if len(id_) > _LONGEST_ID),
        )


def _nuggets_of(nuggets: Iterable[Nugget]) -> dict[str, AbstractSet[str]]:
    own: dict[str, set[str]] = {}
    for nugget in nuggets:
        own.setdefault(nugget.query_id, set()).add(nugget.nugget_id)
    return dict(own)


def _pair(judgment: Judgment) -> str:
    return f"nugget {shown(judgment.nugget_id)} and chunk {shown(judgment.chunk_id)}"


def check_collection(folder: Path, findings: Findings) -> None:
    """Find all that is wrong with a collection.

    Args:
        folder: Of the collection.
        findings: Takes what is found.

    Raises:
        CollectionError: There is no such folder.
    """
    names = names_in(folder)
    manifest = _manifest(folder, findings)
    if manifest is None:
        return
    for name in sorted(COLLECTION_FILES - names):
        findings.fault(name, "the file is missing")
    for name in sorted(names - COLLECTION_FILES):
        findings.warn(name, "no file of a collection; writing the collection again refuses it")
    records: dict[str, Any] = {
        file.name: _records(folder, file, manifest, findings) for file in RECORD_FILES
    }
    contents = Contents(**records, threshold=manifest.scale.threshold)
    rows = _corpus(folder, manifest, findings)
    _check_counts(manifest.counts, contents, rows, findings)
    for fault in reference_faults(contents, rows, manifest.scale):
        findings.fault(*_placed(fault))
    check_meaning(contents, rows, findings)
    _check_folder(folder, manifest, findings)


def _manifest(folder: Path, findings: Findings) -> Manifest | None:
    try:
        return read_manifest(folder)
    except CollectionError as error:
        findings.fault(MANIFEST_FILE, str(error).removeprefix(f"{folder / MANIFEST_FILE}: "))
    try:
        manifest = Manifest.model_validate(manifest_values(folder))
    except (CollectionError, ValidationError):
        return None  # the fault is taken already
    return manifest if hash_content(manifest.files) != manifest.content_hash else None


def _records(
    folder: Path, file: RecordFile, manifest: Manifest, findings: Findings
) -> tuple[Record, ...]:
    """Read the lines that are records, and say of each other one what it is."""
    name = file.filename
    try:
        check_regular(folder / name)
        data = (folder / name).read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        findings.fault(name, f"cannot be read: {error.strerror}")
        return ()
    if hashlib.sha256(data).hexdigest() != manifest.files.get(name):
        findings.fault(name, "is not the file whose hash the manifest has")
    lines = data.split(b"\n")
    if lines.pop():
        findings.fault(name, "the last line has no end; the file was cut short")
    records, positions = [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = file.record.model_validate_json(line)
        except ValidationError as error:
            findings.fault(
                f"{name}:{number}", f"not a {file.record.__name__}: {first_fault(error)}"
            )
            continue
        if canonical_line(record).encode() != line + b"\n":
            findings.fault(f"{name}:{number}", "is not written as a collection writes it")
        records.append(record)
        positions.append(number)
    for number, one, other in zip(positions, file.sort(records), records, strict=True):
        if one is not other and one != other:
            findings.fault(f"{name}:{number}", f"is not in the order of {', '.join(file.order)}")
            break
    return tuple(records)


def _corpus(folder: Path, manifest: Manifest, findings: Findings) -> dict[str, int]:
    """Read all chunks; give the row of each id."""
    corpus = Corpus(folder / CORPUS_FILE, manifest.files.get(CORPUS_FILE, ""))
    rows: dict[str, int] = {}
    without_text = []
    try:
        rows = corpus.rows
        for chunk in corpus:
            if not chunk.titled.strip():
                without_text.append(chunk.chunk_id)
            if chunk.end_byte < chunk.start_byte:
                findings.fault(CORPUS_FILE, f"chunk {chunk.chunk_id!r} ends before it begins")
    except CollectionError as error:
        if (folder / CORPUS_FILE).exists():
            findings.fault(CORPUS_FILE, str(error).removeprefix(f"{folder / CORPUS_FILE}: "))
    findings.warn_of(CORPUS_FILE, "chunks have no text", without_text)
    return rows


def _check_counts(
    told: Counts, contents: Contents, rows: dict[str, int], findings: Findings
) -> None:
    found = count(contents, len(rows), told.rejected)
    for name in Counts.model_fields:
        one, other = getattr(told, name), getattr(found, name)
        if one != other:
            findings.fault(MANIFEST_FILE, f"counts.{name} is {one}, and the files have {other}")
        if isinstance(other, int):
            findings.counts[name] = other


def _check_folder(folder: Path, manifest: Manifest, findings: Findings) -> None:
    if FOLDER not in manifest.fingerprints or findings.found:
        return
    try:
        written = fingerprint_folder(folder, manifest) == manifest.fingerprints[FOLDER]
    except OSError:  # a folder or a pipe: nothing that was written with it
        written = False
    if not written:
        findings.warn(
            MANIFEST_FILE,
            "something in the folder is not as it was written (the card, or the manifest itself), "
            "so that a build makes it anew",
        )


def _placed(fault: str) -> tuple[str, str]:
    """Part `nuggets.jsonl: …` or `nuggets.jsonl names …` into the file and what is wrong."""
    file, _, rest = fault.partition(" ")
    return file.rstrip(":"), rest


_HIGHEST = 5


def check_crux(reading: ExportReading) -> None:
    """Check topics, ratings, passages and the three qrels of each threshold."""
    passages = reading.take_ids("passages", reading.rows(CRUX_PASSAGES), "id", "contents")
    pattern = CRUX_RANKING.format(threshold="*")
    rankings = sorted(path.name for path in reading.folder.glob(pattern) if path.is_dir())
    if not rankings:
        reading.findings.fault(pattern, "is missing")
    for ranking in rankings:
        rows = list(reading.rows(f"{ranking}/{CRUX_TOPICS_JSON}"))
        topics = reading.take_ids("queries", rows, "example_id", "topic")
        questions = {
            str(row.values.get("example_id")): _length(reading, row, "questions") for row in rows
        }
        listed = {line.fields[0] for line in reading.table(f"{ranking}/{CRUX_TOPICS}", 2)}
        for id_ in sorted(topics ^ listed):
            reading.findings.fault(f"{ranking}/{CRUX_TOPICS}", f"topic {shown(id_)} is in one file")
        _check_ratings(reading, ranking, questions, passages)
        documents = {passage.partition("#")[0] for passage in passages}
        for name, known in (
            (CRUX_CONTEXT_QRELS, passages),
            (CRUX_DIVERSITY_QRELS, passages),
            (CRUX_DOCUMENT_QRELS, documents),
        ):
            _check_qrels(reading, f"{ranking}/{name}", topics, known)


def _length(reading: ExportReading, row: Row, name: str) -> int:
    value = row.values.get(name)
    if not isinstance(value, list):
        reading.findings.fault(row.place, f"{name} is no list")
        return 0
    return len(value)


def _check_ratings(
    reading: ExportReading, ranking: str, questions: dict[str, int], passages: set[str]
) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for row in reading.rows(f"{ranking}/{CRUX_JUDGEMENTS}"):
        topic, passage = str(row.values.get("example_id")), str(row.values.get("pid"))
        reading.once(row.place, (topic, passage), seen)
        reading.lead(row.place, "passage", passage, passages)
        if not reading.lead(row.place, "topic", topic, questions):
            continue
        if (ratings := _length(reading, row, "rating")) != questions[topic]:
            reading.findings.fault(
                row.place, f"has {ratings} ratings for {questions[topic]} questions"
            )
        given = row.values.get("rating")
        for rating in given if isinstance(given, list) else ():
            if type(rating) is not int or not CRUX_NO_RATING <= rating <= _HIGHEST:
                reading.findings.fault(row.place, f"a rating is {shown(str(rating))}")
        if passage.partition(":")[0] != topic:
            reading.findings.fault(
                row.place, f"passage {shown(passage)} is not of topic {shown(topic)} by its id"
            )


def _check_qrels(reading: ExportReading, name: str, topics: set[str], known: set[str]) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for line in reading.words(name, 4):
        topic, question, passage, _ = line.fields
        reading.once(line.place, (topic, question, passage), seen)
        reading.lead(line.place, "topic", topic, topics)
        reading.lead(line.place, "passage", passage, known)
        reading.grade(line)


_LISTS = ("relevant_corpus_ids", "non_relevant_corpus_ids")


def check_freshstack(reading: ExportReading) -> None:
    """Check both data sets, and that the official loader gives each nugget to its own query."""
    chunks = reading.take_ids("chunks", reading.rows(FRESHSTACK_CORPUS), "_id", "text")
    rows = list(reading.rows(FRESHSTACK_QUERIES))
    queries = reading.take_ids("queries", rows, "query_id", "query_text")
    nuggets = list(_nuggets(reading, rows))
    reading.take_ids("nuggets", (nugget for _, nugget in nuggets), "_id", "text")
    for query_id, nugget in nuggets:
        _check_nugget(reading, query_id, nugget, chunks)
        own = str(nugget.values.get("_id"))
        for other in _misled(query_id, own, queries):
            reading.findings.fault(
                nugget.place,
                f"nugget {shown(own)} of query {shown(query_id)} goes to query {shown(other)} in "
                "the official loader, which takes nugget ids apart",
            )


def _nuggets(reading: ExportReading, rows: list[Row]) -> Iterator[tuple[str, Row]]:
    for row in rows:
        try:
            query_id, nuggets = str(row.values.get("query_id")), list(row.inners("nuggets"))
        except SourceError as error:
            reading.findings.fault(row.place, str(error).removeprefix(f"{row.place}: "))
            continue
        if not nuggets:
            reading.findings.warn(row.place, f"query {shown(query_id)} has no nugget")
        for number, nugget in enumerate(nuggets, start=1):
            yield query_id, nugget._replace(file=f"{row.file}:{row.number} nugget", number=number)


def _check_nugget(reading: ExportReading, query_id: str, nugget: Row, chunks: set[str]) -> None:
    judged: set[str] = set()
    for name in _LISTS:
        try:
            ids = nugget.texts(name)
        except SourceError as error:
            reading.findings.fault(nugget.place, str(error).removeprefix(f"{nugget.place}: "))
            continue
        for chunk_id in ids:
            reading.lead(nugget.place, "chunk", chunk_id, chunks)
            if chunk_id in judged:
                reading.findings.fault(nugget.place, f"names chunk {shown(chunk_id)} twice")
            judged.add(chunk_id)
    if not judged:
        reading.findings.warn(nugget.place, f"a nugget of query {shown(query_id)} has no judgment")


def _misled(query_id: str, nugget_id: str, queries: set[str]) -> Iterator[str]:
    """Give the queries that the loader hands a nugget to, and the nugget is not of."""
    if nugget_id.split("_", maxsplit=1)[0] != query_id:
        yield nugget_id.split("_", maxsplit=1)[0]
    for end in range(1, len(nugget_id) + 1):
        if (start := nugget_id[:end]) in queries and start != query_id:
            yield start


_RECORDS: Mapping[str, type[Record]] = {
    "queries": Query, "nuggets": Nugget, "corpus": Chunk, "judgments": Judgment, "pool": Candidate,
}  # fmt: skip
_QRELS = "qrels"


def check_hugging_face(reading: ExportReading) -> None:
    """Check that each row is its record, that no id leads nowhere, and that the card is there."""
    if not (reading.folder / README_FILE).is_file():
        reading.findings.fault(README_FILE, "is missing, by which the hub finds the files")
    rows = {config: list(reading.rows(config)) for config in (*_RECORDS, _QRELS)}
    for config, record in _RECORDS.items():
        for row in rows[config]:
            _check_record(reading, row, record)
    queries = reading.take_ids("queries", rows["queries"], "query_id", "title")
    nuggets = reading.take_ids("nuggets", rows["nuggets"], "nugget_id", "text")
    chunks = reading.take_ids("chunks", rows["corpus"], "chunk_id", "text")
    known = (
        ("query_id", "query", queries),
        ("nugget_id", "nugget", nuggets),
        ("chunk_id", "chunk", chunks),
    )
    for config in ("nuggets", "judgments", "pool", _QRELS):
        seen: dict[tuple[str, ...], str] = {}
        for row in rows[config]:
            ids = []
            for name, kind, there in known:
                if name in row.values:
                    ids.append(str(row.values[name]))
                    reading.lead(row.place, kind, ids[-1], there)
            reading.once(row.place, tuple(ids), seen)
    reading.unjudged(queries, {str(row.values.get("query_id")) for row in rows[_QRELS]})
    reading.findings.counts["judgments"] = len(rows["judgments"])


def _check_record(reading: ExportReading, row: Row, record: type[Record]) -> None:
    try:
        record.model_validate(row.values)
    except ValidationError as error:
        reading.findings.fault(row.place, f"not a {record.__name__}: {first_fault(error)}")


_ASSIGNMENTS = get_args(Assignment)
_IMPORTANCE = ("vital", "okay", "failed")


def check_nuggetizer(reading: ExportReading) -> None:
    """Check nuggets, assignments and the input."""
    rows = list(reading.rows(NUGGETIZER_NUGGETS))
    queries = reading.take_ids("queries", rows, "qid", "query")
    nuggets = {str(row.values.get("qid")): _texts(reading, row, "importance") for row in rows}
    reading.findings.counts["nuggets"] = sum(map(len, nuggets.values()))
    seen: dict[tuple[str, ...], str] = {}
    for row in reading.rows(NUGGETIZER_ASSIGNMENTS):
        query_id, chunk_id = str(row.values.get("qid")), str(row.values.get("docid"))
        reading.once(row.place, (query_id, chunk_id), seen)
        if not isinstance(row.values.get("candidate_text"), str):
            reading.findings.fault(row.place, "has no candidate_text")
        if reading.lead(row.place, "query", query_id, queries):
            for text in _texts(reading, row, "assignment"):
                reading.lead(row.place, "nugget", text, nuggets[query_id])
    reading.unjudged(queries, {query_id for query_id, _ in seen})
    for row in reading.rows(NUGGETIZER_INPUT):
        try:
            query_id = str(row.inner("query").values.get("qid"))
        except SourceError as error:
            reading.findings.fault(row.place, str(error).removeprefix(f"{row.place}: "))
            continue
        reading.lead(row.place, "query", query_id, queries)


def _texts(reading: ExportReading, row: Row, name: str) -> list[str]:
    """Give the texts of a row's nuggets; each must have a word of the right kind."""
    allowed = _IMPORTANCE if name == "importance" else _ASSIGNMENTS
    try:
        each = [(nugget.text("text"), nugget.text(name)) for nugget in row.inners("nuggets")]
    except SourceError as error:
        reading.findings.fault(row.place, str(error).removeprefix(f"{row.place}: "))
        return []
    for text, word in each:
        if word not in allowed:
            reading.findings.fault(
                row.place, f"{name} of {shown(text)} is {word!r}; allowed: {', '.join(allowed)}"
            )
    return [text for text, _ in each]


def check_trec(reading: ExportReading) -> None:
    """Check topics, corpus, both qrels, and that each subtopic is a nugget."""
    chunks = reading.take_ids("chunks", reading.rows(TREC_CORPUS), "id", "contents")
    queries = reading.take_ids("queries", reading.rows(TREC_TOPICS_JSON), "id", "text")
    listed = {line.fields[0] for line in reading.table(TREC_TOPICS, 2)}
    for id_ in sorted(queries ^ listed):
        reading.findings.fault(TREC_TOPICS, f"topic {id_!r} is in one of the two files of topics")
    nuggets = list(reading.rows(TREC_NUGGETS))
    reading.take_ids("nuggets", nuggets, "nugget_id", "text")
    subtopics = {f"{row.values.get('id')} {row.values.get('subtopic')}" for row in nuggets}
    judged = _check_qrels_trec(reading, TREC_QRELS, queries, chunks, None)
    _check_qrels_trec(reading, TREC_DIVERSITY_QRELS, queries, chunks, subtopics)
    reading.unjudged(queries, judged)


def _check_qrels_trec(
    reading: ExportReading,
    name: str,
    queries: set[str],
    chunks: set[str],
    subtopics: set[str] | None,
) -> set[str]:
    seen: dict[tuple[str, ...], str] = {}
    for line in reading.words(name, 4):
        query_id, subtopic, chunk_id, _ = line.fields
        reading.once(line.place, (query_id, subtopic, chunk_id), seen)
        reading.lead(line.place, "query", query_id, queries)
        reading.lead(line.place, "chunk", chunk_id, chunks)
        if subtopics is not None:
            reading.lead(line.place, "subtopic", f"{query_id} {subtopic}", subtopics)
        reading.grade(line)
    return {query_id for query_id, *_ in seen}


ValidatedFormat = Literal[
    "collection", "freshstack", "beir", "mteb", "trec", "hf", "crux", "nuggetizer"
]
VALIDATED_FORMATS: tuple[ValidatedFormat, ...] = get_args(ValidatedFormat)
_CHECKS: Mapping[str, Callable[[ExportReading], None]] = {
    "freshstack": check_freshstack,
    "beir": check_beir,
    "mteb": check_mteb,
    "trec": check_trec,
    "hf": check_hugging_face,
    "crux": check_crux,
    "nuggetizer": check_nuggetizer,
}
_TOLD_BY: tuple[tuple[ValidatedFormat, tuple[str, ...]], ...] = (
    ("collection", (MANIFEST_FILE,)),
    ("mteb", (MTEB_TASK, BEIR_CORPUS)),
    ("trec", (TREC_QRELS, TREC_TOPICS)),
    ("crux", (CRUX_PASSAGES,)),
    ("nuggetizer", (NUGGETIZER_ASSIGNMENTS, NUGGETIZER_NUGGETS)),
    ("beir", (BEIR_CORPUS, BEIR_QUERIES)),
    ("hf", ("queries", "judgments", "corpus")),
    ("freshstack", (FRESHSTACK_QUERIES, FRESHSTACK_CORPUS)),
)
"""The files by which a folder is known, the most telling first."""


def validate(path: Path | str, format: ValidatedFormat | None = None) -> Report:  # noqa: A002
    """Find everything that is wrong with a collection, or with an export of one.

    Args:
        path: Its folder.
        format: What it is; by default what its files say.

    Raises:
        CollectionError: There is no such folder, or nobody can tell what it is.
    """
    folder = standing_folder(Path(os.path.realpath(path)))
    if not folder.is_dir():
        if folder.exists():
            raise CollectionError(f"{path}: a file, and a folder is wanted")
        raise CollectionError(f"{path}: there is no such folder")
    if format is not None and format not in VALIDATED_FORMATS:
        allowed = ", ".join(VALIDATED_FORMATS)
        raise CollectionError(f"{format!r} is no format; allowed: {allowed}")
    findings = Findings()
    if EXPORT_FILE in {entry.name for entry in folder.iterdir()}:
        told = _read_object(folder, EXPORT_FILE, findings)
    else:
        told = {}
    chosen = format or _told(folder, told)
    if chosen == "collection":
        check_collection(folder, findings)
        return findings.report(chosen)
    reading = ExportReading(folder, findings)
    _CHECKS[chosen](reading)
    reading.finish()
    _check_notes(folder, told, chosen, findings)
    return findings.report(chosen)


def _told(folder: Path, told: Mapping[str, Any]) -> ValidatedFormat:
    if told.get("format") in VALIDATED_FORMATS:
        return told["format"]  # type: ignore[no-any-return]  # one of the formats, by the line above
    for format_, names in _TOLD_BY:
        if all((folder / name).exists() for name in names):
            return format_
    raise CollectionError(
        f"{folder}: neither a collection nor an export that can be told by its files; say what it "
        f"is with --format {' or '.join(VALIDATED_FORMATS)}"
    )


def _check_notes(folder: Path, told: Mapping[str, Any], chosen: str, findings: Findings) -> None:
    """Hold what an export says of itself against what was read."""
    if told and told.get("format") != chosen:
        findings.fault(EXPORT_FILE, f"says that the format is {told.get('format')!r}")
    counts = told.get("counts")
    for name, found in findings.counts.items():
        said = counts.get(name, found) if isinstance(counts, dict) else found
        if said != found:
            findings.fault(EXPORT_FILE, f"counts.{name} is {said}, and the files have {found}")
    if not (folder / IDS_FILE).is_file():
        return
    for kind, ids in _read_object(folder, IDS_FILE, findings).items():
        if not isinstance(ids, dict) or not all(isinstance(id_, str) for id_ in ids.values()):
            findings.fault(IDS_FILE, f"{kind} does not map exported ids to ids")
        elif chosen != "crux" and len(set(ids.values())) != len(ids):
            findings.fault(IDS_FILE, f"{kind} maps two exported ids to one")


def _read_object(folder: Path, name: str, findings: Findings) -> dict[str, Any]:
    try:
        value = json_file(folder / name)
    except SourceError as error:
        findings.fault(name, str(error).removeprefix(f"{folder / name}: "))
        return {}
    if not isinstance(value, dict):
        findings.fault(name, "is no JSON object")
        return {}
    return value
