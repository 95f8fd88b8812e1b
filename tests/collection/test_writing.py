import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import RECORD_FILES, Contents
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Chunk, Judgment, Nugget, Query, QuerySlice, SkippedFile

from .small import CHUNKS, CONTENTS, PROVENANCE, files_of, write_small

text = st.text(max_size=20)
ids = st.text(min_size=1, max_size=20) | st.sampled_from(
    ["12", "123", "1 2", "a/b", '"', "'", "\u2028", "\x85", "\n", "\\", "é", "x" * 1000]
)


@st.composite
def anything(draw: st.DrawFn) -> tuple[Contents, tuple[Chunk, ...]]:
    """Contents with hostile ids and texts, each query with one nugget judged in each chunk."""
    query_ids = draw(st.lists(ids, unique=True, max_size=4))
    chunk_ids = draw(st.lists(ids, unique=True, max_size=4))
    chunks = tuple(
        Chunk(
            chunk_id=chunk_id,
            source=draw(text),
            path=draw(text),
            start_byte=0,
            end_byte=1,
            text=draw(text),
            tokens=1,
            revision=draw(st.none() | text),
        )
        for chunk_id in chunk_ids
    )
    contents = Contents(
        queries=tuple(
            Query(query_id=each, title=draw(text), body=draw(text), answer=draw(ids))
            for each in query_ids
        ),
        nuggets=tuple(
            Nugget(nugget_id=f"n{each}", query_id=each, text=draw(ids), call_id=draw(text))
            for each in query_ids
        ),
        judgments=tuple(
            Judgment(
                query_id=each,
                nugget_id=f"n{each}",
                chunk_id=chunk_id,
                label=1,
                status="ok",
                reason=draw(text),
                call_id=None,
            )
            for each in query_ids
            for chunk_id in chunk_ids
        ),
        slices=tuple(
            QuerySlice(query_id=each, slice="answerable", nuggets=1, supported=1, undetermined=0)
            for each in query_ids
        ),
        skipped=tuple(draw(st.lists(st.builds(SkippedFile, source=text, path=text, reason=text)))),
    )
    return contents, chunks


@given(given_=anything())
@settings(deadline=None, max_examples=40)
def test_any_ids_and_texts_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, given_: tuple[Contents, tuple[Chunk, ...]]
) -> None:
    contents, chunks = given_
    path = tmp_path_factory.mktemp("any")
    collection = write_collection(path, contents, chunks, PROVENANCE)

    for name in Contents.__dataclass_fields__:
        assert getattr(contents, name) == getattr(collection, name)
    assert sorted(chunks, key=lambda chunk: chunk.chunk_id) == list(collection.chunks())


def test_the_same_content_in_any_order_is_the_same_bytes(tmp_path: Path) -> None:
    records: Any = {file.name: getattr(CONTENTS, file.name)[::-1] for file in RECORD_FILES}
    backwards = Contents(**records)
    told = PROVENANCE.model_copy(update={"config": {"b": 1, "a": 2}})
    told_backwards = PROVENANCE.model_copy(update={"config": {"a": 2, "b": 1}})
    write_collection(tmp_path / "one", CONTENTS, CHUNKS, told, rejected={"x": 1, "a": 2})
    write_collection(
        tmp_path / "two", backwards, CHUNKS[::-1], told_backwards, rejected={"a": 2, "x": 1}
    )

    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_failures_that_differ_only_in_their_message_have_one_order(tmp_path: Path) -> None:
    first = CONTENTS.failures[0]
    twins = tuple(first.model_copy(update={"message": message}) for message in "ba")
    write_small(tmp_path / "one", replace(CONTENTS, failures=twins))
    write_small(tmp_path / "two", replace(CONTENTS, failures=twins[::-1]))

    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_a_collection_written_again_from_itself_is_the_same_bytes(tmp_path: Path) -> None:
    collection = write_small(tmp_path)
    before = files_of(tmp_path)
    rejected = collection.manifest.counts.rejected
    write_collection(
        tmp_path, collection, collection.chunks(), collection.manifest, rejected=rejected
    )

    assert before == files_of(tmp_path)


def test_the_content_hash_is_of_the_data_and_not_of_how_it_was_made(tmp_path: Path) -> None:
    told = PROVENANCE.model_copy(update={"versions": {"dspy": "9"}, "config": {}})
    one = write_small(tmp_path / "one")
    two = write_collection(tmp_path / "two", CONTENTS, CHUNKS, told)
    other = write_collection(
        tmp_path / "three",
        CONTENTS,
        (*CHUNKS[:2], CHUNKS[2].model_copy(update={"text": "def e:"})),
        told,
    )

    assert one.manifest.content_hash == two.manifest.content_hash
    assert one.manifest.content_hash != other.manifest.content_hash


def test_lines_end_in_a_line_feed_and_are_not_escaped(tmp_path: Path) -> None:
    write_small(tmp_path)
    line = (tmp_path / "skipped.jsonl").read_bytes()

    assert line == b'{"source":"docs","path":"logo.png","kind":"binary","reason":"binary"}\n'


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["thesis.tex"], "not empty and not a collection"),
        (["queries.jsonl", "corpus.jsonl"], "not empty and not a collection"),
    ],
)
def test_a_folder_of_somebody_else_is_refused_and_untouched(
    tmp_path: Path, names: list[str], fault: str
) -> None:
    for name in names:
        (tmp_path / name).write_text("mine")
    before = files_of(tmp_path)

    with pytest.raises(CollectionError, match=fault):
        write_small(tmp_path)
    assert before == files_of(tmp_path)


def test_a_manifest_of_something_else_is_no_collection(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "my web page"}')

    with pytest.raises(CollectionError, match="not empty and not a collection"):
        write_small(tmp_path)


def test_a_stranger_inside_a_collection_is_not_lost(tmp_path: Path) -> None:
    write_small(tmp_path)
    (tmp_path / "labels.jsonl").write_text("hours of work")

    with pytest.raises(CollectionError, match=r"the folder holds 'labels\.jsonl'"):
        write_small(tmp_path)
    assert (tmp_path / "labels.jsonl").read_text() == "hours of work"


def test_a_file_in_the_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("mine")

    with pytest.raises(CollectionError, match="not a readable folder"):
        write_small(tmp_path / "c")


def test_a_refused_write_leaves_the_old_collection(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    before = files_of(tmp_path)

    with pytest.raises(CollectionError, match="stands twice"):
        write_collection(tmp_path / "c", CONTENTS, [*CHUNKS, CHUNKS[0]], PROVENANCE)
    assert before == files_of(tmp_path)


def test_a_folder_that_cannot_be_written_is_one_clean_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")

    with pytest.raises(CollectionError, match="cannot be written: File exists"):
        write_small(tmp_path / "file" / "c")


def test_a_relative_path_and_a_missing_parent_are_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert write_small(Path("a/b/c")) == Collection.load("a/b/c")


def test_a_collection_left_aside_by_a_killed_write_is_found_and_put_back(tmp_path: Path) -> None:
    """As a process does that is killed between the two renames."""
    old = write_small(tmp_path / "c", replace(CONTENTS, skipped=()))
    (tmp_path / "c").rename(tmp_path / ".c.previous")
    (tmp_path / ".c.0123abcd.partial").mkdir()

    assert old == Collection.load(tmp_path / "c")

    new = write_small(tmp_path / "c")

    assert new == Collection.load(tmp_path / "c")
    assert not (tmp_path / ".c.previous").exists()


def test_a_collection_left_aside_after_the_swap_is_not_read_again(tmp_path: Path) -> None:
    write_small(tmp_path / ".c.previous", replace(CONTENTS, skipped=()))
    new = write_small(tmp_path / "new")
    (tmp_path / "new").rename(tmp_path / "c")

    assert new == Collection.load(tmp_path / "c")
    assert new == write_small(tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
import pyarrow.parquet
sys.path.insert(0, sys.argv[1])
from collection.small import write_small

old, place = Path(sys.argv[2]), Path(sys.argv[3])
IN_PLACE = {"open", "os.mkdir", "os.rename", "shutil.rmtree"}
ANYWHERE = {"os.remove", "os.rmdir"}  # named relative to an open folder

def die_before(step):
    # An audit hook runs just before each of the calls that touch the disk.
    seen = 0
    def hook(event, args):
        nonlocal seen
        if event in ANYWHERE or (event in IN_PLACE and str(place) in str(args)):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

write_small(old.parent / "warm")  # so that no child has to import what a write needs
for step in range(1, 1000):
    folder = place / str(step)
    shutil.copytree(old, folder / "c")
    child = os.fork()
    if child == 0:
        die_before(step)
        write_small(folder / "c")
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


@pytest.mark.slow
def test_killed_before_any_step_it_leaves_the_old_collection_or_the_new(tmp_path: Path) -> None:
    """SIGKILL before each call that touches the disk, one after the other."""
    old = write_small(tmp_path / "old", replace(CONTENTS, skipped=()))
    new = write_small(tmp_path / "new")
    place = tmp_path / "killed"
    tests = Path(__file__).parent.parent
    subprocess.run(
        [sys.executable, "-c", KILLED, tests, tmp_path / "old", place], check=True, timeout=120
    )
    left = [Collection.load(folder / "c") for folder in place.iterdir()]

    assert len(left) > 25
    assert all(collection in (old, new) for collection in left)
    assert old in left
    assert new in left
    for folder in place.iterdir():
        assert new == write_small(folder / "c")
        assert files_of(tmp_path / "new") == files_of(folder / "c")
