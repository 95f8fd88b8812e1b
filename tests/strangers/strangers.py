"""A package of somebody else, which adds to ours by its entry points and knows public names only."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from freshstack_dspy import Format, FreshStack
from freshstack_dspy.records import Note


def write(selection: Any) -> Iterator[tuple[str, Any]]:
    """Write queries, nuggets and chunks, and which chunk supports which nugget."""
    yield "queries.jsonl", ({"id": one.query_id, "text": one.text} for one in selection.queries)
    nuggets = (one for of in selection.nuggets.values() for one in of)
    yield (
        "nuggets.jsonl",
        (
            {
                "id": one.nugget_id,
                "query": one.query_id,
                "text": one.text,
                "labels": selection.support[one.nugget_id],
            }
            for one in nuggets
        ),
    )
    chunks = selection.collection.chunks()
    yield "corpus.jsonl", ({"id": one.chunk_id, "text": one.text} for one in chunks)


def read(found: Any) -> None:
    """Read them again."""
    for row in found.rows(found.part("queries", "queries.jsonl")):
        found.add_query(row, row.id("id"), title=row.text("text"), body="")
    for row in found.rows(found.part("nuggets", "nuggets.jsonl")):
        nugget = found.add_nugget(row, row.id("query"), row.id("id"), row.text("text"))
        for chunk_id, label in row.inner("labels").values.items():
            found.judge(nugget, chunk_id, label)
    found.find_corpus("the corpus", "corpus*")


LINES = Format(name="lines", how_to_load="Read its lines.", write=write, read=read)


def questions_of_a_forum(path: Path) -> Iterator[dict[str, Any]]:
    """Read questions, each with its answer in the next line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, (question, answer) in enumerate(zip(lines[::2], lines[1::2], strict=True), start=1):
        yield {"query_id": f"f{number}", "title": question, "body": "", "answer": answer}


def first_is_short(ranking: Sequence[str], judged: Any, k: int | None) -> float:
    """Say whether the first chunk has a short id."""
    return float(len(ranking[0]) <= (k or 14))


def votes(path: Path) -> Iterator[dict[str, Any]]:
    """Read lines of a query, a nugget, a chunk, a label and who gave it."""
    for line in path.read_text(encoding="utf-8").splitlines():
        names = ("query_id", "nugget_id", "chunk_id", "label", "annotator")
        yield dict(zip(names, line.split("|"), strict=True))


def same_length(gold: str, answer: str) -> float:
    """Say how near two answers are in length."""
    return min(len(gold), len(answer)) / max(len(gold), len(answer), 1)


def lengths(work: Any, made: Any) -> Any:
    """Say of each question whether it is short."""
    notes = [
        Note(query_id=one.query_id, kind="length", value="short" if len(one.text) < 80 else "long")
        for one in made.queries
    ]
    return replace(made, notes=(*made.notes, *notes))


class WithLengths(FreshStack):
    """FreshStack's recipe, with a step more."""

    stages = ((*FreshStack.stages[0], lengths), *FreshStack.stages[1:])
