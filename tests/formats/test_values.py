"""One name, one value: a measure of a collection, and of its exports as others read them."""

import csv
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import ir_measures
import pyarrow.parquet as pq
import pytest

from freshstack_dspy import Chunk, Collection, export_collection, import_collection, read_qrels
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.measure import FAMILIES
from freshstack_dspy.records import Scale
from freshstack_dspy.stored.contents import slice_queries
from tests.collection.small import CONTENTS, PROVENANCE, judgment, query
from tests.collection.small import chunk as chunk_of

OF_COLLECTIONS = ("BytePrecision", "ByteRecall", "ByteIoU", "Density", "Required",
                  "PartlyRedundant", "Redundant")  # fmt: skip
OF_NUGGETS = ("alpha_nDCG", "Coverage", "StRecall", "alpha_DCG", "ERR_IA", "nERR_IA", "NRBP",
              "nNRBP", "P_IA", "AP_IA")  # fmt: skip
FORMATS: tuple[str, ...] = ("beir", "trec", "crux", "freshstack", "hf")
Scores = Mapping[str, Mapping[str, float]]


class Exported(NamedTuple):
    """A collection with graded and failed judgments, its exports, and a run of it."""

    collection: Collection
    folder: Path
    run: Scores

    def named(self, format_: str) -> Scores:
        """The run in the ids of an export, where a chunk of CRUX is a passage of each topic."""
        path = self.folder / format_ / "ids.json"
        changed = json.loads(path.read_bytes()) if path.exists() else {}
        names: dict[tuple[str, str], str] = {}
        for theirs, ours in changed.get("chunks", {}).items():
            topic = theirs.partition(":")[0] if format_ == "crux" else ""
            names[topic, ours] = theirs
        return {
            query_id: {
                names.get((query_id, chunk), names.get(("", chunk), chunk)): score
                for chunk, score in found.items()
            }
            for query_id, found in self.run.items()
        }


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    chance = random.Random("one name, one value")
    queries = tuple(query(f"{number}q") for number in range(20))
    chunks = [
        Chunk(
            **{**chunk_of(f"docs/{number:02}.md_0_5", "text").model_dump(), "path": f"{number:02}"}
        )
        for number in range(30)
    ]
    nuggets, judgments = [], []
    for one in queries:
        pool = chance.sample([chunk.chunk_id for chunk in chunks], 15)
        for number in range(chance.randint(1, 5)):
            nugget = CONTENTS.nuggets[0].model_copy(
                update={"nugget_id": f"{one.query_id}_{number}", "query_id": one.query_id}
            )
            nuggets.append(nugget)
            # Of every query, the second nugget is supported by nothing.
            given = (0, 0, 1, None) if number == 1 else (0, 0, 0, 0, 1, 2, 3, None)
            judgments += [judgment(nugget.nugget_id, chunk, chance.choice(given)) for chunk in pool]
    slices = tuple(slice_queries(queries, nuggets, judgments, 2))
    contents = type(CONTENTS)(
        queries=queries,
        nuggets=tuple(nuggets),
        judgments=tuple(judgments),
        slices=slices,
        threshold=2,
    )
    folder = tmp_path_factory.mktemp("values")
    provenance = PROVENANCE.model_copy(update={"scale": Scale(name="graded_3", threshold=2)})
    collection = write_collection(folder / "c", contents, chunks, provenance)
    for format_ in FORMATS:
        export_collection(collection, format_, folder / format_)
    run = {
        one.query_id: {
            chunk.chunk_id: chance.choice((0.5, 1.0, 2.0)) for chunk in chance.sample(chunks, 20)
        }
        for one in queries[1:]  # which lacks the first
    }
    return Exported(collection, folder, run)


def names(*, of_nuggets: bool) -> list[str]:
    """Every measure that needs no text, and its list without what was not judged."""
    listed = []
    for name, family in FAMILIES.items():
        if name not in OF_COLLECTIONS and (of_nuggets or name not in OF_NUGGETS):
            at = "" if family.cutoff == "none" else "@10"
            listed += [f"{name}{at}", f"{name}(judged_only=True){at}"]
    return listed


@pytest.mark.parametrize(
    ("format_", "file", "of_nuggets"),
    [
        ("beir", "qrels/test.tsv", False),
        ("trec", "qrels.txt", False),
        ("trec", "diversity_qrels.txt", True),
        ("crux", "ranking_2/test_div_qrels_pr.txt", True),
    ],
)
def test_every_measure_has_one_value_on_a_collection_and_on_its_qrels(
    exported: Exported, format_: str, file: str, of_nuggets: bool
) -> None:
    """Passages of CRUX have ids of its own, by which equal scores are ordered otherwise."""
    if format_ == "crux":
        exported = exported._replace(run=without_ties(exported.run))
    measures = names(of_nuggets=of_nuggets)
    ours = evaluate(exported.collection, exported.run, measures)
    qrels = read_qrels(exported.folder / format_ / file)

    theirs = evaluate(qrels, exported.named(format_), measures)

    assert theirs.per_query == ours.per_query
    assert theirs.means == ours.means
    assert theirs.unjudged[0].shares == ours.unjudged[0].shares


def test_and_on_the_grades_of_a_data_set_of_the_hub(exported: Exported) -> None:
    """Which has the nuggets too that nothing supports, and failed judgments of these."""
    [file] = (exported.folder / "hf/qrels").glob("*.parquet")
    qrels: dict[str, dict[str, int]] = {}
    for row in pq.read_table(file).to_pylist():
        qrels.setdefault(row["query_id"], {})[row["chunk_id"]] = row["score"]
    measures = names(of_nuggets=False)

    theirs = evaluate(qrels, exported.run, measures)

    assert theirs.per_query == evaluate(exported.collection, exported.run, measures).per_query


def test_and_on_the_data_sets_that_are_imported_again(exported: Exported) -> None:
    """A grade of BEIR has no nuggets behind it, so it is itself what a chunk is worth."""
    for format_ in ("beir", "freshstack"):
        again = exported.folder / f"{format_}-again"
        import_collection(format_, exported.folder / format_, again, unknown_ids="drop")
        measures = names(of_nuggets=format_ == "freshstack")
        ours = evaluate(exported.collection, exported.run, measures)

        assert evaluate(Collection.load(again), exported.run, measures).means == ours.means
        export_collection(again, "trec", exported.folder / f"{format_}-trec")
        graded = exported.folder / f"{format_}-trec" / "qrels.txt"
        assert evaluate(graded, exported.run, "nDCG@10").means["nDCG@10"] == ours.means["nDCG@10"]


def as_ir_measures(folder: Path, run: Scores, measures: list[str]) -> dict[str, float]:
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.txt")))
    by_subtopic = list(ir_measures.read_trec_qrels(str(folder / "diversity_qrels.txt")))
    means = {}
    for measure in map(ir_measures.parse_measure, measures):
        of = by_subtopic if str(measure).startswith(("alpha", "StRecall", "ERR")) else qrels
        means[str(measure)] = ir_measures.calc_aggregate([measure], of, dict(run))[measure]
    return means


RANX = {
    "nDCG@10": "ndcg@10",
    "P@10": "precision@10",
    "R@10": "recall@10",
    "AP": "map",
    "RR": "mrr",
    "Bpref": "bpref",
}


def as_ranx(folder: Path, run: Scores, measures: list[str]) -> dict[str, float]:
    ranx = pytest.importorskip("ranx")
    qrels: dict[str, dict[str, int]] = {}
    with (folder / "qrels/test.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    found = ranx.evaluate(
        ranx.Qrels(qrels), ranx.Run(dict(run)), list(RANX.values()), make_comparable=True
    )
    return {name: float(found[RANX[name]]) for name in measures}


def without_ties(run: Scores) -> Scores:
    """Programs order ties by rules of their own."""
    return {
        query: {
            chunk: 1 / rank for rank, chunk in enumerate(sorted(of, key=lambda c: (-of[c], c)), 1)
        }
        for query, of in run.items()
    }


@pytest.mark.filterwarnings("ignore:.*unsafe cast")  # numba's, inside of ranx
@pytest.mark.parametrize(
    ("program", "format_", "measures"),
    [
        (as_ir_measures, "trec", [*RANX, "Rprec", "Success@10", "alpha_nDCG@10", "StRecall@10"]),
        pytest.param(as_ranx, "beir", list(RANX), marks=pytest.mark.formats),
    ],
)
def test_other_programs_find_the_same_on_our_exports(
    exported: Exported,
    program: Callable[[Path, Scores, list[str]], dict[str, float]],
    format_: str,
    measures: list[str],
) -> None:
    run = without_ties(exported.run)
    ours = evaluate(exported.collection, run, measures).means

    theirs = program(exported.folder / format_, run, measures)

    assert list(theirs.values()) == pytest.approx(list(ours.values()), abs=1e-9)
