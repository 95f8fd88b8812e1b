"""The judgments that people are asked to label: a stratified sample with known probabilities."""

import hashlib
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from freshstack_dspy.calibration.labels import ItemId, PairId
from freshstack_dspy.calibration.reports import REPORTS, read_reports, report_strata
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import (
    canonical_line,
    check_writable,
    decode_records,
    encode_records,
    write_file,
)
from freshstack_dspy.measures.kappa import KAPPA_HALF_WIDTH
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import (
    Agreement,
    Answer,
    LabelTask,
    Record,
    SampleHeader,
    TaskKind,
    Vote,
)
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.record_files import RecordFile, rows

Purpose = Literal["agreement", "share", "runs"]
"""What labels of pairs are for: how well the judge agrees with people, what share of the pairs
support, or what runs' values would be. The first two use the same sample, of single pairs."""
DEFAULT_LIMITS = {"agreement": 200, "share": 200, "runs": 20}
_HALF_WIDTHS = {"agreement": KAPPA_HALF_WIDTH, "share": 0.61, "runs": 0.32}
"""To be multiplied by 1 / sqrt(n), for n pairs or (runs) queries: `expected_half_width`."""
WHOLE_QUERIES = "whole queries"
"""The stratum of pairs that were drawn with all other judged pairs of their query."""
FLOOR = 5
"""How many of each stratum are drawn before any stratum gets more."""
_OR = "\n\n– or –\n\n"
"""Separates several gold answers."""
_UNSURE, _DIFFER = ", unsure", ", judges differ"
ItemT = TypeVar("ItemT", bound=ItemId)
Strata = dict[ItemId, str]
Asked = dict[ItemId, list[dict[str, str]]]
"""The fields of each task of an item, beyond its ids."""
_PAIR = ("query_id", "nugget_id", "chunk_id")
_IDS: Mapping[str, tuple[str, ...]] = dict.fromkeys(("answer", "report"), ("query_id", "run_id"))
"""What the ids of an item are, if it is not a pair."""


@dataclass(frozen=True, repr=False)
class Sample(Shown):
    """A sample of tasks."""

    tasks: tuple[LabelTask, ...]
    """Queries in random order, with the tasks of each together, by nugget or report."""
    strata: dict[str, tuple[int, int]]
    """The size of each stratum, and how many were drawn; queries for `WHOLE_QUERIES`."""
    kept: int
    """How many of the tasks were drawn before."""
    half_width: float | None = None
    """The precision that these labels of pairs will give: `expected_half_width`."""
    kind: str = "support"
    purpose: Purpose = "agreement"
    limit: int = 0
    """How many tasks were requested; for kind `report`, how many reports."""
    seconds: float | None = None
    """The median time of the labels by people that the collection was built with, if known."""

    def __repr__(self) -> str:
        return f"Sample({counted(len(self.tasks), 'task')} of kind {self.kind})"


def expected_half_width(purpose: Purpose, drawn: int, items: int) -> float:
    """Estimate the half-width of the 95% interval.

    It is the interval of kappa, of the share of pairs that support, or of a run's mean
    alpha_nDCG@10. In simulations of a judge that errs like one on TREC RAG 2024 (sensitivity .79,
    specificity .91; a better judge has narrower intervals) it is a constant / sqrt(n), times
    sqrt(1 - n/N) for the share and for runs.

    Source: benchmarks/LOG.md, 2026-11-23, `correction.py`.

    Args:
        purpose: What the labels are for.
        drawn: How many pairs or, for runs, whole queries are labelled.
        items: How many there are.
    """
    left = 1.0 if purpose == "agreement" else 1 - drawn / items
    return _HALF_WIDTHS[purpose] * math.sqrt(left / drawn)


def strata(collection: Contents, against: Contents | None = None) -> dict[PairId, str]:
    """Give the stratum of every judged pair: the judge's label, and whether it is unsure.

    `label 1, unsure`: the votes differ, or the label is above 0 without evidence in a collection
    whose judge quotes evidence. `label 1, judges differ`: another judge gave another label. A pair
    whose judgment failed has no label, and so no stratum.

    Args:
        collection: The judged collection.
        against: The same pairs, judged by another model or prompt.
    """
    ids = "query_id", "nugget_id", "chunk_id"
    others = rows(against.judgments, *ids, "label") if against else ()
    other = {(query, nugget, chunk): label for query, nugget, chunk, label in others}
    quotes = any(evidence for (evidence,) in rows(collection.judgments, "evidence"))
    by_pair: dict[PairId, str] = {}
    for query_id, nugget_id, chunk_id, label, evidence, votes in rows(
        collection.judgments, *ids, "label", "evidence", "votes"
    ):
        if label is None:
            continue
        pair = query_id, nugget_id, chunk_id
        unsure = _differ(votes) or (quotes and label and not evidence)
        differs = other.get(pair, label) not in (label, None)
        by_pair[pair] = f"label {label}{_DIFFER if differs else _UNSURE if unsure else ''}"
    return by_pair


def _differ(votes: Sequence[Vote]) -> bool:
    labels: dict[int, int] = {}  # a vote on a chunk in parts is the highest label of the parts
    for vote in votes:
        if vote.label is not None:
            labels[vote.vote] = max(labels.get(vote.vote, 0), vote.label)
    return len(set(labels.values())) > 1


def weights(
    labels: Sequence[Any], strata: Mapping[ItemT, str], item: Callable[[Any], ItemT]
) -> dict[ItemT, float]:
    """Compute how many judged pairs each labelled pair stands for; 1 if it was not sampled.

    In each stratum it is the number of judged pairs divided by that of labelled pairs, so that it
    stays right if tasks were added to a sample later, or not labelled. In `WHOLE_QUERIES` it is the
    number of queries divided by that of labelled queries. If the strata are not the sampled ones
    (after rejudging, or if drawn against another judge), it is 1 / probability, with the largest
    probability of the stratum.

    Args:
        labels: Labels of one kind, or anything with a stratum and a probability; several people's
            labels of a pair are one pair.
        strata: The strata of the collection, from `strata`.
        item: Gives the item of a label, such as `pair_of` for labels of pairs.
    """
    pairs: defaultdict[str, set[ItemT]] = defaultdict(set)
    highest: defaultdict[str, float] = defaultdict(float)
    for label in labels:
        name = label.stratum or ""
        pairs[name].add(item(label))
        highest[name] = max(highest[name], label.probability or 1)
    whole, unsampled = pairs.pop(WHOLE_QUERIES, set()), pairs.pop("", set())
    by_item = dict.fromkeys(unsampled, 1.0)
    if whole:
        queries = len({pair[0] for pair in strata})
        by_item.update(dict.fromkeys(whole, queries / len({pair[0] for pair in whole})))
    same = all(strata.get(pair) == name for name, group in pairs.items() for pair in group)
    sizes = Counter(strata.values())
    for name, group in pairs.items():
        weight = sizes[name] / len(group) if same else 1 / highest[name]
        by_item.update(dict.fromkeys(group, weight))
    return by_item


def sample(
    collection: Collection | Path | str,
    out: Path | str,
    kind: TaskKind = "support",
    limit: int | None = None,
    *,
    purpose: Purpose = "agreement",
    seed: int = 0,
    **options: Any,
) -> Sample:
    """Draw tasks for people, and write them to a file, or add them to those that it has.

    A file may have tasks of several kinds. The tasks of one kind are one sample: a larger `limit`
    adds to what was drawn, and the probabilities are then those of the larger sample. The file
    begins with a `SampleHeader`; the other arguments are those of `draw`.

    Raises:
        CollectionError: The file has tasks of another collection, or drawn in another way; or as in
            `draw`.
    """
    out, loaded = Path(out), Collection.load(collection)
    check_writable(out)
    before: tuple[LabelTask, ...] = ()
    if out.exists():
        first, before = read_tasks(out, loaded)
        if first.seed != seed:
            raise CollectionError(
                f"{out}: drawn with seed {first.seed}; take that seed, or name another file"
            )
    drawn = [task for task in before if task.kind == kind]
    ids = ("query_id",) if purpose == "runs" else _IDS.get(kind, _PAIR)
    before_now = {tuple(getattr(task, name) for name in ids) for task in drawn}
    limit = max(_default_limit(kind, purpose) if limit is None else limit, len(before_now))
    drawing = draw(loaded, kind, limit, purpose=purpose, seed=seed, **options)
    if not {*map(_without_probability, drawn)} <= {*map(_without_probability, drawing.tasks)}:
        raise CollectionError(
            f"{out}: its tasks of kind {kind!r} were drawn in another way (what they are "
            "for, or what they were drawn against or of, differs); draw as before, or name another "
            "file"
        )
    folder = collection.name if isinstance(collection, Collection) else collection
    header = SampleHeader(
        collection=os.path.relpath(folder, out.parent),
        content=loaded.manifest.content_hash,
        seed=seed,
    )
    others = [task for task in before if task.kind != kind]
    write_file(out, encode_records([header, *others, *drawing.tasks]))
    return replace(drawing, kept=len(drawn))


def draw(
    collection: Collection,
    kind: TaskKind = "support",
    limit: int | None = None,
    *,
    purpose: Purpose = "agreement",
    seed: int = 0,
    against: Collection | None = None,
    answers: Path | None = None,
) -> Sample:
    """Draw tasks.

    Each item has a fixed random number, the hash of seed and ids. From each stratum the items with
    the lowest numbers are drawn, as many as `allocated` says, so that a larger sample contains the
    smaller one.

    Args:
        collection: The judged collection.
        kind: What people are asked: `support` and `answerability` about pairs, `nuggets` about
            queries, `answer` about the answers in `answers`, `report` about every answerable
            sub-question of the reports in `answers`, as many of each run.
        limit: How many tasks, 200 by default, or reports, 30 by default; for `runs` how many
            queries, 20 by default.
        purpose: What labels are for. Measures of `runs` are not means over single pairs, so whole
            queries are drawn, with all their judged pairs or reports.
        seed: The seed of the random numbers; another seed gives another sample.
        against: The same pairs judged by another model or prompt; a difference shows where the
            judge is unsure.
        answers: A folder of `freshstack answer`; of reports, also a file of `freshstack contexts`.

    Raises:
        CollectionError: There is nothing of this kind to label, or no such folder of answers.
        ConfigError: The kind needs `answers`, or is not drawn by query although the purpose is
            `runs`.
        SourceError: The reports cannot be read.
    """
    is_pairs = kind in ("support", "answerability")
    if purpose == "runs" and not is_pairs and kind != "report":
        raise ConfigError(
            f"labels for 'runs' are of judged pairs or reports, and those of kind {kind!r} not"
        )
    stratum, asked = _items(collection, kind, against, answers)
    if not stratum:
        raise CollectionError(f"{collection.name!r} has nothing of kind {kind!r} to label")
    limit = _default_limit(kind, purpose) if limit is None else limit
    queries = sorted({item[0] for item in stratum}, key=lambda query: _number(seed, query))
    place = {query: number for number, query in enumerate(queries)}
    numbers = {item: _number(seed, *item) for item in stratum}
    if purpose == "runs":
        sizes = Counter({WHOLE_QUERIES: len(queries)})
        counts = Counter({WHOLE_QUERIES: min(limit, len(queries))})
        drawn = [item for item in stratum if place[item[0]] < limit]
        stratum = dict.fromkeys(drawn, WHOLE_QUERIES)
    else:
        sizes = Counter(stratum.values())
        unsure = {name for name in sizes if name.endswith((_UNSURE, _DIFFER))}
        counts = allocated(sizes, limit, unsure if is_pairs else ())
        left, drawn = Counter(counts), []
        for item in sorted(stratum, key=numbers.__getitem__):
            if left[stratum[item]] > 0:
                left[stratum[item]] -= 1
                drawn.append(item)
    # By nugget; reports in random order, which does not tell their runs.
    within = 1 if kind == "report" else 2
    drawn.sort(key=lambda item: (place[item[0]], item[1:within], numbers[item]))
    names = _IDS.get(kind, _PAIR)
    tasks = tuple(
        LabelTask.model_validate(
            {
                "kind": kind,
                **dict(zip(names, item, strict=False)),
                **fields,
                "stratum": stratum[item],
                "probability": counts[stratum[item]] / sizes[stratum[item]],
            }
        )
        for item in drawn
        for fields in asked.get(item, [{}])
    )
    half_width = None
    if is_pairs:
        half_width = expected_half_width(purpose, counts.total(), sizes.total())
    parts = {name: (size, counts[name]) for name, size in sorted(sizes.items())}
    trust = collection.manifest.trust
    return Sample(
        tasks, parts, 0, half_width, kind, purpose, limit, trust.seconds if trust else None
    )


def _items(
    collection: Collection, kind: TaskKind, against: Collection | None, answers: Path | None
) -> tuple[Strata, Asked]:
    """Give the stratum of each item that can be drawn, and what is asked of it beyond its ids."""
    if kind in ("support", "answerability"):
        return dict(strata(collection, against).items()), {}
    if kind == "nuggets":
        return {(part.query_id,): part.slice for part in collection.slices}, {}
    if answers is None:
        file = ", or the file of `freshstack contexts --out`" if kind == "report" else ""
        raise ConfigError(f"kind {kind!r} needs answers: the folder of `freshstack answer`{file}")
    return _reports(answers, collection) if kind == "report" else _answers(answers)


def _default_limit(kind: TaskKind, purpose: Purpose) -> int:
    return REPORTS if kind == "report" and purpose != "runs" else DEFAULT_LIMITS[purpose]


def allocated(sizes: Mapping[str, int], limit: int, unsure: Names[str] = ()) -> Counter[str]:
    """Compute how many of each stratum are drawn; a larger limit never draws fewer of a stratum.

    `FLOOR` of each stratum come first. The rest is shared out in proportion to the square root of
    the stratum's size (Sainte-Laguë's divisors), doubled where the judge is unsure.
    """
    drawn: Counter[str] = Counter()
    weight = {
        name: math.sqrt(size) * (1 + (name in unsure)) for name, size in sorted(sizes.items())
    }
    for _ in range(min(limit, sum(sizes.values()))):
        left = [name for name in weight if drawn[name] < sizes[name]]
        below = [name for name in left if drawn[name] < FLOOR]
        if below:
            drawn[min(below, key=lambda name: drawn[name])] += 1
        else:
            drawn[max(left, key=lambda name: weight[name] / (2 * drawn[name] + 1))] += 1
    return drawn


def read_tasks(
    path: Path | str, collection: Collection | None = None
) -> tuple[SampleHeader, tuple[LabelTask, ...]]:
    """Read a file of tasks.

    Raises:
        CollectionError: The file cannot be read or has no tasks, or was drawn from another
            collection.
    """
    path = Path(path)
    try:
        first, end, rest = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise CollectionError(f"{path}: cannot be read: {error.strerror}") from None
    if not end:
        raise CollectionError(f"{path}: no file of tasks; `freshstack sample` writes one")
    try:
        [header] = decode_records(first + end, SampleHeader, path)
    except CollectionError:
        raise CollectionError(
            f"{path}: neither tasks, which `freshstack sample` writes, nor a collection's folder"
        ) from None
    if collection is not None and header.content != collection.manifest.content_hash:
        raise CollectionError(
            f"{path}: drawn from {header.collection!r} with content {header.content[:12]}, and "
            f"{collection.name!r} has content {collection.manifest.content_hash[:12]}; draw from it "
            "into a new file"
        )
    return header, decode_records(rest, LabelTask, path, first_line=2)


def _number(seed: int, *ids: str) -> str:
    return hashlib.sha256("\0".join((str(seed), *ids)).encode()).hexdigest()


def _without_probability(task: LabelTask) -> str:
    return canonical_line(task.model_copy(update={"probability": 1}))


def _reports(path: Path, collection: Collection) -> tuple[Strata, Asked]:
    """Read rated reports: their strata, and the tasks of each."""
    reports = read_reports(path, collection)
    asked: Asked = {
        report_id: [{"nugget_id": nugget_id, "answer": report.text} for nugget_id in report.ratings]
        for report_id, report in reports.items()
    }
    return dict(report_strata(reports).items()), asked


def _answers(folder: Path) -> tuple[Strata, Asked]:
    """Read the compared answers of a folder: their strata, and their texts with the gold ones."""

    def read(name: str, record: type[Record]) -> Any:
        return RecordFile(name, record, ()).open(folder)

    texts: dict[ItemId, str] = {
        (answer.topic_id, answer.run_id): answer.text for answer in read("answers", Answer)
    }
    golds: defaultdict[str, list[str]] = defaultdict(list)
    for gold in read("gold_answers", Answer):
        if gold.is_answered:
            golds[gold.topic_id].append(gold.text)
    verdicts: Strata = {
        (agreement.query_id, agreement.run_id): "agrees" if agreement.agrees else "disagrees"
        for agreement in read("agreement", Agreement)
        if agreement.agrees is not None
    }
    return verdicts, {
        item: [{"answer": texts[item], "gold_answer": _OR.join(golds[item[0]])}]
        for item in verdicts
    }
