"""A provider that answers each signature by a function of its inputs, and counts its requests.

Its answers are simple enough to work out by hand:

- the nuggets of an answer are its sentences;
- the one sub-question of a question is the question's first line, and so is its closed-book answer;
- a nugget is okay if it speaks of the moon, and vital otherwise; none is doubtful;
- a chunk supports a nugget if it holds the nugget's text.

A judge's script may give the bare numbers of the nuggets that a chunk supports on the scale support
too: they are then supported in full, by the nugget's words or all of the chunk.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

Inputs = dict[str, Any]
FinishReason = Literal["stop", "length", "content_filter"]


@dataclass(frozen=True)
class Said:
    """A reply that is not a plain answer."""

    text: str
    finish_reason: FinishReason = "stop"


Script = Callable[[Inputs], Any]
"""From the inputs of a question to its answer, or to a `Said`, or to an error to raise."""


def nuggetize(inputs: Inputs) -> Any:
    sentences = [part.strip(" .") for part in inputs["answer"].split(". ")]
    facts = [
        {
            "quote": sentence,
            "text": sentence,
            "importance": "okay" if "moon" in sentence else "vital",
            "doubtful": False,
        }
        for sentence in sentences
    ]
    return {"nuggets": facts[: inputs["limit"]]}


def question_of(inputs: Inputs) -> str:
    """The question of a request: title and body."""
    question = inputs["question"]
    return f"{question.get('title', '')} {question.get('body', '')}".strip()


def decompose(inputs: Inputs) -> Any:
    return {"sub_questions": [question_of(inputs).splitlines()[0]]}


def answer_closed_book(inputs: Inputs) -> Any:
    return {"answer": question_of(inputs).splitlines()[0]}


def judge(inputs: Inputs) -> Any:
    return {
        "verdicts": [
            {
                "chunk": chunk["number"],
                "reason": "whether the words are there",
                "supported": [
                    nugget["number"]
                    for nugget in inputs["nuggets"]
                    if nugget["text"].lower() in chunk["text"].lower()
                ],
            }
            for chunk in inputs["chunks"]
        ]
    }


def judge_level(inputs: Inputs) -> Any:
    return with_evidence(judge(inputs), inputs)


def synthesize(inputs: Inputs) -> Any:
    first = inputs["passages"][0]["text"].strip().splitlines()[0]
    return {"queries": [{"question": f"What about {first}?", "answer": first}]}


def decontextualize(inputs: Inputs) -> Any:
    return {"passages": [f"{inputs['title']}: {inputs['document'].strip()}"]}


SCRIPTS: dict[str, Script] = {
    "NuggetizeAnswer": nuggetize,
    "DecomposeQuestion": decompose,
    "AnswerClosedBook": answer_closed_book,
    "JudgeSupport": judge,
    "JudgeSupportLevel": judge_level,
    "SynthesizeQueries": synthesize,
    "DecontextualizePassages": decontextualize,
}


class ScriptedProvider:
    """Answers by `SCRIPTS`, or by what it is given in their place."""

    def __init__(self, **scripts: Script) -> None:
        self._scripts = SCRIPTS | scripts
        self._guard = threading.Lock()
        self.calls: Counter[str] = Counter()
        """How often it was asked, by signature."""
        self.asked: list[Inputs] = []

    def complete(self, request: "Request") -> "Response":
        task = str((request.config.response_format or {}).get("name"))
        inputs = inputs_of([message.text or "" for message in request.messages])
        with self._guard:
            self.calls[task] += 1
            self.asked.append(inputs)
        answer = self._scripts[task](inputs)
        if isinstance(answer, Exception):
            raise answer
        if task == "JudgeSupportLevel" and isinstance(answer, dict):
            answer = with_evidence(answer, inputs)
        said = answer if isinstance(answer, Said) else Said(json.dumps(answer))
        return reply(request, said.text, said.finish_reason)


def reply(request: Any, text: str, finish_reason: FinishReason = "stop") -> Any:
    """A model's reply."""
    from dspy.lm15 import Message, Response, Usage

    return Response(
        id=None,
        model=request.model,
        message=Message.assistant(text),
        finish_reason=finish_reason,
        usage=Usage(input_tokens=100, output_tokens=10),
    )


def with_evidence(answer: Any, inputs: Inputs) -> Any:
    """The verdicts of a judge, with a grade and a quote for each bare number of a nugget."""
    nuggets = {nugget["number"]: nugget["text"] for nugget in inputs["nuggets"]}
    chunks = {chunk["number"]: chunk["text"] for chunk in inputs["chunks"]}

    def supported(number: Any, text: str) -> Any:
        start = text.lower().find(nuggets.get(number, text).lower())
        quote = text[start : start + len(nuggets.get(number, text))] if start >= 0 else text
        return {"nugget": number, "grade": 2, "quotes": [quote]}

    return {
        "verdicts": [
            {
                **verdict,
                "supported": [
                    supported(one, chunks.get(verdict["chunk"], "?"))
                    if isinstance(one, int)
                    else one
                    for one in verdict["supported"]
                ],
            }
            for verdict in answer["verdicts"]
        ]
    }


def inputs_of(messages: list[str]) -> Inputs:
    """The inputs of a question: its last turn that is a JSON object with inputs, before re-asks."""
    for text in reversed(messages):
        try:
            value = json.loads(text)
        except ValueError:
            continue
        reply = isinstance(value, dict) and value.keys() == {"passages"}
        if isinstance(value, dict) and not reply and not value.keys().isdisjoint(_INPUTS):
            return value
    raise AssertionError(f"no turn of {messages!r} holds inputs")


_INPUTS = {"question", "passages", "document", "report", "program_inputs"}


def when(marker: str, script: Script, otherwise: Script) -> Script:
    """Answer a question by one script if its text holds a marker, by another if not."""

    def answer(inputs: Inputs) -> Any:
        return (script if marker in question_of(inputs) else otherwise)(inputs)

    return answer
