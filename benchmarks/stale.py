"""What `freshstack stale` names between two revisions of a repository, and what `refresh` then changes.

    python benchmarks/stale.py FOLDER
    python benchmarks/stale.py --tiny

FOLDER has repositories with their history, bare or not, by name (click, httpx, requests, jinja,
black). For each a collection of ten questions (`stale.jsonl`, with answers written for this) is
built at one revision and brought to three later ones; at the last one question is new, one retired,
and one answer edited. A label of support changed, where a refresh has no label of its nugget and
its chunk's passage, or another. `extractive/baseline` answers, and judges in a first round; in a second
the judge is strict: three lines that follow each other must have 7 of 10 of a nugget's terms; and
new questions are searched with otherwise than the plan takes it.
`--tiny` makes a repository of its own.

Prints one JSON line for each figure: name, value, goal, holds.
"""

import functools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection as Ids
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from freshstack_dspy import BuildConfig, Collection, build, refresh, stale
from freshstack_dspy.lm.engine import BaselineProvider
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.recipes.stale import Stale
from freshstack_dspy.text import terms

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

TINY = "--tiny" in sys.argv
REVISIONS = {
    "click": ("7.1.2", "8.1.3", "8.1.8", "8.2.0"),
    "httpx": ("0.18.2", "0.26.0", "0.27.0", "0.28.1"),
    "requests": ("v2.20.0", "v2.31.0", "v2.32.0", "v2.34.2"),
    "jinja": ("2.10.3", "3.1.2", "3.1.3", "3.1.6"),
    "black": ("19.10b0", "23.12.1", "24.1.0", "25.1.0"),
}
STRICT = 0.7
INCLUDE = ("docs/**", "src/**", "httpx/**", "requests/**", "click/**", "jinja2/**", "*.md", "*.rst")


def report(name: str, value: Any, goal: str = "", *, holds: bool = True) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


class Strict:
    """The baseline, but for judgments and expansions."""

    def complete(self, request: "Request") -> "Response":
        """Answer one request."""
        from dspy.lm15 import Message, Response, Usage

        task = (request.config.response_format or {}).get("name")
        inputs = json.loads(request.messages[0].text or "")
        if task == "DecomposeQuestion":
            answer: Any = {"sub_questions": [inputs["question"]["title"]]}
        elif task == "AnswerClosedBook":
            answer = {"answer": f"I do not know. {inputs['question']['title']}"}
        elif task == "JudgeSupportLevel":
            answer = self.judged(inputs)
        else:
            return BaselineProvider().complete(request)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(json.dumps(answer)),
            finish_reason="stop",
            usage=Usage(input_tokens=0, output_tokens=0),
        )

    def judged(self, inputs: Any) -> Any:
        """Judge every nugget in every chunk."""
        verdicts = [
            {
                "chunk": chunk["number"],
                "reason": "words in three lines",
                "supported": [
                    {"nugget": nugget["number"], "grade": 2, "quotes": [quote]}
                    for nugget in inputs["nuggets"]
                    if (quote := quoted(nugget["text"], chunk["text"]))
                ],
            }
            for chunk in inputs["chunks"]
        ]
        return {"verdicts": verdicts}


@functools.cache
def quoted(nugget: str, chunk: str) -> str:
    """The three lines of a chunk that have most of a nugget's terms; empty below 7 of 10."""
    wanted, lines = {*terms(nugget)}, chunk.splitlines()
    held = [{*terms(line)} & wanted for line in lines]
    shares = [
        len(set().union(*held[start : start + 3])) / max(1, len(wanted))
        for start in range(len(lines))
    ]
    best = max(range(len(lines)), key=lambda start: (shares[start], -start))
    return "\n".join(lines[best : best + 3]).strip() if shares[best] >= STRICT else ""


def questions(repository: str) -> list[dict[str, str]]:
    lines = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        {name: text for name, text in row.items() if name != "repo"}
        for row in rows
        if row["repo"] == repository
    ]


def configured(
    folder: Path, repository: Path, revision: str, rows: Sequence[dict[str, str]]
) -> BuildConfig:
    corpus = {"name": "repo", "path": repository, "revision": revision, "include": INCLUDE}
    return BuildConfig.model_validate(
        {
            "name": folder.name,
            "out": folder / "collection",
            "model": {"name": "openai/strict" if folder.name == "strict" else BASELINE},
            "queries": {"rows": rows},
            "judge": {"threshold": 2},
            "corpus": [corpus],
            "cache": {"path": folder / "cache"},
            "index": {"path": folder / "index"},
        }
    )


def provider(config: BuildConfig) -> "Strict | None":
    return None if config.model.name == BASELINE else Strict()


class Label(NamedTuple):
    """A label by what it is about."""

    query_id: str
    nugget: str
    passage: str


def labels(collection: Collection) -> dict[Label, dict[str, tuple[int | None, str]]]:
    """By content, then by chunk id: every label, and the nugget's id."""
    nuggets = {one.nugget_id: one.text for one in collection.nuggets}
    chunks = collection.corpus.chunks({one.chunk_id for one in collection.judgments})
    found: dict[Label, dict[str, tuple[int | None, str]]] = {}
    for one in collection.judgments:
        key = Label(one.query_id, nuggets[one.nugget_id], chunks[one.chunk_id].passage)
        found.setdefault(key, {})[one.chunk_id] = one.label, one.nugget_id
    return found


def became(before: Collection, after: Collection) -> dict[tuple[str, str], str]:
    """What became of each label of support, by nugget and chunk id."""
    now, found = labels(after), {}
    for key, places in labels(before).items():
        for chunk_id, (label, nugget_id) in places.items():
            if (label or 0) < before.threshold:
                continue
            same = now.get(key, {})
            kept = {of for of, _ in same.values()} == {label}
            what = "the same" if chunk_id in same else "elsewhere"
            found[nugget_id, chunk_id] = what if kept else "relabelled" if same else "lost"
    return found


def supporting(collection: Collection) -> dict[tuple[str, str], set[str]]:
    """The chunks that support each nugget, by its query and text."""
    found: dict[tuple[str, str], set[str]] = {}
    for key, places in labels(collection).items():
        ids = {id_ for id_, (label, _) in places.items() if (label or 0) >= collection.threshold}
        found.setdefault(key[:2], set()).update(ids)
    return found


def shares(named: Ids[Any], true: Ids[Any]) -> dict[str, Any]:
    """Precision and recall of what was named."""
    both = len(set(named) & set(true))
    return {
        "named": len(named),
        "true": len(true),
        "precision": round(both / len(named), 3) if named else None,
        "recall": round(both / len(true), 3) if true else None,
    }


def step(name: str, config: BuildConfig) -> None:
    """Say what is stale, refresh, and compare."""
    old = config.out.with_name(f"before {name.rpartition(' ')[-1]}")
    before = Collection.load(config.out).save(old)  # for a refresh replaces the folder
    start = time.perf_counter()
    found = stale(config, progress=False)
    seconds = round(time.perf_counter() - start, 1)
    after = refresh(config, progress=False, provider=provider(config))
    truth = became(before, after.collection)
    named = {(one.nugget_id, one.chunk_id) for one in found.labels}
    changed = {key for key, what in truth.items() if what in ("lost", "relabelled")}
    labelled = shares(named, changed)
    size = {"chunks": tuple(found.chunks.model_dump().values()), "labels": len(truth)}
    holds = labelled["precision"] in (1, None) and labelled["recall"] in (1, None)
    report(f"{name}: labels", size | labelled | Counter(truth.values()), "1, 1", holds=holds)
    of_texts(name, found, before, after.collection)
    asked = found.plan.total
    calls = asked.requests - asked.recorded
    value = {"planned": calls, "made": after.calls, "seconds": seconds}
    report(f"{name}: calls", value, "the same", holds=calls == after.calls)


def of_texts(name: str, found: Stale, before: Collection, after: Collection) -> None:
    """What `moved`, `gone`, `near` and `unsupported` say of the new chunks, by their labels."""
    now, old = supporting(after), supporting(before)
    texts = {one.nugget_id: (one.query_id, one.text) for one in before.nuggets}
    there = {one.passage for one in before.chunks()}
    ids = {one.chunk_id for one in after.chunks() if one.passage not in there}
    new = {key: of & ids for key, of in now.items()}
    paths = {one.chunk_id: one.path for one in after.chunks() if one.chunk_id in ids}
    kinds: Counter[str] = Counter()
    for one in found.labels:
        key, path = texts[one.nugget_id], before.chunk(one.chunk_id).path
        again = {id_ for id_ in new.get(key, ()) if paths[id_] == path}
        kinds[one.change] += 1
        kinds[f"{one.change}, supported there"] += one.now in now.get(key, ())
        kinds[f"{one.change}, supported in a new chunk of the file"] += bool(again)
        kinds[f"{one.change}, supported in a new chunk"] += bool(new.get(key))
        kinds[f"{one.change}, to another file"] += one.now is not None and paths[one.now] != path
    report(f"{name}: kinds", +kinds)
    lost = {key for key, of in old.items() if of and key in now and not now[key]}
    bare = [one for one in found.nuggets if one.unsupported]
    unsupported = {texts[one.nugget_id]: bool(one.near) for one in bare}
    value = shares(unsupported, lost) | {"with new chunks near": sum(unsupported.values())}
    report(f"{name}: nuggets left without support", value | {"nuggets": len(texts)})
    near = {(texts[one.nugget_id], id_) for one in found.nuggets for id_ in one.near}
    known = set(texts.values())
    report(
        f"{name}: near",
        shares(near, {(key, id_) for key, of in new.items() if key in known for id_ in of}),
    )


def revised(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Another dump: the first question is retired, the second's answer has a sentence less."""
    answer = rows[1]["answer"].rpartition(". ")[0]
    return [{**rows[1], "answer": f"{answer}."}, *map(dict, rows[2:])]


def run(name: str, repository: Path, revisions: Sequence[str], folder: Path) -> None:
    rows = questions(name) or questions("click")[:3]
    for judge in ("baseline", "strict"):
        place = folder / name / judge
        place.mkdir(parents=True)
        config = configured(place, repository, revisions[0], rows[:-1])
        build(config, progress=False, provider=provider(config))
        for before, now in pairwise(revisions):
            asked = revised(rows) if now == revisions[-1] else rows[:-1]
            step(f"{judge}: {name} {before} to {now}", configured(place, repository, now, asked))


def made(folder: Path) -> Path:
    """A repository of three revisions."""
    texts = (
        "Use click.confirm to ask for confirmation. With abort=True it aborts.\n",
        "# Prompts\n\nUse click.confirm to ask for confirmation. With abort=True it aborts.\n",
        "An option reads an environment variable that envvar names.\n",
    )
    folder.mkdir()
    author = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "init", "-q", folder], check=True)
    for number, text in enumerate(texts):
        (folder / "README.md").write_text(text, encoding="utf-8")
        for words in (("add", "-A"), ("commit", "-qm", "x"), ("tag", f"v{number}")):
            subprocess.run(["git", "-C", folder, *author, *words], check=True)
    return folder


def main(folder: Path) -> None:
    if TINY:
        run("tiny", made(folder / "repository"), ("v0", "v1", "v2"), folder)
        return
    given = [Path(word) for word in sys.argv[1:]]
    if not given:
        report("stale", "skipped: name the folder of the repositories")
        return
    for name, revisions in REVISIONS.items():
        if (given[0] / name).is_dir():
            run(name, given[0] / name, revisions, folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
