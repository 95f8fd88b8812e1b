"""Collections of others, small enough to check by hand, written to disk."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def json_lines(path: Path, rows: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def beir(folder: Path, qrels: str = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n") -> Path:
    json_lines(
        folder / "corpus.jsonl",
        [
            {"_id": "d1", "title": "One", "text": "alpha", "metadata": {"url": "https://x.org/1"}},
            {"_id": "d2", "title": "", "text": "bêta"},
        ],
    )
    json_lines(
        folder / "queries.jsonl",
        [{"_id": "q1", "text": "What is alpha?"}, {"_id": "q2", "text": "Of another split"}],
    )
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8", newline="")
    return folder


def freshstack_row(query_id: str = "7", **changed: Any) -> dict[str, Any]:
    row = {
        "query_id": query_id,
        "query_title": "How?",
        "query_text": "It fails.",
        "nuggets": [
            {
                "_id": f"{query_id}_0",
                "text": "Call it twice.",
                "relevant_corpus_ids": ["docs/a b.md_0_5"],
                "non_relevant_corpus_ids": ["docs/c.md_3_9"],
            }
        ],
        "answer_id": "9",
        "answer_text": "Call it twice.",
        "metadata": {"date": "2024-01-02", "tags": ["api"]},
    }
    return {**row, **changed}


def freshstack(folder: Path, rows: Iterable[Any] | None = None) -> Path:
    json_lines(folder / "queries.jsonl", rows if rows is not None else [freshstack_row()])
    told = {"url": "https://x.org/c", "start_byte": 3, "end_byte": 9, "commit_id": "c0ffee"}
    json_lines(
        folder / "corpus.jsonl",
        [
            {"_id": "docs/a b.md_0_5", "title": "", "text": "alpha", "metadata": None},
            {"_id": "docs/c.md_3_9", "title": "", "text": "def c:", "metadata": told},
        ],
    )
    return folder


def crux(
    folder: Path, rating: Any = (5, 3, 0), questions: Any = ("Who?", "What?", "When?")
) -> Path:
    topic = {"example_id": "t-0", "topic": "Report.", "questions": questions, "report": "It was."}
    json_lines(folder / "test_topics.jsonl", [topic])
    json_lines(
        folder / "test_judgements.jsonl",
        [{"example_id": "t-0", "pid": "t-0:3#10", "rating": rating}],
    )
    json_lines(folder / "passages.jsonl", [{"id": "t-0:3#10", "contents": "alpha"}])
    return folder


def nuggetizer(
    folder: Path, assignment: str = "partial_support", importance: str = "vital"
) -> Path:
    nuggets = [{"text": "alpha is one", "importance": importance}]
    json_lines(folder / "nuggets.jsonl", [{"query": "What?", "qid": "q", "nuggets": nuggets}])
    said = [{**each, "assignment": assignment} for each in nuggets]
    json_lines(
        folder / "assignments.jsonl",
        [{"text": "What?", "qid": "q", "candidate_text": "alpha", "docid": "d", "nuggets": said}],
    )
    return folder
