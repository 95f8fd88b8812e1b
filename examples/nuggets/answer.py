"""Answer the deferred requests of this sample from what was written by hand.

    freshstack build examples/nuggets/build.toml --mode defer
    python examples/nuggets/answer.py REQUESTS replies.jsonl   (the file that it names)
    freshstack requests answer examples/nuggets/build.toml --from replies.jsonl

Once for each of grades, nuggets, their importance, and judgments. `answers/<query_id>.json` holds,
by path and text of each passage as in the quickstart's, its grade, the nuggets that it states, and
the verdict on it; nuggets are named by their place. A request that nothing was written for is named.
Sub-questions and closed-book answers are those of the quickstart.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main(requests: Path, replies: Path) -> int:
    """Write a reply line for every request that can be answered; return how many cannot."""
    lines = (HERE / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    ids = {query["title"]: query["query_id"] for query in map(json.loads, lines)}
    written, missing = [], []
    for line in requests.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        inputs = json.loads(request["body"]["messages"][-1]["content"])
        query_id = ids[inputs["question"]["title"]]
        task = request["body"]["response_format"]["json_schema"]["name"]
        answers = json.loads((HERE / f"answers/{query_id}.json").read_text(encoding="utf-8"))
        try:
            content = answer(task, inputs, answers)
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
    passages = inputs.get("passages", inputs.get("chunks", []))
    keys = {passage_key(passage): passage["number"] for passage in passages}
    nuggets = {one["text"]: one for one in written["nuggets"]}
    if task == "GradeRelevance":
        grades = ({"passage": keys[key], **written["relevance"][key]} for key in keys)
        return {"grades": list(grades)}
    if task == "UpdateNuggets":
        found = [
            {"text": text, "nuggets": [], "passages": [keys[key] for key in one["passages"]]}
            for text, one in nuggets.items()
        ]
        return {"found": found}
    numbers = {one["text"]: one["number"] for one in inputs["nuggets"]}
    if task == "RateImportance":
        rated = ((number, nuggets[text]["importance"]) for text, number in numbers.items())
        return {"ratings": [{"nugget": number, "importance": how} for number, how in rated]}
    verdicts = []
    for key, number in keys.items():
        name = "closed_book_answer" if key.startswith("#") else key
        verdict = written["verdicts"][name]
        supported = [
            {**one, "nugget": numbers[written["nuggets"][one["nugget"]]["text"]]}
            for one in verdict["supported"]
        ]
        verdicts.append({"chunk": number, "reason": verdict["reason"], "supported": supported})
    return {"verdicts": verdicts}


def passage_key(passage: dict[str, Any]) -> str:
    """Name a passage by its path, which an answer has not, and its text."""
    return f"{passage.get('path', '')}#{hashlib.sha256(passage['text'].encode()).hexdigest()[:12]}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])) > 0)
