"""Interchange with TREC Auto-Judge: banks, qrels and documents, by hand and by its packages."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, export_collection, import_collection
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Scale
from freshstack_dspy.stored.contents import Contents, slice_queries
from tests.collection.small import CONTENTS, PROVENANCE, A, chunk, judgment
from tests.formats.loading import lines_of, loaded, needs, stopwords

B2 = "docs/b.md_0_6"
TEXT = "bêta and the rest"

BANKS = """
import json, sys
from pathlib import Path
from autojudge_base import Qrels, load_requests_from_file
from autojudge_base.document.document import stream_documents
from autojudge_base.nugget_data import (
    NuggetBanks, load_nugget_banks_from_file, load_ragtime26_nugget_banks_from_file)
from autojudge_base.nugget_data.nuggetizer import load_nuggetizer_banks_from_file
from autojudge_base.qrels.qrels import read_qrel_file
from autojudge_evaluate.nugget_doc_eval import read_nugget_docs_collaborator

out, nuggetizer = map(Path, sys.argv[1:])
topics = load_requests_from_file(out / "topics.jsonl")
ids = [topic.request_id for topic in topics]
banks = load_nugget_banks_from_file(out / "nuggets.jsonl")
banks.verify(ids)
read_qrel_file(out / "qrels.txt").verify(ids)
ragtime = load_ragtime26_nugget_banks_from_file(out / "ragtime26.jsonl")
theirs = load_nuggetizer_banks_from_file(nuggetizer / "nuggets.jsonl")
documents = {one.id: one.text for one in stream_documents(out / "corpus.jsonl")}
spans = [
    [documents[one.doc_id].encode()[one.offsets.start_offset:one.offsets.end_offset].decode(), one.text]
    for bank in banks.banks.values() for claim in bank.claim_bank.values()
    for one in claim.references if one.offsets
]
print(json.dumps({
    "topics": ids,
    "claims": {id_: sorted(bank.claim_bank) for id_, bank in banks.banks.items()},
    "spans": spans,
    "ragtime": {id_: sorted(a.answer for n in bank.nugget_bank for a in n.answers)
                for id_, bank in ragtime.banks.items()},
    "nuggetizer": {id_: sorted(n.text for n in bank.nuggets) for id_, bank in theirs.banks.items()},
    "docs": {id_: sorted(e.question for e in topic.entries)
             for id_, topic in read_nugget_docs_collaborator(out / "nugget_docs").items()},
}))
"""


def with_evidence(folder: Path) -> Collection:
    """Queries 12 and 123 on the scale `support`; two pairs have evidence."""
    chunks = (chunk(A, "alpha"), chunk(B2, TEXT, start=7))
    judgments = (
        judgment("12_0", A, 1).model_copy(update={"evidence": ((0, 5),)}),
        judgment("12_0", B2, 2).model_copy(update={"evidence": ((7, 12), (17, 20))}),
        judgment("12_1", A, 1),
        judgment("12_1", B2, None),
        judgment("123_0", A, 0),
        judgment("123_0", B2, 2),
    )
    queries, nuggets = CONTENTS.queries[:2], CONTENTS.nuggets[:3]
    slices = tuple(slice_queries(queries, nuggets, judgments, 1))
    contents = Contents(queries=queries, nuggets=nuggets, judgments=judgments, slices=slices)
    scale = PROVENANCE.model_copy(update={"scale": Scale(name="support", threshold=1)})
    return write_collection(folder, contents, chunks, scale)


def test_the_files_by_hand(tmp_path: Path) -> None:
    export_collection(with_evidence(tmp_path / "c"), "autojudge", tmp_path / "out")
    out = tmp_path / "out"
    topic, _ = lines_of(out / "topics.jsonl")
    first, second = lines_of(out / "nuggets.jsonl")
    claim = first["claim_bank"]["fact 12_0"]
    spans = [tuple(one["offsets"].values()) for one in claim["references"]]

    assert (topic["request_id"], topic["title"]) == ("12", "How?")
    assert topic["problem_statement"] == "It fails."
    assert (first["query_id"], first["format_version"]) == ("12", "v3")
    assert (claim["claim_id"], claim["query_id"]) == ("12_0", "12")
    assert [one["doc_id"] for one in claim["references"]] == [A, B2, B2]
    assert spans == [(0, 5, "bytes"), (0, 5, "bytes"), (10, 13, "bytes")]
    assert [one["text"] for one in claim["references"]] == ["alpha", "bêta", "the"]
    assert first["claim_bank"]["fact 12_1"]["references"] == [{"doc_id": A}]
    assert second["claim_bank"]["fact 123_0"]["metadata"]["labels"] == {A: 0, B2: 2}
    assert (
        out / "qrels.txt"
    ).read_text() == f"12 0 {A} 2\n12 0 {B2} 1\n123 0 {A} 0\n123 0 {B2} 1\n"
    assert lines_of(out / "ragtime26.jsonl")[1]["nugget_bank"] == [
        {
            "question": "How? ```\nx = 1\n```",
            "aggregator_type": "AND",
            "answers": [{"answer": "fact 123_0", "references": [B2]}],
        }
    ]
    assert json.loads((out / "nugget_docs/nuggets_12.json").read_bytes()) == {
        "fact 12_0": ["OR", {"OPEN_ENDED_ANSWER": [A, B2]}],
        "fact 12_1": ["OR", {"OPEN_ENDED_ANSWER": [A]}],
    }


def test_labels_and_evidence_come_back(tmp_path: Path) -> None:
    collection = with_evidence(tmp_path / "c")
    export_collection(collection, "autojudge", tmp_path / "out")
    back = import_collection("autojudge", tmp_path / "out", tmp_path / "back")

    def labels(of: Collection) -> list[Any]:
        return [(one.nugget_id, one.chunk_id, one.label, one.evidence) for one in of.judgments]

    assert back.manifest.scale == collection.manifest.scale
    assert labels(back) == labels(collection)
    assert [one.answer for one in back.queries] == [one.answer for one in collection.queries]


V3 = {
    "query_id": "191",
    "title_query": "Loops",
    "format_version": "v3",
    "nugget_bank": {
        "When?": {"question": "When?", "references": ["c1"]},
        "How?": {
            "question": "How?",
            "aggregator_type": "OR",
            "answers": {
                "so": {"answer": "so", "references": [{"doc_id": "c1"}]},
                "thus": {"answer": "thus", "references": ["c2"]},
            },
        },
    },
    "claim_bank": [{"claim": "It stops.", "query_id": "191", "importance": "vital"}],
}
RAGTIME = {
    "metadata": {"team_id": "t", "topic_id": "191", "run_id": "r", "run_desc": "d"},
    "nugget_bank": [
        {
            "question": "How?",
            "aggregator_type": "AND",
            "answers": [{"answer": "so", "references": ["c1"]}, {"answer": "thus"}],
        }
    ],
}
NUGGETIZER = {
    "query": "Loops",
    "qid": "191",
    "nuggets": [{"text": "It stops.", "importance": "okay"}],
}
DOCS = {"How?": ["OR", {"OPEN_ENDED_ANSWER": ["c1"]}]}


@pytest.mark.parametrize(
    ("name", "bank", "texts", "supported"),
    [
        (
            "b.jsonl",
            V3,
            ["It stops.", "When?", "How? so / thus"],
            [(1, "c1"), (2, "c1"), (2, "c2")],
        ),
        ("nuggets.jsonl", RAGTIME, ["How? so", "How? thus"], [(0, "c1")]),
        ("nuggets.jsonl", NUGGETIZER, ["It stops."], []),
        ("nuggets_191.json", DOCS, ["How?"], [(0, "c1")]),
    ],
)
def test_banks_of_others(
    tmp_path: Path, name: str, bank: Any, texts: list[str], supported: list[tuple[int, str]]
) -> None:
    (tmp_path / "theirs").mkdir()
    file = tmp_path / "theirs" / name
    file.write_text(json.dumps(bank))
    found = import_collection("autojudge", file, tmp_path / "c")

    assert [one.text for one in found.nuggets] == texts
    assert [(one.nugget_id, one.chunk_id, one.label) for one in found.judgments] == [
        (found.nuggets[place].nugget_id, document, 1) for place, document in supported
    ]


def test_topics_and_qrels_next_to_a_bank(tmp_path: Path) -> None:
    """A document of grade 0 supports no nugget; one above it, only those that refer to it."""
    (tmp_path / "run.nuggets.jsonl").write_text(json.dumps(RAGTIME))
    (tmp_path / "run.qrels.txt").write_text("191 0 c1 1\n191 0 c3 0\n191 0 c4 2\n")
    topic = {"request_id": "191", "title": "T", "problem_statement": "P", "background": "B"}
    (tmp_path / "topics.jsonl").write_text(json.dumps(topic))
    found = import_collection("autojudge", tmp_path, tmp_path / "c")

    assert found.queries[0].text == "T P\n\nB"
    assert [(one.nugget_id, one.chunk_id, one.label) for one in found.judgments] == [
        ("191_0", "c1", 1),
        ("191_0", "c3", 0),
        ("191_1", "c3", 0),
    ]


def test_the_labels_of_a_bank_say_their_scale(tmp_path: Path) -> None:
    """As in the banks that our nuggetizer writes in their runner."""
    labels = {"labels": {"c1": 2, "c2": 0, "c3": None}}
    claim = {"claim": "It stops.", "query_id": "191", "metadata": labels}
    (tmp_path / "b.jsonl").write_text(json.dumps({"query_id": "191", "claim_bank": [claim]}))
    found = import_collection("autojudge", tmp_path / "b.jsonl", tmp_path / "c")

    assert found.manifest.scale == Scale(name="support", threshold=1)
    assert [one.label for one in found.judgments] == [2, 0, None]


def test_qrels_alone_are_not_enough(tmp_path: Path) -> None:
    (tmp_path / "a.qrels.txt").write_text("191 0 c1 1\n")
    with pytest.raises(SourceError, match="no nugget banks"):
        import_collection("autojudge", tmp_path, tmp_path / "c")


@pytest.mark.formats
@needs("autojudge_evaluate")
def test_their_packages_read_what_is_exported(tmp_path: Path) -> None:
    collection = with_evidence(tmp_path / "c")
    export_collection(collection, "autojudge", tmp_path / "out")
    export_collection(collection, "nuggetizer", tmp_path / "nuggetizer")
    stopwords(tmp_path)
    found = loaded(BANKS, tmp_path, tmp_path / "out", tmp_path / "nuggetizer")
    facts = {"12": ["fact 12_0", "fact 12_1"], "123": ["fact 123_0"]}

    assert found["topics"] == ["12", "123"]
    assert found["spans"] == [["alpha"] * 2, ["bêta"] * 2, ["the"] * 2]
    for kind in ("claims", "ragtime", "nuggetizer", "docs"):
        assert found[kind] == facts
