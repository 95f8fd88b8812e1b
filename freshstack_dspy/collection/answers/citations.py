"""Reading the labels of citations, as the TREC RAG track has them.

Source: castorini/RAGDoll 0.1.0, the label files of its `support` commands and of NIST.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from freshstack_dspy.collection.answers.keys import Keys, rows_of
from freshstack_dspy.collection.imports.rows import Row
from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.answers import Citation, CitedAnswer, Support

_LABELS: dict[str | int, Support | None] = {
    0: 0,
    1: 1,
    2: 2,
    -1: None,
    "0": 0,
    "1": 1,
    "2": 2,
    "-1": None,
}


def read_citations(paths: Iterable[Path]) -> tuple[CitedAnswer, ...]:
    """Read how far each citation supports its sentence.

    A row: `{"topic_id", "run_id", "sentences": [{"sentenceID", "text", "citations":
    [{"citationID", "reference", "support"}, …]}, …]}`, with the labels 2 full, 1 partial, 0 none
    and -1, null or nothing where there is none, as numbers or texts. A citation is outside of the
    answer's references where its `reference` is null or empty, or where the row also has a list
    `references` that does not hold it.

    Args:
        paths: JSON Lines (also gzip), JSON or Parquet.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be,
            or a run has two answers to a query, an answer a sentenceID twice, or a sentence a
            citationID twice.
    """
    keys = Keys()
    answers = []
    for row in rows_of(paths):
        if row.has("answer") and not row.has("sentences"):
            raise SourceError(
                f"{row.place}: an answer with its citations, and no label of any; label them first "
                "(no command does), and give a file of run_id, topic_id, references and sentences: "
                '[{"sentenceID", "citations": [{"citationID", "reference", "support": 2, 1, 0 or '
                "-1}]}]"
            )
        run, query = keys.take(row)
        references = frozenset(row.texts("references"))
        known = references if row.values.get("references") is not None else None
        sentences = [
            tuple(_citations(sentence, known)) for sentence in _once(row, "sentences", "sentenceID")
        ]
        answers.append(CitedAnswer(run, query, tuple(sentences)))
    return tuple(answers)


def _once(row: Row, name: str, id_: str) -> Iterator[Row]:
    """Give the objects of a list; those that have an id have it once."""
    seen = set()
    for each in row.inners(name):
        if each.values.get(id_) is not None:
            value = each.id(id_)
            if value in seen:
                raise SourceError(f"{row.place}: {id_} {value[:80]!r} stands twice; keep one")
            seen.add(value)
        yield each


def _citations(sentence: Row, references: frozenset[str] | None) -> Iterator[Citation]:
    if sentence.values.get("citations") is None:
        return
    for each in _once(sentence, "citations", "citationID"):
        reference = each.optional("reference")
        outside = reference is None if "reference" in each.values else False
        if references is not None:
            outside = reference not in references
        yield Citation(reference, _support(each), outside)


def _support(row: Row) -> Support | None:
    value = row.values.get("support")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or value not in _LABELS:
        raise row.fault("support", "2, 1, 0, or -1 where there is no label")
    return _LABELS[value]
