"""One example of each question, and the prompt that comes of it.

After a prompt was changed on purpose: python -m tests.signatures.examples
"""

from pathlib import Path
from typing import Any

from freshstack_dspy.lm.typed import messages_of
from freshstack_dspy.signatures.answers import (
    AnswerClosedBook,
    AnswerQuestion,
    CompareAnswers,
    DecomposeQuestion,
    FindContradictions,
    GradeAgreement,
    ReferenceAnswer,
)
from freshstack_dspy.signatures.documents import (
    DecontextualizePassages,
    SeedPassage,
    SynthesizeQueries,
    WriteReport,
    WriteReportRequest,
    WriteSubQuestions,
)
from freshstack_dspy.signatures.judge_support import (
    GradeAnswerability,
    GradeSupport,
    JudgeSupport,
    JudgeSupportLevel,
    NumberedChunk,
    NumberedNugget,
)
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer
from freshstack_dspy.signatures.question import ShownQuestion
from freshstack_dspy.signatures.reranking import ChooseBestPassage, RankPassages
from freshstack_dspy.signatures.without_answers import GradeRelevance, RateImportance, UpdateNuggets

PROMPTS = Path(__file__).parent / "prompts"
QUESTION = ShownQuestion(
    title='How do I read a "ring" width?',
    body="I use `read_rwl`.",
    asked="2026-01-02",
    tags=("rwl", "widths"),
)

JUDGING: dict[str, Any] = {
    "question": QUESTION,
    "nuggets": [
        NumberedNugget(number=1, text="`read_rwl` takes a path."),
        NumberedNugget(number=2, text="Widths are in 0.01 mm."),
    ],
    "chunks": [
        NumberedChunk(number=1, path="xylo/io.py", text="def read_rwl(path):\n    ..."),
        NumberedChunk(number=2, path="xylo/README.md", headings=("Usage",), text="# xylo"),
    ],
}

COMPARING = {
    "question": QUESTION,
    "references": [
        ReferenceAnswer(number=1, text="Read `width`."),
        ReferenceAnswer(number=2, text="It is the second column."),
    ],
    "answer": "`width` holds it.",
}

EXAMPLES: dict[Any, dict[str, Any]] = {
    AnswerClosedBook: {"question": QUESTION},
    AnswerQuestion: {"question": QUESTION, "passages": JUDGING["chunks"]},
    CompareAnswers: COMPARING,
    ChooseBestPassage: {"question": QUESTION, "passages": JUDGING["chunks"]},
    DecomposeQuestion: {"question": QUESTION, "limit": 5},
    DecontextualizePassages: {"title": "docs/años.md", "document": "It reads them.", "limit": 3},
    FindContradictions: {
        "question": QUESTION,
        "nuggets": JUDGING["nuggets"],
        "answer": "They are in millimetres.",
    },
    GradeAgreement: COMPARING,
    GradeAnswerability: JUDGING,
    GradeRelevance: {"question": QUESTION, "passages": JUDGING["chunks"]},
    GradeSupport: JUDGING,
    JudgeSupport: JUDGING,
    JudgeSupportLevel: JUDGING,
    NuggetizeAnswer: {"question": QUESTION, "answer": "Use `width`.", "limit": 10},
    RankPassages: {"question": QUESTION, "passages": JUDGING["chunks"]},
    RateImportance: {"question": QUESTION, "nuggets": JUDGING["nuggets"]},
    SynthesizeQueries: {
        "passages": [SeedPassage(path="xylo/io.py", text="It reads them.")],
        "style_examples": ["Why?"],
        "limit": 3,
    },
    UpdateNuggets: {
        "question": QUESTION,
        "passages": JUDGING["chunks"],
        "nuggets": JUDGING["nuggets"],
        "limit": 2,
    },
    WriteReport: {"request": QUESTION, "passages": JUDGING["chunks"], "words": 50},
    WriteReportRequest: {"report": "It reads them."},
    WriteSubQuestions: {"report": "It reads them.", "count": 2},
}


def prompt(signature: Any) -> str:
    """All that is sent for a signature's example, as text."""
    messages = messages_of(signature, [], EXAMPLES[signature])
    return "".join(f"=== {turn['role']}\n{turn['content']}\n" for turn in messages)


if __name__ == "__main__":
    for asked in EXAMPLES:
        (PROMPTS / f"{asked.__name__}.txt").write_text(prompt(asked), encoding="utf-8")
