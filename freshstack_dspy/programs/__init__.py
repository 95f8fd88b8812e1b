"""The steps of a recipe as DSPy modules: records in, records out, one file per step.

Each raises a `ReplyError` where the model gave no valid answer.
"""

from freshstack_dspy.programs.answer_comparer import AnswerComparer
from freshstack_dspy.programs.answer_generator import AnswerGenerator
from freshstack_dspy.programs.closed_book_answerer import ClosedBookAnswerer
from freshstack_dspy.programs.importance_rater import ImportanceRater
from freshstack_dspy.programs.nuggetizer import Nuggetizer
from freshstack_dspy.programs.passage_decontextualizer import PassageDecontextualizer
from freshstack_dspy.programs.query_synthesizer import QuerySynthesizer
from freshstack_dspy.programs.question_decomposer import QuestionDecomposer
from freshstack_dspy.programs.support_judge import SupportJudge

__all__ = [
    "AnswerComparer",
    "AnswerGenerator",
    "ClosedBookAnswerer",
    "ImportanceRater",
    "Nuggetizer",
    "PassageDecontextualizer",
    "QuerySynthesizer",
    "QuestionDecomposer",
    "SupportJudge",
]
