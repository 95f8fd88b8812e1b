"""The lengths of chunks, which few measures need."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from freshstack_dspy.cli.app import app
from freshstack_dspy.collection.collection import CORPUS_FILE, Collection
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import Run, write_run
from freshstack_dspy.records import ScoredChunk
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, B, D, chunk, write_small

RUN = Run(
    "r",
    {
        "12": (ScoredChunk(D, 3.0), ScoredChunk(B, 2.0), ScoredChunk(A, 1.0)),
        "123": (ScoredChunk(A, 1.0),),
    },
)


def written(path: Path, *lengths: int) -> Collection:
    """Write the small collection, its chunks (a, b, d) of these lengths."""
    chunks = [
        each.model_copy(update={"tokens": tokens})
        for each, tokens in zip(CHUNKS, lengths, strict=True)
    ]
    return write_collection(path, CONTENTS, chunks, PROVENANCE, rejected={})


def write_other_lengths(folder: Path) -> None:
    """Change a length behind the manifest's back."""
    table = pq.read_table(folder / CORPUS_FILE)
    place = table.column_names.index("tokens")
    lengths = pa.array([9] * table.num_rows)
    new = table.set_column(place, table.schema.field(place), lengths)
    pq.write_table(new, folder / CORPUS_FILE)


def test_density_is_measured_on_a_collection_as_it_stands_on_disk(tmp_path: Path) -> None:
    """Of query 12 the required chunk is B, of 123 it is A."""
    written(tmp_path / "c", 30, 10, 40)
    qrels = Collection.load(tmp_path / "c").qrels()
    values = evaluate(qrels, RUN, ["Density(w=1)@2", "Density(w=1)@3"]).per_query

    assert list(values["12"].values()) == pytest.approx([10 / 50, 10 / 80])
    assert list(values["123"].values()) == [1, 1]


def test_the_lengths_are_those_of_the_chunks(tmp_path: Path) -> None:
    collection = written(tmp_path / "c", 30, 10, 40)
    tokens = collection.qrels().tokens

    assert dict(tokens) == {each.chunk_id: each.tokens for each in collection.chunks()}
    assert dict(Collection.load(tmp_path / "c").qrels().tokens) == dict(tokens)
    assert (tokens[A], tokens.get("x"), len(tokens), list(tokens)) == (30, None, 3, [D, A, B])
    assert collection.qrels() == Collection.load(tmp_path / "c").qrels()


def test_they_are_read_only_if_a_measure_needs_them(tmp_path: Path) -> None:
    write_small(tmp_path / "c")
    write_other_lengths(tmp_path / "c")
    qrels = Collection.load(tmp_path / "c").qrels()

    assert repr(qrels.tokens) == "ChunkLengths(...)"
    assert evaluate(qrels, RUN, ["Coverage@2"]).means == {"Coverage@2": 1}
    with pytest.raises(CollectionError, match="not those that the manifest was written for"):
        evaluate(qrels, RUN, ["Density@2"])


def test_a_chunk_without_a_text_has_no_length_rather_than_one_of_0(tmp_path: Path) -> None:
    chunks = (chunk(A, "alpha"), chunk(B, ""), chunk(D, "def d:", start=3))
    written_ = write_collection(tmp_path / "c", CONTENTS, chunks, PROVENANCE, rejected={})

    for collection in (written_, Collection.load(tmp_path / "c")):
        qrels = collection.qrels()
        assert dict(qrels.tokens) == {A: 1, D: 1}
        with pytest.raises(CollectionError, match=r"docs/b c.md_0_6' is not known.*has its text"):
            evaluate(qrels, RUN, ["Density@3"])


def test_the_command_takes_density_as_any_measure(tmp_path: Path) -> None:
    written(tmp_path / "c", 30, 10, 40)
    write_run(RUN, tmp_path / "a.run")
    asked = ["-m", "Density(w=0.5)@3", "-m", "Den(w=1)@3", "--format", "csv"]
    result = CliRunner().invoke(
        app, ["evaluate", str(tmp_path / "c"), str(tmp_path / "a.run"), *asked]
    )

    assert result.exit_code == 0, result.output
    assert "Density@3" in result.output
    assert "Density(w=1.0)@3" in result.output
