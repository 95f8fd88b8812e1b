"""Reading BEIR collections: a corpus, queries and qrels; one nugget for each query.

Source: Thakur et al., BEIR, 2021. Grades are kept, on the smallest scale that holds them.
"""

from pathlib import Path

from freshstack_dspy.collection.imports.foreign import (
    Gathered,
    Qrel,
    Row,
    find_part,
    inside,
    read_documents,
    read_qrels,
    read_rows,
    shown,
    the_part,
)
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import SCALES, Scale, ScaleName

_CORPUS = ("corpus.jsonl", "corpus.jsonl.gz", "corpus*.parquet", "corpus")
_QUERIES = ("queries.jsonl", "queries.jsonl.gz", "queries*.parquet", "queries")
_QRELS = (
    "qrels/*.tsv", "qrels/*.txt", "qrels/*.jsonl", "qrels/*.parquet", "qrels*.tsv", "qrels*.txt",
    "qrels*.jsonl", "*.qrels", "data/*.parquet", "default/*.parquet",
)  # fmt: skip
_COLUMNS = ("_id", "id", "text", "title", "metadata")
_LARGEST = max(defined.highest for defined in SCALES.values())
UNJUDGED = "not in the qrels"
"""Why a query of a BEIR collection is left out: it belongs to another split."""


def read_beir(
    path: Path, *, corpus: Path | None, source: str, threshold: int | None, split: str | None
) -> Gathered:
    """Read a BEIR collection.

    A query's one nugget is its text. A grade of 1 or more is support unless a threshold is given,
    as the measures of BEIR have it. A grade below 0 is none: its judgment has no label. Where a
    grade is above 5, which no scale holds, the threshold must be given, and labels are 0 and 1.

    Args:
        path: A folder with `corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv` or TREC qrels.
        corpus: Where the corpus is, if not there.
        source: What the corpus is called.
        threshold: The lowest grade that counts as support.
        split: Which qrels, where there are several.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be.
    """
    given = Gathered.of(path)
    texts = {
        _take_query(given, row): row
        for row in read_rows(given.reads(the_part(path, "queries", _QUERIES)), _COLUMNS)
    }
    judged: dict[str, list[Qrel]] = {}
    for qrel in read_qrels(given.reads(_qrels_file(path, split))):
        query_id = given.notes.queries.get(qrel.query_id, qrel.query_id)
        judged.setdefault(query_id, []).append(qrel)
    yes = _yes_from(judged, threshold)
    given.scale = Scale() if yes else _scale_of(judged, threshold)
    for query_id, qrels in judged.items():
        if query_id in given.queries:
            _judge(given, texts[query_id], query_id, qrels, yes)
        else:
            given.dangling[query_id] = len(qrels)
    _leave_out(given, [query_id for query_id in given.queries if query_id not in judged])
    found = corpus or find_part(path, "the corpus", _CORPUS)
    if found:
        given.documents = read_documents(given.reads(found), source, given.notes.chunks)
    return given


def _take_query(given: Gathered, row: Row) -> str:
    text, told, own = row.text("text"), row.inner("metadata"), row.id("_id", "id")
    if not text.strip():
        raise row.fault("text", "a question; a query without one has no nugget")
    title, body = _parted(text, told.values.get("title"))
    return given.add_query(
        row,
        query_id=given.notes.queries.get(own, own),
        title=title,
        body=body,
        tags=told.texts("tags"),
        asked_at=told.optional("date"),
    ).query_id


def _parted(text: str, title: object) -> tuple[str, str]:
    """Part a query into title and body where its title is told; else it is all title."""
    if isinstance(title, str) and text.startswith(f"{title} ") and f"{title} ".strip():
        return title, text[len(title) + 1 :]
    return ("", text) if title == "" else (text, "")


def _judge(given: Gathered, row: Row, query_id: str, qrels: list[Qrel], yes: int | None) -> None:
    nugget = given.add_nugget(
        row, nugget_id=f"{query_id}_0", query_id=query_id, text=given.queries[query_id].text
    )
    for qrel in qrels:
        chunk_id = given.notes.chunks.get(qrel.doc_id, qrel.doc_id)
        if qrel.grade < 0:
            given.judge(nugget, chunk_id, None, "failed", f"grade {qrel.grade}")
        else:
            given.judge(nugget, chunk_id, int(qrel.grade >= yes) if yes else qrel.grade)


def _leave_out(given: Gathered, unjudged: list[str]) -> None:
    for query_id in unjudged:
        del given.queries[query_id]
    if unjudged:
        given.rejected[UNJUDGED] = len(unjudged)


def _yes_from(judged: dict[str, list[Qrel]], threshold: int | None) -> int | None:
    """Give the threshold where it makes labels 0 and 1, for no scale holds the grades.

    Raises:
        SourceError: No scale holds them, and there is no threshold.
    """
    top = max(
        (qrel for each in judged.values() for qrel in each),
        key=lambda qrel: qrel.grade,
        default=None,
    )
    if top is None or top.grade <= _LARGEST:
        return None
    if threshold is None:
        raise SourceError(
            f"{top.place}: grade {top.grade} of document {shown(top.doc_id)} is above {_LARGEST}, "
            "the highest of any scale; give the lowest grade that counts as support, and labels "
            "become 0 and 1: --threshold 1"
        )
    return threshold


def _scale_of(judged: dict[str, list[Qrel]], threshold: int | None) -> Scale:
    """Choose the smallest scale that holds all grades.

    Raises:
        SourceError: The threshold is above it.
    """
    highest = max((qrel.grade for each in judged.values() for qrel in each), default=1)
    fitting: list[ScaleName] = [
        name for name, defined in SCALES.items() if defined.highest >= highest
    ]
    name = fitting[0]
    if threshold is not None and threshold > SCALES[name].highest:
        raise SourceError(
            f"threshold {threshold}: the highest grade is {highest}, so that the scale is {name}; "
            f"allowed: 1 to {SCALES[name].highest}"
        )
    return Scale(name=name, threshold=threshold or 1)


def _qrels_file(path: Path, split: str | None) -> Path:
    for pattern in _QRELS:
        found = {_split_of(file): inside(path, file) for file in sorted(path.glob(pattern))}
        if not found:
            continue
        if split is None and len(found) == 1:
            return next(iter(found.values()))
        if split in found:
            return found[split]
        said = "has several splits" if split is None else f"has no split {split!r}"
        raise SourceError(f"{path}: {said}; allowed: --split {' or '.join(found)}")
    raise SourceError(f"{path}: has no qrels; looked for {', '.join(_QRELS)}")


def _split_of(file: Path) -> str:
    """`qrels.test.txt`, `qrels/test.tsv` and `test.qrels` are all of the split `test`."""
    kept = [part for part in file.name.split(".")[:-1] if part != "qrels"]
    return ".".join(kept) or file.stem
