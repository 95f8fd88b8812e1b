"""`freshstack agree` on people's labels of TREC RAG 2024, with `extractive/baseline` as the judge.

Nuggets assigned to answers, and sentences held against the passages that they cite, are written as
nuggetizer's files, imported (`import --format nuggetizer`), judged again by the baseline
(`rejudge`) and compared (`agree`). The citations were assessed in three modes; what several runs
cite for the same sentence was labelled anew for each, which is the ceiling here. Read from
../shared/data.

    python benchmarks/agreement.py [--tiny]
"""

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.cli import main
from freshstack_dspy.collection.importing import import_collection
from freshstack_dspy.files import encode_records
from freshstack_dspy.recipes.rejudge import rejudge
from freshstack_dspy.records import HumanLabel

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
ASSIGNED = ("not_support", "partial_support", "support")
JUDGE = '[model]\nname = "extractive/baseline"\n[judge]\nshape = "windowed"\n'


class Labelled(NamedTuple):
    """What one person said of one nugget and one text."""

    query_id: str
    query: str
    nugget: str
    chunk_id: str
    chunk: str
    label: int
    mode: str


def assignments() -> Iterator[Labelled]:
    path = DATA / "trec-rag24-nugget-assignments" / "assignments.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        chunk_id = f"{row['run_id']}/{row['qid']}"
        for one in row["nuggets"]:
            label = ASSIGNED.index(one["assignment"])
            texts = row["query"], one["text"], chunk_id, row["answer_text"]
            yield Labelled(row["qid"], *texts, label, "assignments")


def citations() -> Iterator[Labelled]:
    path = DATA / "trec-rag24-citation-support" / "support.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        texts = row["topic"], row["sentence"], row["passage_id"], row["passage"]
        yield Labelled(row["topic"], *texts, row["support"], row["source"])


def compare(name: str, labelled: Iterable[Labelled], folder: Path) -> None:
    folder.mkdir(parents=True)
    given = list(labelled)
    ids: dict[tuple[str, str], str] = {}
    for one in given:
        ids.setdefault((one.query_id, one.nugget), f"{one.query_id}_{len(ids)}")
    nuggets: defaultdict[str, dict[str, str]] = defaultdict(dict)
    rows: dict[tuple[str, str], dict[str, str]] = {}
    first: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    times: defaultdict[tuple[str, str], int] = defaultdict(int)
    labels: defaultdict[str, list[HumanLabel]] = defaultdict(list)
    for one in given:
        nugget_id, place = ids[one.query_id, one.nugget], (one.query_id, one.chunk_id)
        nuggets[one.query_id][nugget_id] = one.nugget
        rows[place] = {"qid": one.query_id, "docid": one.chunk_id, "candidate_text": one.chunk}
        first[place].setdefault(nugget_id, one.label)
        times[nugget_id, one.chunk_id] += 1
        labels[one.mode].append(
            HumanLabel(
                query_id=one.query_id,
                nugget_id=nugget_id,
                chunk_id=one.chunk_id,
                label=one.label,
                annotator=f"NIST, time {times[nugget_id, one.chunk_id]}",
            )
        )
    queries = {one.query_id: one.query for one in given}
    with (folder / "nuggets.jsonl").open("w") as file:
        for query_id, of in nuggets.items():
            listed = [{"nugget_id": id_, "text": text} for id_, text in of.items()]
            line = {"qid": query_id, "query": queries[query_id], "nuggets": listed}
            file.write(f"{json.dumps(line)}\n")
    with (folder / "assignments.jsonl").open("w") as file:
        for place, row in rows.items():
            assigned = [
                {"nugget_id": id_, "text": nuggets[place[0]][id_], "assignment": ASSIGNED[label]}
                for id_, label in first[place].items()
            ]
            file.write(f"{json.dumps({**row, 'nuggets': assigned})}\n")
    (folder / "judge.toml").write_text(JUDGE)
    import_collection("nuggetizer", folder, folder.with_name(f"{name}-people"))
    rejudged = folder.with_name(f"{name}-baseline")
    rejudge(folder.with_name(f"{name}-people"), folder / "judge.toml", rejudged)
    paths = []
    for mode, of_mode in labels.items():
        paths.append(folder / f"labels-{mode}.jsonl")
        paths[-1].write_bytes(encode_records(of_mode))
    for chosen in [paths, *([path] for path in paths if len(paths) > 1)]:
        print(f"\n{name}: {', '.join(path.stem for path in chosen)}", flush=True)
        sys.argv = ["freshstack", "agree", str(rejudged), *map(str, chosen)]
        try:
            main()
        except SystemExit as left:
            assert not left.code  # noqa: PT017 - a script


if __name__ == "__main__":
    most = 200 if "--tiny" in sys.argv else None
    if not DATA.exists():
        print(json.dumps({"skipped": f"{DATA} is absent"}))
        sys.exit()
    with tempfile.TemporaryDirectory() as out:
        compare("assignments", islice(assignments(), most), Path(out, "assignments"))
        compare("citations", islice(citations(), most), Path(out, "citations"))
