"""`freshstack report`, as it is typed."""

from pathlib import Path

from .conftest import Command


def test_a_report_of_two_runs_and_their_answers_is_written(freshstack: Command, desk: Path) -> None:
    freshstack("answer", "collection", "bm25.run", "--config", "judge.toml", "--out", "answers")
    words = ("report", "collection", "bm25.run", "lsa.run", "--answers", "answers")

    done = freshstack(*words, "--out", "r.html")
    account = desk / "answers" / "answering.json"
    account.write_text(account.read_text().replace('"content_hash": "', '"content_hash": "0'))
    of_another = freshstack(*words)
    again = freshstack(*words, "--out", "r.html")

    assert (done.code, done.out) == (0, "r.html\n"), done.err
    text = (desk / "r.html").read_text()
    assert "Retrieval and answers next to each other" in text
    assert "by extractive/baseline; nothing is concluded" in text
    assert '<h2 id="retrievers">Which retriever?</h2>' in text
    assert (of_another.code, "is not that of this collection" in of_another.err) == (1, True)
    assert (again.code, "--replace" in again.err) == (1, True)
