"""Nugget banks: the nuggets of a topic as TREC Auto-Judge, RAGTIME and nuggetizer exchange them.

`bank` and its neighbours give the JSON of one topic, `read_bank` reads any of them:

    v3            autojudge-base's own: questions in `nugget_bank`, claims in `claim_bank`
    RAGTIME 2026  questions with answers, which all (AND) or any (OR) are to be there
    nuggetizer    a list of nuggets with their importance
    nugget-docs   for each nugget the documents that hold it, a file for each topic
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from freshstack_dspy.records import Importance, Spans
from freshstack_dspy.rows import Row

_DOCUMENTS = "OPEN_ENDED_ANSWER"


class BankNugget(NamedTuple):
    """A nugget of a bank, with what the bank says of documents."""

    nugget_id: str | None
    text: str
    importance: Importance | None = None
    labels: Mapping[str, int | None] = {}
    """Document -> label: 1 of those it refers to; all labels where we wrote the bank."""
    evidence: Mapping[str, Spans] = {}
    """Document -> places in its text in UTF-8, in bytes."""


class Bank(NamedTuple):
    """The nuggets of a topic."""

    query_id: str
    query: str
    """Its text; empty where the bank does not hold it."""
    nuggets: tuple[BankNugget, ...]


def bank(query_id: str, title: str, nuggets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Write a bank in the format v3, of claims by their keys."""
    claims = {key: {**claim, "query_id": query_id} for key, claim in nuggets.items()}
    named = {"query_id": query_id, "title_query": title, "format_version": "v3"}
    return {**named, "claim_bank": claims}


def claim(
    nugget: BankNugget, references: Sequence[str], texts: Mapping[str, str]
) -> dict[str, Any]:
    """Write a claim; each place of evidence is a reference, and so is a document without any.

    Args:
        nugget: Its labels are written too, for those who read the bank back.
        references: The documents that support it.
        texts: Their texts.
    """
    found: list[dict[str, Any]] = []
    for document in references:
        data = texts.get(document, "").encode()
        found += [
            {
                "doc_id": document,
                "text": data[start:end].decode(),
                "offsets": {"start_offset": start, "end_offset": end, "encoding": "bytes"},
            }
            for start, end in nugget.evidence.get(document, ())
        ] or [{"doc_id": document}]
    written: dict[str, Any] = {"claim": nugget.text, "claim_id": nugget.nugget_id}
    if nugget.importance is not None:
        written["importance"] = nugget.importance
    return {**written, "references": found, "metadata": {"labels": dict(nugget.labels)}}


def by_text(nuggets: Sequence[BankNugget]) -> dict[str, BankNugget]:
    """Key nuggets by their texts, one with the text of an earlier one by its id."""
    keyed: dict[str, BankNugget] = {}
    for nugget in nuggets:
        keyed[nugget.text if nugget.text not in keyed else str(nugget.nugget_id)] = nugget
    return keyed


def ragtime_bank(
    query_id: str, run: str, question: str, answers: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Write a bank as RAGTIME 2026 takes it: the topic's question, and every answer is needed."""
    about = {"team_id": "freshstack_dspy", "topic_id": query_id, "run_id": run[:25]}
    given = [{"answer": text, "references": list(of)} for text, of in answers.items()]
    question_of = {"question": question, "aggregator_type": "AND", "answers": given}
    return {"metadata": {**about, "run_desc": run}, "nugget_bank": [question_of]}


def nugget_docs(documents: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Write the file of a topic in the layout nugget-docs."""
    return {text: ["OR", {_DOCUMENTS: list(of)}] for text, of in documents.items()}


def read_bank(row: Row) -> Bank:
    """Read a bank in any format but nugget-docs.

    A question without answers is a nugget as it is. With answers, it is one nugget with any of
    them (`OR`, the default), or one with each (`AND`).

    Raises:
        SourceError: Something is missing or of another kind.
    """
    if row.has("qid"):  # nuggetizer
        nuggets = [_nugget(one, one.text("text")) for one in row.inners("nuggets")]
        return Bank(row.id("qid"), row.text("query", default=""), tuple(nuggets))
    query_id = row.inner("metadata").id("topic_id") if row.has("metadata") else ""
    query_id = row.id("query_id") if row.has("query_id") or not query_id else query_id
    nuggets = [_nugget(one, one.text("claim")) for one in _items(row, "claim_bank")]
    for question in _items(row, "nugget_bank"):
        nuggets += _of_question(question)
    return Bank(query_id, row.text("title_query", default=""), tuple(nuggets))


def read_nugget_docs(row: Row, query_id: str) -> Bank:
    """Read the file of a topic in the layout nugget-docs."""
    nuggets = []
    for text, given in row.values.items():
        of = given[1] if isinstance(given, list) and len(given) == 2 else None
        if not isinstance(of, dict) or not all(isinstance(ids, list) for ids in of.values()):
            raise row.fault(text, f'["OR", {{"{_DOCUMENTS}": [documents]}}]')
        labels = {str(id_): 1 for ids in of.values() for id_ in ids}
        nuggets.append(BankNugget(None, text, None, labels))
    return Bank(query_id, "", tuple(nuggets))


def _items(row: Row, name: str) -> Iterator[Row]:
    """Give the objects of a list, or the values of an object; none where there is neither."""
    if isinstance(row.values.get(name), dict):
        return (Row.of(value, row.place) for value in row.inner(name).values.values())
    return row.inners(name) if row.values.get(name) is not None else iter(())


def _of_question(row: Row) -> Iterator[BankNugget]:
    question, answers = row.text("question"), list(_items(row, "answers"))
    texts = [answer.text("answer") for answer in answers]
    if not answers:
        yield _nugget(row, question)
    elif row.optional("aggregator_type") == "AND":
        for answer, text in zip(answers, texts, strict=True):
            importance = answer.values.get("importance") or row.values.get("importance")
            own = Row(answer.place, {**answer.values, "importance": importance})
            yield _nugget(own, f"{question} {text}")
    else:
        references = [
            one for each in (row, *answers) for one in each.values.get("references") or ()
        ]
        whole = Row(row.place, {**row.values, "references": references})
        yield _nugget(whole, f"{question} {' / '.join(texts)}")


def _nugget(row: Row, text: str) -> BankNugget:
    labels: dict[str, int | None] = {}
    evidence: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for given in row.values.get("references") or ():
        one = Row.of(given if isinstance(given, dict) else {"doc_id": given}, row.place)
        document = one.id("doc_id")
        labels[document] = 1
        offsets = one.inner("offsets")
        if offsets.values.get("encoding") == "bytes":
            span = offsets.number("start_offset", 0), offsets.number("end_offset", 0)
            evidence[document].append(span)
    ours = row.inner("metadata").inner("labels").values
    importance = row.values.get("importance")
    return BankNugget(
        nugget_id=row.optional("claim_id", "question_id", "nugget_id"),
        text=text,
        importance=importance if importance in get_args(Importance) else None,
        labels=ours or labels,
        evidence={document: tuple(sorted(spans)) for document, spans in evidence.items()},
    )
