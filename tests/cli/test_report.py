"""`freshstack report`, as it is typed."""

from pathlib import Path

from .conftest import Command


def test_a_report_of_two_runs_and_their_answers_is_written(freshstack: Command, desk: Path) -> None:
    freshstack("answer", "collection", "bm25.run", "--config", "judge.toml", "--out", "answers")
    words = (
        "report",
        "collection",
        "bm25.run",
        "lsa.run",
        "--answers",
        "answers",
        "--out",
        "r.html",
    )

    done = freshstack(*words)
    again = freshstack(*words)

    assert (done.code, done.out) == (0, "r.html\n"), done.err
    text = (desk / "r.html").read_text()
    assert "Retrieval and answers next to each other" in text
    assert "by extractive/baseline; nothing is concluded" in text
    assert '<h2 id="retrievers">Which retriever?</h2>' in text
    assert (again.code, again.err) == (
        1,
        "error: r.html exists; add --replace, or name another --out\n",
    )


def test_answers_over_another_collection_are_refused(freshstack: Command, desk: Path) -> None:
    freshstack("answer", "collection", "bm25.run", "--config", "judge.toml", "--out", "answers")
    account = desk / "answers" / "answering.json"
    account.write_text(account.read_text().replace('"content_hash": "', '"content_hash": "0'))

    done = freshstack("report", "collection", "bm25.run", "--answers", "answers")

    assert done.code == 1
    assert "is not that of this collection; answer again" in done.err
