"""Validating a collection, or an export of one: every reference, count and hash."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from freshstack_dspy.collection.collection import CORPUS_FILE, Corpus, corpus_sha256
from freshstack_dspy.collection.contents import RECORD_FILES, Contents, reference_faults
from freshstack_dspy.collection.counts import Counts, count
from freshstack_dspy.collection.exports import EXPORT_FILE, EXPORT_FORMATS, ExportFormat
from freshstack_dspy.collection.imports import IMPORT_FORMATS, ImportFormat, read_layout
from freshstack_dspy.collection.manifest import MANIFEST_FILE, Manifest, read_manifest
from freshstack_dspy.collection.rows import read_json, read_lines, read_rows
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.errors import CollectionError, FreshstackError, SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.records import Record

ValidatedFormat = Literal["collection"] | ExportFormat


class Finding(NamedTuple):
    """One thing that is wrong (a fault), or that may be (a warning)."""

    place: str
    """The file, with the line where there is one."""
    message: str
    is_fault: bool = True


class Report(NamedTuple):
    """What was validated, and what was found."""

    format: ValidatedFormat
    findings: tuple[Finding, ...]
    """Faults first."""
    counts: Mapping[str, int]
    """How many records of each kind were read."""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is wrong."""
        return tuple(finding for finding in self.findings if finding.is_fault)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What may be wrong."""
        return tuple(finding for finding in self.findings if not finding.is_fault)


def validate(path: Path | str) -> Report:
    """Check a collection, or an export of one.

    Of a collection: files, hashes, counts, references, labels on their scale, answer spans, slices
    against judgments. An export is read back by its importer where there is one, and what was read
    is compared with the counts that it gives.

    Args:
        path: Its folder.

    Raises:
        CollectionError: It is neither.
    """
    folder = Path(path)
    if (folder / EXPORT_FILE).is_file():
        return _check_export(folder)
    if not (folder / MANIFEST_FILE).is_file():
        raise CollectionError(f"{folder}: has no {MANIFEST_FILE} and no {EXPORT_FILE}")
    return _check_collection(folder)


def _report(format_: ValidatedFormat, findings: list[Finding], counts: Mapping[str, int]) -> Report:
    return Report(format_, tuple(sorted(findings, key=lambda one: not one.is_fault)), counts)


# Collections


def _check_collection(folder: Path) -> Report:
    try:
        manifest = read_manifest(folder)
    except CollectionError as error:
        return _report("collection", [Finding(MANIFEST_FILE, _without(folder, error))], {})
    findings: list[Finding] = []
    records = {
        file.name: _records(folder / file.filename, file.record, manifest, findings)
        for file in RECORD_FILES
    }
    contents = Contents(**records, threshold=manifest.scale.threshold)
    chunk_ids = _corpus(folder, manifest, findings)
    for fault in reference_faults(contents, chunk_ids, manifest.scale):
        file, _, rest = fault.partition(" ")
        findings.append(Finding(file.rstrip(":"), rest))
    findings += _spans_and_slices(contents)
    found = count(contents, len(chunk_ids), manifest.counts.rejected)
    for name in Counts.model_fields:
        stored, counted = getattr(manifest.counts, name), getattr(found, name)
        if stored != counted:
            message = f"counts.{name} is {stored}, and the files have {counted}"
            findings.append(Finding(MANIFEST_FILE, message))
    judged = {judgment.nugget_id for judgment in contents.judgments}
    if unjudged := [one.nugget_id for one in contents.nuggets if one.nugget_id not in judged]:
        message = f"{len(unjudged)} nuggets have no judgment, as {unjudged[0]!r}"
        findings.append(Finding("nuggets.jsonl", message, is_fault=False))
    return _report("collection", findings, _numbers(found))


def _numbers(counts: Counts) -> dict[str, int]:
    return {name: value for name, value in counts if isinstance(value, int)}


def _records(
    path: Path, record: type[Record], manifest: Manifest, findings: list[Finding]
) -> tuple[Any, ...]:
    """Read the lines that are records, and say of each other one what it is."""
    if not path.is_file():
        findings.append(Finding(path.name, "the file is missing"))
        return ()
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != manifest.files.get(path.name):
        findings.append(Finding(path.name, "is not the file whose hash the manifest has"))
    records = []
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else (), start=1):
        try:
            records.append(record.model_validate_json(line))
        except ValidationError as error:
            message = f"not a {record.__name__}: {first_fault(error)}"
            findings.append(Finding(f"{path.name}:{number}", message))
    return tuple(records)


def _corpus(folder: Path, manifest: Manifest, findings: list[Finding]) -> set[str]:
    """Read all chunks and compare them with their hash; give their ids."""
    corpus = Corpus(folder / CORPUS_FILE)
    ids: set[str] = set()
    without_text = 0
    try:
        if corpus_sha256(corpus) != manifest.files.get(CORPUS_FILE):
            findings.append(Finding(CORPUS_FILE, "the chunks are not those of the manifest's hash"))
        for chunk in corpus:
            ids.add(chunk.chunk_id)
            without_text += not chunk.titled.strip()
    except CollectionError as error:
        findings.append(Finding(CORPUS_FILE, _without(folder / CORPUS_FILE, error)))
    if without_text:
        message = f"{without_text} chunks have no text"
        findings.append(Finding(CORPUS_FILE, message, is_fault=False))
    return ids


def _spans_and_slices(contents: Contents) -> list[Finding]:
    findings = []
    answers = {query.query_id: query.answer for query in contents.queries}
    for nugget in contents.nuggets:
        length = len(answers.get(nugget.query_id, ""))
        if nugget.answer_span and not 0 <= nugget.answer_span[0] < nugget.answer_span[1] <= length:
            message = f"nugget {nugget.nugget_id!r}: answer_span is outside of the answer"
            findings.append(Finding("nuggets.jsonl", message))
    nuggets = [nugget for nugget in contents.nuggets if nugget.query_id in answers]
    slices = slice_queries(contents.queries, nuggets, contents.judgments, contents.threshold)
    expected = {part.query_id: part for part in slices}
    for part in contents.slices:
        if part.query_id in expected and part != expected[part.query_id]:
            message = f"query {part.query_id!r}: is not in the slice that its judgments give"
            findings.append(Finding("slices.jsonl", message))
    return findings


def _without(path: Path, error: Exception) -> str:
    """Give a message without the path at its beginning."""
    return str(error).removeprefix(f"{path}").lstrip("/: ")


# Exports

_LINES: Mapping[str, Mapping[str, str]] = {
    "trec": {"queries": "topics.tsv", "nuggets": "nuggets.jsonl", "chunks": "corpus.jsonl"}
}
_ROWS = ("queries", "nuggets", "judgments")


def _check_export(folder: Path) -> Report:
    try:
        description = read_json(folder / EXPORT_FILE)
    except SourceError as error:
        return _report("collection", [Finding(EXPORT_FILE, _without(folder, error))], {})
    format_ = description.get("format") if isinstance(description, dict) else None
    if format_ not in EXPORT_FORMATS:
        allowed = ", ".join(EXPORT_FORMATS)
        raise CollectionError(f"{folder / EXPORT_FILE}: format {format_!r}; allowed: {allowed}")
    findings: list[Finding] = []
    counts: dict[str, int] = {}
    try:
        counts = _read_back(folder, format_)
    except FreshstackError as error:
        findings.append(Finding(*_placed(folder, error)))
    stored = description.get("counts")
    for name, counted in counts.items():
        if isinstance(stored, dict) and stored.get(name, counted) != counted:
            message = f"counts.{name} is {stored[name]}, and the files have {counted}"
            findings.append(Finding(EXPORT_FILE, message))
    return _report(format_, findings, counts)


def _read_back(folder: Path, format_: ExportFormat) -> dict[str, int]:
    """Count what is in an export, by its importer or by lines and rows."""
    if format_ == "hf":
        counts = {name: sum(1 for _ in read_rows(folder / name, ())) for name in _ROWS}
        return {**counts, "chunks": sum(1 for _ in read_rows(folder / "corpus", ()))}
    if format_ == "trec":
        return {
            name: sum(1 for _ in read_lines(folder / file))
            for name, file in _LINES[format_].items()
        }
    as_: ImportFormat = "beir" if format_ == "mteb" else format_
    assert as_ in IMPORT_FORMATS
    found = read_layout(as_, folder)
    chunks, _ = found.with_existing_chunks(drop=False)
    queries = len(found.queries) + sum(found.rejected.values())
    counts = {"queries": queries, "chunks": len(chunks)}
    return counts if as_ == "beir" else {**counts, "nuggets": len(found.nuggets)}


def _placed(folder: Path, error: Exception) -> tuple[str, str]:
    """Part a message into the file and what is wrong."""
    place, colon, message = _without(folder, error).partition(": ")
    return (place, message) if colon else (EXPORT_FILE, place)
