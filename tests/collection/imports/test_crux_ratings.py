"""Ratings of CRUX in shards, and CRUX from its files to its measures."""

import json
from pathlib import Path

import pytest

from freshstack_dspy.collection.imports import import_collection
from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.contexts import evaluate_context
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import ScoredChunk

from .foreign import json_lines


def shard(folder: Path, name: str, *rated: tuple[str, str, list[int]]) -> None:
    rows = [{"id": topic, "docid": passage, "rating": rating} for topic, passage, rating in rated]
    json_lines(folder / f"ratings.{name}.jsonl", rows)


def topics(folder: Path) -> Path:
    rows = [
        {"example_id": f"t{n}", "topic": "Report.", "questions": ["Who?", "When?"]} for n in "012"
    ]
    json_lines(folder / "test_topics.jsonl", rows)
    return folder


def test_all_shards_of_one_model_are_read(tmp_path: Path) -> None:
    """CRUX leaves a shard without topics unwritten, at the end."""
    folder = topics(tmp_path / "x")
    shard(folder, "Llama-3.1.0-4", ("t0", "p", [5, 0]))
    shard(folder, "Llama-3.1.1-4", ("t1", "p", [0, 4]))
    shard(folder, "Llama-3.1.2-4", ("t2", "p", [3, 3]), ("t2", "r", [0, -1]))

    collection = import_collection("crux", folder, tmp_path / "c")

    labels = {(one.nugget_id, one.chunk_id): one.label for one in collection.judgments}
    assert len(labels) == 8
    assert (labels["t0_1", "p"], labels["t1_2", "p"], labels["t2_2", "r"]) == (5, 4, None)
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert sorted(manifest["config"]["import"]["files"]) == [
        "ratings.Llama-3.1.0-4.jsonl",
        "ratings.Llama-3.1.1-4.jsonl",
        "ratings.Llama-3.1.2-4.jsonl",
        "test_topics.jsonl",
    ]


def test_a_shard_that_is_missing_before_another_is_named(tmp_path: Path) -> None:
    folder = topics(tmp_path / "x")
    shard(folder, "m.0-12", ("t0", "p", [5, 0]))
    shard(folder, "m.10-12", ("t1", "p", [0, 4]))

    with pytest.raises(SourceError, match=r"ratings of shard 1 are missing.*shard 10 are there"):
        import_collection("crux", folder, tmp_path / "c")


@pytest.mark.parametrize("other", ["n.1-2", "m.1-3", "m", "m.00-2"])
def test_ratings_of_different_kinds_are_not_mixed(tmp_path: Path, other: str) -> None:
    folder = topics(tmp_path / "x")
    shard(folder, "m.0-2", ("t0", "p", [5, 0]))
    shard(folder, "m.1-2", ("t1", "p", [0, 4]))
    shard(folder, other, ("t2", "p", [0, 4]))

    with pytest.raises(SourceError, match="has several files of ratings"):
        import_collection("crux", folder, tmp_path / "c")


def test_a_passage_that_two_shards_rate_is_refused(tmp_path: Path) -> None:
    folder = topics(tmp_path / "x")
    shard(folder, "m.0-2", ("t0", "p", [5, 0]))
    shard(folder, "m.1-2", ("t0", "p", [5, 0]))

    with pytest.raises(SourceError, match=r"1-2\.jsonl:1.*rated at .*0-2\.jsonl:1 already"):
        import_collection("crux", folder, tmp_path / "c")


def test_a_shard_that_is_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = topics(tmp_path / "x")
    shard(folder, "m.0-2", ("t0", "p", [5, 0]))
    shard(tmp_path / "away", "m.1-2", ("t1", "p", [0, 4]))
    (folder / "ratings.m.1-2.jsonl").symlink_to(tmp_path / "away" / "ratings.m.1-2.jsonl")

    with pytest.raises(SourceError, match="a link that leads out of"):
        import_collection("crux", folder, tmp_path / "c")


def test_from_the_files_of_crux_to_its_measures(tmp_path: Path) -> None:
    """Three passages of one topic, a rating that failed, lengths of 6, 3 and 2 tokens."""
    folder = tmp_path / "x"
    json_lines(
        folder / "test_topics.jsonl",
        [{"example_id": "t", "topic": "Report.", "questions": ["Who?", "When?", "Why?"]}],
    )
    rated = {"t:0#0": [5, 3, 0], "t:0#1": [4, 0, 0], "t:1#2": [0, -1, 2]}
    rows = [{"example_id": "t", "pid": name, "rating": row} for name, row in rated.items()]
    json_lines(folder / "test_judgements.jsonl", rows)
    texts = {"t:0#0": "one two three one two three", "t:0#1": "one two three", "t:1#2": "one two"}
    passages = [{"id": name, "contents": text} for name, text in texts.items()]
    json_lines(folder / "passages.jsonl", passages)

    qrels = import_collection("crux", folder, tmp_path / "c").qrels()
    run = Run(
        "r", {"t": tuple(ScoredChunk(name, -rank) for rank, name in enumerate(sorted(texts)[1:]))}
    )
    names = ["Cov@2", "Coverage@2", "Density(w=1)@2", "Density(w=1)@1"]
    values = list(evaluate(qrels, run, names).per_query["t"].values())
    context = evaluate_context(qrels, "t", ["t:0#1", "t:1#2"])

    assert values == pytest.approx([1 / 2, 1 / 2, (1 / 5) / (2 / 6), (1 / 3) / (2 / 6)])
    assert (context.required, context.redundant, context.failed) == (0, 1, 1)
    assert (context.covered, context.uncovered) == (("t_1",), ("t_2",))
