"""TREC's files, by hand."""

import json
from pathlib import Path

from freshstack_dspy import export_collection, import_collection
from tests.collection.small import A, B, write_small
from tests.formats.loading import lines_of
from tests.formats.odd import write_odd


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


def test_a_label_below_0_is_a_judgment_without_a_label(
    tmp_path: Path,
) -> None:
    theirs = tmp_path / "theirs"
    export_collection(write_odd(tmp_path / "odd"), "trec", theirs)
    for ours in ("judgments.jsonl", "export.json", "ids.json"):
        (theirs / ours).unlink(missing_ok=True)
    qrels = theirs / "diversity_qrels.txt"
    first, *others = qrels.read_text().splitlines()
    *words, _ = first.split(" ")
    qrels.write_text("\n".join([" ".join([*words, "-1"]), *others]) + "\n")

    judgments = import_collection("trec", theirs, tmp_path / "c").judgments

    (failed,) = (one for one in judgments if one.status != "ok")
    assert (failed.label, failed.status, failed.reason) == (None, "failed", "label -1")
