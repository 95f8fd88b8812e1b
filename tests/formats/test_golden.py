"""Golden sets as teams and evaluation tools keep them, placed in a corpus."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, import_collection
from freshstack_dspy.errors import ConfigError, SourceError

LOOPS = "A for loop calls next until\nStopIteration is raised."
LISTS = "Lists are sorted in place by sort."
L, S = "docs/loops.md_0_62", "docs/lists.md_0_44"
BOTH = {"1": {L: 1}, "2": {L: 1, S: 1}}

# Written by deepeval 4.3.1 (`EvaluationDataset.save_as`), which joins contexts by a bar.
DEEPEVAL_CSV = f"""\
input,actual_output,expected_output,retrieval_context,context,name,comments,source_file,tools_called,expected_tools,token_cost,input_token_count,output_token_count,additional_metadata,custom_column_key_values,expectations
What stops a for loop?,,StopIteration stops it.,,"{LOOPS}",,,docs/loops.md,,,,,,"{{""difficulty"": ""easy""}}",,
"Loops and lists, how?",by sort,Both.,something retrieved,"{LOOPS}|{LISTS}",,,,,,,,,,,
"""
# Written by ragas 0.4.3 (`Testset.to_csv`), with its marks of several hops.
RAGAS_CSV = r"""user_input,reference_contexts,reference,synthesizer_name
What stops a for loop?,['A for loop calls next until\nStopIteration is raised.'],StopIteration stops it.,single_hop_specific
"Loops and lists, how?","['<1-hop>\n\nA for loop calls next until\nStopIteration is raised.', '<2-hop>\n\nLists are sorted in place by sort.']",Both.,multi_hop_abstract
"""


def lines(*rows: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


Q1, Q2, A1, A2 = (
    *("What stops a for loop?", "Loops and lists, how?"),
    *("StopIteration stops it.", "Both."),
)
RATINGS = [
    {"query": Q1, "ratings": [{"docId": L, "rating": "1.000"}]},
    {"query": Q2, "ratings": [{"docId": L, "rating": 1}, {"docId": S, "rating": "1.000"}]},
]
FORMS = {
    "deepeval.csv": DEEPEVAL_CSV,
    "deepeval.json": json.dumps(
        [
            {"input": Q1, "expected_output": A1, "context": [LOOPS], "actual_output": None},
            {
                "input": Q2,
                "expected_output": A2,
                "context": [LOOPS, LISTS],
                "retrieval_context": [LISTS],
            },
        ]
    ),
    "ragas.csv": RAGAS_CSV,
    "ragas.jsonl": lines(
        {"user_input": Q1, "reference_contexts": [LOOPS], "reference": A1, "response": "It ends."},
        {"user_input": Q2, "reference_contexts": [LOOPS, LISTS], "reference": A2},
    ),
    # Written by langsmith 0.15.1 (`Example.model_dump_json`).
    "langsmith.jsonl": lines(
        *(
            {"dataset_id": "00-1", "inputs": {"question": question}, "outputs": outputs}
            | {"metadata": split, "id": id_, "created_at": "2026-11-01T00:00:00Z"}
            | dict.fromkeys(("modified_at", "source_run_id", "attachments"))
            for id_, question, outputs, split in (
                ("07", Q1, {"answer": A1, "contexts": [LOOPS]}, {"dataset_split": ["base"]}),
                ("08", Q2, {"answer": A2, "contexts": [LOOPS, LISTS]}, None),
            )
        )
    ),
    # Written by arize-phoenix-client 3.5.0 (`Dataset.to_dataframe().to_csv` and `Dataset.to_dict`).
    "phoenix.csv": f"""\
example_id,input,output,metadata
x,{{'query': '{Q1}'}},{{'answer': '{A1}'}},{{'paths': ['loops.md']}}
y,"{{'query': '{Q2}'}}",{{'answer': '{A2}'}},"{{'paths': ['loops.md', 'lists.md']}}"
""",
    "phoenix.json": json.dumps(
        {"id": "RGF0", "name": "loops", "description": None, "metadata": {}, "version_id": "v1"}
        | {
            "example_count": 2,
            "examples": [
                {"id": id_, "node_id": f"n{id_}", "input": {"query": question}}
                | {"output": {"answer": answer}, "metadata": {"paths": paths}}
                for id_, question, answer, paths in (
                    ("x", Q1, A1, ["loops.md"]),
                    ("y", Q2, A2, ["loops.md", "lists.md"]),
                )
            ],
        }
    ),
    # By the types of braintrust 0.48.1 (`DatasetEvent`), as its API returns them.
    "braintrust.json": json.dumps(
        {
            "events": [
                {"id": id_, "_xact_id": "1", "created": "2026-01-01T00:00:00Z", "input": question}
                | {"expected": answer, "metadata": {"file": files}, "tags": None, "span_id": id_}
                | {"origin": {"object_type": "experiment", "object_id": "o", "id": "i"}}
                | {"audit_data": [{"_xact_id": "1", "audit_data": {"action": "upsert"}}]}
                for id_, question, answer, files in (
                    ("b1", Q1, A1, "docs/loops.md"),
                    ("b2", Q2, A2, "docs/loops.md, docs/lists.md"),
                )
            ],
            "cursor": None,
        }
    ),
    # By the documentation of OpenSearch 3.9: what is put, and what a GET returns.
    "opensearch.json": json.dumps(
        {"name": "j", "type": "IMPORT_JUDGMENT", "judgmentRatings": RATINGS}
    ),
    "opensearch-get.json": json.dumps(
        {"took": 3, "_shards": {"total": 1}}
        | {
            "hits": {
                "total": {"value": 1, "relation": "eq"},
                "hits": [{"_id": "b5", "_source": {"name": "j", "judgmentRatings": RATINGS}}],
            }
        }
    ),
    # By the templates of Quepid (`app/views/api/v1/export/ratings`).
    "quepid.csv": f'query,docid,rating\n{Q1},{L},1\n"{Q2}",{L},1\n"{Q2}",{S},1\n',
    "quepid.json": json.dumps(
        {
            "queries": [
                {"query": Q1, "ratings": {L: 1}},
                {"query": Q2, "ratings": {L: 1, S: 1}},
            ]
        }
    ),
    "sheet.tsv": f"Query Text\tDoc ID\tRating\n{Q1}\t{L}\t1\n{Q2}\t{L}\t1\n{Q2}\t{S}\t1\n",
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/loops.md").write_text(f"# Loops\n\n{LOOPS}\n")
    (tmp_path / "docs/lists.md").write_text(f"# Lists\n\n{LISTS}\n")
    return tmp_path / "docs"


def read(corpus: Path, name: str, text: str, **options: Any) -> Collection:
    file = corpus.parent / name
    file.write_text(text)
    out = corpus.parent / f"{name}-collection"
    return import_collection("golden", file, out, corpus=corpus, replace=True, **options)


def labels(collection: Collection) -> dict[str, dict[str, int | None]]:
    """Labels by the place of the question and by chunk."""
    place = {query.query_id: str(at) for at, query in enumerate(collection.queries, 1)}
    made: dict[str, dict[str, int | None]] = {}
    for judgment in collection.judgments:
        made.setdefault(place[judgment.query_id], {})[judgment.chunk_id] = judgment.label
    return made


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_questions_answers_and_labels(corpus: Path, name: str) -> None:
    collection = read(corpus, name, FORMS[name])

    assert [query.title for query in collection.queries] == [Q1, Q2]
    assert labels(collection) == BOTH
    assert not collection.failures
    assert not collection.notes
    assert collection.plain
    if not name.startswith(("opensearch", "quepid", "sheet")):
        assert [query.answer for query in collection.queries] == [A1, A2]


def test_what_a_system_retrieved_or_answered_is_not_expected(corpus: Path) -> None:
    row = {"question": Q1, "contexts": [LISTS], "answer": "Nothing.", "ground_truth": A1}
    named = read(corpus, "old.jsonl", lines(row), columns={"texts": ""})
    deepeval = {"input": Q1, "retrieval_context": [LISTS], "actual_output": "It ends."}

    assert [query.answer for query in named.queries] == [A1]
    assert not labels(named)
    assert not labels(read(corpus, "runs.jsonl", lines(deepeval)))


def test_a_text_is_evidence_in_the_chunks_that_hold_it(corpus: Path) -> None:
    collection = read(corpus, "g.jsonl", lines({"question": Q1, "texts": [LOOPS]}))
    (judgment,) = collection.judgments
    ((start, end),) = judgment.evidence

    assert collection.chunk(L).text_at(start, end) == LOOPS


def test_what_is_not_in_the_corpus_is_kept_with_its_question(corpus: Path) -> None:
    (corpus / "copy.md").write_text(f"# Copy\n\n{LISTS}\n")
    collection = read(
        corpus,
        "g.jsonl",
        lines(
            {"question": "gone?", "texts": ["No such text anywhere."], "reference": "Yes."},
            {"question": "wrong id?", "ids": None, "doc_id": "docs/loops.md_7_9"},
            {"question": "wrong path?", "path": "docs/gone.md"},
            {"question": "moved?", "texts": [LOOPS], "path": "lists.md"},
            {"question": "twice?", "texts": [LISTS]},
            {"question": "nothing?", "reference": "Nothing."},
            {"question": "nothing?", "reference": "Nothing."},
            {"question": "  ", "texts": [LISTS]},
        ),
    )

    assert [(failure.query_id, failure.step) for failure in collection.failures] == [
        ("1", "expected_text"),
        ("2", "expected_id"),
        ("3", "expected_file"),
    ]
    assert [failure.expected for failure in collection.failures] == [
        "No such text anywhere.",
        "docs/loops.md_7_9",
        "docs/gone.md",
    ]
    assert [(note.query_id, note.kind) for note in collection.notes] == [("4", "moved")]
    assert labels(collection) == {"4": {L: 1}, "5": {S: 1, "docs/copy.md_0_43": 1}}
    counts = collection.manifest.counts
    assert counts.rejected == {"no question": 1, "repeated row": 1}
    assert counts.slices["without_nuggets"] == 4


def test_a_grade_off_the_scale_is_a_pair_without_a_label_and_many_are_refused(corpus: Path) -> None:
    rows = [f"{Q1} {at},{L},{at % 4}\n" for at in range(20)]
    head = "query,docid,rating\n"
    collection = read(corpus, "g.csv", f"{head}{''.join(rows)}more,{S},9\n")
    failed = [judgment.reason for judgment in collection.judgments if judgment.label is None]

    assert failed == ["grade 9"]
    assert (collection.manifest.scale.name, collection.manifest.scale.threshold) == ("graded_3", 1)
    with pytest.raises(SourceError, match=r"2 of 2 grades .* as '0.9' at .*:2"):
        read(corpus, "g.csv", f"{head}a,{L},0.9\nb,{S},0.7\n")
    with pytest.raises(SourceError, match="1 of 1 grades"):
        read(corpus, "g.csv", f"{head}a,{L},\nb,{S},9\n")


def test_a_query_that_quepid_has_no_ratings_of_is_a_row_of_one_cell(corpus: Path) -> None:
    text = f"query,docid,rating\n{Q1},{L},1\n{Q1},{S},\nunrated\n"

    assert labels(read(corpus, "quepid.csv", text)) == {"1": {L: 1, S: None}}
    with pytest.raises(SourceError, match=":3: has 1 cells under 2 names"):
        read(corpus, "g.csv", f"question,text\na,b\n{Q1}\n")


@pytest.mark.parametrize(
    ("text", "columns", "error", "fault"),
    [
        ("question,query,docid\na,b,c\n", {}, SourceError, "--columns question=question or --col"),
        ("frage,docid\na,c\n", {}, SourceError, "--columns question=NAME; columns: frage, docid"),
        ("query,docid\na,c\n", {"text": "x"}, ConfigError, "allowed: query_id, question"),
        ("query,docid\na,c\n", {"files": "x"}, ConfigError, "files=x: allowed: query, docid"),
        ("qid,query,docid\n1,a,c\n1,b,c\n", {}, SourceError, "'1' has another text at"),
        ('query,expected\na,"[""x"", ""y""]"\n', {}, SourceError, "the answer is expected, "),
    ],
)
def test_what_is_unclear_is_refused_with_what_to_type(
    corpus: Path, text: str, columns: dict[str, str], error: type[Exception], fault: str
) -> None:
    with pytest.raises(error, match=fault):
        read(corpus, "g.csv", text, columns=columns)


def test_the_corpus_may_be_rows_a_collection_or_chunks(corpus: Path) -> None:
    first = read(corpus, "g.csv", FORMS["quepid.csv"])
    again = read(first.path or Path(), "again.csv", FORMS["quepid.csv"])
    (corpus.parent / "rows.jsonl").write_text(
        lines({"_id": L, "text": LOOPS}, {"_id": S, "text": LISTS})
    )
    rows = read(corpus.parent / "rows.jsonl", "rows.csv", FORMS["quepid.csv"])
    chunks = import_collection(
        "golden", corpus.parent / "g.csv", corpus.parent / "c", corpus=first.chunks()
    )

    assert labels(again) == labels(rows) == labels(chunks) == BOTH
    with pytest.raises(SourceError, match="--corpus FOLDER"):
        import_collection("golden", corpus.parent / "g.csv", corpus.parent / "d")
