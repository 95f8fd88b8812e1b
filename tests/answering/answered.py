"""The small domain built, runs over it, and a model that answers from what it is shown.

It gives the facts of `FACTS` that are in the passages, each with the passages that hold it, and
says that an answer agrees if it holds all that a reference says.
"""

from pathlib import Path
from typing import Any

from freshstack_dspy import Collection, Run, build, read_run, write_run
from freshstack_dspy.answering.reteval import Answering, answer_from_runs
from freshstack_dspy.config import load_judging
from freshstack_dspy.recipes.opening import open_session
from freshstack_dspy.records import ScoredChunk
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

FACTS = ("Install it with pip", "Python 3.11 is needed", "call reset twice", "phase of the moon")


def answer(inputs: Any) -> Any:
    found = []
    for fact in FACTS:
        numbers = [one["number"] for one in inputs["passages"] if fact in one["text"]]
        if numbers:
            found.append({"text": f"{fact}.", "citations": numbers})
    return {"answerable": bool(found), "sentences": found}


def compare(inputs: Any) -> Any:
    said = inputs["answer"].splitlines()
    agrees = any(set(one["text"].splitlines()) <= set(said) for one in inputs["references"])
    return {"reason": "by its sentences", "agrees": "yes" if agrees else "no"}


def provider(**scripts: Any) -> ScriptedProvider:
    return ScriptedProvider(**{"AnswerQuestion": answer, "CompareAnswers": compare, **scripts})


def built(folder: Path) -> Collection:
    """Build the domain; its queries: 2 (answerable), 10 (partly supported), x (unanswerable)."""
    config = domain(folder)
    return build(config, provider=ScriptedProvider())


def chunk_ids(collection: Collection) -> dict[str, str]:
    """The id of the one chunk of each file, by path."""
    return {chunk.path: chunk.chunk_id for chunk in collection.chunks()}


def write(collection: Collection, path: Path, name: str, **tops: list[str]) -> Path:
    """Write a run from the files that it finds for each query (`q2` for query 2)."""
    ids = chunk_ids(collection)
    rankings = {
        query.removeprefix("q"): tuple(
            ScoredChunk(ids[file], float(-rank)) for rank, file in enumerate(files)
        )
        for query, files in tops.items()
    }
    write_run(Run(name, rankings), path)
    return path


def runs(collection: Collection, folder: Path) -> list[Path]:
    """A run that finds what is gold, and one that finds something else or nothing."""
    return [
        write(
            collection,
            folder / "good.run",
            "good",
            q2=["docs/install.md"],
            q10=["docs/dial.md", "docs/reset.md"],
        ),
        write(collection, folder / "bad.run", "bad", q2=["src/phase.py"]),
    ]


def answering(
    collection: Path,
    files: list[Path],
    model: ScriptedProvider,
    folder: Path,
    *,
    mode: Any = "live",
    text: str = "",
    **options: Any,
) -> Answering:
    """Answer from runs with a scripted model, whose replies are kept below a folder."""
    path = folder / "answer.toml"
    path.write_text(text or '[model]\nname = "openai/scripted"\nretries = 0\n')
    searching = "embedding" in options.get("comparers", ())
    with open_session(load_judging(path), mode, provider=model, searching=searching) as session:
        loaded = Collection.load(collection)
        return answer_from_runs(session, loaded, [read_run(file) for file in files], **options)
