"""Hold the nuggets that recipe nuggets makes against those that people edited (TREC RAG 2024).

    python benchmarks/nuggets.py [--data DATA] [--folder FOLDER] [--without TOPIC ...]
        [--model NAME] [--judge NAME] [--mode MODE] | --tiny

The questions are the topics with people's nuggets, and the corpus the passages that answers to any
topic cite, read from `../shared/data`; ten are pooled for each of question, sub-questions and
closed-book answer. `--model` makes the nuggets. `--judge` matches them, as nuggets are assigned to
answers: people's to the list of those made, those made to people's list, and people's to all of
the topic's passages. All but the baseline are asked in MODE. With `--mode defer`, answer the
requests, `freshstack requests import REPLIES FOLDER/build.toml`, and run it again. `--tiny` takes
the sample of examples/nuggets, with its accepted answers and their nuggets for passages and people.

Prints a JSON line for each share, with its 95 % bootstrap interval over topics.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from freshstack_dspy.config import BuildConfig, Mode, load_config
from freshstack_dspy.errors import DeferredError
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.measures.statistics import bootstrap
from freshstack_dspy.recipes.flow import Work, run_stages
from freshstack_dspy.recipes.judge import ToJudge, as_chunk, judge
from freshstack_dspy.recipes.opening import open_session
from freshstack_dspy.recipes.pooling import Searches
from freshstack_dspy.recipes.without_answers import WithoutAnswers, is_relevant
from freshstack_dspy.records import Nugget, Query
from freshstack_dspy.stored.contents import Contents

ROOT = Path(__file__).resolve().parent.parent
CONFIG = """name = "trec-rag24"
recipe = "nuggets"
out = "collection"
queries.path = "questions.jsonl"
corpus = [{{ name = "passages", path = "passages.jsonl" }}]
chunking.max_tokens = 2048
pool.top_k = 10
model.name = "{model}"
cache.path = "replies"
index.path = "index"
"""
SHARES = (
    ("people's nuggets that were made", "made", None),
    ("people's nuggets that the topic's passages hold", "held", None),
    ("of those held, made", "made", "held"),
    ("made nuggets that people have", "people", None),
)
Topics = dict[str, tuple[list[Nugget], list[str]]]
"""By question: people's nuggets, and its passages."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def peoples(id_: str, nuggets: Iterable[tuple[str, Any]]) -> list[Nugget]:
    return [
        Nugget(nugget_id=f"{id_}_p{n}", query_id=id_, text=text, importance=how, call_id=None)
        for n, (text, how) in enumerate(nuggets)
    ]


def of_trec(args: argparse.Namespace, folder: Path) -> tuple[BuildConfig, Topics]:
    assigned = rows(args.data / "trec-rag24-nugget-assignments/assignments.jsonl")
    cited = rows(args.data / "trec-rag24-citation-support/support.jsonl")
    texts = {(row["topic"], row["passage_id"]): row["passage"] for row in cited}
    given = {row["qid"]: row for row in assigned if row["qid"] not in args.without}
    questions = [{"query_id": id_, "title": row["query"]} for id_, row in given.items()]
    passages = [{"_id": id_, "text": text} for (_, id_), text in sorted(texts.items())]
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("questions", questions), ("passages", passages)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (folder / "build.toml").write_text(CONFIG.format(model=args.model))
    topics: Topics = {}
    for id_, row in given.items():
        pairs = ((one["text"], one["importance"]) for one in row["nuggets"])
        own = [text for (topic, _), text in sorted(texts.items()) if topic == id_]
        topics[id_] = peoples(id_, pairs), own
    return load_config(folder / "build.toml"), topics


def of_sample() -> tuple[BuildConfig, Topics]:
    topics: Topics = {}
    given = {row["query_id"]: row for row in rows(ROOT / "examples/quickstart/questions.jsonl")}
    for path in sorted((ROOT / "examples/nuggets/answers").iterdir()):
        written = json.loads((ROOT / "examples/quickstart/answers" / path.name).read_text())
        pairs = zip(written["nuggets"], written["importance"], strict=True)
        topics[path.stem] = peoples(path.stem, pairs), [given[path.stem]["answer"]]
    return load_config(ROOT / "examples/nuggets/build.toml"), topics


def made(config: BuildConfig, mode: Mode) -> tuple[dict[str, Query], list[Nugget]]:
    """Make nuggets as the recipe does, without judging the pool by them."""
    with open_session(config, mode=mode) as session:
        recipe = WithoutAnswers(config)
        work = Work(session, recipe, Searches(session))
        found = run_stages(work, Contents(), ((recipe.begin,), *recipe.stages[:-1]))
    counts = {"topics": len(found.queries), "passages": len(work.corpus.corpus.chunks)}
    relevant = sum(map(is_relevant, found.pool))
    counts |= {"pooled": len(found.pool), "relevant": relevant, "nuggets": len(found.nuggets)}
    print(json.dumps({**counts, "failures": len(found.failures)}))
    ids, nuggets = {one.query_id: one for one in found.queries}, list(found.nuggets)
    return ids, nuggets


def compare(config: BuildConfig, topics: Topics, folder: Path, name: str, mode: Mode) -> None:
    queries, nuggets = made(config, "live" if config.model.name == BASELINE else mode)
    model = config.model.model_copy(update={"name": name})
    cache = config.cache.model_copy(update={"path": folder / "replies", "bundles": ()})
    config = config.model_copy(update={"model": model, "cache": cache})
    lists: list[ToJudge] = []
    for topic, (people, passages) in topics.items():
        own = [one for one in nuggets if one.query_id == topic]
        theirs = [one.text for one in people]
        shown = ("made", people, [one.text for one in own]), ("people", own, theirs)
        for text, of, lines in (*shown, ("held", people, ["\n\n".join(passages)])):
            lists.append(ToJudge(queries[topic], of, [as_chunk(text, "\n".join(lines))]))
    asked = [one for one in lists if one.nuggets and one.chunks[0].text]
    with open_session(config, mode="live" if name == BASELINE else mode) as session:
        found = judge(session, session.recipe.support_judge, asked, step="assignment", once=True)
        session.stop_if_deferred()
    if found.failures:
        sys.exit(found.failures[0].message)
    labels = {(one.chunk_id, one.nugget_id): one.label or 0 for one in found.judgments}
    for rated, least, (title, text, only) in product(("vital", "all"), (2, 1), SHARES):
        groups = {
            query.query_id: [
                labels.get((text, one.nugget_id), 0) >= least  # nothing is in an empty list
                for one in of
                if rated in (one.importance, "all")
                if not only or labels.get((only, one.nugget_id), 0) >= least
            ]
            for query, of, chunks in lists
            if chunks[0].chunk_id == text
        }
        sums = np.array([[sum(of), len(of)] for of in groups.values() if of])
        value = bootstrap(sums, lambda of: {"share": of[:, 0] / of[:, 1]})["share"]
        name = f"{title}, {rated}, {'fully' if least == 2 else 'at least partly'}"
        number = sum(map(len, groups.values()))
        print(json.dumps({"name": name, **value.model_dump(exclude_none=True), "of": number}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--without", nargs="*", default=[])
    for option, default in (("--model", BASELINE), ("--judge", BASELINE), ("--mode", "live")):
        parser.add_argument(option, default=default)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        try:
            if args.tiny:
                compare(*of_sample(), folder, BASELINE, "replay")
            elif args.data.exists():
                compare(*of_trec(args, folder), folder, args.judge, args.mode)
            else:
                print(json.dumps({"skipped": f"{args.data} is absent"}))
        except DeferredError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
