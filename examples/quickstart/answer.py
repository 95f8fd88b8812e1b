"""Answer the deferred requests of the sample from what was written by hand.

    freshstack build examples/quickstart/build.toml --mode defer
    python examples/quickstart/answer.py REQUESTS replies.jsonl   (the file that it names)
    freshstack requests import replies.jsonl examples/quickstart/build.toml

`answers/<query_id>.json` holds, for each question, the nuggets with the words of the answer that
each is from and how important it is, sub-questions, closed-book answer with the verdict on it, and
the verdict on every chunk that was pooled, by path and by the beginning of the SHA-256 of its text:
the nuggets that it supports, by their place, each with its grade and the words that show it. A
request that nothing was written for is named, and left for a person.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CLOSED_BOOK = "docs/notes.md"
"""Below which path the judge is shown a closed-book answer; the corpus has no such file."""


def main(requests: Path, replies: Path) -> int:
    """Write a reply line for every request that can be answered; return how many cannot."""
    answers = {
        path.stem: json.loads(path.read_text()) for path in (HERE / "answers").glob("*.json")
    }
    query_ids = {}
    for line in (HERE / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        query = json.loads(line)
        query_ids[query["title"]] = query["query_id"]
    written, missing = [], []
    for line in requests.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        inputs = json.loads(request["body"]["messages"][-1]["content"])
        query_id = query_ids[inputs["question"]["title"]]
        task = request["body"]["response_format"]["json_schema"]["name"]
        try:
            content = answer(task, inputs, answers.get(query_id, {}))
        except KeyError as error:
            missing.append(f"{query_id} {task}: nothing written for {error}")
            continue
        reply = {"custom_id": request["custom_id"], "content": json.dumps(content)}
        written.append(json.dumps(reply) + "\n")
    replies.write_text("".join(written), encoding="utf-8")
    print(*missing, f"{len(written)} answered, {len(missing)} left", sep="\n")
    return len(missing)


def answer(task: str, inputs: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request, from what was written for its question."""
    if task == "NuggetizeAnswer":
        names = ("quote", "text", "importance")
        rows = zip(written["quotes"], written["nuggets"], written["importance"], strict=True)
        nuggets = (dict(zip(names, row, strict=True)) for row in rows)
        return {"nuggets": [{**nugget, "doubtful": False} for nugget in nuggets]}
    if task == "DecomposeQuestion":
        return {"sub_questions": written["sub_questions"]}
    if task == "AnswerClosedBook":
        return {"answer": written["closed_book_answer"]}
    numbers = {nugget["text"]: nugget["number"] for nugget in inputs["nuggets"]}
    verdicts = []
    for chunk in inputs["chunks"]:
        if chunk["path"] == CLOSED_BOOK:
            verdict = written["closed_book_verdict"]
        else:
            verdict = written["verdicts"][chunk_key(chunk)]
        supported = [
            {**one, "nugget": numbers[written["nuggets"][one["nugget"]]]}
            for one in verdict["supported"]
        ]
        verdicts.append(
            {"chunk": chunk["number"], "reason": verdict["reason"], "supported": supported}
        )
    return {"verdicts": verdicts}


def chunk_key(chunk: dict[str, Any]) -> str:
    """Name a chunk by its path and its text."""
    return f"{chunk['path']}#{hashlib.sha256(chunk['text'].encode()).hexdigest()[:12]}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])) > 0)
