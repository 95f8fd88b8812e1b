"""Validating a collection or an export of one: everything that is wrong with it, not the first."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from freshstack_dspy.collection.layouts import (
    BEIR_CORPUS,
    BEIR_QUERIES,
    CRUX_PASSAGES,
    EXPORT_FILE,
    FRESHSTACK_CORPUS,
    FRESHSTACK_QUERIES,
    IDS_FILE,
    MTEB_TASK,
    NUGGETIZER_ASSIGNMENTS,
    NUGGETIZER_NUGGETS,
    TREC_QRELS,
    TREC_TOPICS,
)
from freshstack_dspy.collection.manifest import MANIFEST_FILE
from freshstack_dspy.collection.staging import standing_folder
from freshstack_dspy.collection.validation.beir import check_beir, check_mteb
from freshstack_dspy.collection.validation.collections import check_collection
from freshstack_dspy.collection.validation.crux import check_crux
from freshstack_dspy.collection.validation.export_reading import ExportReading
from freshstack_dspy.collection.validation.findings import Findings, Report
from freshstack_dspy.collection.validation.freshstack import check_freshstack
from freshstack_dspy.collection.validation.hugging_face import check_hugging_face
from freshstack_dspy.collection.validation.nuggetizer import check_nuggetizer
from freshstack_dspy.collection.validation.trec import check_trec
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.sources.questions.json_objects import json_file

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
