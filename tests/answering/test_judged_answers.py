import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.answering.judged_answers import (
    read_agreement,
    read_assignments,
    read_citations,
)
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import AssignedAnswer, AssignedNugget, JudgedAnswer

NUGGET = {"text": "t", "importance": "vital", "assignment": "support"}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., list[Path]]:
    def written(*rows: Any) -> list[Path]:
        path = tmp_path / "rows.jsonl"
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return [path]

    return written


Write = Callable[..., list[Path]]
Read = Callable[[Iterable[Path]], Any]


def assigned(**more: Any) -> dict[str, Any]:
    return {"qid": "1", "run_id": "r", "nuggets": [NUGGET], **more}


def labelled(*citations: dict[str, Any], **more: Any) -> dict[str, Any]:
    sentence = {"sentenceID": 0, "text": "s", "citations": [*citations]}
    return {"topic_id": "1", "run_id": "r", "sentences": [sentence], **more}


def compared(**more: Any) -> dict[str, Any]:
    return {"query_id": "1", "run_id": "r", "agrees": True, "reason": "same", **more}


def test_assignments_are_those_that_nuggetizer_writes(write: Write) -> None:
    row = assigned(query="why", answer_text="so", response_length=1)

    assert read_assignments(write(row)) == (
        AssignedAnswer(
            run_id="r",
            qid="1",
            nuggets=(
                AssignedNugget(
                    text="t", nugget_id="t", importance="vital", rated=True, assignment="support"
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("nugget", "expected"),
    [
        ({"importance": "okay", "assignment": "failed"}, ("t", "okay", "failed")),
        ({"importance": "failed", "assignment": None}, ("t", None, None)),
        ({"importance": None}, ("t", None, None)),
        ({"importance": "vital", "rated": False, "nugget_id": "n1"}, ("n1", None, None)),
    ],
)
def test_what_is_not_known_of_a_nugget_is_not_guessed(
    write: Write, nugget: dict[str, Any], expected: tuple[str, None, None]
) -> None:
    (answer,) = read_assignments(write(assigned(nuggets=[{"text": "t", **nugget}])))

    (one,) = answer.nuggets
    assert (one.nugget_id, one.rating, one.assignment) == expected


def test_labels_of_citations_are_numbers_or_texts(write: Write) -> None:
    labels = [2, "1", "0", -1, "-1", None]
    row = labelled(*({"citationID": n, "support": label} for n, label in enumerate(labels)))

    (answer,) = read_citations(write(row))

    supports = [each.support for each in answer.sentences[0].citations]
    assert supports == [2, 1, 0, -1, -1, -1]


def outside(answer: JudgedAnswer) -> list[bool]:
    return [answer.is_outside(each) for each in answer.sentences[0].citations]


def test_a_citation_is_outside_if_the_references_do_not_hold_it(write: Write) -> None:
    cited = [{"reference": reference, "support": 2} for reference in ("a", "b", None, "")]

    (with_list,) = read_citations(write(labelled(*cited, references=["a"])))
    (without,) = read_citations(write(labelled(*cited, {"support": 2})))

    assert outside(with_list) == [False, True, True, True]
    assert outside(without) == [False, False, True, True, False]


def test_verdicts_may_be_one_or_one_for_each_gold_answer(write: Write) -> None:
    rows = [
        compared(),
        compared(query_id="2", agrees=[False, None], gold_answers=["a", "b"], reason=None),
        compared(query_id="3", agrees=None, status="refused", reason="no"),
        compared(query_id="4", agrees=False, status="ok"),
    ]

    read = read_agreement(write(*rows))

    assert [(one.query_id, one.agrees, one.status, one.reason) for one in read] == [
        ("1", True, "ok", "same"),
        ("2", None, "", ""),
        ("3", None, "refused", "no"),
        ("4", False, "ok", "same"),
    ]


@pytest.mark.parametrize(
    ("read", "row", "fault"),
    [
        (read_assignments, assigned(qid=None), "'qid'|'query_id'"),
        (read_assignments, assigned(nuggets=[1]), "a list of objects"),
        (read_assignments, assigned(nuggets=[NUGGET, NUGGET]), "'t' is there twice"),
        (
            read_assignments,
            assigned(nuggets=[{**NUGGET, "assignment": ["support"]}]),
            "allowed: support, partial_support, not_support, failed",
        ),
        (read_assignments, assigned(nuggets=[{**NUGGET, "importance": "must"}]), "allowed: vital"),
        (read_citations, labelled({"support": 3}), "support is 3"),
        (read_citations, labelled({"citationID": 0}, {"citationID": 0}), "'0' is there twice"),
        (read_citations, {"topic_id": "1", "run_id": "r", "answer": []}, "has no 'sentences'"),
        (read_agreement, compared(agrees="yes"), "agrees is 'yes'; allowed: true, false, null"),
        (read_agreement, compared(status="failed"), "status is 'failed'"),
        (read_assignments, '{"qid": ', "not JSON"),
    ],
)
def test_what_is_not_as_it_should_be_is_named_with_its_line(
    write: Write, read: Read, row: Any, fault: str
) -> None:
    paths = write("", row)

    with pytest.raises(SourceError, match=fault) as raised:
        read(paths)
    assert f"{paths[0].name}:2: " in str(raised.value)


@pytest.mark.parametrize(
    ("read", "row"),
    [
        (read_assignments, assigned()),
        (read_citations, labelled()),
        (read_agreement, compared()),
    ],
)
def test_a_run_and_query_are_there_once_in_all_files(write: Write, read: Read, row: Any) -> None:
    (path,) = write(row, row)

    with pytest.raises(SourceError, match=f"{path.name}:2: .* are at .*{path.name}:1 already"):
        read([path])
