"""Answer the deferred requests of this example from `answers.json`, which was written by hand.

    freshstack build examples/crux/build.toml --mode defer
    python examples/crux/answer.py REQUESTS replies.jsonl         (the file that it names)
    freshstack requests answer examples/crux/build.toml --from replies.jsonl

What is written is found by the beginning of the document, report or passage that it is about.
"""

import json
import sys
from pathlib import Path
from typing import Any

WRITTEN = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))


def main(requests: Path, replies: Path) -> None:
    """Write a reply line for every request."""
    lines = []
    for line in requests.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        inputs = json.loads(request["body"]["messages"][1]["content"])  # also of a re-ask
        task = request["body"]["response_format"]["json_schema"]["name"]
        reply = {"custom_id": request["custom_id"], "content": json.dumps(answer(task, inputs))}
        lines.append(json.dumps(reply) + "\n")
    replies.write_text("".join(lines), encoding="utf-8")


def answer(task: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request."""
    if task == "DecontextualizePassages":
        return {"passages": written("passages", inputs["document"])}
    if task == "WriteReportRequest":
        return {"request": written("requests", inputs["report"])}
    if task == "WriteSubQuestions":
        return {"questions": written("questions", inputs["report"])}
    return {
        "verdicts": [
            {
                "chunk": chunk["number"],
                "reason": written("reasons", chunk["text"]),
                "grades": [
                    {"nugget": number, "grade": grade}
                    for number, grade in enumerate(written("grades", chunk["text"]), 1)
                ],
            }
            for chunk in inputs["chunks"]
        ]
    }


def written(what: str, text: str) -> Any:
    """What was written for the text that begins so."""
    return next(value for start, value in WRITTEN[what].items() if text.startswith(start))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
