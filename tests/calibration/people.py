"""Labels of two people, over chunks that either hold a nugget's words or do not."""

from collections.abc import Callable
from functools import partial
from typing import Any

from freshstack_dspy import HumanLabel
from tests.recipes.scripted import SCRIPTS, Inputs, ScriptedProvider, judge, reply

QUERIES = 6
FACTS = ("the dial shows the phase", "reset needs two calls")


def label(
    query_id: str, nugget_id: str, chunk_id: str, value: int, annotator: str = "ada"
) -> HumanLabel:
    """A label without texts."""
    return HumanLabel(
        query_id=query_id, nugget_id=nugget_id, chunk_id=chunk_id, label=value, annotator=annotator
    )


def synthetic_labels(queries: int = QUERIES) -> tuple[HumanLabel, ...]:
    """For each query two nuggets and three chunks, with their texts.

    The first chunk holds the first fact, the second the second, the third none.
    """
    labels = []
    for number in range(queries):
        texts = {
            f"c{number}a": f"As of version {number}, {FACTS[0]} of the moon.",
            f"c{number}b": f"In release {number}, {FACTS[1]} in a row.",
            f"c{number}c": f"Unrelated news of the year 20{number:02}.",
        }
        for place, fact in enumerate(FACTS):
            for chunk_id, text in texts.items():
                labels.append(
                    HumanLabel(
                        query_id=f"q{number}",
                        nugget_id=f"q{number}_{place}",
                        chunk_id=chunk_id,
                        label=int(fact in text),
                        annotator="ada",
                        question=f"What is new in version {number}?",
                        nugget=fact,
                        chunk=text,
                    )
                )
    return tuple(labels)


class Taught(ScriptedProvider):
    """Answers by functions of the inputs and of whether it was shown demonstrations."""

    def __init__(self, **scripts: Callable[..., Any]) -> None:
        super().__init__()
        self._taught = scripts

    def complete(self, request: Any) -> Any:
        shown = len(request.messages) > 1
        self._scripts = {
            name: partial(script, shown=shown) for name, script in self._taught.items()
        }
        return super().complete(request)


class Pupil(ScriptedProvider):
    """A judge that finds nothing unless it is told to be careful or shown demonstrations.

    It also writes instructions, as DSPy's optimizers ask for them.
    """

    def complete(self, request: Any) -> Any:
        if (request.config.response_format or {}).get("name") in SCRIPTS:
            careful = len(request.messages) > 1 or "Be careful" in str(request.system)
            self._scripts = {"JudgeSupportLevel": judge if careful else _nothing}
            return super().complete(request)
        self.calls["instructions"] += 1
        self.asked.append({"question": str(request.messages[-1].text)})
        fields = (
            "observations",
            "summary",
            "proposed_instruction",
            "new_instruction",
            "discussion",
        )
        said = "".join(f"[[ ## {name} ## ]]\nBe careful.\n\n" for name in fields)
        said += '[[ ## module_advice ## ]]\n{"predict": "Be careful."}\n\n[[ ## completed ## ]]'
        return reply(request, said)


def _nothing(inputs: Inputs) -> Any:
    return {"verdicts": [{**one, "supported": []} for one in judge(inputs)["verdicts"]]}
