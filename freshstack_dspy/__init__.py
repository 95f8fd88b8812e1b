"""Judged retrieval and RAG test collections for your own domain.

    from freshstack_dspy import build, evaluate, load_config, retrieve

    collection = build(load_config("build.toml"))
    run = retrieve(collection, "hybrid")
    print(evaluate(collection.qrels(), run).means)

Each name is imported when it is first used: `import freshstack_dspy` loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from freshstack_dspy.calibration.agreement import agree
    from freshstack_dspy.calibration.labels import read_labels
    from freshstack_dspy.calibration.optimization import optimize
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.exports.export import export_collection
    from freshstack_dspy.collection.retrieve import retrieve
    from freshstack_dspy.config import BuildConfig, ModelConfig, load_config
    from freshstack_dspy.errors import FreshstackError
    from freshstack_dspy.index.hybrid import HybridIndex
    from freshstack_dspy.lm.client import connect
    from freshstack_dspy.lm.store import ReplyStore
    from freshstack_dspy.measures.compare import compare
    from freshstack_dspy.measures.evaluation import evaluate
    from freshstack_dspy.measures.qrels import NuggetQrels, read_qrels
    from freshstack_dspy.measures.run import Run, read_run, write_run
    from freshstack_dspy.programs.answer_comparer import AnswerComparer
    from freshstack_dspy.programs.answer_generator import AnswerGenerator
    from freshstack_dspy.programs.closed_book_answerer import ClosedBookAnswerer
    from freshstack_dspy.programs.nuggetizer import Nuggetizer
    from freshstack_dspy.programs.passage_decontextualizer import PassageDecontextualizer
    from freshstack_dspy.programs.query_synthesizer import QuerySynthesizer
    from freshstack_dspy.programs.question_decomposer import QuestionDecomposer
    from freshstack_dspy.programs.support_judge import SupportJudge
    from freshstack_dspy.recipes.build import build
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.records import Chunk, HumanLabel, Judgment, Nugget, Query

_HOMES = {
    "calibration.agreement": ("agree",),
    "calibration.labels": ("read_labels",),
    "calibration.optimization": ("optimize",),
    "collection.collection": ("Collection",),
    "collection.exports.export": ("export_collection",),
    "collection.retrieve": ("retrieve",),
    "config": (
        "BuildConfig",
        "ModelConfig",
        "load_config",
    ),
    "errors": ("FreshstackError",),
    "index.hybrid": ("HybridIndex",),
    "lm.client": ("connect",),
    "lm.store": ("ReplyStore",),
    "measures.compare": ("compare",),
    "measures.evaluation": ("evaluate",),
    "measures.qrels": (
        "NuggetQrels",
        "read_qrels",
    ),
    "measures.run": (
        "Run",
        "read_run",
        "write_run",
    ),
    "programs.answer_comparer": ("AnswerComparer",),
    "programs.answer_generator": ("AnswerGenerator",),
    "programs.closed_book_answerer": ("ClosedBookAnswerer",),
    "programs.nuggetizer": ("Nuggetizer",),
    "programs.passage_decontextualizer": ("PassageDecontextualizer",),
    "programs.query_synthesizer": ("QuerySynthesizer",),
    "programs.question_decomposer": ("QuestionDecomposer",),
    "programs.support_judge": ("SupportJudge",),
    "recipes.build": ("build",),
    "recipes.freshstack": ("FreshStack",),
    "records": (
        "Chunk",
        "HumanLabel",
        "Judgment",
        "Nugget",
        "Query",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AnswerComparer",
    "AnswerGenerator",
    "BuildConfig",
    "Chunk",
    "ClosedBookAnswerer",
    "Collection",
    "FreshStack",
    "FreshstackError",
    "HumanLabel",
    "HybridIndex",
    "Judgment",
    "ModelConfig",
    "Nugget",
    "NuggetQrels",
    "Nuggetizer",
    "PassageDecontextualizer",
    "Query",
    "QuerySynthesizer",
    "QuestionDecomposer",
    "ReplyStore",
    "Run",
    "SupportJudge",
    "agree",
    "build",
    "compare",
    "connect",
    "evaluate",
    "export_collection",
    "load_config",
    "optimize",
    "read_labels",
    "read_qrels",
    "read_run",
    "retrieve",
    "write_run",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
