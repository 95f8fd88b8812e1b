"""Recipe crux: from documents and their report to graded passages.

With the scripts below a document is one passage, the sub-questions of a report are what it writes
between commas, and a passage answers a sub-question, with grade 5, if it holds its words.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import build
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.text import unsupported_words
from tests.questions.dump import write_dump

from .scripted import Inputs, Said, ScriptedProvider

DAM = {
    "id": "dam",
    "report": "the wall cracked, the village flooded, nobody drowned",
    "documents": [
        "In March the wall cracked and the village flooded.",
        {"title": "Flood", "text": "Then the village flooded. Ångström saw it."},
    ],
}
BRIDGE = {
    "example_id": "bridge",
    "summary": "the bridge opened, a band played",
    "document": "At noon the bridge opened. ||||| A band played at noon.",
    "topic": "Report on the opening of the bridge.",
}


def sub_questions(inputs: Inputs) -> Any:
    return {"questions": inputs["report"].split(", ")[: inputs["count"]]}


def grade(inputs: Inputs) -> Any:
    return {
        "verdicts": [
            {
                "chunk": chunk["number"],
                "reason": "whether the words are there",
                "grades": [
                    {
                        "nugget": nugget["number"],
                        "grade": 5 * (nugget["text"].lower() in chunk["text"].lower()),
                    }
                    for nugget in inputs["nuggets"]
                ],
            }
            for chunk in inputs["chunks"]
        ]
    }


def scripted(**scripts: Any) -> ScriptedProvider:
    return ScriptedProvider(
        **{
            "DecontextualizePassages": lambda inputs: {"passages": [inputs["document"].strip()]},
            "WriteReportRequest": lambda _: {"request": "Report on the flood."},
            "WriteSubQuestions": sub_questions,
            "GradeAnswerability": grade,
            **scripts,
        }
    )


def written(folder: Path, *groups: Any, tables: str = "", crux: str = "sub_questions = 2") -> Path:
    (folder / "groups.jsonl").write_text("".join(json.dumps(one) + "\n" for one in groups))
    path = folder / "build.toml"
    path.write_text(
        f'name = "a"\nrecipe = "crux"\nout = "out"\n[queries]\npath = "groups.jsonl"\n[crux]\n{crux}\n'
        '[model]\nname = "openai/scripted"\nretries = 0\n[cache]\npath = "cache"\n'
        f'[index]\npath = "index"\n{tables}'
    )
    return path


def built(folder: Path, *groups: Any, provider: ScriptedProvider | None = None, **more: str) -> Any:
    return build(written(folder, *groups, **more), provider=provider or scripted())


def test_documents_and_reports_become_a_judged_collection(tmp_path: Path) -> None:
    provider = scripted()
    made = built(tmp_path, DAM, BRIDGE, provider=provider, crux="sub_questions = 2")

    assert {query.query_id: (query.text, query.origin) for query in made.queries} == {
        "bridge": ("Report on the opening of the bridge.", "community"),
        "dam": ("Report on the flood.", "synthetic"),
    }
    assert provider.calls["WriteReportRequest"] == 1
    assert [nugget.text for nugget in made.nuggets] == [
        "the bridge opened",
        "a band played",
        "the wall cracked",
        "the village flooded",
    ]
    second = made.chunk(
        f"documents/dam/2.md_0_{len('Then the village flooded. Ångström saw it.') + 2}#1"
    )
    assert (second.source, second.path, second.start_byte) == ("documents", "dam/2.md", 0)
    pooled = {(one.query_id, one.chunk_id.split("_")[0], one.origin) for one in made.pool}
    assert pooled == {
        (query, f"documents/{query}/{number}.md", "document")
        for query in ("bridge", "dam")
        for number in (1, 2)
    }
    assert made.manifest.scale.model_dump() == {"name": "graded_5", "threshold": 3}
    card = page_markdown(made.page())  # one passage is enough for the dam, the bridge needs both
    assert "| required | 3 | 1.5 |" in card
    assert "| partly redundant | 1 | 0.5 |" in card
    run = {"dam": {second.chunk_id: 1.0}}
    assert evaluate(made.qrels(), run, ["Cov@1"]).per_query["dam"] == {"StRecall@1": 0.5}


def test_distractors_are_passages_too_where_that_is_wished(tmp_path: Path) -> None:
    """The corpus has one file that gives a passage, one with a refused reply, one that invents."""
    texts = {
        "hill.txt": "A flood left the hill dry.",
        "secret.txt": "Nobody writes of this.",
        "well.txt": "The well was deep.",
    }
    (tmp_path / "library").mkdir()
    for name, text in texts.items():
        (tmp_path / "library" / name).write_text(text)

    def passages(inputs: Inputs) -> Any:
        text = inputs["document"].strip()
        if text == texts["secret.txt"]:
            return Said("no", "content_filter")
        return {"passages": [f"{text} In 1950." if text == texts["well.txt"] else text]}

    made = built(
        tmp_path,
        DAM,
        provider=scripted(DecontextualizePassages=passages),
        crux='sub_questions = 2\ndistractors = "passages"',
        tables='[[corpus]]\nname = "library"\npath = "library"\n',
    )

    ids = {one.chunk_id.split("_")[0]: one for one in made.chunks()}
    assert set(ids) == {"documents/dam/1.md", "documents/dam/2.md", "library/hill.txt"}
    assert ids["library/hill.txt"].text == texts["hill.txt"]
    assert ids["library/hill.txt"].chunk_id.endswith("#1")
    assert {one.chunk_id.split("_")[0] for one in made.pool} == set(list(ids)[:2])
    assert [one.path for one in made.skipped] == ["secret.txt", "well.txt"]
    assert not made.failures
    found = made.retrieve("bm25").ids["dam"]
    assert any(one.startswith("library/hill.txt") for one in found)


def test_what_no_document_answers_is_listed_and_not_measured(tmp_path: Path) -> None:
    made = built(tmp_path, DAM, crux="sub_questions = 3")

    (part,) = made.slices
    assert (part.slice, part.supported) == ("partly_supported", 2)
    (unanswered,) = part.unsupported_nuggets
    assert {one.nugget_id: one.text for one in made.nuggets}[unanswered] == "nobody drowned"


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        (["the wall cracked"], "exactly 2 questions are wanted, and there are 1"),
        (["the wall cracked", "The walls crack"], "asks nearly the same as an earlier one"),
    ],
)
def test_other_numbers_of_sub_questions_and_near_duplicates_are_refused(
    tmp_path: Path, questions: list[str], said: str
) -> None:
    bad = lambda inputs: (  # noqa: E731
        {"questions": questions} if "wall" in inputs["report"] else sub_questions(inputs)
    )
    made = built(tmp_path, DAM, BRIDGE, provider=scripted(WriteSubQuestions=bad))

    (failure,) = made.failures
    assert (failure.query_id, failure.step, failure.status) == ("dam", "nuggets", "unparsed")
    assert said in failure.message
    assert {one.query_id: one.slice for one in made.slices}["dam"] == "without_nuggets"


def test_a_passage_that_says_more_than_its_document_is_sent_back_then_left_out(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def invent(inputs: Inputs) -> Any:
        asked.append(inputs["document"])
        own = inputs["document"].strip()
        corrected = "Ångström" in own and asked.count(inputs["document"]) > 1
        return {"passages": [own] if corrected else [own, f"{own} In 1962 Rome paid."]}

    made = built(tmp_path, DAM, provider=scripted(DecontextualizePassages=invent))

    assert len(asked) == 2 + 3
    assert len(list(made.chunks())) == 2
    (failure,) = made.failures
    assert failure.message.startswith("documents/dam/1.md_0_")
    assert "#2 says what its document does not: 1962, Rome" in failure.message


def test_sub_questions_that_a_report_comes_with_are_used(tmp_path: Path) -> None:
    provider = scripted()
    given = {**BRIDGE, "questions": ["\nA band played", None, "NA", "Who paid?"]}
    made = built(tmp_path, DAM, given, provider=provider)

    assert provider.calls["WriteSubQuestions"] == 1
    of_bridge = [(one.text, one.call_id) for one in made.nuggets if one.query_id == "bridge"]
    assert of_bridge == [("A band played", None), ("Who paid?", None)]
    supported = {one.query_id: (one.supported, one.nuggets) for one in made.slices}
    assert supported == {"bridge": (1, 2), "dam": (2, 2)}


def test_the_other_answers_of_a_community_are_the_documents(tmp_path: Path) -> None:
    at = "2020-01-01T00:00:00.000"
    write_dump(
        tmp_path / "Posts.xml",
        {"Id": 1, "PostTypeId": 1, "Title": "Why?", "Body": "<p>It broke.</p>", "Tags": "<a>",
         "CreationDate": at, "AcceptedAnswerId": 2},
        {"Id": 2, "PostTypeId": 2, "ParentId": 1, "Body": "<p>rust, age</p>", "CreationDate": at},
        {"Id": 3, "PostTypeId": 2, "ParentId": 1, "Body": "<p>It was rust.</p>", "CreationDate": at},
        {"Id": 4, "PostTypeId": 1, "Title": "How?", "Body": "<p>So?</p>", "Tags": "<a>",
         "CreationDate": at, "AcceptedAnswerId": 5},
        {"Id": 5, "PostTypeId": 2, "ParentId": 4, "Body": "<p>one, two</p>", "CreationDate": at},
    )  # fmt: skip
    path = written(tmp_path)
    text = path.read_text().replace(
        'path = "groups.jsonl"', 'source = "stackexchange"\npath = "Posts.xml"\nsite = "a.org"'
    )
    path.write_text(text)
    made = build(path, provider=scripted())

    assert [(one.query_id, one.title, one.answer) for one in made.queries] == [
        ("1", "Why?", "rust, age")
    ]
    assert [(one.path, one.text, one.url) for one in made.chunks()] == [
        ("1/3.md", "It was rust.", "https://a.org/a/3")
    ]
    assert made.manifest.counts.rejected == {"no documents": 1}


def test_words_that_a_source_lacks() -> None:
    source = "The dam of Vajont, 262 m high, was finished in 1960."

    assert unsupported_words("The Vajont dam was finished in 1960.", source) == []
    assert unsupported_words(
        "In 1961 the dam of Longarone, 262 m high, was finished in 1960.", source
    ) == [
        "1961",
        "Longarone",
    ]
    assert unsupported_words("Engineers praised the slender concrete.", source) == [
        "engin",
        "prais",
        "slender",
        "concret",
    ]
