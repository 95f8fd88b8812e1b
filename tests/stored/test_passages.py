"""Passages of retrievers: placed by id, offset or text; read; and measured by where the evidence is."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Chunk, NuggetQrels
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import PassageRun
from freshstack_dspy.measures.spans import Hit, Place
from freshstack_dspy.records import SourceFile
from freshstack_dspy.stored.passages import Files, FileText, read_passages
from tests.collection.small import judgment

TEXT = "# Größe\n\nHow large it is.\r\n\r\nUse `len(a)`.\n\nHow large it is.\n" * 3 + "The end.\n"


def chunks_of(text: str, *, path: str = "docs/size.md", encoding: str = "utf-8") -> list[Chunk]:
    return chunk_file(SourceFile("lib", path, text.encode(encoding), encoding=encoding), 32)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@given(text=st.text(min_size=1).filter(str.strip), place=st.integers(0, 200))
def test_characters_and_bytes_lead_to_one_another(mark: str, text: str, place: int) -> None:
    data = (mark + text.replace("\ufeff", "")).encode()
    file = FileText(chunk_file(SourceFile("lib", "a.txt", data), 16))
    place = min(place, len(file.text))
    offset = file.byte_at(place)

    assert data[offset:].decode() == file.text[place:]
    assert file.character_at(offset) == place


FILES = Files([*chunks_of(TEXT), *chunks_of("Other.\n", path="src/size.md")])
DATA = TEXT.encode()


def placed(hit: Hit) -> str | None:
    place = FILES.find(hit)
    return None if place is None else DATA[place.start : place.end].decode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The end.", "The end."),
        ("it is.\nThe  end.", "it is.\nThe end."),
        ("How large it is.", None),  # six times in the file
        ("Not there.", None),
        ("  ", None),
    ],
)
def test_a_text_alone_is_placed_where_it_is_once(text: str, found: str | None) -> None:
    assert placed(Hit(1.0, path="docs/size.md", text=text, start=3)) == found


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("docs/size.md", None, ["docs/size.md"]),
        ("/home/ana/lib/docs/size.md", None, ["docs/size.md"]),
        ("lib\\docs\\size.md", None, ["docs/size.md"]),
        ("size.md", None, ["docs/size.md", "src/size.md"]),
        ("docs/size.md", "other", []),
        ("docs/sizes.md", None, []),
    ],
)
def test_a_path_is_a_file_by_its_end(path: str, source: str | None, expected: list[str]) -> None:
    assert sorted(path for _, path in FILES.named(path, source)) == expected


ROOT_AND_FOLDER = Files(
    [
        *chunks_of(TEXT, path="README.md"),
        *chunks_of(f"# More\n\n{TEXT}", path="docs/README.md"),
        *chunks_of("Only here.\n", path="lib/README.md"),
    ]
)


@pytest.mark.parametrize(
    ("source", "path", "text", "expected"),
    [
        *(
            (source, *case)
            for source in (None, "lib")
            for case in (
                ("README.md", None, "README.md"),
                ("docs/README.md", None, "docs/README.md"),
                ("lib/README.md", None, "lib/README.md"),
                ("README.md", "The end.", "README.md"),
            )
        ),
        (None, "README.md", "# More", "docs/README.md"),
    ],
)
def test_an_exact_path_is_that_file_though_its_name_occurs_in_a_folder_too(
    source: str | None, path: str, text: str | None, expected: str
) -> None:
    offsets = {} if text else {"start": 0, "end": 5, "unit": "bytes"}
    hit = Hit(1.0, source=source, path=path, text=text, **offsets)  # type: ignore[arg-type]

    place = ROOT_AND_FOLDER.find(hit)

    assert place is not None
    assert place.path == expected


def test_of_files_of_one_name_the_text_tells_which_it_is() -> None:
    """As it is in one of them; in another only its white space differs."""
    files = Files(
        [
            *chunks_of("one  two three", path="a/README.md"),
            *chunks_of("zero one two three", path="b/README.md"),
        ]
    )

    assert files.find(Hit(1.0, path="README.md", text="one two")) == Place(
        "lib", "b/README.md", 5, 12
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the  end.", None),  # another case
        ("zero one two three", Place("lib", "b.md", 0, 18)),
        ("ro one two\nth", Place("lib", "b.md", 2, 15)),  # cut words, and other white space
        ("wird", Place("lib", "c.md", 1, 5)),
        ("und Zeit", Place("lib", "d.md", 0, 10)),  # a whole chunk
        ("one two three", None),  # in two files
        ("four", None),
    ],
)
def test_a_text_without_a_path_is_placed_where_it_is_once(text: str, expected: Place) -> None:
    texts = {
        "a.md": "one two three The end.",
        "b.md": "zero one two three",
        "c.md": " wird so",
        "d.md": "und Zeit\n\n",
    }
    files = Files(chunk for path, of in texts.items() for chunk in chunks_of(of, path=path))

    assert files.find(Hit(1.0, text=text)) == expected


COLOURS = "Größe: how large it is.\n\nThe rest of the page is about colours.\n" * 3
COLOUR_FILES = Files(
    chunk
    for path in ("docs/size.md", "docs/old/notes.md", "docs/new/notes.md")
    for chunk in chunk_file(SourceFile("lib", path, COLOURS.encode()), 16)
)
LINE = {"query_id": "q", "source": "lib", "path": "docs/size.md", "score": 1.0}


def written(folder: Path, *lines: dict[str, Any] | str) -> Path:
    path = folder / "mine.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def test_bytes_characters_and_texts_give_the_same_place(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        LINE | {"query_id": "a", "start": 0, "end": 8},
        LINE | {"query_id": "b", "start": 0, "end": 6, "unit": "chars"},
        LINE | {"query_id": "c", "start": 0, "text": "Größe:", "unit": "chars"},
    )
    run = COLOUR_FILES.place_all(read_passages(path, COLOUR_FILES), "mine")

    expected = {Place("lib", "docs/size.md", 0, 8): 1.0}
    assert run.passages == {"a": expected, "b": expected, "c": expected}
    assert run.placed_share == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query_id": "q"', "mine.jsonl:2: not a passage: Invalid JSON"),
        (LINE | {"start": -1, "end": 8}, "2: not a passage: start: Input should be greater"),
        (LINE | {"start": 8, "end": 8}, "starts at 8 and ends at 8"),
        (LINE, "start is missing; a passage has start and end, or text"),
        (LINE | {"start": 0, "end": 9999}, "ends at 9999, and 'docs/size.md' has 198 bytes"),
        (LINE | {"start": 0, "end": 8, "path": "docs/sizes.md"}, "has no file 'docs/sizes.md'"),
        (LINE | {"start": 0, "end": 8, "path": "notes.md"}, "may be lib/docs/"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: Any, message: str) -> None:
    path = written(tmp_path, LINE | {"start": 0, "end": 8}, line)

    with pytest.raises(CollectionError, match=message):
        read_passages(path, COLOUR_FILES)


# Measured by evidence

Label = tuple[int | None, tuple[tuple[int, int], ...]]
"""A label and its evidence."""


def judgments_of(chunks: Sequence[Chunk], labels: Mapping[str, Mapping[int, Label]]) -> NuggetQrels:
    """Make judgments of query q: nugget id -> number of the chunk -> label and evidence."""
    judgments = [
        judgment(nugget, chunks[number].chunk_id, label).model_copy(
            update={"query_id": "q", "evidence": evidence}
        )
        for nugget, of in labels.items()
        for number, (label, evidence) in of.items()
    ]
    files = Files(chunks, judgments)
    return NuggetQrels(
        {"q": tuple(labels)},
        {
            nugget: {chunks[n].chunk_id: label for n, (label, _) in of.items() if label is not None}
            for nugget, of in labels.items()
        },
        {
            nugget: frozenset(chunks[n].chunk_id for n, (label, _) in of.items() if label is None)
            for nugget, of in labels.items()
        },
        tokens={chunk.chunk_id: chunk.tokens for chunk in chunks},
        chunk_ids={chunk.chunk_id for chunk in chunks},
        spans=lambda: files,
    )


def tiles(cuts: Sequence[int]) -> list[Chunk]:
    return [
        Chunk(
            chunk_id=f"lib/a.txt_{start}_{end}",
            source="lib",
            path="a.txt",
            start_byte=start,
            end_byte=end,
            text="x" * (end - start),
            tokens=end - start,
        )
        for start, end in pairwise(cuts)
    ]


def passages(*spans: tuple[int, int]) -> PassageRun:
    """The first is the best."""
    places = [Place("lib", "a.txt", *span) for span in spans]
    return PassageRun("p", {"q": {place: -float(rank) for rank, place in enumerate(places)}})


@st.composite
def collections(draw: st.DrawFn) -> tuple[list[Chunk], NuggetQrels]:
    """Draw a file of 60 bytes in chunks, with labels and their evidence."""
    inner = draw(st.lists(st.integers(1, 59), min_size=1, max_size=8, unique=True))
    chunks = tiles([0, *sorted(inner), 60])

    def label(number: int) -> st.SearchStrategy[Label]:
        start, end = chunks[number].start_byte, chunks[number].end_byte
        span = st.tuples(st.integers(start, end - 1), st.integers(1, 9)).map(
            lambda at: (at[0], min(end, at[0] + at[1]))
        )
        found = st.lists(span, max_size=2).map(lambda of: tuple(sorted(of)))
        labels = st.sampled_from([None, 0, 1, 1, 2])
        return st.tuples(labels, found).map(lambda it: (it[0], it[1] if it[0] else ()))

    labels = {
        f"n{nugget}": {
            number: draw(label(number)) for number in range(len(chunks)) if draw(st.booleans())
        }
        for nugget in range(draw(st.integers(1, 3)))
    }
    return chunks, judgments_of(chunks, labels)


NORMALISED = ("Recall", "AP", "F1@3", "StRecall@3", "Recall@20tok", "Rprec", "P@3", "ByteRecall@3")
MEASURES = (
    *("alpha_nDCG@3", "alpha_nDCG@20tok", "Coverage@20tok", "nDCG@3", "nDCG(rel=2)@20tok"),
    *("Bpref", "AP_IA", "P_IA@2", "ERR_IA@2", "nERR_IA@20tok", "alpha_DCG@20tok", "Judged@3"),
    *("Density@3", "RR(judged_only=True)", "BytePrecision@2", "ByteIoU@20tok", *NORMALISED),
)


@given(drawn=collections(), data=st.data())
def test_the_collections_own_chunks_are_measured_as_they_are(
    drawn: tuple[list[Chunk], NuggetQrels], data: st.DataObject
) -> None:
    chunks, qrels = drawn
    found = data.draw(st.lists(st.sampled_from(chunks), unique_by=lambda one: one.chunk_id))
    scores = [data.draw(st.sampled_from([1.0, 2.0, 3.0])) for _ in found]
    covered = data.draw(st.sampled_from([1.0, 0.5, 0.1]))
    run = {"q": {one.chunk_id: score for one, score in zip(found, scores, strict=True)}}
    own = PassageRun(
        "run",
        {
            "q": {
                Place("lib", "a.txt", one.start_byte, one.end_byte): score
                for one, score in zip(found, scores, strict=True)
            }
        },
    )
    as_chunks = evaluate(qrels, run, MEASURES)
    as_passages = evaluate(qrels, own, MEASURES, covered=covered)

    assert as_passages.per_query == as_chunks.per_query
    assert as_passages.without_value == as_chunks.without_value
    assert [one.failed for one in as_passages.unjudged] == [
        one.failed for one in as_chunks.unjudged
    ]


SPANS = st.tuples(st.integers(0, 59), st.integers(1, 60)).map(
    lambda at: (at[0], min(60, at[0] + at[1]))
)


@given(drawn=collections(), spans=st.lists(SPANS, max_size=8, unique=True))
def test_any_passages_are_between_nothing_and_all(
    drawn: tuple[list[Chunk], NuggetQrels], spans: list[tuple[int, int]]
) -> None:
    whole = evaluate(drawn[1], passages(*spans), NORMALISED)
    half = evaluate(drawn[1], passages(*spans), NORMALISED, covered=0.5)

    assert all(0 <= value <= 1 for value in whole.per_query["q"].values())
    for measure in ("Recall", "StRecall@3", "ByteRecall@3"):
        assert half.means[measure] >= whole.means[measure]
    assert whole.passages is not None


IDEAL = ("alpha_nDCG@3", "alpha_nDCG", "nDCG@3", "nDCG", "nERR_IA@5", "AP_IA", "Bpref")


@given(drawn=collections(), spans=st.lists(SPANS, max_size=8, unique=True))
def test_parts_of_chunks_are_no_better_than_the_best_chunks(
    drawn: tuple[list[Chunk], NuggetQrels], spans: list[tuple[int, int]]
) -> None:
    """However often they overlap; the greedy ideal is all but the best ranking."""
    within = [next(one for one in drawn[0] if start < one.end_byte) for start, _ in spans]
    parts = [
        (start, min(end, one.end_byte)) for (start, end), one in zip(spans, within, strict=True)
    ]
    found = evaluate(drawn[1], passages(*dict.fromkeys(parts)), IDEAL)

    assert max(found.means.values()) <= 1.05


TWO = judgments_of(
    tiles([0, 20, 40, 60]),
    {
        "n1": {0: (1, ((2, 6),)), 1: (1, ((30, 34), (36, 38)))},
        "n2": {0: (1, ((10, 14),)), 1: (0, ())},
    },
)
"""Nugget n1 is in the first chunk, and in the second by two quotes; n2 in the first only."""


@pytest.mark.parametrize(
    ("span", "covered", "supported"),
    [
        ((0, 6), 1, 1),
        ((0, 5), 1, 0),
        ((0, 5), 0.75, 1),
        ((2, 14), 1, 2),
        ((30, 34), 1, 0),  # one of two quotes
        ((30, 34), 0.6, 1),
        ((30, 38), 1, 1),
        ((50, 60), 1, 0),
    ],
)
def test_a_passage_supports_what_it_holds_the_evidence_of(
    span: tuple[int, int], covered: float, supported: int
) -> None:
    found = evaluate(TWO, passages(span), "Coverage@1", covered=covered)

    assert found.means["Coverage@1"] == supported / 2


def test_evidence_that_is_held_above_counts_once() -> None:
    once = evaluate(TWO, passages((0, 14), (41, 50)), ["alpha_nDCG", "Recall", "P@2"])
    twice = evaluate(TWO, passages((0, 14), (1, 15)), ["alpha_nDCG", "Recall", "P@2"])
    another = evaluate(TWO, passages((0, 14), (30, 40)), ["alpha_nDCG", "Recall"])

    assert once.means == twice.means == {**once.means, "Recall": 1 / 2, "P@2": 1 / 2}
    assert another.means == {"alpha_nDCG": 1.0, "Recall": 1.0}


def test_one_ideal_for_all_cuts() -> None:
    """The whole file at one rank is more than the best that the collection's chunks can do there."""
    apart = judgments_of(
        tiles([0, 20, 40]), {"n1": {0: (1, ((2, 6),))}, "n2": {1: (1, ((30, 34),))}}
    )
    names = ["alpha_nDCG@1", "alpha_nDCG@2", "Recall@1", "alpha_nDCG@4tok"]
    whole = evaluate(apart, passages((0, 40)), names)
    half = evaluate(apart, passages((0, 20), (20, 40)), names)

    assert list(whole.means.values()) == [2.0, pytest.approx(2 / (1 + 1 / math.log2(3))), 1.0, 0.0]
    assert list(half.means.values()) == [1.0, 1.0, 1 / 2, 0.0]


def test_the_unjudged_share_is_of_bytes() -> None:
    found = evaluate(TWO, passages((30, 50), (0, 10)), ["P@1", "P@2"])

    assert [one.mean for one in found.unjudged] == [1 / 2, 1 / 4]


def test_a_result_without_a_place_keeps_its_rank() -> None:
    known = passages((0, 14), (30, 40))
    first = replace(known, unplaced={"q": (5.0,)})
    found = evaluate(TWO, first, ["RR", "Recall@2", "Recall@20tok", "BytePrecision@2"])
    alone = evaluate(TWO, known, ["BytePrecision@1", "Recall@20tok"])

    assert (found.means["RR"], found.means["Recall@2"]) == (1 / 2, 1 / 2)
    assert found.means["Recall@20tok"] == alone.means["Recall@20tok"]
    assert found.means["BytePrecision@2"] == alone.means["BytePrecision@1"]
    assert (found.unjudged[0].mean, found.most_results) == (1 / 2, 3)
