"""A collection: written whole or not at all, read back as it was, measured on what is supported."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Collection, Nugget, Run, evaluate, write_run
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Scale, ScoredChunk
from freshstack_dspy.stored.contents import Contents, reference_faults, slice_queries
from freshstack_dspy.stored.record_files import RECORD_FILES
from tests.formats.odd import odd_chunks, odd_contents

from .small import (
    CHUNKS,
    CONTENTS,
    PROVENANCE,
    A,
    B,
    D,
    candidate,
    files_of,
    judgment,
    query,
    read_all,
    write_small,
)

RUN = Run("r", {"12": (ScoredChunk(B, 2.0), ScoredChunk(A, 1.0)), "123": (ScoredChunk(A, 1.0),)})


def test_a_query_of_whose_nuggets_only_a_doubtful_one_is_supported_is_measured_on_the_others(
    tmp_path: Path,
) -> None:
    """Where it has no others, it is left out; the other queries are measured."""
    doubtful = {"12_0", "123_0"}
    nuggets = tuple(
        one.model_copy(update={"doubtful": True}) if one.nugget_id in doubtful else one
        for one in without_support("12_1").nuggets
    )
    contents = replace(without_support("12_1"), nuggets=nuggets)

    qrels = write_small(tmp_path / "c", contents).qrels("all")

    assert qrels.nuggets == {"12": ("12_1",), "5": ("5_0",)}


def without_support(*nugget_ids: str) -> Contents:
    """The small collection, where no chunk supports these nuggets."""
    judgments = tuple(
        one.model_copy(update={"label": 0}) if one.label and one.nugget_id in nugget_ids else one
        for one in CONTENTS.judgments
    )
    slices = slice_queries(CONTENTS.queries, CONTENTS.nuggets, judgments)
    return replace(CONTENTS, judgments=judgments, slices=tuple(slices))


PARTLY = without_support("12_1")


def message_of(path: Path) -> str:
    with pytest.raises(CollectionError) as caught:
        read_all(Collection.load(path))
    message = str(caught.value)

    assert "\n" not in message

    return message


# Reading


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    written = write_small(tmp_path / "c")
    read = Collection.load(tmp_path / "c")

    assert written == read
    assert (read.name, read.recipe) == ("small", "freshstack")
    for name in CONTENTS.__dataclass_fields__:
        assert getattr(CONTENTS, name) == getattr(read, name)
    assert sorted(CHUNKS, key=lambda chunk: chunk.chunk_id) == list(read.chunks())
    assert CHUNKS[1] == read.chunk(B)
    assert Collection.load(tmp_path / "c") == Collection.load(read)


@pytest.mark.parametrize("name", ["queries.jsonl", "manifest.json", "corpus.parquet"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    write_small(tmp_path)
    (tmp_path / name).unlink()

    with pytest.raises(CollectionError, match=name):
        Collection.load(tmp_path).chunk(A)
    write_small(tmp_path / "small")
    assert f"no such collection; did you mean {tmp_path / 'small'}?" in message_of(
        tmp_path / "smal"
    )


@pytest.mark.parametrize("line", [b"\xff", b'{"nugget_id":"x","query_id":"12","a":1}'])
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: bytes) -> None:
    write_small(tmp_path)
    file = tmp_path / "nuggets.jsonl"
    lines = file.read_bytes().split(b"\n")
    lines[1] = line
    file.write_bytes(b"\n".join(lines))

    assert "nuggets.jsonl:2: not a Nugget" in message_of(tmp_path)
    file.write_bytes(b"\n".join(lines)[:-1])
    assert "nuggets.jsonl: the last line has no end" in message_of(tmp_path)


@pytest.mark.parametrize(("version", "remedy"), [(5, "--mode replay"), (7, "update")])
def test_another_schema_version_says_how_to_go_on(
    tmp_path: Path, version: int, remedy: str
) -> None:
    """Even where nothing else in the manifest is as this version knows it."""
    (tmp_path / "manifest.json").write_text(f'{{"schema_version": {version}, "news": 1}}')

    message = message_of(tmp_path)
    assert f"schema version {version}, and this freshstack_dspy reads 6" in message
    assert remedy in message


@pytest.mark.parametrize("content", ["", "[]", '{"schema_version": 6}'])
def test_a_damaged_manifest_is_one_clean_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content, encoding="utf-8")

    assert "manifest.json: not " in message_of(tmp_path)


# Which queries are measured, and on which nuggets


def test_measures_are_taken_on_queries_with_a_supported_nugget(tmp_path: Path) -> None:
    collection = write_small(tmp_path / "c", PARTLY)

    assert collection.query_ids() == collection.query_ids("supported") == ("12", "123")
    assert collection.query_ids("answerable") == ("123",)
    assert collection.query_ids(("answerable", "unanswerable")) == ("123", "5")
    assert collection.query_ids("all") == ("12", "123", "5"), "6 has no nuggets"
    with pytest.raises(CollectionError, match=r"'answered' is no slice; allowed: supported, all"):
        collection.query_ids(("answered",))  # type: ignore[arg-type]


def test_without_any_support_it_says_so(tmp_path: Path) -> None:
    collection = write_small(tmp_path / "c", without_support("12_0", "12_1", "123_0"))

    for measured in (
        collection.qrels,
        collection.diagnose,
        lambda: collection.evaluate(RUN),
        lambda: collection.export("trec", tmp_path / "out"),
    ):
        with pytest.raises(CollectionError, match="no query has a nugget that a chunk supports"):
            measured()


def test_a_failed_judgment_is_failed_and_not_a_label_of_0(tmp_path: Path) -> None:
    qrels = write_small(tmp_path / "c").qrels()

    assert qrels.nuggets == {"12": ("12_0", "12_1"), "123": ("123_0",)}
    assert qrels.labels == {"12_0": {A: 1, B: 1}, "12_1": {A: 0, B: 1}, "123_0": {A: 1, B: 0}}
    assert {"12_0": frozenset(), "12_1": frozenset(), "123_0": frozenset({D})} == qrels.failed


def test_its_methods_are_the_functions(tmp_path: Path) -> None:
    collection = write_small(tmp_path / "c")
    write_run(RUN, tmp_path / "r.run")
    means = evaluate(collection.qrels(), RUN).means

    assert collection.evaluate(RUN).means == means
    assert collection.evaluate(tmp_path / "r.run").means == means
    scores = {query_id: dict(ranking) for query_id, ranking in RUN.rankings.items()}
    assert collection.evaluate(scores).means == means
    assert isinstance(found := collection.retrieve(lambda _: [B, A]), Run)
    assert [chunk_id for chunk_id, _ in found.rankings["12"]] == [B, A]
    assert collection.explain("12", A).query.query_id == "12"
    collection.export("trec", tmp_path / "out")
    assert (tmp_path / "out").is_dir()


# Writing


def test_the_hash_of_a_file_is_that_of_its_bytes_and_the_corpus_that_of_its_rows(
    tmp_path: Path,
) -> None:
    manifest = write_small(tmp_path / "c").manifest
    rows = (
        json.dumps(one.model_dump(), ensure_ascii=False, separators=(",", ":"))
        for one in (CHUNKS[2], CHUNKS[0], CHUNKS[1])
    )
    corpus = "".join(f"{row}\n" for row in rows).encode()

    for name, digest in manifest.files.items():
        content = corpus if name == "corpus.parquet" else (tmp_path / "c" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest


ids = st.text(min_size=1, max_size=20) | st.sampled_from(
    ["12", "123", "1 2", "a/b", '"', "'", "\u2028", "\x85", "\n", "\\", "é", "x" * 1000]
)


@given(
    query_ids=st.lists(ids, unique=True, min_size=1, max_size=4),
    chunk_ids=st.lists(ids, unique=True, min_size=3, max_size=4),
    title=st.text(),
)
def test_any_ids_and_texts_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory,
    query_ids: list[str],
    chunk_ids: list[str],
    title: str,
) -> None:
    first, *others = odd_contents(query_ids, chunk_ids).queries
    contents = replace(
        odd_contents(query_ids, chunk_ids),
        queries=(first.model_copy(update={"title": title}), *others),
    )
    chunks = [one.model_copy(update={"text": title}) for one in odd_chunks(chunk_ids)]
    path = tmp_path_factory.mktemp("any")
    scale = PROVENANCE.model_copy(update={"scale": Scale(name="graded_3")})
    write_collection(path, contents, chunks, scale)
    collection = Collection.load(path)

    for name in Contents.__dataclass_fields__:
        assert getattr(contents, name) == getattr(collection, name)
    assert sorted(chunks, key=lambda chunk: chunk.chunk_id) == list(collection.chunks())


def test_the_same_content_in_any_order_is_the_same_bytes(tmp_path: Path) -> None:
    twins = tuple(CONTENTS.failures[0].model_copy(update={"message": text}) for text in "ba")
    contents = replace(CONTENTS, failures=twins)
    backwards: Any = {file.name: getattr(contents, file.name)[::-1] for file in RECORD_FILES}
    one = PROVENANCE.model_copy(update={"config": {"b": 1, "a": 2}})
    other = PROVENANCE.model_copy(update={"config": {"a": 2, "b": 1}})
    write_collection(tmp_path / "one", contents, CHUNKS, one, rejected={"x": 1, "a": 2})
    write_collection(
        tmp_path / "two", Contents(**backwards), CHUNKS[::-1], other, rejected={"a": 2, "x": 1}
    )

    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_the_content_hash_is_of_the_data_and_not_of_how_it_was_made(tmp_path: Path) -> None:
    changed = PROVENANCE.model_copy(update={"versions": {"dspy": "9"}, "config": {}})
    chunks = (*CHUNKS[:2], CHUNKS[2].model_copy(update={"text": "def e:"}))
    one = write_small(tmp_path / "one")
    two = write_collection(tmp_path / "two", CONTENTS, CHUNKS, changed)
    other = write_collection(tmp_path / "three", CONTENTS, chunks, changed)

    assert one.manifest.content_hash == two.manifest.content_hash
    assert one.manifest.content_hash != other.manifest.content_hash


@pytest.mark.parametrize("name", ["thesis.tex", "queries.jsonl", "manifest.json"])
def test_a_folder_of_something_else_is_untouched(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"name": "my web page"}')
    before = files_of(tmp_path)

    with pytest.raises(CollectionError, match="not empty and not a collection"):
        write_small(tmp_path)
    assert before == files_of(tmp_path)


def test_another_file_inside_a_collection_is_not_lost(tmp_path: Path) -> None:
    write_small(tmp_path)
    (tmp_path / "labels.jsonl").write_text("hours of work")

    with pytest.raises(CollectionError, match=r"the folder holds 'labels\.jsonl'"):
        write_small(tmp_path)
    assert (tmp_path / "labels.jsonl").read_text() == "hours of work"


def test_a_failed_write_leaves_the_old_collection(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    before = files_of(tmp_path)

    with pytest.raises(CollectionError, match="is there twice"):
        write_collection(tmp_path / "c", CONTENTS, [*CHUNKS, CHUNKS[0]], PROVENANCE)
    assert before == files_of(tmp_path)
    with pytest.raises(CollectionError, match="cannot be written: File exists"):
        write_small(tmp_path / "c/queries.jsonl/c")


def with_more(**more: Any) -> Contents:
    changed: Any = {name: (*getattr(CONTENTS, name), one) for name, one in more.items()}
    return replace(CONTENTS, **changed)


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        (
            with_more(nuggets=Nugget(nugget_id="x", query_id="1", text="t", call_id="k")),
            "nuggets.jsonl names query '1', which does not exist",
        ),
        (with_more(judgments=judgment("12_7", A, 1)), "judgments.jsonl names nugget '12_7'"),
        (with_more(judgments=judgment("12_0", "b", 1)), "judgments.jsonl names chunk 'b'"),
        (with_more(pool=candidate("12", "b")), "pool.jsonl names chunk 'b'"),
        (with_more(queries=query("7")), "slices.jsonl: query '7' is in no slice (1 such)"),
        (with_more(queries=query("12")), "queries.jsonl: '12' is there twice"),
        (
            with_more(nuggets=Nugget(nugget_id="12_0", query_id="123", text="t", call_id="k")),
            "nuggets.jsonl: '12_0' is there twice",
        ),
        (
            with_more(judgments=judgment("12_0", A, 0).model_copy(update={"query_id": "123"})),
            "the nugget belongs to query '12'",
        ),
        (with_more(judgments=judgment("12_1", D, 2)), "above 1, the highest of the scale"),
    ],
)
def test_an_id_or_label_at_fault_is_named(contents: Contents, fault: str) -> None:
    ids = {chunk.chunk_id for chunk in CHUNKS}

    assert not list(reference_faults(CONTENTS, ids, PROVENANCE.scale))
    assert fault in next(reference_faults(contents, ids, PROVENANCE.scale))


def test_a_collection_left_aside_by_a_killed_write_is_found_and_put_back(tmp_path: Path) -> None:
    """As a process does that is killed between the two renames."""
    old = write_small(tmp_path / "c", replace(CONTENTS, skipped=()))
    (tmp_path / "c").rename(tmp_path / ".c.previous")
    (tmp_path / ".c.0123abcd.partial").mkdir()

    assert old == Collection.load(tmp_path / "c")

    new = write_small(tmp_path / "c")

    assert new == Collection.load(tmp_path / "c")
    assert not (tmp_path / ".c.previous").exists()


needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can mount"
)

KILLED = """
import os, shutil, signal, subprocess, sys
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
    script: list[str | Path] = [sys.executable, "-c", KILLED, tests, tmp_path / "old", place]
    subprocess.run(script, check=True, timeout=120)
    left = [Collection.load(folder / "c") for folder in place.iterdir()]

    assert len(left) > 25
    assert all(collection in (old, new) for collection in left)
    assert old in left
    assert new in left
    for folder in place.iterdir():
        assert new == write_small(folder / "c")
        assert files_of(tmp_path / "new") == files_of(folder / "c")


FULL = """
import subprocess, sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from collection.small import CONTENTS, write_small
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError

place, folder = Path(sys.argv[2]), Path(sys.argv[3])
place.mkdir(exist_ok=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], check=True)
old = write_small(folder, replace(CONTENTS, skipped=()))
filler = place / ".filler.partial"
texts = replace(CONTENTS, skipped=()), CONTENTS
for round_, size in enumerate(range(0, 260, 4)):
    with filler.open("wb", buffering=0) as file:
        with suppress(OSError):
            file.write(bytes(1024 * size))
    before = Collection.load(folder)
    try:
        after = write_small(folder, texts[round_ % 2])
        assert Collection.load(folder) == after
    except CollectionError as error:
        assert "No space left on device" in str(error), error
        after = write_small(place.with_name("elsewhere"), texts[round_ % 2])
        assert Collection.load(folder) in (before, after)
        print("full")
    filler.unlink(missing_ok=True)
"""


@pytest.mark.slow
@needs_mounts
def test_on_a_full_disk_the_old_collection_stays_whole(tmp_path: Path) -> None:
    """A tmpfs of 256 KiB, filled more and more."""
    tests, place = Path(__file__).parent.parent, tmp_path / "disk"
    script = [sys.executable, "-c", FULL, tests, place, place / "c"]

    done = subprocess.run(
        ["unshare", "-m", *map(str, script)], check=True, timeout=120, stdout=subprocess.PIPE
    )

    assert done.stdout.count(b"full") > 5


def test_equal_collections_have_one_hash_and_what_no_path_can_be_is_one_line(
    tmp_path: Path,
) -> None:
    small = write_small(tmp_path / "c")

    assert len({small, Collection.load(tmp_path / "c")}) == 1
    for path in ("x" * 3_000, "a\0b"):
        with pytest.raises(CollectionError, match="cannot be read"):
            Collection.load(path)
