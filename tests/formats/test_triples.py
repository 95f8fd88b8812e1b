"""Training data: what is a negative, what is held out, and who reads the files."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy import Collection, Run, evaluate, export_collection, triples, write_run
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.formats.triples import split_questions
from freshstack_dspy.stored.near_duplicates import alike_questions
from tests.collection.small import A, B, files_of, write_small
from tests.formats.loading import lines_of, loaded, needs

# Each prints what it read of the folder of an export.
SENTENCE_TRANSFORMERS = """
import json, sys
from datasets import load_dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments
from sentence_transformers.cross_encoder.data_collator import CrossEncoderDataCollator
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

def read(kind):
    file = f"{sys.argv[1]}/{kind}/train.jsonl"
    return load_dataset("json", data_files=file, split="train")

words = Tokenizer(WordLevel({"[UNK]": 0, "the": 1}, unk_token="[UNK]"))
model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=8)], device="cpu")
trainer = SentenceTransformerTrainer(
    model=model,
    args=SentenceTransformerTrainingArguments(
        sys.argv[2], max_steps=1, use_cpu=True, report_to="none", save_strategy="no",
        batch_sampler="no_duplicates",
    ),
    train_dataset=read("triples"),
    loss=MultipleNegativesRankingLoss(model),
)
steps = trainer.train().global_step
pairs = CrossEncoderDataCollator(preprocess_fn=None)(list(read("pairs").select(range(3))))
print()
print(json.dumps({
    "triples": list(read("triples")), "steps": steps,
    "pairs": {name: getattr(of, "tolist", lambda: of)() for name, of in pairs.items()},
}))
"""
FLAG_EMBEDDING = """
import json, sys
from types import SimpleNamespace
from FlagEmbedding.abc.finetune.embedder import AbsEmbedderTrainDataset

rows = AbsEmbedderTrainDataset(SimpleNamespace(
    train_data=[f"{sys.argv[1]}/questions/train.jsonl"], cache_path=sys.argv[2], shuffle_ratio=0,
    max_example_num_per_dataset=100_000_000, knowledge_distillation=True, train_group_size=4,
    query_instruction_for_retrieval=None, passage_instruction_for_retrieval=None,
), tokenizer=None)
print()
print(json.dumps([rows[place] for place in range(len(rows))]))
"""

WORDS = (
    "anvil bellows crucible dynamo easel furnace gasket hinge ingot jig kiln lathe mandrel nozzle "
    "oven piston quench rivet solder tongs umber vise welder yoke zinc"
).split()


def planted(number: int) -> dict[str, Any]:
    """Questions of three words each, in a document each, but for what is planted:

    q0, q1 ask nearly the same; q2, q3 have one chunk, q4, q5 one document, q6, q7 one text, for
    evidence. Every question has its evidence, and the chunks of the next two for negatives.
    """
    words = [f"{one} {other}" for one, other in combinations(WORDS, 2)][: 3 * number : 3]
    queries = [
        {"query_id": f"q{n}", "title": f"Why does the {words[n]} break after {n} days?"}
        for n in range(number)
    ]
    queries[1]["title"] = queries[0]["title"].replace("break", "breaks")
    chunks = [
        {
            "chunk_id": f"docs/{n}.md_0_9",
            "source": "docs",
            "path": f"{n}.md",
            "start_byte": 0,
            "end_byte": 9,
            "text": f"About {words[n]}, number {n}.",
            "tokens": 5,
        }
        for n in range(number)
    ]
    chunks[5] |= {"path": "4.md"}
    chunks[7] |= {"text": chunks[6]["text"]}
    evidence = {n: 2 if n == 3 else n for n in range(number)}
    judgments = [
        {
            "nugget_id": f"q{n}_0",
            "query_id": f"q{n}",
            "label": int(other == evidence[n]),
            "chunk_id": chunks[other % number]["chunk_id"],
        }
        for n in range(number)
        for other in {evidence[n], n + 1, n + 2}
    ]
    nuggets = [
        {"nugget_id": f"q{n}_0", "query_id": f"q{n}", "text": f"It is {words[n]}."}
        for n in range(number)
    ]
    return {"queries": queries, "nuggets": nuggets, "judgments": judgments, "chunks": chunks}


def sides_of(folder: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in lines_of(folder / "splits.jsonl"):
        found.setdefault(row["side"], set()).add(row["query_id"])
    return found


def test_nothing_that_is_planted_crosses(tmp_path: Path) -> None:
    collection = Collection.of(**planted(40))
    export_collection(collection, "triples", tmp_path / "out")
    sides = sides_of(tmp_path / "out")
    by_id = {chunk.chunk_id: chunk for chunk in collection.chunks()}

    assert sum(map(len, sides.values())) == 40
    assert {len(sides["test"]), len(sides["dev"])} == {8, 3}
    for one, other in (("q0", "q1"), ("q2", "q3"), ("q4", "q5"), ("q6", "q7")):
        assert any({one, other} <= ids for ids in sides.values())
    evidence: dict[str, set[str]] = {side: set() for side in sides}
    for judgment in collection.judgments:
        if judgment.label:
            side = next(side for side, ids in sides.items() if judgment.query_id in ids)
            chunk = by_id[judgment.chunk_id]
            evidence[side] |= {chunk.path, chunk.text}
    trained: dict[str, set[str]] = {}
    for side in ("train", "dev"):
        for row in lines_of(tmp_path / f"out/questions/{side}.jsonl"):
            for passage in row["positive_passages"] + row["negative_passages"]:
                trained.setdefault(side, set()).add(passage["text"])
                trained[side].add(by_id[passage["docid"]].path)
    assert trained["train"].isdisjoint(evidence["test"] | evidence["dev"])
    assert trained["dev"].isdisjoint(evidence["test"])


@given(
    evidence=st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=3), min_size=2, max_size=25),
    share=st.sampled_from([0.1, 0.2, 0.5, 0.9]),
)
@settings(max_examples=20)
def test_sides_share_no_document_however_much_is_shared(
    evidence: list[set[int]], share: float
) -> None:
    data = planted(40)
    held = [
        {**one, "chunk_id": f"docs/{chunk}.md_0_9", "label": 1}
        for one, chunks in zip(data["nuggets"], evidence, strict=False)
        for chunk in chunks
    ]
    collection = Collection.of(
        **{
            **data,
            "judgments": [
                {name: one[name] for name in ("nugget_id", "chunk_id", "label")} for one in held
            ],
        }
    )
    own = collection.query_ids()
    split = split_questions(collection, own, (), share)
    paths = {
        f"q{n}": {4 if chunk == 5 else chunk for chunk in chunks}
        for n, chunks in enumerate(evidence)
    }
    alike = alike_questions({one.query_id: one for one in collection.queries}, 0.7)
    sides = [set(split.train), set(split.dev), set(split.test)]

    assert sorted([*split.train, *split.dev, *split.test, *split.left_out]) == sorted(own)
    assert len(split.test) >= min(1, len(own))
    for one, other in combinations(sides, 2):
        assert not any(paths[a] & paths[b] for a in one for b in other)
        assert not any({a, b} & one and {a, b} & other for a, b in alike)


def judged() -> Collection:
    """Query 12 of the small collection, with a chunk of each kind.

    A and B support a nugget, `zero` none; for `failed` a judgment failed, `half` was judged for one
    nugget of the two, `never` for none; `copy` says what A says.
    """
    nuggets = [{"nugget_id": f"12_{n}", "query_id": "12", "text": f"fact {n}"} for n in range(2)]
    labels = {
        "A": (2, 1),
        "B": (1, 0),
        "zero": (0, 0),
        "copy": (0, 0),
        "failed": (0, None),
        "half": (0,),
    }
    texts = {**{id_: f"text {id_}" for id_ in (*labels, "never")}, "copy": "text  A "}
    return Collection.of(
        queries=[{"query_id": "12", "title": "How?", "body": "It fails."}],
        nuggets=nuggets,
        judgments=[
            {"nugget_id": f"12_{n}", "chunk_id": id_, "label": label}
            for id_, given in labels.items()
            for n, label in enumerate(given)
        ],
        chunks=[
            {"id": id_, "title": "T" if id_ == "A" else "", "text": text}
            for id_, text in texts.items()
        ],
    )


RUN = Run.from_scores({"12": {"never": 3.0, "zero": 2.0, "A": 1.0}}, name="mine")


def test_a_negative_was_judged_for_every_nugget_and_supports_none(tmp_path: Path) -> None:
    done = export_collection(judged(), triples(test=0), tmp_path / "out")
    (row,) = lines_of(tmp_path / "out/questions/train.jsonl")
    about = {"judged": True, "hardness": "unranked", "found_by": "", "rank": 0}

    assert row == {
        "query_id": "12",
        "query": "How? It fails.",
        "pos": ["T\ntext A", "text B"],
        "neg": ["text zero"],
        "pos_scores": [1.0, 0.5],
        "neg_scores": [0.0],
        "positive_passages": [
            {"docid": "A", "title": "T", "text": "text A", "grade": 2, "score": 1.0, **about},
            {"docid": "B", "title": "", "text": "text B", "grade": 1, "score": 0.5, **about},
        ],
        "negative_passages": [
            {"docid": "zero", "title": "", "text": "text zero", "grade": 0, "score": 0.0, **about},
        ],
    }
    assert lines_of(tmp_path / "out/triples/train.jsonl") == [
        {"anchor": row["query"], "positive": positive, "negative": "text zero"}
        for positive in row["pos"]
    ]
    assert [one["label"] for one in lines_of(tmp_path / "out/pairs/train.jsonl")] == [1, 0.5, 0]
    assert done.notes == ("train: 1 question, 2 positives, 1 judged negative (0 hard)",)
    assert not (tmp_path / "out/test").exists()


def test_what_nobody_judged_is_taken_only_from_a_run_and_marked(tmp_path: Path) -> None:
    run = Run.from_scores({"12": {"never": 4, "half": 3, "failed": 2, "zero": 1}}, name="mine")
    done = export_collection(judged(), triples(test=0, unjudged=run), tmp_path / "out")
    (row,) = lines_of(tmp_path / "out/questions/train.jsonl")
    told = ("docid", "judged", "hardness", "found_by", "rank")

    assert [tuple(one[name] for name in told) for one in row["negative_passages"]] == [
        ("zero", True, "hard", "mine", 4),
        ("never", False, "hard", "mine", 1),
    ]
    assert "text never" not in {
        one["passage"] for one in lines_of(tmp_path / "out/pairs/train.jsonl")
    }
    assert "1 unjudged negative" in done.notes[0]


def test_ranks_are_those_of_the_pool(tmp_path: Path) -> None:
    """Of the small collection A was first for every question, and D was never judged whole."""
    done = export_collection(write_small(tmp_path / "c"), triples(test=0), tmp_path / "out")
    (row,) = lines_of(tmp_path / "out/questions/train.jsonl")

    assert row["query_id"] == "123"
    assert [(one["docid"], one["hardness"]) for one in row["positive_passages"]] == [(A, "hard")]
    assert [(one["docid"], one["hardness"]) for one in row["negative_passages"]] == [
        (B, "unranked")
    ]
    assert done.notes[0].endswith("(0 hard); 1 question without a negative only in pairs")


def test_what_is_measured_is_not_trained_on(tmp_path: Path) -> None:
    """By a run, by another collection that asks nearly the same, and by a leaderboard of it."""
    collection = Collection.of(**planted(40))
    write_run(Run.from_scores({f"q{n}": {"x": 1} for n in (0, 10, 11)}, name="r"), tmp_path / "r")
    theirs = planted(40)["queries"][12]["title"].replace("after", "past")
    other = Collection.of(
        queries=[{"query_id": "1", "title": theirs}],
        nuggets=[{"nugget_id": "n", "query_id": "1", "text": "It is so."}],
        judgments=[{"nugget_id": "n", "chunk_id": "there", "label": 1}],
        chunks=[{"id": "there", "text": planted(40)["chunks"][20]["text"]}],
    )
    other.save(tmp_path / "other")
    (tmp_path / "board").mkdir()
    (tmp_path / "board/leaderboard.toml").write_text(
        'name = "b"\n[collections.x]\npath = "../other"\n', encoding="utf-8"
    )
    measured = [tmp_path / "r", tmp_path / "board"]
    export_collection(collection, triples(measured=measured), tmp_path / "out")
    sides = sides_of(tmp_path / "out")
    shared = {
        row["query_id"]: row["with"]
        for row in lines_of(tmp_path / "out/splits.jsonl")
        if "with" in row
    }

    assert sides["test"] == {"q0", "q10", "q11"}
    assert shared == {"q1": "q0", "q12": "1 of collection#1", "q20": "1 of collection#1"}
    assert sides["left out"] == shared.keys()
    trained = lines_of(tmp_path / "out/questions/train.jsonl")
    assert f"docs/{20}.md_0_9" not in {
        one["docid"] for row in trained for one in row["negative_passages"]
    }
    everything = Run.from_scores({query.query_id: {"x": 1} for query in collection.queries})
    for all_measured in (everything, collection):
        with pytest.raises(CollectionError, match="nothing to train on"):
            export_collection(collection, triples(measured=all_measured), tmp_path / "no")
    with pytest.raises(CollectionError, match="no question of this collection"):
        export_collection(
            collection, triples(measured=[Run.from_scores({"q": {"x": 1}})]), tmp_path / "no"
        )
    assert not (tmp_path / "no").exists()


def test_a_run_has_its_values_on_what_is_held_out(tmp_path: Path) -> None:
    collection = Collection.of(**planted(40))
    export_collection(collection, "triples", tmp_path / "out")
    export_collection(collection, "triples", tmp_path / "again")
    held = [row["_id"] for row in lines_of(tmp_path / "out/test/queries.jsonl")]
    run = Run.from_scores({f"q{n}": {f"docs/{n + n % 2}.md_0_9": 1.0} for n in range(39)})
    whole = evaluate(collection, run, ["alpha_nDCG@10"]).values("alpha_nDCG@10")
    values = evaluate(tmp_path / "out/test/qrels.txt", run, ["alpha_nDCG@10"])

    assert values.values("alpha_nDCG@10") == {query_id: whole[query_id] for query_id in held}
    assert set(held) == sides_of(tmp_path / "out")["test"]
    assert files_of(tmp_path / "out") == files_of(tmp_path / "again")


def test_a_share_is_one_and_passages_have_texts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a share of the questions"):
        triples(test=1.5)
    data = {name: of for name, of in planted(40).items() if name != "chunks"}
    with pytest.raises(CollectionError, match="no passage has a text"):
        export_collection(Collection.of(**data), "triples", tmp_path / "out")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export with a negative that nobody judged, and questions with several positives."""
    run = Run.from_scores({f"q{n}": {f"docs/{(n + 3) % 40}.md_0_9": 1.0} for n in range(40)})
    export_collection(Collection.of(**planted(40)), triples(unjudged=run), tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.formats
@pytest.mark.slow
@needs("sentence_transformers")
def test_sentence_transformers_trains_on_triples_and_reads_pairs(
    exported: Path, tmp_path: Path
) -> None:
    read = loaded(SENTENCE_TRANSFORMERS, tmp_path / "home", exported, tmp_path / "model")
    pairs = lines_of(exported / "pairs/train.jsonl")[:3]

    assert read["triples"] == lines_of(exported / "triples/train.jsonl")
    assert list(read["triples"][0]) == ["anchor", "positive", "negative"]
    assert read["steps"] == 1
    assert read["pairs"] == {name: [one[name] for one in pairs] for name in pairs[0]}


@pytest.mark.formats
@pytest.mark.slow
@needs("FlagEmbedding")
def test_flag_embedding_reads_questions_with_their_scores(exported: Path, tmp_path: Path) -> None:
    read = loaded(FLAG_EMBEDDING, tmp_path / "home", exported, tmp_path / "cache")
    rows = lines_of(exported / "questions/train.jsonl")

    for (query, passages, scores), row in zip(read, rows, strict=True):
        assert query == row["query"]
        assert passages[0] in row["pos"]
        assert set(passages[1:]) <= set(row["neg"])
        assert scores == [row["pos_scores"][0], 0.0, 0.0, 0.0]


def test_tevatron_finds_what_its_loader_takes_of_a_row(exported: Path) -> None:
    """It is on no package index; this is what `tevatron.retriever.dataset.TrainDataset` reads.

    Of a row: `query`, one of `positive_passages`, some of `negative_passages` (an error if there is
    none), of each `title` and `text`, joined by a space; its reranker's `docid` besides.
    """
    rows = lines_of(exported / "questions/train.jsonl")

    assert rows
    for row in rows:
        assert isinstance(row["query_id"], str)
        assert isinstance(row["query"], str)
        for name in ("positive_passages", "negative_passages"):
            assert row[name]
            for passage in row[name]:
                assert all(isinstance(passage[field], str) for field in ("docid", "title", "text"))
    assert len({tuple(map(type, _leaves(row))) for row in rows}) == 1, "a column has one type"


def _leaves(value: Any) -> Any:
    """The values of a row, of a list those of its first entry."""
    if isinstance(value, list):
        yield from _leaves(value[0])
    elif isinstance(value, dict):
        for name in sorted(value):
            yield from _leaves(value[name])
    else:
        yield value
