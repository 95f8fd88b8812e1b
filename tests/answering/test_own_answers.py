"""Answers of systems of one's own: the forms in which they come, where citations are, and what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection
from freshstack_dspy.answering.own_answers import own_answers
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.records import Answer
from freshstack_dspy.text import sentences
from tests.recipes.domain import FILES

from .answered import built, chunk_ids


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return built(tmp_path_factory.mktemp("domain"))


def read(collection: Collection, *rows: Any) -> tuple[Answer, ...]:
    return own_answers(collection, list(rows)).answers


INSTALL, RESET = "Install it with pip.", "Call reset twice."


@pytest.mark.parametrize(
    "form",
    [
        {"query_id": "2", "text": f"{INSTALL} [1] {RESET} [2]", "citations": ["I", "R"]},
        {"topic_id": 2, "answer": [(INSTALL, [0]), (RESET, [1])], "references": ["I", "R"]},
        {"metadata": {"topic_id": "2", "run_id": "rag"}, "responses": [(INSTALL, ["I"]), (RESET, ["R"])]},
        {"qid": 2, "response": f"{INSTALL} [1] {RESET} [2]", "retrieved_contexts": ["I", "R"]},
        {"qid": "2", "answer": [(INSTALL, [{"page_content": FILES["docs/install.md"], "metadata": {"source": "/x/docs/install.md"}}]), (RESET, ["R"])]},
        {"narrative_id": "2", "answer": [(INSTALL, {"I": 0.9}), (RESET, {"R": 0.5})]},
        {"qid": "2", "answer": [(INSTALL, [{"path": "docs/install.md", "start": 0, "end": 58}]), (RESET, ["R"])]},
        {"user_input": "The dial sticks", "response": "", "query_id": "2", "answer": [(INSTALL, ["I"]), (RESET, ["R"])]},
        {"question": "How to install?\n\nWhich python does pip need?", "actual_output": f"{INSTALL}[1] {RESET}[2]", "sources": ["I", {"id": "R"}]},
    ],
)  # fmt: skip
def test_every_form_is_the_same_answer(collection: Collection, form: dict[str, Any]) -> None:
    ids = chunk_ids(collection)
    named = json.dumps(form).replace('"I"', json.dumps(ids["docs/install.md"]))
    row = json.loads(named.replace('"R"', json.dumps(ids["docs/reset.md"])))
    for name in {"answer", "responses"} & row.keys():
        row[name] = [{"text": text, "citations": cited} for text, cited in row[name]]

    (answer,) = read(collection, row)

    assert answer.topic_id == "2"
    assert answer.references == (ids["docs/install.md"], ids["docs/reset.md"])
    cited = [(each.text, each.citations) for each in answer.answer]
    assert cited == [(INSTALL, (0,)), (RESET, (1,))]
    assert (answer.response_length, answer.status, answer.passages) == (7, "ok", ())


def test_files_are_read_by_their_ending_and_systems_named_by_file_or_row(
    collection: Collection, tmp_path: Path
) -> None:
    install = chunk_ids(collection)["docs/install.md"]
    (tmp_path / "ours.csv").write_text(f"query_id;text;citations\n2;{INSTALL};{install}\n10;;\n")
    row = {"query_id": "2", "text": RESET, "run_id": "theirs"}
    (tmp_path / "other.jsonl").write_text(json.dumps(row))

    answers = own_answers(collection, [tmp_path / "ours.csv", tmp_path / "other.jsonl"]).answers

    assert [(each.run_id, each.topic_id, each.text, each.references) for each in answers] == [
        ("ours", "2", INSTALL, (install,)),
        ("ours", "10", "", ()),
        ("theirs", "2", RESET, ()),
    ]


def test_a_function_answers_each_question_and_what_it_raises_is_a_failure(
    collection: Collection,
) -> None:
    def rag(question: str) -> Any:
        if "stick" in question:
            raise TimeoutError("no answer in 60 s")
        return {"text": INSTALL, "contexts": ["# Installing\n\nInstall it with pip."]}

    answers, failures = own_answers(collection, {"mine": rag})

    assert [(each.run_id, each.topic_id, each.status) for each in answers] == [
        ("mine", "10", "failed"),
        ("mine", "2", "ok"),
    ]
    assert [each.path for each in answers[1].passages] == ["docs/install.md"]
    assert [(each.query_id, each.message) for each in failures] == [
        ("10", "mine raised TimeoutError: no answer in 60 s")
    ]
    with pytest.raises(CollectionError, match=r"raised ZeroDivisionError: .*, as for every query"):
        own_answers(collection, lambda _: 1 // 0)


def test_what_is_not_in_the_corpus_is_kept_with_the_reason(collection: Collection) -> None:
    cited = ["gone_0_9", {"path": "docs/none.md", "text": "No such"}, "No such words anywhere."]

    (answer,) = read(collection, {"query_id": "2", "text": INSTALL, "citations": cited})

    assert answer.references == ("gone_0_9", "unplaced#1", "unplaced#2")
    assert [why.partition(":")[0] for why in answer.outside.values()] == [
        "the collection has no chunk 'gone_0_9'",
        "the collection has no file 'docs/none.md'",
        "its text is in no file, or in several places",
    ]


def test_numbers_that_no_list_is_as_long_as_are_no_marks(collection: Collection) -> None:
    long = f"So [{'1' * 5000}] [1]."

    (answer,) = read(collection, {"query_id": "2", "text": long, "citations": ["gone"]})

    assert [each.citations for each in answer.answer] == [(0,)]


def test_sentences_keep_their_code_and_code_cites_nothing(collection: Collection) -> None:
    code = "Call it twice:\n\n```python\nreset(dials[1]). Again.\n```"
    row = {"query_id": "2", "text": f"{code}\n\nThen `x[1]` is 0 [1].", "citations": ["gone"]}

    (answer,) = read(collection, row)

    said = [(each.text, each.citations) for each in answer.answer]
    assert said == [(code, ()), ("Then `x[1]` is 0.", (0,))]
    (whole,) = read(collection, row | {"text": "One. Two."})
    assert [(each.text, each.citations) for each in whole.answer] == [
        ("One.", (0,)),
        ("Two.", (0,)),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Call it, e.g. by a(b) [1]. Then, i.e. later, [2] stop.", 2),
        ("Use `a.run(). B` vs. `c` [1]. See fig. 3 and Dr. Smith [...] in 3.11.", 2),
        ("1. First [1].\n2. Second [2]\n- third\n- fourth [1]", 4),
        ("Above\nall.\n\n\nNo full stop", 2),
    ],
)
def test_where_sentences_end(text: str, said: int) -> None:
    cut = sentences(text)
    assert len(cut) == said
    assert "".join("".join(cut).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"query_id": "77", "text": "So."}], r"answers\[0\]: query_id is '77'; allowed: a query of"),
        ([{"query_id": "2", "text": "a"}, {"qid": "2", "text": "b"}], r"answers query '2' at answers\[0\]"),
        ([{"query_id": "2"}], "has no text; give the answer"),
        ([{"query_id": "2", "text": "a", "response": "b"}], "has several texts: text or response"),
        ([{"question": "What?", "text": "a"}], "question is 'What\\?'; allowed: the text of one query"),
        ([{"query_id": "2", "answer": [{"text": "a", "citations": [3]}]}], "citation 3 is beyond the 0"),
        ([{"query_id": "2", "text": "a", "status": "sleepy"}], "status is 'sleepy'; allowed: ok, "),
        ([{"query_id": "2", "text": "a", "citations": [{"score": 1}]}], "without path, text or chunk_id"),
        (["a.jsonl", 3], "is int; allowed"),
        (["a.jsonl", "a.jsonl"], r"a.jsonl:1: 'a' answers query '2' at .*a.jsonl:1 already"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_said_with_its_place(
    collection: Collection, rows: list[Any], said: str, tmp_path: Path
) -> None:
    if rows[0] == "a.jsonl":
        (tmp_path / "a.jsonl").write_text('{"query_id": "2", "text": "a"}')
        rows = [tmp_path / each if each == "a.jsonl" else each for each in rows]
    with pytest.raises(SourceError, match=said):
        own_answers(collection, rows)
