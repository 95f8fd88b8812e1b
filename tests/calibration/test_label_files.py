"""Labels from the files of other tools: the same label, whichever wrote it."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, FreshstackError, HumanLabel, import_labels
from freshstack_dspy.calibration.following import in_full
from freshstack_dspy.calibration.label_files import tasks_as
from freshstack_dspy.calibration.sampling import draw
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import AnswerLabel, LabelTask, Scale
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, B

IDS = {"query_id": "12", "nugget_id": "12_0", "chunk_id": B}
MARKED = {"start": 2, "end": 4}  # "ta" of "bêta "
LABEL = HumanLabel(**IDS, label=2, annotator="ana", evidence=((3, 5),), note="yes")

CSV = f"qid;nugget;docid;grade;evidence;user;comment\n12;fact 12_0;{B};2 full;ta;ana;yes\n12;;;;;ana;\n"
CHOICE = {"type": "choices", "value": {"choices": ["Full"]}}
WORDS = {"type": "labels", "value": {**MARKED, "text": "ta", "labels": ["evidence"]}}
NOTE = {"type": "textarea", "value": {"text": ["yes"]}}
LABEL_STUDIO = [
    {
        "id": 1,
        "data": {**IDS, "passage": "bêta "},
        "annotations": [
            {"completed_by": {"id": 3, "email": "ana"}, "result": [CHOICE, WORDS, NOTE]},
            {"completed_by": 4, "was_cancelled": True, "result": []},
        ],
    }
]
ANSWERED = {"label": "2", "note": "yes", "words": [{**MARKED, "label": "evidence"}]}
ARGILLA = {
    "id": "1",
    "fields": {"passage": "bêta "},
    "metadata": IDS,
    "responses": {name: [{"value": it, "user_id": "ana"}] for name, it in ANSWERED.items()},
}
FLATTENED: dict[str, Any] = {"id": "1", "passage": "bêta ", **IDS}
for _name, _value in ANSWERED.items():
    FLATTENED |= {
        f"{_name}.responses": [_value, "0"],
        f"{_name}.responses.users": ["ana", "bob"],
        f"{_name}.responses.status": ["submitted", "discarded"],
    }
RATED = {"topic_id": "12", "username": "ana", "rating": "Perfect", "comment": "yes"}
CITED = {"sentence_idx": 0, "sentence": {"text": "fact 12_0"}, "docid": B, "document": None}
AUTOJUDGE = {**RATED, "spans": [{**MARKED, "text": "ta"}], "citation": CITED}
ASSIGNED = {"text": "fact 12_0", "importance": "vital", "assignment": "support"}
NUGGETIZER = {"qid": "12", "docid": B, "nuggets": [ASSIGNED]}
CITATION = {"citationID": 0, "reference": B, "support": "2"}
SENTENCE = {
    "sentenceID": 0,
    "text": "fact 12_0",
    "citations": [CITATION, {**CITATION, "support": -1}],
}
SUPPORT = {"topic_id": "12", "run_id": "r", "sentences": [SENTENCE]}
BARE = LABEL.model_copy(update={"evidence": (), "note": ""})
UNLABELLED = {"rows without a label": 1}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """The small collection, on the scale of support."""
    provenance = PROVENANCE.model_copy(update={"scale": Scale(name="support")})
    return write_collection(tmp_path_factory.mktemp("s") / "small", CONTENTS, CHUNKS, provenance)


def read(path: Path, content: Any, form: Any, small: Collection, **options: Any) -> Any:
    file = path / "labels.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return import_labels([file], form, small, **options)


@pytest.mark.parametrize(
    ("form", "content", "expected", "left_out"),
    [
        ("csv", CSV, LABEL, UNLABELLED),
        ("json", {"topic": "12", "sentence": "fact 12_0", "docid": B, "support": 2}, BARE, {}),
        ("label-studio", LABEL_STUDIO, LABEL, {"annotations that were skipped": 1}),
        ("argilla", ARGILLA, LABEL, {}),
        (
            "argilla",
            [FLATTENED, {"label.responses": None}],
            LABEL,
            {"records without a response": 1},
        ),
        (
            "autojudge-annotate",
            [AUTOJUDGE, {**AUTOJUDGE, "rating": "Not rated"}],
            LABEL,
            UNLABELLED,
        ),
        ("nuggetizer", NUGGETIZER, BARE, {}),
        ("trec-support", SUPPORT, BARE, UNLABELLED),
    ],
)
def test_a_label_is_the_same_whichever_tool_wrote_it(
    small: Collection, tmp_path: Path, form: str, content: Any, expected: Any, left_out: Any
) -> None:
    found = read(tmp_path, content, form, small, annotator="ana")

    assert found.labels == in_full([expected], small)
    assert found.left_out == left_out


@pytest.mark.parametrize(
    ("form", "content", "said"),
    [
        ("csv", CSV.replace("2 full", "perhaps"), ":2: grade is 'perhaps'; allowed: a whole num"),
        ("csv", CSV.replace("2 full", "3"), ":2: the label is 3; allowed: 0 to 2"),
        ("csv", CSV.replace("fact 12_0", "a fact"), ":2: there is no nugget of query 12 'a fact';"),
        ("csv", CSV.replace(";ana;yes", ";;yes"), ":2: does not say who labelled; name the anno"),
        ("label-studio", LABEL_STUDIO * 2, ":2: 'ana' labelled this pair before, in "),
        ("nuggetizer", {"qid": "12", "nuggets": []}, ":1: assigns nuggets to an answer; allowed"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_place(
    small: Collection, tmp_path: Path, form: str, content: Any, said: str
) -> None:
    with pytest.raises(FreshstackError, match=re.escape(f"labels.json{said}")) as caught:
        read(tmp_path, content, form, small)
    assert str(caught.value).isprintable()


def test_marked_words_are_found_where_offsets_are_others(tmp_path: Path) -> None:
    """Browsers count an emoji as two; of equal words the nearest is meant."""
    text = "😀 no\nyes, and yes."
    chunks = tuple(
        one.model_copy(update={"text": text, "start_byte": 10, "end_byte": 10 + len(text.encode())})
        if one.chunk_id == B
        else one
        for one in CHUNKS
    )
    small = write_collection(tmp_path / "small", CONTENTS, chunks, PROVENANCE)

    def marked(*spans: dict[str, Any]) -> Any:
        result = [CHOICE, *({"type": "labels", "value": span} for span in spans)]
        content = [{"data": IDS, "annotations": [{"completed_by": 7, "result": result}]}]
        return read(tmp_path, content, "label-studio", small)

    found = marked({"start": 16, "end": 19, "text": "yes"}, {"start": 3, "end": 6, "text": "o\\ny"})
    gone = marked({"start": 3, "end": 6, "text": "maybe"})

    chunk = small.chunk(B)
    [label] = found.labels
    assert [chunk.text_at(*span) for span in label.evidence] == ["o\ny", "yes"]
    assert label.evidence[1] == (27, 30)
    assert (label.annotator, label.label) == ("7", 1), "yes and no: full is yes"
    assert gone.labels[0].evidence == ()
    assert gone.left_out == {"marked words that the passage does not have": 1}


def test_tasks_go_to_a_tool_and_come_back_with_their_strata(
    small: Collection, tmp_path: Path
) -> None:
    tasks = draw(small, limit=3).tasks
    table, studio = tmp_path / "tasks.csv", json.loads(tasks_as("label-studio", tasks, small))
    table.write_text(tasks_as("csv", tasks, small))
    rows = list(csv.DictReader(table.read_text().splitlines()))
    with table.open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "label": "1", "annotator": "ana"} for row in rows)
    result = [{"type": "rating", "value": {"rating": 1}}]
    labelled = [{**task, "annotations": [{"completed_by": 7, "result": result}]} for task in studio]

    drawn = [(one.nugget_id, one.chunk_id, one.stratum, one.probability) for one in tasks]
    for found in (
        import_labels([table], "csv", small),
        read(tmp_path, labelled, "label-studio", small),
    ):
        labels: Any = found.labels
        assert [(x.nugget_id, x.chunk_id, x.stratum, x.probability) for x in labels] == drawn
    assert rows[0]["passage"] == small.chunk(rows[0]["chunk_id"]).text
    assert studio[0]["data"]["question"] == "How? It fails."


def test_a_text_is_no_formula_and_answers_come_back(small: Collection, tmp_path: Path) -> None:
    task = LabelTask(
        kind="answer", query_id="12", run_id="bm25", answer="=1+1", gold_answer="2",
        stratum="agrees", probability=0.5,
    )  # fmt: skip
    text = tasks_as("csv", [task], small)
    table = tmp_path / "labels.csv"
    table.write_text(text.replace(",,,,\n", ",no,,,ana\n").replace(",2,,,", ",2,no,,,ana"))

    assert ", =1+1," in text
    assert import_labels([table], "csv", small).labels == (
        AnswerLabel(
            query_id="12", annotator="ana", run_id="bm25", agrees=False, stratum="agrees",
            probability=0.5,
        ),
    )  # fmt: skip
    bare = tmp_path / "own.jsonl"
    own = AnswerLabel(query_id="12", annotator="ana", run_id="bm25", agrees=False)
    bare.write_bytes(encode_records([own]))
    [label] = import_labels([bare], "freshstack", small, tasks=[task]).labels
    assert (label.stratum, label.probability) == ("agrees", 0.5)
