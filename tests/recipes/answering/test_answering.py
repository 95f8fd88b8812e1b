"""The retriever through the answer: what is asked, what is plain, and what fails."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.config import load_judging
from freshstack_dspy.errors import CollectionError, ConfigError, FatalModelError
from freshstack_dspy.measures.answers import score_assignments
from freshstack_dspy.recipes.answering.answering import answer_from_runs
from freshstack_dspy.recipes.answering.figures import figures
from freshstack_dspy.recipes.growing.run_holes import look
from freshstack_dspy.recipes.session import open_session
from freshstack_dspy.records import Scale
from tests.recipes.scripted import Said, judge, when

from .domain_runs import ALL, answer, answering, built, compare, provider, write
from .found import agreed, read_back


def test_a_run_is_right_where_its_answer_agrees_with_the_gold_one(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    model = provider()

    found = answering(collection, files, model, tmp_path)

    assert agreed(found) == {
        ("bad", "10"): (None, "not_retrieved"),
        ("bad", "2"): (False, "ok"),
        ("good", "10"): (True, "ok"),
        ("good", "2"): (True, "ok"),
    }
    # good's context for 2 is the gold one: one request for both, and nothing to compare
    assert model.calls["AnswerQuestion"] == 4
    assert model.calls["CompareAnswers"] == 1
    assert [one.text for one in found.gold_answers] == [
        "call reset twice.",
        "Install it with pip.\nPython 3.11 is needed.",
    ]


def test_sentences_cite_the_chunks_that_were_shown(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    found = answering(collection, files, provider(), tmp_path)

    (one,) = (one for one in found.answers if (one.run_id, one.topic_id) == ("good", "10"))
    assert [Path(id_).name.rsplit("_", 2)[0] for id_ in one.references] == ["dial.md", "reset.md"]
    assert [(each.text, each.citations) for each in one.answer] == [
        ("call reset twice.", (1,)),
        ("phase of the moon.", (0,)),
    ]
    assert one.response_length == 7
    assert len(one.call_id or "") == 64


def test_answers_are_held_against_the_nuggets(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    model = provider()

    found = answering(collection, files, model, tmp_path)

    held = {
        (one.run_id, one.qid): [nugget.assignment for nugget in one.nuggets]
        for one in (*found.assignments, *found.gold_assignments)
    }
    assert held == {
        ("bad", "10"): ["failed"] * 2,
        ("bad", "2"): ["not_support"] * 2,
        ("good", "10"): ["support", "not_support"],
        ("good", "2"): ["support"] * 2,
        ("gold", "10"): ["support", "not_support"],
        ("gold", "2"): ["support"] * 2,
    }
    shown = [asked["chunks"] for asked in model.asked if "chunks" in asked]
    assert {chunk["path"] for chunks in shown for chunk in chunks} == {"model/answer"}
    assert model.calls["JudgeSupport"] == 3  # the two equal answers are one question


def test_a_query_without_supporting_chunk_is_named_and_counts_nothing(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    found = answering(collection, files, provider(), tmp_path, slices=ALL)

    assert found.without_gold == ("x",)
    assert agreed(found)["good", "x"] == (None, "no_gold_context")
    assert {one.topic_id for one in found.gold_answers} == {"10", "2"}


def test_where_the_gold_chunks_give_no_answer_nothing_can_agree(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    """A generator that never answers would else agree with itself everywhere."""

    def silent(_: Any) -> Any:
        return {"answerable": False, "sentences": []}

    found = answering(collection, files, provider(AnswerQuestion=silent), tmp_path)

    assert set(agreed(found).values()) == {(None, "no_gold_answer")}


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (Said("No.", "content_filter"), "refused"),
        (Said('{"answerable": tr', "length"), "truncated"),
        ({"answerable": True, "sentences": [{"text": "So.", "citations": [9]}]}, "unparsed"),
        ({"answerable": True, "sentences": []}, "unparsed"),
        ({"answerable": False, "sentences": [{"text": "So.", "citations": []}]}, "unparsed"),
    ],
)
def test_an_answer_that_failed_stays_a_failure(
    collection: Path, files: list[Path], tmp_path: Path, said: Any, status: str
) -> None:
    model = provider(AnswerQuestion=when("dial sticks", lambda _: said, answer))

    found = answering(collection, files, model, tmp_path)

    assert agreed(found)["good", "10"] == (None, status)
    assert agreed(found)["good", "2"] == (True, "ok")
    assert {(one.step, one.run_id, one.status) for one in found.failures} == {
        ("gold_answer", "gold", status),
        ("answer", "good", status),
    }
    (held,) = (one for one in found.assignments if (one.run_id, one.qid) == ("good", "10"))
    assert {nugget.assignment for nugget in held.nuggets} == {"failed"}
    scores = score_assignments(read_back(found, tmp_path, assignments=True))
    (good,) = (run for run in scores.runs if run.run == "good")
    assert good.means["A_strict"].value == 1.0
    assert good.without["A_strict"] == ("10",)


def test_a_comparison_or_an_assignment_that_failed_stays_a_failure(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    def refused(_: Any) -> Any:
        return Said("No.", "content_filter")

    model = provider(CompareAnswers=refused, JudgeSupport=when("install", refused, judge))

    found = answering(collection, files, model, tmp_path)

    assert agreed(found)["good", "10"] == (None, "refused")
    assert agreed(found)["good", "2"] == (True, "ok")
    assert [(one.step, one.run_id) for one in found.failures] == [
        ("assignment", "gold"),
        ("assignment", "good"),
        ("comparison", "good"),
    ]


def test_where_no_answer_comes_nothing_is_made(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    model = provider(AnswerQuestion=lambda _: Said("No.", "content_filter"))

    with pytest.raises(FatalModelError, match="none of the 4 answers came, so nothing was written"):
        answering(collection, files[:1], model, tmp_path)


def test_of_several_gold_answers_one_has_to_agree(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    asked: list[Any] = []

    def comparing(inputs: Any) -> Any:
        asked.append([one["number"] for one in inputs["references"]])
        return compare(inputs)

    found = answering(
        collection, files, provider(CompareAnswers=comparing), tmp_path, gold_answers=3
    )

    assert [(one.topic_id, one.sample) for one in found.gold_answers] == [
        (query_id, sample) for query_id in ("10", "2") for sample in (1, 2, 3)
    ]
    assert len({one.call_id for one in found.gold_answers}) == 6
    assert asked == [[1, 2, 3]]
    assert len(found.gold_assignments) == 2


def test_disagreeing_while_a_gold_answer_failed_is_no_verdict(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    """It might have agreed with the one that is not there."""
    told: list[int] = []

    def once_refused(inputs: Any) -> Any:
        told.append(1)
        return Said("No.", "content_filter") if len(told) == 1 else answer(inputs)

    def never(_: Any) -> Any:
        return {"reason": "another", "agrees": "no"}

    text = '[model]\nname = "openai/scripted"\nretries = 0\nconcurrency = 1\n'
    found = answering(
        collection,
        files,
        provider(AnswerQuestion=once_refused, CompareAnswers=never),
        tmp_path,
        gold_answers=2,
        text=text,
    )

    assert agreed(found)["good", "10"] == (None, "refused")


def test_the_gold_chunks_are_as_many_as_a_run_gives(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    found = answering(collection, files, provider(), tmp_path, depth=1)

    assert {len(one.references) for one in found.gold_answers} == {1}
    assert max(len(one.references) for one in found.answers) == 1


def test_what_cannot_be_answered_is_said_before_anything_is_asked(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    model = provider()
    gold = write(built(tmp_path), tmp_path / "gold.run", "gold", q2=["docs/install.md"])

    with pytest.raises(CollectionError, match="a run is named 'gold'"):
        answering(tmp_path / "collection", [gold], model, tmp_path)
    with pytest.raises(CollectionError, match="'good' is named twice"):
        answering(collection, [files[0], files[0]], model, tmp_path)
    with pytest.raises(ConfigError, match="gold answers are 1 to 15, not 0"):
        answering(collection, files, model, tmp_path, gold_answers=0)
    with pytest.raises(CollectionError, match="no query with nuggets"):
        answering(collection, files, model, tmp_path, slices=("undetermined",))
    assert not model.asked


def test_what_a_run_has_nothing_for_is_no_answer(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    """Nobody asked the generator: it cannot have disagreed, or held nothing."""
    model = provider()
    found = answering(collection, files, model, tmp_path)
    looked = look(collection, files, depth=10)

    (one,) = (one for one in found.answers if (one.run_id, one.topic_id) == ("bad", "10"))
    assert (one.status, one.call_id, one.answer) == ("not_retrieved", None, ())
    values: dict[str, Any] = {}
    for absent in ("skip", "zero"):
        of = figures(found, looked, slices=ALL, scale=Scale(), absent=absent)
        bad = next(run for run in of.agreement.runs if run.run == "bad")
        held = next(run for run in of.held.runs if run.run == "bad")
        (relation,) = of.relations["bad"]
        assert (bad.answers, bad.absent, held.absent) == (1, ("10",), ("10",))
        assert (bad.counts["disagree"], held.counts["failed"]) == (1, 0)
        values[absent] = (len(of.agreement.values("bad", "agreement")), relation.queries)
        assert of.coverage["bad"].answers == (1 if absent == "skip" else 2)
        assert bad.means["agreement"].value == held.means["A_strict"].value == 0
    assert values == {"skip": (1, 1), "zero": (1, 2)}
    assert of.held.choices["absent"] == "zero"


def test_where_all_that_was_asked_failed_nothing_is_made(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    """What was not asked is no answer that came."""
    model = provider(AnswerQuestion=lambda _: Said("No.", "content_filter"))

    with pytest.raises(FatalModelError, match="none of the 3 answers came"):
        answering(collection, files[1:], model, tmp_path)


def test_a_run_that_has_nothing_at_all_is_refused(collection: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.run").write_text("2 Q0 gone 1 1.0 odd\n")
    looked = look(collection, [tmp_path / "odd.run"], unknown="skip")
    (tmp_path / "answer.toml").write_text('[model]\nname = "openai/scripted"\n')
    model = provider()

    with (
        open_session(
            load_judging(tmp_path / "answer.toml"), "live", provider=model, searching=False
        ) as session,
        pytest.raises(CollectionError, match="run 'odd': its top 20 holds no chunk of"),
    ):
        answer_from_runs(looked, session)
    assert not model.asked


def test_each_answer_of_a_run_is_measured_by_itself(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    """A long answer after a short one is split for the judge's window; both share a run."""

    def long(inputs: Any) -> Any:
        text = "\n".join(f"line {place} of a long answer" for place in range(180))
        numbers = [one["number"] for one in inputs["passages"]]
        return {"answerable": True, "sentences": [{"text": text, "citations": numbers[:1]}]}

    model = provider(AnswerQuestion=when("pip", long, answer))
    text = '[model]\nname = "openai/scripted"\nretries = 0\ncontext = 2100\nmax_tokens = 300\n'
    found = answering(collection, files[:1], model, tmp_path, text=text)

    parts = [one for asked in model.asked if "chunks" in asked for one in asked["chunks"]]
    assert max(len(one["text"].splitlines()) for one in parts) < 180
    assert not [one for one in found.failures if one.step == "assignment"]


def test_an_answer_too_long_for_the_judge_has_a_hint_that_helps(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    """Answers are judged in one call, so that another shape would change nothing."""
    text = '[model]\nname = "openai/scripted"\nretries = 0\ncontext = 1024\nmax_tokens = 16\n'

    found = answering(collection, files[:1], provider(), tmp_path, text=text)

    said = [one.message for one in found.failures if one.step == "assignment"]
    assert said
    assert all("[model] context" in each and "shape" not in each for each in said)
