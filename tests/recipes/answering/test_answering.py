"""The retriever through the answer: what is asked, what is plain, and what fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.answers import read_agreement, read_assignments
from freshstack_dspy.config import load_judging
from freshstack_dspy.errors import (
    BudgetError,
    CollectionError,
    ConfigError,
    DeferredError,
    FatalModelError,
    ReplayMissError,
)
from freshstack_dspy.lm.batch.deferred import import_replies
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.measures.answers import score_agreement, score_assignments
from freshstack_dspy.recipes.answering import writing
from freshstack_dspy.recipes.answering.answering import Answering, answer_from_runs
from freshstack_dspy.recipes.answering.figures import figures
from freshstack_dspy.recipes.growing.run_holes import look
from freshstack_dspy.recipes.opening import opened
from freshstack_dspy.records import Scale
from tests.recipes.domain import files_of
from tests.recipes.scripted import Said, inputs_of, judge, when

from .domain_runs import ALL, answer, answering, built, compare, provider, runs, write


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built collection with two runs, which nobody changes."""
    folder = tmp_path_factory.mktemp("domain")
    runs(built(folder), folder)
    return folder


@pytest.fixture
def collection(domain: Path) -> Path:
    return domain / "collection"


@pytest.fixture
def files(domain: Path) -> list[Path]:
    return [domain / "good.run", domain / "bad.run"]


def agreed(found: Answering) -> dict[tuple[str, str], Any]:
    return {(one.run_id, one.query_id): (one.agrees, one.status) for one in found.agreements}


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


def test_replay_is_offline_and_gives_the_same_bytes(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for mode, folder in zip(("live", "replay"), folders, strict=True):
        path = tmp_path / "answer.toml"
        model = provider()
        found = answering(collection, files, model, tmp_path, mode=mode)
        assert (mode == "live") == bool(model.asked)
        write_to(folder, found, path, collection, files)

    assert files_of(folders[0]) == files_of(folders[1])
    assert set(files_of(folders[0])) == set(writing.FILES)


def test_a_reply_that_is_not_recorded_stops_a_replay(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    answering(collection, files[:1], provider(), tmp_path)

    with pytest.raises(ReplayMissError):
        answering(collection, files, provider(), tmp_path, mode="replay")


def test_deferred_requests_take_two_rounds(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    scripts: dict[str, Any] = {
        "AnswerQuestion": answer,
        "CompareAnswers": compare,
        "JudgeSupport": judge,
    }
    file = tmp_path / "requests.jsonl"
    rounds = []
    for _ in range(2):
        with pytest.raises(DeferredError, match="then answer again"):
            answering(collection, files, provider(), tmp_path, mode="defer", requests=file)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        rounds.append(sorted(task(line) for line in lines))
        hand_in(tmp_path, lines, scripts)

    found = answering(collection, files, provider(), tmp_path, mode="defer", requests=file)

    assert rounds == [
        ["AnswerQuestion"] * 4,
        ["CompareAnswers", "JudgeSupport", "JudgeSupport", "JudgeSupport"],
    ]
    assert agreed(found)["good", "10"] == (True, "ok")


def test_what_was_answered_before_a_budget_ran_out_is_not_asked_again(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    model = '[model]\nname = "openai/scripted"\nretries = 0\nconcurrency = 1\n'
    first, second = provider(), provider()

    with pytest.raises(BudgetError, match="Done in this run: gold_answer"):
        answering(collection, files, first, tmp_path, text=f"{model}[budget]\ncalls = 3\n")
    answering(collection, files, second, tmp_path, text=model)

    assert sum(first.calls.values()) == 3
    assert sum(second.calls.values()) == 5


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


def test_a_folder_of_something_else_is_not_replaced(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    found = answering(collection, files, provider(), tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")

    with pytest.raises(ConfigError, match=r"holds 'thesis\.tex' .* would be lost"):
        write_to(other, found, tmp_path / "answer.toml", collection, files)
    assert (other / "thesis.tex").exists()


def test_score_reads_what_is_written(collection: Path, files: list[Path], tmp_path: Path) -> None:
    found = answering(collection, files, provider(), tmp_path)

    scores = score_agreement(read_back(found, tmp_path))

    assert {run.run: run.means["agreement"].value for run in scores.runs} == {
        "bad": 0.0,
        "good": 1.0,
    }


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
        opened(
            load_judging(tmp_path / "answer.toml"), "live", provider=model, searching=False
        ) as asking,
        pytest.raises(CollectionError, match="run 'odd': its top 20 holds no chunk of"),
    ):
        answer_from_runs(looked, asking)
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


def test_answers_of_other_inputs_are_replaced_only_if_told(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    found = answering(collection, files, provider(), tmp_path)
    out, config = tmp_path / "out", tmp_path / "answer.toml"
    write_to(out, found, config, collection, files)
    before = files_of(out)

    write_to(out, found, config, collection, files)
    assert files_of(out) == before
    with pytest.raises(ConfigError, match=r"answers of other inputs.*depth 10.*depth 3.*--replace"):
        write_to(out, found, config, collection, files, depth=3)
    with pytest.raises(ConfigError, match="answers of other inputs"):
        write_to(out, found, config, collection, files[:1])
    assert files_of(out) == before
    write_to(out, found, config, collection, files, depth=3, replace=True)
    told = json.loads((out / writing.ANSWERING).read_text())
    assert (told["depth"], told["unknown"], told["structured"], told["reasks"]) == (
        3, "refuse", "json_schema", 2,
    )  # fmt: skip


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("kind", ["folder", "link", "text"])
def test_only_regular_files_that_tell_of_answers_are_replaced(
    collection: Path, files: list[Path], tmp_path: Path, kind: str, replace: bool
) -> None:
    found = answering(collection, files, provider(), tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    standing = out / writing.ANSWERING
    if kind == "folder":
        standing.mkdir()
        (standing / "thesis.tex").write_text("years of work")
    elif kind == "link":
        standing.symlink_to(tmp_path / "answer.toml")
    else:
        standing.write_text('{"thesis": "years of work"}')

    with pytest.raises(ConfigError, match="would be lost"):
        write_to(out, found, tmp_path / "answer.toml", collection, files, replace=replace)
    assert standing.exists()


def read_back(found: Answering, folder: Path, *, assignments: bool = False) -> Any:
    from freshstack_dspy.collection.jsonl import encode_records

    path = folder / "rows.jsonl"
    path.write_bytes(encode_records(found.assignments if assignments else found.agreements))
    return read_assignments([path]) if assignments else read_agreement([path])


def write_to(
    folder: Path,
    found: Answering,
    config: Path,
    collection: Path,
    files: list[Path],
    *,
    depth: int = 10,
    replace: bool = False,
) -> None:
    looked = look(collection, files, depth=depth)
    with opened(load_judging(config), "replay", provider=provider(), searching=False) as asking:
        inputs = writing.answering_inputs(looked, asking.config, slices=ALL)
        told = writing.account(inputs, looked, asking, found)
    writing.write_answering(folder, found, told, replace=replace)


def task(request: Any) -> str:
    return str(request["body"]["response_format"]["json_schema"]["name"])


def hand_in(folder: Path, requests: list[Any], scripts: dict[str, Any]) -> None:
    replies = []
    for request in requests:
        inputs = inputs_of([turn["content"] for turn in request["body"]["messages"]])
        content = json.dumps(scripts[task(request)](inputs))
        replies.append({"custom_id": request["custom_id"], "content": content})
    file = folder / "replies.jsonl"
    file.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    store = ReplyStore(folder / ".freshstack" / "cache")
    try:
        import_replies(store, file)
    finally:
        store.close()
