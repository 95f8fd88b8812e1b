"""A collection cut anew: the same files, and the labels where their evidence is."""

from pathlib import Path

import pytest

from freshstack_dspy import Chunk, Collection, Judgment, Nugget, rechunk
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.corpus.chunks import chunk_file, text_of
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.formats.validate import validate
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.spans import Hit
from freshstack_dspy.records import Relevance, SourceFile, Technique, TechniqueRank
from freshstack_dspy.stored.contents import Contents, slice_queries
from freshstack_dspy.stored.passages import Files
from tests.collection import small
from tests.collection.small import PROVENANCE, candidate, query, write_small

PARTS = [
    f"## Größe {n}\n\nThe size of part {n} is {n * 7} mm, as people say.\n\n" for n in range(9)
]
QUOTES = [f"size of part {n} is {n * 7} mm" for n in range(9)]
TEXT = "".join(PARTS)
FILES = [
    SourceFile("lib", "a.md", TEXT.encode()),
    SourceFile("lib", "b.md", ("\ufeff" + TEXT).encode()),
    SourceFile("lib", "c.md", ("\ufeff" + TEXT).encode("utf-16-be"), encoding="utf-16-be"),
    SourceFile("lib", "d.txt", TEXT.encode("cp1252"), encoding="cp1252"),
    SourceFile("lib", "whole.md", ("\ufeff" + PARTS[0]).encode()),
]
OWN = 48
_TECHNIQUES: tuple[Technique, ...] = ("question", "sub_questions")


def judgment(chunk: Chunk, number: int) -> Judgment:
    start = chunk.text.find(QUOTES[number])
    failed = chunk.path == "d.txt" and number == 3 and start < 0
    span = chunk.byte_at(start), chunk.byte_at(start + len(QUOTES[number]))
    label = None if failed else int(start >= 0)
    made = small.judgment(f"12_{number}", chunk.chunk_id, label)
    return made.model_copy(update={"evidence": (span,) if start >= 0 else ()})


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    chunks = [chunk for file in FILES for chunk in chunk_file(file, OWN)]
    pooled = [chunk for chunk in chunks if chunk.path != "a.md" or chunk.start_byte == 0]
    nuggets = tuple(
        Nugget(nugget_id=f"12_{n}", query_id="12", text=QUOTES[n], call_id="k") for n in range(9)
    )
    judgments = tuple(judgment(chunk, n) for chunk in pooled for n in range(9))
    contents = Contents(
        queries=(query("12"),),
        nuggets=nuggets,
        pool=tuple(
            candidate("12", chunk.chunk_id).model_copy(
                update={
                    "relevance": Relevance(grade=number % 4, reason="because", call_id="k"),
                    "pooled_by": (
                        TechniqueRank(technique=_TECHNIQUES[number % 2], rank=number + 1),
                    ),
                }
            )
            for number, chunk in enumerate(pooled)
        ),
        judgments=judgments,
        slices=tuple(slice_queries([query("12")], nuggets, judgments)),
    )
    folder = tmp_path_factory.mktemp("rechunk") / "small"
    return write_collection(folder, contents, chunks, PROVENANCE)


def test_at_its_own_size_it_is_the_same(collection: Collection, tmp_path: Path) -> None:
    found = rechunk(collection, OWN, tmp_path / "same")

    assert found.collection.manifest.content_hash == collection.manifest.content_hash
    assert found.collection.manifest.name == "small-48"
    assert found.lost == 0


def test_stable_boundaries_stay_stable(collection: Collection, tmp_path: Path) -> None:
    chunks = [chunk for file in FILES for chunk in chunk_file(file, OWN, boundaries="stable")]
    config = {"chunking": {"max_tokens": OWN, "boundaries": "stable"}}
    provenance = PROVENANCE.model_copy(update={"config": config})
    contents = Contents(
        queries=collection.queries, slices=tuple(slice_queries([query("12")], (), ()))
    )
    write_collection(tmp_path / "stable", contents, chunks, provenance)

    found = rechunk(tmp_path / "stable", OWN, tmp_path / "same").collection

    assert list(found.chunks()) == sorted(chunks, key=lambda chunk: (chunk.path, chunk.start_byte))
    assert chunks != [chunk for file in FILES for chunk in chunk_file(file, OWN)]
    assert found.manifest.config["chunking"] == config["chunking"]


@pytest.mark.parametrize("max_tokens", [16, 30, 90, 1000])
def test_labels_are_where_their_evidence_is(
    collection: Collection, tmp_path: Path, max_tokens: int
) -> None:
    found = rechunk(collection, max_tokens, tmp_path / "new")
    after = found.collection
    data = {file.path: file.data for file in FILES}

    assert validate(tmp_path / "new").faults == ()
    for chunk in after.chunks():
        assert chunk.tokens <= max_tokens
        assert text_of(data[chunk.path], chunk) == chunk.text
    supports = [one for one in after.judgments if one.label]
    for one in supports:
        number = int(one.nugget_id.removeprefix("12_"))
        assert QUOTES[number] in after.chunk(one.chunk_id).text
        ((start, end),) = one.evidence
        chunk = after.chunk(one.chunk_id)
        assert (
            data[chunk.path][start:end].decode(FILES["abcdw".index(chunk.path[0])].encoding)
            == QUOTES[number]
        )
    for pooled in after.pool:
        new = after.chunk(pooled.chunk_id)
        grades = [
            other.relevance.grade
            for other in collection.pool
            if other.relevance is not None
            and (old := collection.chunk(other.chunk_id)).path == new.path
            and old.start_byte < new.end_byte
            and new.start_byte < old.end_byte
        ]
        assert pooled.relevance is not None
        assert pooled.relevance.grade == max(grades)
    before = sum(bool(one.label) for one in collection.judgments)
    assert len(supports) + found.lost == before
    assert {(one.query_id, one.chunk_id) for one in after.pool} == {
        (one.query_id, one.chunk_id) for one in after.judgments
    }


@pytest.mark.parametrize("max_tokens", [30, 90])
def test_a_run_over_its_chunks_is_a_run_of_passages_on_the_original(
    collection: Collection, tmp_path: Path, max_tokens: int
) -> None:
    after = rechunk(collection, max_tokens, tmp_path / "new").collection
    chunks = [chunk for chunk in after.chunks() if chunk.path == "b.md"][:4]
    run = {"12": {chunk.chunk_id: -float(rank) for rank, chunk in enumerate(chunks)}}
    hits = [
        Hit(-float(rank), path=one.path, start=one.start_byte, end=one.end_byte, unit="bytes")
        for rank, one in enumerate(chunks)
    ]
    passages = Files(collection.chunks()).place_all({"12": hits}, "mine")
    names = ["Coverage@2", "StRecall", "RR", "P@3", "ByteRecall@3", "BytePrecision@3"]

    assert evaluate(after, run, names).means == evaluate(collection, passages, names).means


def test_only_a_whole_file_is_cut_anew(tmp_path: Path, collection: Collection) -> None:
    write_small(tmp_path / "parts")

    with pytest.raises(CollectionError, match="do not make up a file"):
        rechunk(tmp_path / "parts", 100, tmp_path / "new")
    with pytest.raises(ConfigError, match="16 or more"):
        rechunk(collection, 4, tmp_path / "new")
    with pytest.raises(ConfigError, match="exists"):
        rechunk(collection, 100, tmp_path / "parts")


def test_a_chunk_over_several_candidates_has_all_that_found_them(
    collection: Collection, tmp_path: Path
) -> None:
    after = rechunk(collection, 1000, tmp_path / "new").collection
    before: dict[str, list[TechniqueRank]] = {}
    for candidate_before in collection.pool:
        path = collection.chunk(candidate_before.chunk_id).path
        before.setdefault(path, []).extend(candidate_before.pooled_by)

    for candidate_after in after.pool:
        ranks = before[after.chunk(candidate_after.chunk_id).path]
        best = {by.technique: by.rank for by in sorted(ranks, key=lambda by: -by.rank)}
        assert {by.technique: by.rank for by in candidate_after.pooled_by} == best
