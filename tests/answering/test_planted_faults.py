"""A scripted RAG system over the sample, with planted faults: each is found; figures by hand.

The judge knows what the collection's own labels say: a chunk supports a sentence that is a nugget if
its label says so, and an answer supports the nuggets that it states. An answer agrees with another if
it states all vital nuggets.
"""

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

import freshstack_dspy as fs
from freshstack_dspy import Collection
from freshstack_dspy.answering.metrics import AnswerMetrics
from freshstack_dspy.errors import SourceError
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.records import Contradiction
from tests.recipes.scripted import ScriptedProvider
from tests.test_sample import rebuilt

DOCS, CODE = "xylochron/docs/", "xylochron/src/xylochron/"
CONTRADICTION = "A `min_overlap` below 30 works on the command line too."


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return rebuilt("quickstart", tmp_path_factory.mktemp("sample"))


def stated(collection: Collection, query_id: str) -> list[str]:
    return [nugget.text for nugget in collection.nuggets if nugget.query_id == query_id]


def right(collection: Collection, query_id: str) -> list[dict[str, Any]]:
    """All nuggets, each with the first chunk that supports it."""
    judged = collection.qrels().judged(query_id)
    texts = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    cited = {
        nugget_id: min(id_ for id_, held in judged.supported.items() if place in held)
        for place, nugget_id in enumerate(judged.labels)
    }
    return [{"text": texts[nugget_id], "citations": [id_]} for nugget_id, id_ in cited.items()]


def planted(collection: Collection) -> list[dict[str, Any]]:
    one, two, three, *_ = (stated(collection, id_) for id_ in ("1001", "1002", "1003"))
    copied = collection.chunk(f"{DOCS}howto/missing-rings.md_1023_1840")
    formats, trouble = f"{DOCS}reference/formats.rst_589_1541", f"{DOCS}troubleshooting.md_0_727"
    readme, other = "xylochron/README.md_911_1350", f"{CODE}formats/tucson.py_0_735"
    passage = {"path": "docs/migration-3.0.md", "start": 925, "end": 1592, "unit": "bytes"}
    gone = {"path": "docs/none.md", "text": "Short samples give an empty list."}
    return [
        {  # without fault
            "query_id": "1001",
            "contexts": [formats, other, trouble, "xylochron/README.md_0_911"],
            "answer": [
                {"text": text, "citations": [id_]}
                for text, id_ in zip(one, (formats, trouble, trouble, trouble), strict=True)
            ],
        },
        {  # the vital third nugget is missing; the second citation is wrong
            "query_id": "1002",
            "answer": [
                {"text": two[0], "citations": [readme]},
                {"text": two[1], "citations": [other]},
                {"text": two[3], "citations": []},
                {"text": two[4], "citations": [passage]},
            ],
        },
        {  # a citation outside the corpus; a contradiction of the third nugget
            "query_id": "1003",
            "answer": [{"text": three[0], "citations": [gone]}, {"text": CONTRADICTION}],
        },
        {"query_id": "1004", "text": copied.text},
        {"query_id": "1005", "text": " "},
        {"query_id": "1006", "text": "I do not know; the documents say nothing about it."},
        {"query_id": "1007", "answer": right(collection, "1008")},  # to another question
        {"query_id": "1008", "text": "\n".join(stated(collection, "1008"))},  # no citations
        {"query_id": "1009", "text": None, "status": "truncated"},
        # 1010 has no answer
        *({"query_id": f"10{n}", "answer": right(collection, f"10{n}")} for n in range(11, 17)),
    ]  # fmt: skip


def judge_of(collection: Collection) -> ScriptedProvider:
    qrels = collection.qrels()
    supports = {
        (nugget.text, chunk.text.strip())
        for nugget in collection.nuggets
        if nugget.nugget_id in qrels.labels
        for chunk in collection.corpus.chunks(
            id_ for id_, label in qrels.labels[nugget.nugget_id].items() if label >= 1
        ).values()
    }
    vital = {
        query.title: [
            nugget.text
            for nugget in collection.nuggets
            if nugget.query_id == query.query_id and nugget.importance == "vital"
        ]
        for query in collection.queries
    }

    def judge(inputs: Any) -> Any:
        def holds(chunk: Any, text: str) -> bool:
            if chunk.get("path"):
                return (text, chunk["text"].strip()) in supports
            return text in chunk["text"]

        return {
            "verdicts": [
                {
                    "chunk": chunk["number"],
                    "reason": "by the labels",
                    "supported": [
                        n["number"] for n in inputs["nuggets"] if holds(chunk, n["text"])
                    ],
                }
                for chunk in inputs["chunks"]
            ]
        }

    def check(inputs: Any) -> Any:
        wrong = CONTRADICTION in inputs["answer"]
        found = {"nugget": 3, "quote": CONTRADICTION, "reason": "it needs 30 or more there"}
        declines = inputs["answer"].startswith("I do not know")
        return {"declines": declines, "contradicted": [found] if wrong else []}

    def compare(inputs: Any) -> Any:
        agrees = all(text in inputs["answer"] for text in vital[inputs["question"]["title"]])
        return {"reason": "by the vital nuggets", "agrees": "yes" if agrees else "no"}

    def generate(inputs: Any) -> Any:
        first = inputs["passages"][0]
        said = {"text": first["text"].split("\n")[0], "citations": [first["number"]]}
        return {"answerable": True, "sentences": [said]}

    return ScriptedProvider(
        JudgeSupportLevel=judge,
        FindContradictions=check,
        CompareAnswers=compare,
        AnswerQuestion=generate,
    )


@pytest.fixture(scope="module")
def metrics(sample: Collection, tmp_path_factory: pytest.TempPathFactory) -> AnswerMetrics:
    folder = tmp_path_factory.mktemp("answers")
    (folder / "mine.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in planted(sample)))
    perfect = [
        {"query_id": query_id, "run_id": "theirs", "answer": right(sample, query_id)}
        for query_id in sample.qrels().nuggets
    ]
    (folder / "judge.toml").write_text('[model]\nname = "openai/scripted"\nretries = 0\n')
    return fs.answer(
        sample,
        config=folder / "judge.toml",
        answers={"mine": folder / "mine.jsonl", "theirs": perfect},
        out=folder / "out",
        provider=judge_of(sample),
        gold_answers=1,
    )


def of(scores: Any, run: str = "mine") -> Any:
    return next(each for each in scores.runs if each.run == run)


def test_every_planted_fault_is_found(metrics: AnswerMetrics) -> None:
    kinds = {each.query_id: each.kind for each in metrics.answering.checks if each.run_id == "mine"}
    recalls, cited = of(metrics.nuggets), of(metrics.citations)
    accepted, agreement = of(metrics.accepted), of(metrics.agreement)

    assert {id_: kind for id_, kind in kinds.items() if kind != "answer"} == {
        "1004": "copied",
        "1005": "empty",
        "1006": "declined",
        "1009": "failed",
        "1010": "not_retrieved",
    }
    checks = {each.query_id: each for each in metrics.answering.checks if each.run_id == "mine"}
    assert checks["1004"].copied_from == f"{DOCS}howto/missing-rings.md_1023_1840"
    ((contradiction,),) = (each.contradictions for each in checks.values() if each.contradictions)
    assert (contradiction.nugget_id, contradiction.quote) == ("1003_2", CONTRADICTION)
    for id_ in ("1005", "1006", "1007"):  # empty, declined, to another question
        assert recalls.per_query[id_]["A_strict"] == 0
        assert accepted.per_query[id_]["agreement"] == agreement.per_query[id_]["agreement"] == 0
    assert "A_strict" not in recalls.per_query["1009"]
    assert recalls.absent == accepted.absent == ("1010",)
    assert [each.query_id for each in metrics.answering.failures] == ["1009"]
    assert (cited.total["outside"], cited.per_query["1008"]) == (
        1,
        {name: 0.0 for name in cited.measures if "recall" in name},
    )
    outside = {each.topic_id: each.outside for each in metrics.answering.answers if each.outside}
    assert outside == {"1003": {"unplaced#1": "the collection has no file 'docs/none.md': 'Short samples give an empty list.'"}}  # fmt: skip


@pytest.mark.parametrize(
    ("query_id", "recall", "citations", "contradicted", "agrees", "context"),
    [
        # all 4 nuggets, 3 of them vital; 4 of 4 citations; 4 chunks of the 9 that support something
        ("1001", (1, 1), (1, 1), 0, 1, (1, 1, 4 / 9)),
        # 4 of 5 nuggets, 3 of 4 vital; 2 of 3 citations, of 4 sentences; 2 of 3 chunks, of 9
        ("1002", (4 / 5, 3 / 4), (2 / 3, 2 / 4), 0, 0, (4 / 5, 2 / 3, 2 / 9)),
        # 1 of 5 nuggets, 1 of 4 vital; 0 of 1 citations, of 2 sentences; 1 of 5 is contradicted
        ("1003", (1 / 5, 1 / 4), (0, 0), 1 / 5, 0, (0, 0, 0)),
    ],
)
def test_figures_of_three_questions_by_hand(
    metrics: AnswerMetrics,
    query_id: str,
    recall: Any,
    citations: Any,
    contradicted: float,
    agrees: float,
    context: Any,
) -> None:
    def values(scores: Any, *names: str) -> Any:
        return tuple(of(scores).per_query[query_id][name] for name in names)

    assert recall == values(metrics.nuggets, "A_strict", "V_strict")
    first = "weighted_precision_first", "weighted_recall_first"
    assert citations == values(metrics.citations, *first)
    assert (contradicted,) == values(metrics.checks, "contradicted")
    assert (
        (agrees,) == values(metrics.agreement, "agreement") == values(metrics.accepted, "agreement")
    )
    ranking = metrics.rankings["mine"].per_query[query_id]
    assert context == pytest.approx(
        (ranking["Coverage"], ranking["set_precision"], ranking["Recall"])
    )


def test_systems_are_compared_on_the_queries_that_both_answer(metrics: AnswerMetrics) -> None:
    differences = {each.measure: each for each in metrics.compare().differences}

    recall = differences["A_strict"]
    assert (recall.run, recall.against, recall.queries) == ("theirs", "mine", 14)
    # 0 of 1004 to 1007, 4/5 of 1002, 1/5 of 1003
    assert recall.interval.value == pytest.approx((4 + 1 / 5 + 4 / 5) / 14)
    assert (differences["contradicted"].losses, differences["contradicted"].wins) == (1, 0)


def test_answers_are_listed_with_what_is_wrong_the_worst_first(
    sample: Collection, metrics: AnswerMetrics
) -> None:
    found = metrics.by_answer()
    listed = {each.query_id: each for each in found if each.run == "mine"}
    _, two, three = (stated(sample, id_) for id_ in ("1001", "1002", "1003"))

    assert "1010" not in listed
    assert listed["1001"][3:] == ("answer", True, 4, (), (), (), 4, ())
    assert (listed["1002"].missing, listed["1002"].unsupported) == ((two[2],), (two[1], two[3]))
    assert listed["1003"].missing == (*three[1:],)
    assert [each.quote for each in listed["1003"].contradictions] == [CONTRADICTION]
    assert listed["1003"].unsupported == (three[0], CONTRADICTION)
    assert (listed["1005"].kind, listed["1005"].agrees) == ("empty", False)
    assert len(listed["1008"].unsupported) == listed["1008"].sentences  # it cites nothing
    assert [each.agrees for each in found] == sorted(
        (each.agrees for each in found), key=lambda agrees: agrees is not False
    )


def test_the_page_shows_it(metrics: AnswerMetrics) -> None:
    page = " ".join(page_text(metrics.page()).split())

    for words in (
        "31 answers from 2 systems",  # mine has none to 1010
        "copied: it is a passage",
        f"– “{CONTRADICTION}”",
        "… and 1 more",  # of the four nuggets of 1003 that it misses
        "1 reference is outside the corpus",
        "the collection has no file 'docs/none.md'",
        "accepted: with the accepted answers, by yes_no",
    ):
        assert words in page


def test_a_finder_of_ones_own_is_asked(sample: Collection, tmp_path: Path) -> None:
    class Stern(dspy.Module):
        def forward(self, query: Any, nuggets: Any, answer: str) -> dspy.Prediction:
            found = Contradiction(
                nugget_id=nuggets[0].nugget_id, nugget=nuggets[0].text, quote=answer, reason="no"
            )
            return dspy.Prediction(contradictions=(found,), declines=False)

    rows = [{"query_id": "1001", "text": "Yes.", "citations": ["gone_0_1"]}]
    (tmp_path / "judge.toml").write_text('[model]\nname = "extractive/baseline"\n')
    metrics = fs.answer(
        sample,
        config=tmp_path / "judge.toml",
        answers=rows,
        programs={"contradiction_finder": Stern()},
    )

    (check,) = (each for each in metrics.answering.checks if each.contradictions is not None)
    assert [each.quote for each in check.contradictions or ()] == ["Yes."]
    assert metrics.rankings["answers"].means["Recall"] == 0  # all is outside the corpus


def test_a_system_answers_a_query_once(sample: Collection, tmp_path: Path) -> None:
    model = judge_of(sample)
    rows = [*planted(sample), {"query_id": "1001", "text": "Again."}]

    with pytest.raises(SourceError, match=r"answers query '1001' at answers\[0\] already"):
        fs.answer(sample, config=tmp_path / "none.toml", answers=rows, provider=model)
    assert not model.asked
