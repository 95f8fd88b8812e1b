"""The types that checkers know of what programs take and return."""

import re
import sys
from pathlib import Path
from subprocess import run

import pytest

CALLS = """
from freshstack_dspy import AnswerComparer, AnswerGenerator, Nuggetizer, RelevanceGrader, SupportJudge

judged = SupportJudge()(question="Which?", nuggets=["red"], chunks=["It is red."])
reveal_type(judged.judgments)
reveal_type(judged.judgments[0].probability)
reveal_type(SupportJudge()("Which?", ["red"], ["It is red."], vote=2).failure)
reveal_type(RelevanceGrader()("Which?", ["It is red."]).grades[0])
reveal_type(Nuggetizer()(question="Which?", answer="The red.").nuggets[0].text)
reveal_type(AnswerGenerator()("Which?", ["It is red."]).answer.text)
reveal_type(AnswerComparer()("Which?", ["Red."], "red").agrees)
async def later() -> None:
    reveal_type((await Nuggetizer().acall(question="Which?", answer="The red.")).failure)
judged.judgmentz
judged.judgments[0].labl
SupportJudge()("Which?", nuggetz=["red"], chunks=["It is red."])
SupportJudge()("Which?", ["red"], [1])
"""
REVEALED = [
    "tuple[Judgment, ...]",
    "float | None",
    "Failure | None",
    "Relevance | None",
    "str",
    "str",
    "bool",
    "Failure | None",
]


@pytest.mark.slow
def test_a_type_checker_knows_what_programs_take_and_return(tmp_path: Path) -> None:
    snippet = tmp_path / "calls.py"
    snippet.write_text(CALLS, encoding="utf-8")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml")]

    checked = run([*command, str(snippet)], cwd=root, capture_output=True, text=True, check=False)

    types = re.findall(r'Revealed type is "(.*)"', checked.stdout)
    assert [re.sub(r"(\w+\.)+|builtins\.", "", each) for each in types] == REVEALED, checked.stdout
    errors = re.findall(r"calls\.py:(\d+): error:", checked.stdout)
    lines = CALLS.splitlines()
    wrong = [line for number, line in enumerate(lines, 1) if str(number) in errors]
    assert wrong == lines[-4:], checked.stdout
