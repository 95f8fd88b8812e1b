"""What the tests of the places of documents share: reading, and telling what came out."""

from pathlib import Path

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.indexed_files import read_files
from freshstack_dspy.records import LicenceFile, SkippedFile, SourceFile

Found = list[SourceFile | SkippedFile | LicenceFile]


def read(path: Path | None = None, limit: int = 1_000_000, **settings: object) -> Found:
    corpus = CorpusConfig.model_validate({"name": "docs", "path": path, **settings})
    return list(read_files(corpus, limit))


def write_all(folder: Path, contents: dict[str, bytes]) -> Path:
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def files(found: Found) -> dict[str, bytes]:
    return {file.path: file.data for file in found if isinstance(file, SourceFile)}


def encodings(found: Found) -> dict[str, str]:
    return {file.path: file.encoding for file in found if isinstance(file, SourceFile)}


def kinds(found: Found) -> dict[str, str]:
    return {file.path: file.kind for file in found if isinstance(file, SkippedFile)}


def reasons(found: Found) -> dict[str, str]:
    return {file.path: file.reason for file in found if isinstance(file, SkippedFile)}


def licences(found: Found) -> dict[str, str]:
    return {file.path: file.text for file in found if isinstance(file, LicenceFile)}
