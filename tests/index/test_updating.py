"""What holds of updates: they end where a build from nothing does, and read no more than they need."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.settings import IndexedFile, IndexSettings
from freshstack_dspy.records import Chunk
from tests.index.pieces import GUIDE, SMALL, Letters, files_of, many, piece, rankings

NAME = "index"
SETTINGS = IndexSettings(dimensions=8)
NO_REVISION: dict[str, str | None] = {"repo": None}
QUERIES = ["worda0 worda1", "wordb7 zebra", "guide", "", *(chunk.text for chunk in many(3, seed=7))]
PATHS = ["a.py", "b c.py", "größe/d.md", "it's.md", "e.py"]
TEXTS = st.lists(
    st.sampled_from(["worda0", "worda1", "wordb7", "zebra", "!?", "getWord"]), max_size=4
).map(" ".join)
STATES = st.dictionaries(
    st.sampled_from(PATHS), st.lists(TEXTS, min_size=1, max_size=3), max_size=5
)


def built(
    root: Path, chunks: list[Chunk], name: str = NAME, files: Any = None, **more: Any
) -> HybridIndex:
    return HybridIndex.build(
        root, name, chunks, files=files or files_of(chunks), settings=SETTINGS, **more
    )


def updated(root: Path, chunks: list[Chunk], **more: Any) -> Any:
    """Update to these chunks, and give only those of changed files."""
    before = {file[:2]: file.sha256 for file in HybridIndex.open(root, name=NAME).files()}
    files = files_of(chunks)
    changed = {file[:2] for file in files if before.get(file[:2]) != file.sha256}
    return HybridIndex.update(
        root,
        NAME,
        [chunk for chunk in chunks if (chunk.source, chunk.path) in changed],
        files=files,
        revisions=NO_REVISION,
        **more,
    )


def cut(state: dict[str, list[str]]) -> list[Chunk]:
    """The chunks of files given by their pieces, with a first file that always stands."""
    chunks = [GUIDE]
    for path, texts in state.items():
        start = 0
        for text in texts:
            chunks.append(piece(path, text, start=start))
            start = chunks[-1].end_byte
    return chunks


Steps = list[tuple[dict[str, list[str]], bool | None]]
STEPS = st.lists(st.tuples(STATES, st.sampled_from([None, True, False])), min_size=1, max_size=3)


@pytest.mark.slow
@settings(deadline=None, max_examples=4, phases=[Phase.explicit, Phase.generate])
@given(STEPS)
@example([({"a.py": ["", ""]}, None)])  # two new rows of one content
def test_any_updates_end_as_a_build_from_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: Steps
) -> None:
    check_updates(tmp_path_factory.mktemp("updates"), steps)


@pytest.mark.slow
@settings(deadline=None, max_examples=20, phases=[Phase.generate])
@given(STEPS)
def test_very_many_updates_end_as_a_build_from_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: Steps
) -> None:
    check_updates(tmp_path_factory.mktemp("updates"), steps)


def check_updates(root: Path, steps: Steps) -> None:
    embedder = Letters()
    built(root, many(6) + SMALL, embedders=[embedder])
    for state, refit in steps:
        chunks = cut(state) + many(4)

        index, difference = updated(root, chunks, embedders=[embedder], refit_lsa=refit)

        fresh = built(root, chunks, "same", embedders=[embedder], lsa=index.lsa_model)
        assert rankings(index, QUERIES, 7) == rankings(fresh, QUERIES, 7)
        assert list(index.chunks()) == list(fresh.chunks())
        assert index.fingerprint == fresh.fingerprint
        assert index.files() == fresh.files()
        if refit or difference.lsa == "fitted":
            pure = built(root, chunks, "pure", embedders=[embedder])
            assert rankings(index, QUERIES, 7) == rankings(pure, QUERIES, 7)
    pure = built(root, chunks, "pure", embedders=[embedder])
    again = HybridIndex.build_or_open(
        root, NAME, chunks, files=files_of(chunks), settings=SETTINGS, embedders=[embedder]
    )
    assert rankings(again, QUERIES, 7) == rankings(pure, QUERIES, 7)


def test_an_update_tells_what_it_changed(tmp_path: Path) -> None:
    embedder = Letters()
    chunks = many(40)
    built(tmp_path, chunks, embedders=[embedder])
    embedder.embedded.clear()
    moved = piece("file3.py", chunks[3].text, start=9)  # as after a line put in above it
    now = [*chunks[:3], moved, *chunks[5:], piece("new.py", "worda1 zebra")]

    index, difference = updated(tmp_path, now, embedders=[embedder])

    assert difference.model_dump() == {
        "added": 2,
        "removed": 2,
        "kept": 38,
        "files_added": 1,
        "files_changed": 1,
        "files_removed": 1,
        "files_kept": 38,
        "embedded": {"letters": 1},
        "lsa": "kept",
        "lsa_changed": 4 / 40,
    }
    assert embedder.embedded == ["new.py\nworda1 zebra"]
    assert len(index) == 40


def test_a_new_commit_that_changes_nothing_writes_the_manifest_only(tmp_path: Path) -> None:
    chunks = [chunk.model_copy(update={"revision": "c0ffee"}) for chunk in SMALL]
    index = built(tmp_path, chunks)
    parts = sorted(index.path.glob("*-*"))

    after, difference = HybridIndex.update(
        tmp_path, NAME, [], files=files_of(chunks), revisions={"repo": "decade"}
    )

    assert (difference.added, difference.removed, difference.kept) == (0, 0, len(SMALL))
    assert sorted(after.path.glob("*-*")) == parts
    assert {chunk.revision for chunk in after.chunks()} == {"decade"}
    assert {chunk.revision for chunk in index.chunks()} == {"c0ffee"}


def test_an_update_leaves_unchanged_rows_of_the_table_where_they_are(tmp_path: Path) -> None:
    chunks = many(60)
    before = built(tmp_path, chunks).stats()

    after, _ = updated(tmp_path, [*chunks[1:], piece("new.py", "zebra")])

    table = list(after.path.glob("table-*"))
    assert len(table) == 1
    assert after.stats().table_version > before.table_version


def test_a_model_is_kept_until_a_fifth_of_the_chunks_has_changed(tmp_path: Path) -> None:
    chunks = many(50)
    built(tmp_path, chunks)
    told = []
    for removed in (2, 4, 9, 10):
        index, difference = updated(tmp_path, chunks[removed:])
        told.append((difference.lsa, difference.lsa_changed, index.stats().lsa_changed))

    assert told == [
        ("kept", 0.04, 0.04),
        ("kept", 0.08, 0.08),
        ("kept", 0.18, 0.18),
        ("fitted", 0, 0),
    ]


def test_a_change_taken_back_makes_a_kept_model_pure_again(tmp_path: Path) -> None:
    chunks = many(50)
    pure = built(tmp_path, chunks)
    updated(tmp_path, chunks[3:])

    _, difference = updated(tmp_path, chunks)

    assert (difference.lsa, difference.lsa_changed) == ("kept", 0)
    told: list[str] = []
    again = HybridIndex.build_or_open(
        tmp_path, NAME, chunks, settings=SETTINGS, progress=lambda stage, _: told.append(stage)
    )
    assert told == []
    assert rankings(again, QUERIES) == rankings(pure, QUERIES)


def test_a_kept_model_is_not_taken_for_a_pure_one(tmp_path: Path) -> None:
    chunks = many(50)
    built(tmp_path, chunks)
    updated(tmp_path, chunks[3:])
    told: list[str] = []

    again = HybridIndex.build_or_open(
        tmp_path, NAME, chunks[3:], settings=SETTINGS, progress=lambda stage, _: told.append(stage)
    )

    assert "lsa" in told
    assert again.stats().lsa_changed == 0


def test_many_updates_write_the_table_as_a_whole_now_and_then(tmp_path: Path) -> None:
    chunks = many(40)
    built(tmp_path, chunks)
    tables = set()
    for number in range(9):
        chunks = [*chunks[1:], piece(f"new{number}.py", f"worda{number} zebra")]
        index, _ = updated(tmp_path, chunks, refit_lsa=False)
        tables.add(next(index.path.glob("table-*")).name)

    assert 1 < len(tables) < 9
    assert list(index.chunks()) == sorted(chunks, key=lambda chunk: chunk.chunk_id)


def test_a_new_embedder_embeds_everything_once(tmp_path: Path) -> None:
    one, other, changed = Letters(), Letters("other", "xyz"), Letters("letters", "abc")
    built(tmp_path, SMALL, embedders=[one])

    _, difference = updated(tmp_path, SMALL, embedders=[one, other])
    _, again = updated(tmp_path, SMALL, embedders=[one, other])
    _, third = updated(tmp_path, SMALL, embedders=[changed, other])

    assert difference.embedded == {"letters": 0, "other": 6}
    assert again.embedded == {"letters": 0, "other": 0}
    assert third.embedded == {"letters": 6, "other": 0}


def test_an_update_without_an_embedder_of_the_index_is_refused(tmp_path: Path) -> None:
    built(tmp_path, SMALL, embedders=[Letters()])

    with pytest.raises(IndexingError, match=r"'letters', which new chunks need"):
        updated(tmp_path, SMALL[1:])


def test_an_update_that_leaves_nothing_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    built(tmp_path, SMALL)

    with pytest.raises(IndexingError, match="no chunk would be left"):
        HybridIndex.update(tmp_path, NAME, [], files=[], revisions={})
    with pytest.raises(IndexingError, match="holds a word"):
        updated(tmp_path, [piece("-", "?!")])

    assert len(HybridIndex.open(tmp_path)) == len(SMALL)


def test_an_update_of_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="no index here to update"):
        HybridIndex.update(tmp_path, NAME, [], files=[], revisions={})

    assert list(tmp_path.iterdir()) == []


def test_an_index_that_was_not_told_its_files_cannot_be_updated(tmp_path: Path) -> None:
    HybridIndex.build(tmp_path, NAME, SMALL)

    with pytest.raises(IndexingError, match="built without files"):
        HybridIndex.update(tmp_path, NAME, [], files=files_of(SMALL), revisions=NO_REVISION)


@pytest.mark.parametrize(
    ("changed", "files", "revisions", "message"),
    [
        (
            [],
            files_of([*SMALL[1:], piece("guide.md", "y")]),
            NO_REVISION,
            "'guide.md' of 'repo' has",
        ),
        ([], files_of([*SMALL, piece("x", "y")]), NO_REVISION, "'x' of 'repo' has"),
        ([piece("x", "y")], files_of(SMALL), NO_REVISION, "'x' of 'repo', which is not among"),
        ([], files_of(SMALL), {}, "lacks source 'repo'"),
        (
            [piece("x", "y", revision="c0ffee")],
            [*files_of(SMALL), IndexedFile("repo", "x", "0")],
            NO_REVISION,
            r"'c0ffee', but revisions has None for source 'repo'",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(
    tmp_path: Path, changed: Any, files: Any, revisions: Any, message: str
) -> None:
    built(tmp_path, SMALL)

    with pytest.raises(IndexingError, match=message):
        HybridIndex.update(tmp_path, NAME, changed, files=files, revisions=revisions)


def test_chunks_of_unchanged_files_are_left_as_they_are(tmp_path: Path) -> None:
    """Another process may have made the same update while this one waited."""
    built(tmp_path, SMALL)

    index, difference = HybridIndex.update(
        tmp_path, NAME, SMALL[:2], files=files_of(SMALL), revisions=NO_REVISION
    )

    assert (difference.added, difference.removed) == (0, 0)
    assert index.stats().table_version == 1


def test_files_without_chunks_are_not_files_of_an_index(tmp_path: Path) -> None:
    index = HybridIndex.build(
        tmp_path, NAME, SMALL, files=[*files_of(SMALL), IndexedFile("repo", "empty.ipynb", "0")]
    )

    assert index.files() == sorted(files_of(SMALL))
