"""What is the same content is kept, also under another id; everything else is listed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Chunk, Nugget, Query
from freshstack_dspy.collection.diff import (
    Difference,
    JudgmentChange,
    NuggetChange,
    QueryChange,
    Tally,
    difference,
    match_chunks,
)
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.records import QuerySlice
from freshstack_dspy.stored.contents import Contents

from . import small
from .small import judgment


def chunk(text: str, start: int) -> Chunk:
    return small.chunk(f"s/a.py_{start}_{start + len(text)}", text, start)


def state(
    queries: dict[str, str],
    nuggets: dict[str, tuple[str, str]],
    chunks: list[Chunk],
    labels: dict[tuple[str, str], int | None],
) -> tuple[Contents, list[Chunk]]:
    """A collection: titles by query, query and text by nugget, labels by nugget and chunk text."""
    ids = {one.text: one.chunk_id for one in chunks}
    return (
        Contents(
            queries=tuple(
                Query(query_id=id_, title=title, body="", answer="Yes.")
                for id_, title in queries.items()
            ),
            nuggets=tuple(
                Nugget(nugget_id=id_, query_id=query_id, text=text, call_id=None)
                for id_, (query_id, text) in nuggets.items()
            ),
            judgments=tuple(
                judgment(nugget_id, ids[text], label) for (nugget_id, text), label in labels.items()
            ),
            slices=tuple(
                QuerySlice(
                    query_id=id_,
                    slice="answerable" if any(labels.values()) else "unanswerable",
                    nuggets=1,
                    supported=0,
                    undetermined=0,
                )
                for id_ in queries
            ),
        ),
        chunks,
    )


def compare(
    before: tuple[Contents, list[Chunk]], after: tuple[Contents, list[Chunk]]
) -> Difference:
    chunks = (ChunkFile.holding(of) for _, of in (before, after))
    return difference(before[0], after[0], *chunks)


ONE = state(
    {"1": "How?", "2": "Why?"},
    {"1_0": ("1", "fact"), "1_1": ("1", "other"), "2_0": ("2", "fact")},
    [chunk("aa", 0), chunk("bb", 2)],
    {
        ("1_0", "aa"): 1,
        ("1_0", "bb"): 0,
        ("1_1", "aa"): 0,
        ("2_0", "aa"): 1,
        ("2_0", "bb"): None,
    },
)


def test_nothing_differs_from_itself() -> None:
    found = compare(ONE, ONE)

    assert (found.changes, found.resliced) == ((), 0)
    assert found.judgments == Tally(kept=5, added=0, dropped=0)
    assert (found.nuggets.kept, found.chunks.kept, found.queries.kept) == (3, 2, 2)


def test_what_moved_is_kept_and_what_differs_is_listed_with_both_ids() -> None:
    """A chunk moved and another is new; nuggets changed places; one label is another, one came."""
    other = state(
        {"1": "How?", "2": "Why not?", "3": "Who?"},
        {"1_0": ("1", "other"), "1_1": ("1", "fact"), "2_0": ("2", "fact")},
        [chunk("aa", 10), chunk("cc", 12)],
        {("1_1", "aa"): 0, ("1_0", "aa"): 0, ("2_0", "aa"): 1, ("1_0", "cc"): 1},
    )

    found = compare(ONE, other)

    assert found.changes[:2] == (
        QueryChange(
            change="edited",
            query_id="2",
            edited=("title",),
            slice_before="answerable",
            slice_after="answerable",
        ),
        QueryChange(change="added", query_id="3", slice_after="answerable"),
    )
    (changed,) = [one for one in found.changes if one.change == "changed"]
    assert isinstance(changed, JudgmentChange)
    assert changed.move == "down"
    ids = [
        (one.nugget_id, one.chunk_id, one.label) for one in (changed.before, changed.after) if one
    ]
    assert ids == [("1_0", "s/a.py_0_2", 1), ("1_1", "s/a.py_10_12", 0)]
    tally = found.judgments
    assert (tally.kept, tally.added, tally.dropped, tally.changed) == (1, 2, 3, 1)
    assert (found.queries.kept, found.queries.added, found.queries.changed) == (1, 1, 1)
    assert (found.nuggets.kept, found.nuggets.dropped, found.nuggets.added) == (2, 1, 1)


def test_a_nugget_is_the_same_by_its_text_reworded_by_its_id_and_else_another() -> None:
    texts = ["Install it with pip", "Call reset twice", "Wait a day", "Gone"]
    before = state({"1": "How?"}, {f"1_{n}": ("1", text) for n, text in enumerate(texts)}, [], {})
    contents, _ = state(
        {"1": "How?"},
        {
            "1_0": ("1", "Install it with pip 3"),
            "1_1": ("1", "Nothing like it"),
            "1_2": ("1", "Call reset twice"),
            "1_3": ("1", "Wait a day"),
        },
        [],
        {},
    )
    nuggets = [
        one.model_copy(update={"importance": "vital"} if one.nugget_id == "1_3" else {})
        for one in contents.nuggets
    ]

    found = compare(before, (replace(contents, nuggets=tuple(nuggets)), []))

    changes = [one for one in found.changes if isinstance(one, NuggetChange)]
    assert [
        (
            one.change,
            one.before and one.before.nugget_id,
            one.after and one.after.nugget_id,
            one.fields,
        )
        for one in changes
    ] == [
        ("changed", "1_0", "1_0", ("text",)),
        ("added", None, "1_1", ()),
        ("changed", "1_2", "1_3", ("importance",)),
        ("dropped", "1_3", None, ()),
    ]
    assert found.nuggets == Tally(kept=1, added=1, dropped=1, changed=2)


def test_where_labels_went() -> None:
    labels: list[dict[tuple[str, str], int | None]] = [
        {("1_0", "a"): 1, ("1_0", "b"): 0, ("1_0", "c"): None, ("1_0", "d"): 1, ("1_0", "e"): 1},
        {("1_0", "a"): 0, ("1_0", "b"): 2, ("1_0", "c"): 0, ("1_0", "d"): None, ("1_0", "f"): None},
    ]
    chunks = [chunk(text, place) for place, text in enumerate("abcdef")]

    found = compare(*(state({"1": "How?"}, {"1_0": ("1", "f")}, chunks, each) for each in labels))

    moves = [one.move for one in found.changes if isinstance(one, JudgmentChange)]
    assert moves == ["down", "up", "new", "gone", "gone", None]


def test_lost_support_is_shown_before_other_labels() -> None:
    before: dict[tuple[str, str], int | None] = {("1_0", "a"): 0, ("1_0", "b"): 2, ("1_0", "c"): 1}
    chunks = [chunk(text, place) for place, text in enumerate("abc")]

    found = compare(*(state({"1": "How?"}, {"1_0": ("1", "f")}, chunks, of) for of in (before, {})))

    shown = page_text(found.page())
    assert shown.index("2 → –") < shown.index("1 → –") < shown.index("0 → –")


def test_evidence_elsewhere_in_the_chunk_is_listed_and_a_chunk_elsewhere_is_none() -> None:
    labels: dict[tuple[str, str], int | None] = {("1_0", "aa"): 1, ("1_0", "bb"): 1}

    def with_evidence(start: int, *spans: tuple[int, int]) -> tuple[Contents, list[Chunk]]:
        chunks = [chunk("aa", start), chunk("bb", start + 2)]
        contents, _ = state({"1": "How?"}, {"1_0": ("1", "f")}, chunks, labels)
        judgments = (
            one.model_copy(update={"evidence": (span,)})
            for one, span in zip(contents.judgments, spans, strict=True)
        )
        return replace(contents, judgments=tuple(judgments)), chunks

    found = compare(with_evidence(0, (0, 1), (2, 4)), with_evidence(10, (11, 12), (12, 14)))

    (change,) = found.changes
    assert isinstance(change, JudgmentChange)
    assert change.after
    assert (change.change, change.move, change.after.evidence) == ("evidence", None, ((11, 12),))
    assert (found.evidence, found.judgments.kept) == (1, 2)


def test_a_query_in_another_slice_is_listed() -> None:
    found = compare(
        state({"1": "How?"}, {"1_0": ("1", "f")}, [chunk("a", 0)], {("1_0", "a"): None}),
        state({"1": "How?"}, {"1_0": ("1", "f")}, [chunk("a", 0)], {("1_0", "a"): 1}),
    )

    assert found.resliced == 1
    assert found.changes[0] == QueryChange(
        change="resliced", query_id="1", slice_before="unanswerable", slice_after="answerable"
    )
    assert found.judgments.changed == 1


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), unique=True),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), unique=True),
)
def test_each_chunk_is_matched_once_and_as_many_as_can_be(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    def distinct(spans: list[tuple[str, int]]) -> list[Chunk]:
        return list({start: chunk(text, start) for text, start in spans}.values())

    before, after = distinct(one), distinct(other)
    texts = {each.chunk_id: each.text for each in after}

    found = match_chunks(lambda: before, lambda: after)

    assert len(set(found.values())) == len(found)
    for text in "ab":
        pairs = [old for old in before if old.text == text and old.chunk_id in found]
        assert all(texts[found[old.chunk_id]] == text for old in pairs)
        counts = [sum(each.text == text for each in chunks) for chunks in (before, after)]
        assert len(pairs) == min(counts)
