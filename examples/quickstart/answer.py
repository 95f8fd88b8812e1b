"""Answer the deferred requests of the sample from what was written by hand.

    freshstack build examples/quickstart/build.toml --mode defer
    python examples/quickstart/answer.py REQUESTS replies.jsonl   (the file that it names)
    freshstack requests answer examples/quickstart/build.toml --from replies.jsonl

`answers/<query_id>.json` holds, for each question, the nuggets with the words of the answer that
each is from and how important it is, sub-questions, closed-book answer with the verdict on it, and
the verdict on every chunk that was pooled, by path and by the beginning of the SHA-256 of its text:
the nuggets that it supports, by their place, each with its grade and the words that show it. A
request that nothing was written for is named, and left for a person.

For `freshstack answer … --mode defer` there are the `sentences` of answers, each with the chunks
that may be cited for it and what of it these support; the `answers`, by the passages shown, with
the places of their sentences and the verdict on their nuggets; and `comparisons` of two answers.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main(requests: Path, replies: Path) -> int:
    """Write a reply line for every request that can be answered; return how many cannot."""
    questions = read_answers()
    written, missing = [], []
    for line in requests.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        try:
            content = reply_to(request["body"], questions)
        except KeyError as error:
            missing.append(f"{request['custom_id']}: nothing written for {error}")
            continue
        reply = {"custom_id": request["custom_id"], "content": content}
        written.append(json.dumps(reply) + "\n")
    replies.write_text("".join(written), encoding="utf-8")
    print(*missing, f"{len(written)} answered, {len(missing)} left", sep="\n")
    return len(missing)


def read_answers() -> dict[str, Any]:
    """What was written for each question, by its title."""
    lines = (HERE / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        query["title"]: json.loads((HERE / f"answers/{query['query_id']}.json").read_text())
        for query in map(json.loads, lines)
    }


def reply_to(body: dict[str, Any], questions: dict[str, Any]) -> str:
    """The content of the reply to one request, as the chat-completions protocol has it."""
    inputs = json.loads(body["messages"][-1]["content"])
    task = body["response_format"]["json_schema"]["name"]
    return json.dumps(answer(task, inputs, questions[inputs["question"]["title"]]))


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
    said = written.get("sentences", [])
    if task == "AnswerQuestion":
        places = {chunk_key(passage): passage["number"] for passage in inputs["passages"]}
        sentences = [said[at] for at in written["answers"][digest(*places)]["sentences"]]
        cited = [[places[key] for key in one["citations"] if key in places] for one in sentences]
        rows = zip(sentences, cited, strict=True)
        shown = [{"text": one["text"], "citations": numbers} for one, numbers in rows]
        return {"answerable": True, "sentences": shown}
    if task == "CompareAnswers":
        references = (reference["text"] for reference in inputs["references"])
        return written["comparisons"][digest(*references, inputs["answer"])]
    return {
        "verdicts": [verdict_on(chunk, inputs["nuggets"], written) for chunk in inputs["chunks"]]
    }


def verdict_on(
    chunk: dict[str, Any], nuggets: list[dict[str, Any]], written: dict[str, Any]
) -> dict[str, Any]:
    """The verdict on a chunk or an answer; where it is cited, the nuggets are the sentences."""
    said = written.get("sentences", [])
    texts = written["nuggets"]
    if "path" not in chunk:  # an answer
        verdict = written["closed_book_verdict"]
        for made in written.get("answers", {}).values():
            if chunk["text"] == "\n".join(said[at]["text"] for at in made["sentences"]):
                verdict = made["verdict"]
    else:
        verdict = written["verdicts"][chunk_key(chunk)]
    supported = verdict["supported"]
    if not {nugget["text"] for nugget in nuggets} <= set(texts):
        texts = [one["text"] for one in said]
        found = ((at, one["citations"].get(chunk_key(chunk))) for at, one in enumerate(said))
        supported = [{"nugget": at, **support} for at, support in found if support]
    numbers = {nugget["text"]: nugget["number"] for nugget in nuggets}
    return {
        "chunk": chunk["number"],
        "reason": verdict["reason"],
        "supported": [
            {**one, "nugget": numbers[texts[one["nugget"]]]}
            for one in supported
            if texts[one["nugget"]] in numbers
        ],
    }


def chunk_key(chunk: dict[str, Any]) -> str:
    """Name a chunk by its path and its text."""
    return f"{chunk['path']}#{digest(chunk['text'])}"


def digest(*texts: str) -> str:
    """The beginning of the SHA-256 of texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])) > 0)
