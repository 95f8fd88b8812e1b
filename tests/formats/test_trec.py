import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import ir_measures
import pytest

from freshstack_dspy import (
    Collection,
    Run,
    export_collection,
    import_collection,
    read_qrels,
    write_run,
)
from freshstack_dspy.formats.selection import word
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.records import ScoredChunk
from tests.collection.small import A, B, write_small
from tests.formats.loading import lines_of
from tests.formats.odd import write_odd

CUTOFFS = (1, 5, 10, 20)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, Path]:
    place = tmp_path_factory.mktemp("trec")
    collection = write_odd(place / "c")
    export_collection(collection, "trec", place / "out")
    return collection, place / "out"


def runs(collection: Collection) -> Iterator[Run]:
    """Rankings with many ties, over the chunks that were judged and those that were not."""
    chunks = sorted(collection.corpus.ids)
    for seed in range(5):
        rng = random.Random(f"trec {seed}")
        yield Run(
            f"run{seed}",
            {
                query.query_id: tuple(
                    ScoredChunk(chunk, rng.choice((0.5, 1.0, 2.0)))
                    for chunk in rng.sample(chunks, k=12)
                )
                for query in collection.queries
            },
        )


def in_words(run: Run) -> Run:
    return Run(
        run.name,
        {
            word(query): tuple(ScoredChunk(word(chunk), score) for chunk, score in ranking)
            for query, ranking in run.rankings.items()
        },
    )


def test_the_files_by_hand(tmp_path: Path) -> None:
    export_collection(write_small(tmp_path / "c"), "trec", tmp_path / "out")
    odd = B.replace(" ", "!20")

    def text(name: str) -> str:
        return (tmp_path / "out" / name).read_text(encoding="utf-8")

    assert text("topics.tsv") == "12\tHow? It fails.\n123\tHow? ``` x = 1 ```\n"
    assert text("qrels.txt") == f"12 0 {A} 1\n12 0 {odd} 2\n123 0 {A} 1\n123 0 {odd} 0\n"
    assert text("diversity_qrels.txt") == (
        f"12 1 {A} 1\n12 1 {odd} 1\n12 2 {A} 0\n12 2 {odd} 1\n123 1 {A} 1\n123 1 {odd} 0\n"
    )
    assert json.loads(text("ids.json")) == {"chunks": {odd: B}}
    assert [
        (line["id"], line["subtopic"], line["nugget_id"])
        for line in lines_of(tmp_path / "out/nuggets.jsonl")
    ] == [("12", 1, "12_0"), ("12", 2, "12_1"), ("123", 1, "123_0")]


def test_the_exported_files_give_our_values(
    exported: tuple[Collection, Path], tmp_path: Path
) -> None:
    """Alpha-nDCG by ir_measures, which asks pyndeval; with ties, and ids that had to change."""
    collection, out = exported
    qrels = list(ir_measures.read_trec_qrels(str(out / "diversity_qrels.txt")))
    measures = [ir_measures.alpha_nDCG @ k for k in CUTOFFS]
    for run in runs(collection):
        write_run(in_words(run), tmp_path / "run.txt")
        read = list(ir_measures.read_trec_run(str(tmp_path / "run.txt")))
        own = {word(query_id): query_id for query_id in collection.qrels().nuggets}
        theirs = {
            (own[each.query_id], each.measure.params["cutoff"]): each.value
            for each in ir_measures.iter_calc(measures, qrels, read)
        }
        ours = evaluate(collection.qrels(), run, [f"alpha_nDCG@{k}" for k in CUTOFFS]).per_query

        assert theirs == pytest.approx(
            {(query, k): ours[query][f"alpha_nDCG@{k}"] for query in ours for k in CUTOFFS},
            abs=1e-9,
        )

        names = ("AP", "P@1", "RR", "Recall@5", "nDCG", "Bpref", "Judged@5")
        graded = evaluate(read_qrels(out / "qrels.txt"), in_words(run), names).per_query
        counted = evaluate(collection.qrels(), run, names).per_query
        for query, values in graded.items():
            assert values == counted[own[query]]


def test_a_label_below_0_is_a_judgment_without_a_label(
    exported: tuple[Collection, Path], tmp_path: Path
) -> None:
    theirs = shutil.copytree(exported[1], tmp_path / "theirs")
    for ours in ("judgments.jsonl", "export.json", "ids.json"):
        (theirs / ours).unlink(missing_ok=True)
    qrels = theirs / "diversity_qrels.txt"
    first, *others = qrels.read_text().splitlines()
    *words, _ = first.split(" ")
    qrels.write_text("\n".join([" ".join([*words, "-1"]), *others]) + "\n")

    judgments = import_collection("trec", theirs, tmp_path / "c").judgments

    (failed,) = (one for one in judgments if one.status != "ok")
    assert (failed.label, failed.status, failed.reason) == (None, "failed", "label -1")
