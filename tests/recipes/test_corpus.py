"""From configured corpora to chunks and an index that is up to date with the files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiktoken

from freshstack_dspy import BuildConfig, HybridIndex
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import IndexingError, SourceError
from freshstack_dspy.index.lsa import MOST_CHUNKS
from freshstack_dspy.index.models import Models
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.corpus import (
    ChunkedCorpora,
    check_faults,
    check_retrievers,
    chunk_corpora,
    index_corpora,
)
from freshstack_dspy.records import SkippedFile
from tests.corpus.test_git import commit, git
from tests.heard import Heard
from tests.index.pieces import Letters
from tests.recipes.domain import FILES, domain


def indexed(config: BuildConfig, **arguments: Any) -> HybridIndex:
    return index_corpora(config, chunk_corpora(config, NoProgress()), **arguments)


def rankings(index: HybridIndex) -> dict[str, Any]:
    texts = ["reset the dial", "which python does pip need", "moon phase day"]
    return {name: index.search(name, texts, 10) for name in index.retrievers}


def test_changed_files_end_as_in_a_build_from_nothing(tmp_path: Path) -> None:
    config, embedder = domain(tmp_path), Letters()
    indexed(config, models=Models([embedder]))
    files = tmp_path / "corpus"
    (files / "docs/reset.md").write_text("# Resetting\n\nTurn the crown until it clicks.\n")
    (files / "docs/crown.md").write_text("# The crown\n\nPull the crown to set the day.\n")
    (files / "src/phase.py").unlink()
    steps = Heard()

    cut = chunk_corpora(config, steps)
    updated = index_corpora(config, cut, models=Models([embedder]))
    fresh = indexed(config.model_copy(update={"name": "fresh"}), models=Models([Letters()]))

    assert steps.notes["chunks"] == "2 of 2 files; 3 unchanged"
    assert len(embedder.embedded) == 5 + 2
    assert list(updated.chunks()) == list(fresh.chunks())
    assert rankings(updated) == rankings(fresh)


def test_unchanged_files_are_neither_cut_nor_written_again(tmp_path: Path) -> None:
    config, steps = domain(tmp_path), Heard()
    before = chunk_corpora(config, NoProgress())
    place = before.chunks.place
    assert isinstance(place, Path)
    written = place.stat()

    again = chunk_corpora(config, steps)

    assert steps.notes["chunks"] == "5 unchanged"
    assert (place.stat().st_ino, place.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
    assert again.chunks.sums == before.chunks.sums == ChunkFile(place).sums
    assert (again.files, again.skipped, again.licences) == (
        before.files,
        before.skipped,
        before.licences,
    )


def test_files_that_cannot_be_cut_are_known_while_they_are_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, steps = domain(tmp_path), Heard()
    encode = tiktoken.Encoding.encode_ordinary

    def failing(self: tiktoken.Encoding, text: str) -> list[int]:
        if "moon" in text:
            raise RecursionError("too deep")
        return encode(self, text)

    def left_out(cut: ChunkedCorpora) -> list[str]:
        return [one.path for one in cut.skipped if "too deep" in one.reason]

    with monkeypatch.context() as patched:
        patched.setattr(tiktoken.Encoding, "encode_ordinary", failing)
        before = chunk_corpora(config, NoProgress())
    assert left_out(before) == ["docs/dial.md"]

    again = chunk_corpora(config, steps)

    assert steps.notes["chunks"] == "4 unchanged"
    assert (again.files, again.skipped) == (before.files, before.skipped)

    docs = tmp_path / "corpus/docs"
    (docs / "reset.md").write_text("# Resetting\n\nTurn the crown.\n")
    assert left_out(chunk_corpora(config, NoProgress())) == ["docs/dial.md"]

    (docs / "dial.md").write_text("# The dial\n\nIt shows the moon.\n")
    mended = chunk_corpora(config, NoProgress())
    assert not left_out(mended)
    assert {chunk.path for chunk in mended.chunks} == FILES.keys()


@pytest.mark.parametrize("left", [0, 100])
def test_a_damaged_file_of_chunks_is_made_again(tmp_path: Path, left: int) -> None:
    config = domain(tmp_path)
    before = chunk_corpora(config, NoProgress())
    assert isinstance(before.chunks.place, Path)
    chunks = list(before.chunks)
    before.chunks.place.write_bytes(before.chunks.place.read_bytes()[:left])

    assert list(chunk_corpora(config, NoProgress()).chunks) == chunks


def test_a_commit_with_the_same_files_gives_its_name_to_their_chunks(tmp_path: Path) -> None:
    config = domain(tmp_path)
    repository = tmp_path / "corpus"
    git(repository, "init", "-q")
    first = commit(repository)
    (corpus,) = config.corpus
    config = config.model_copy(update={"corpus": (corpus.model_copy(update={"revision": "HEAD"}),)})
    before = chunk_corpora(config, NoProgress())
    (repository / "docs/reset.md").write_text("# Resetting\n\nTurn the crown.\n")
    second, steps = commit(repository), Heard()

    cut = chunk_corpora(config, steps)

    assert steps.notes["chunks"] == "1 of 1 files; 4 unchanged"
    assert {chunk.revision for chunk in before.chunks} == {first}
    assert {chunk.revision for chunk in cut.chunks} == {second}
    assert cut.chunks.sums == ChunkFile.holding(cut.chunks).sums
    fresh = config.model_copy(update={"name": "fresh"})
    assert cut.chunks.sums == chunk_corpora(fresh, NoProgress()).chunks.sums


def test_a_pool_by_lsa_of_too_many_chunks_is_refused_before_anything_is_paid_for(
    tmp_path: Path,
) -> None:
    config = domain(tmp_path)
    check_retrievers(config, MOST_CHUNKS)

    with pytest.raises(IndexingError, match=r'200,000 chunks.*retrievers = \["bm25"\]'):
        check_retrievers(config, MOST_CHUNKS + 1)


@pytest.mark.parametrize(("faults", "files"), [(10, 20), (50, 1_000)])
def test_a_few_files_that_cannot_be_cut_are_left_out_and_no_more(faults: int, files: int) -> None:
    def fault(number: int) -> SkippedFile:
        reason = "cannot be cut: RecursionError" if number else "cannot be cut: KeyError"
        return SkippedFile(source="docs", path=str(number), kind="unreadable", reason=reason)

    found = [fault(number) for number in range(faults)]
    of = {"docs": files, "code": 100_000}
    check_faults(found, of)

    with pytest.raises(SourceError) as caught:
        check_faults([*found, fault(faults)], of)

    assert str(caught.value) == (
        f"corpus 'docs': {faults + 1} of {files:,} files cannot be cut, and more than 5% are too "
        "many; most often: cannot be cut: RecursionError; exclude them"
    )


class Meanwhile(Heard):
    """Does something once the files were looked at, and before they are cut."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act = act

    def start(self, step: str, total: int) -> None:
        super().start(step, total)
        if step == "chunks":
            self.act()


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_file_that_changes_while_it_is_read_ends_the_work_and_is_not_lost(
    tmp_path: Path, is_gone: bool
) -> None:
    config = domain(tmp_path)
    file = tmp_path / "corpus/docs/reset.md"
    before = file.read_text()

    with pytest.raises(SourceError, match=r"docs/reset.md changed while it was read; run it again"):
        chunk_corpora(config, Meanwhile(file.unlink if is_gone else partial(file.write_text, "x")))
    file.write_text(before)

    assert {chunk.path for chunk in chunk_corpora(config, NoProgress()).chunks} == FILES.keys()


def test_chunks_stay_as_they_were_cut_when_another_process_cuts_again(tmp_path: Path) -> None:
    config = domain(tmp_path)
    cut = chunk_corpora(config, NoProgress())
    (tmp_path / "corpus/docs/reset.md").write_text("# Resetting\n\nTurn the crown.\n")
    others = chunk_corpora(config, NoProgress())
    index = index_corpora(config, cut)

    assert ChunkFile.holding(cut.chunks).sums == cut.chunks.sums != others.chunks.sums
    assert list(index.chunks()) == list(cut.chunks)
