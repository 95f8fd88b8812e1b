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
    from freshstack_dspy.calibration import agree, optimize, read_labels
    from freshstack_dspy.collection import Collection, export_collection
    from freshstack_dspy.collection.retrieving import retrieve
    from freshstack_dspy.config import BuildConfig, ModelConfig, load_config
    from freshstack_dspy.errors import FreshstackError
    from freshstack_dspy.index import HybridIndex
    from freshstack_dspy.lm.connect import connect
    from freshstack_dspy.lm.replies.store import ReplyStore
    from freshstack_dspy.measures import (
        NuggetQrels,
        Run,
        compare,
        evaluate,
        read_qrels,
        read_run,
        write_run,
    )
    from freshstack_dspy.programs import (
        AnswerComparer,
        AnswerGenerator,
        ClosedBookAnswerer,
        Nuggetizer,
        PassageDecontextualizer,
        QuerySynthesizer,
        QuestionDecomposer,
        SupportJudge,
    )
    from freshstack_dspy.recipes.build import build
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.records import Chunk, HumanLabel, Judgment, Nugget, Query

_HOMES = {
    "calibration": ("agree", "optimize", "read_labels"),
    "collection": ("Collection", "export_collection"),
    "collection.retrieving": ("retrieve",),
    "config": ("BuildConfig", "ModelConfig", "load_config"),
    "errors": ("FreshstackError",),
    "index": ("HybridIndex",),
    "lm.connect": ("connect",),
    "lm.replies.store": ("ReplyStore",),
    "measures": (
        "NuggetQrels",
        "Run",
        "compare",
        "evaluate",
        "read_qrels",
        "read_run",
        "write_run",
    ),
    "programs": (
        "AnswerComparer",
        "AnswerGenerator",
        "ClosedBookAnswerer",
        "Nuggetizer",
        "PassageDecontextualizer",
        "QuerySynthesizer",
        "QuestionDecomposer",
        "SupportJudge",
    ),
    "recipes.build": ("build",),
    "recipes.freshstack": ("FreshStack",),
    "records": ("Chunk", "HumanLabel", "Judgment", "Nugget", "Query"),
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
