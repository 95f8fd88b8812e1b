"""LLM-retEval: what is asked, what is known without asking, what fails, and what is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, build, read_run
from freshstack_dspy.answering.judged_answers import (
    read_agreement,
    read_assignments,
    read_citations,
)
from freshstack_dspy.answering.metrics import (
    AnsweringAccount,
    AnswerMetrics,
    answer_metrics,
    answering_account,
    write_answers,
)
from freshstack_dspy.answering.reteval import Answering, answer_from_runs, gold_chunks
from freshstack_dspy.answering.scores import score_agreement, score_assignments, score_citations
from freshstack_dspy.config import load_judging
from freshstack_dspy.errors import (
    CollectionError,
    DeferredError,
    FatalModelError,
)
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.recipes.opening import open_session
from freshstack_dspy.records import OmittedChunk
from tests.recipes.domain import domain as write_domain
from tests.recipes.domain import files_of
from tests.recipes.scripted import Said, ScriptedProvider, inputs_of, judge, judge_level, when
from tests.recipes.test_deferred import hand_in, task

from .answered import answer, answering, built, chunk_ids, compare, provider, runs, write


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built collection with two runs; no test changes it."""
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


def accounted(found: Answering, config: Path, collection: Path) -> AnsweringAccount:
    loaded = Collection.load(collection)
    with open_session(load_judging(config), "replay", provider=provider(), searching=False) as one:
        return answering_account(one, loaded, found, k=[10], gold_answers=1)


def written(folder: Path, found: Answering, config: Path, collection: Path) -> Path:
    write_answers(folder, found, accounted(found, config, collection))
    return folder


@pytest.fixture(scope="module")
def plain(
    domain: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Answering, ScriptedProvider, AnswerMetrics]:
    """Both runs answered as the scripts answer; no test changes it."""
    folder, model = tmp_path_factory.mktemp("plain"), provider()
    files, collection = [domain / "good.run", domain / "bad.run"], domain / "collection"
    found = answering(collection, files, model, folder)
    account = accounted(found, folder / "answer.toml", collection)
    read = [read_run(file) for file in files]
    return found, model, answer_metrics(found, account, Collection.load(collection), read)


def test_a_run_is_right_where_its_answer_agrees_with_the_gold_one(plain: Any) -> None:
    found, model, _ = plain

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


def test_sentences_cite_the_chunks_that_were_shown_and_answers_are_held_against_the_nuggets(
    plain: Any,
) -> None:
    found, model, _ = plain

    (one,) = (one for one in found.answers if (one.run_id, one.topic_id) == ("good", "10"))
    assert [Path(id_).name.rsplit("_", 2)[0] for id_ in one.references] == ["dial.md", "reset.md"]
    assert [(each.text, each.citations) for each in one.answer] == [
        ("call reset twice.", (1,)),
        ("phase of the moon.", (0,)),
    ]
    assert (one.response_length, len(one.call_id or "")) == (7, 64)
    held = {
        (one.run_id, one.qid): [nugget.assignment for nugget in one.nuggets]
        for one in (*found.assignments, *found.gold_assignments)
    }
    assert held == {
        ("bad", "10"): ["failed"],
        ("bad", "2"): ["not_support"] * 2,
        ("good", "10"): ["support"],
        ("good", "2"): ["support"] * 2,
        ("gold", "10"): ["support"],
        ("gold", "2"): ["support"] * 2,
    }
    shown = [chunk.get("path") for asked in model.asked for chunk in asked.get("chunks", ())]
    assert shown.count(None) == 3  # the two equal answers are one question


def test_what_a_run_has_nothing_for_is_no_answer(plain: Any) -> None:
    """The generator was not asked: it cannot have disagreed, or supported nothing."""
    found, _, metrics = plain

    (one,) = (one for one in found.answers if (one.run_id, one.topic_id) == ("bad", "10"))
    assert (one.status, one.call_id, one.answer) == ("not_retrieved", None, ())
    bad = next(run for run in metrics.agreement.runs if run.run == "bad")
    assert (len(bad.per_query), bad.absent, bad.total["disagree"]) == (1, ("10",), 1)
    assert bad.means["agreement"] == 0
    assert metrics.coverage["gold"].groups == 2


def test_citations_are_judged_with_evidence(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    def level(inputs: Any) -> Any:
        refused = inputs["nuggets"][0]["text"] == "phase of the moon."
        return Said("No.", "content_filter") if refused else judge_level(inputs)

    loaded = Collection.load(collection)
    ids = chunk_ids(loaded)
    model = provider(JudgeSupportLevel=level)

    found = answering(collection, files[:1], model, tmp_path)

    labels = {
        (one.run_id, one.topic_id): [
            [(each.reference, each.support) for each in sentence.citations]
            for sentence in one.sentences
        ]
        for one in (*found.citations, *found.gold_citations)
    }
    install = [[(ids["docs/install.md"], 2)]] * 2
    assert labels == {
        ("good", "2"): install,
        ("gold", "2"): install,
        ("good", "10"): [[(ids["docs/reset.md"], 2)], [(ids["docs/dial.md"], -1)]],
        ("gold", "10"): [[(ids["docs/reset.md"], 2)]],
    }
    (failure,) = (one for one in found.failures if one.step == "citation")
    assert (failure.run_id, failure.query_id, failure.status) == ("good", "10", "refused")
    chunk = next(one for one in loaded.chunks() if one.path == "docs/install.md")
    (good,) = (one for one in found.citations if (one.run_id, one.topic_id) == ("good", "2"))
    quoted = [chunk.text_at(*one.citations[0].evidence[0]) for one in good.sentences]
    assert quoted == ["Install it with pip.", "Python 3.11 is needed."]
    folder = written(tmp_path / "out", found, tmp_path / "answer.toml", collection)
    (run,) = score_citations(read_citations([folder / "citations.jsonl"])).runs
    assert (run.total["full"], run.total["unlabelled"]) == (3, 1)
    assert run.means["weighted_precision_first"] == 1.0
    (held,) = (one for one in found.gold_assignments if one.qid == "10")
    ((start, end),) = held.nuggets[0].evidence
    assert held.answer_text.encode()[start:end] == b"call reset twice"


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
    config = tmp_path / "answer.toml"
    folder = written(tmp_path / "out", found, config, collection)
    scores = score_assignments(read_assignments([folder / "assignments.jsonl"]))
    (good,) = (run for run in scores.runs if run.run == "good")
    assert good.means["A_strict"] == 1.0
    assert "10" in good.without_value["A_strict"]


def test_a_comparison_or_an_assignment_that_failed_stays_a_failure(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    def refused(_: Any) -> Any:
        return Said("No.", "content_filter")

    model = provider(CompareAnswers=refused, JudgeSupportLevel=when("install", refused, judge))

    found = answering(collection, files, model, tmp_path)

    assert agreed(found)["good", "10"] == (None, "refused")
    assert agreed(found)["good", "2"] == (True, "ok")
    assert [(one.step, one.run_id) for one in found.failures] == [
        ("assignment", "gold"),
        ("assignment", "good"),
        ("citation", "gold"),
        ("citation", "good"),
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
    asked: list[int] = []

    def once_refused(inputs: Any) -> Any:
        asked.append(1)
        return Said("No.", "content_filter") if len(asked) == 1 else answer(inputs)

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


def test_each_comparer_scores_next_to_the_one_that_decides(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    def graded(inputs: Any) -> Any:
        return {"reason": "all of it", "grade": "most"}

    model = provider(GradeAgreement=graded)
    comparers = {"token_f1": 0.7, "exact_match": 1.0, "graded": 3.0}

    found = answering(collection, files, model, tmp_path, comparers=comparers)

    scores = {(one.run_id, one.query_id): one.scores for one in found.agreements}
    # gold: call reset twice; answer: call reset twice phase of moon
    expected = {"token_f1": pytest.approx(2 * 3 / (3 + 6)), "exact_match": 0.0, "graded": 2.0}
    assert scores["good", "10"] == expected
    assert scores["good", "2"] == {"token_f1": 1.0, "exact_match": 1.0, "graded": 3.0}
    assert scores["bad", "10"] == {}
    assert agreed(found)["good", "10"] == (False, "ok")
    account = accounted(found, tmp_path / "answer.toml", collection)
    account = account.model_copy(update={"comparers": comparers})
    read = [read_run(file) for file in files]
    metrics = answer_metrics(found, account, Collection.load(collection), read)
    assert metrics.agreement is not None
    assert metrics.agreement.measures == ("agreement", "exact_match", "graded")
    good = next(run for run in metrics.agreement.runs if run.run == "good")
    assert good.means == {"agreement": 0.5, "exact_match": 0.5, "graded": 0.5}
    assert model.calls["CompareAnswers"] == 0


def test_a_run_is_answered_at_every_depth(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    found = answering(collection, files[:1], provider(), tmp_path, k=[2, 1])

    shown = {(one.run_id, one.topic_id): len(one.references) for one in found.answers}
    assert shown == {
        ("good@1", "10"): 1,
        ("good@1", "2"): 1,
        ("good@2", "10"): 2,
        ("good@2", "2"): 1,
    }
    assert len(found.gold_answers) == 2
    assert agreed(found)["good@1", "10"] == (False, "ok")
    account = accounted(found, tmp_path / "answer.toml", collection)
    account = account.model_copy(update={"k": (1, 2)})
    read = [read_run(files[0])]
    metrics = answer_metrics(found, account, Collection.load(collection), read)
    assert metrics.rankings["good@1"].means == {
        "alpha_nDCG@1": 0.5,
        "Coverage@1": 0.5,
        "P@1": 0.5,
        "Recall@1": 0.5,
        "F1@1": 0.5,
    }
    assert metrics.rankings["good@2"].means["P@2"] == 0.5
    assert metrics.relations["good@1"].spearman.value == 1.0


def test_cases_of_failure_are_told_by_nuggets(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    def never(_: Any) -> Any:
        return {"reason": "another", "agrees": "no"}

    found = answering(collection, files, provider(CompareAnswers=never), tmp_path)
    account = accounted(found, tmp_path / "answer.toml", collection)
    read = [read_run(file) for file in files]
    metrics = answer_metrics(found, account, Collection.load(collection), read)

    # good's answer to 10 supports the gold answer's nugget: the comparer was wrong
    (one,) = metrics.cases
    assert (one.case, one.run_id, one.query_id, one.recall) == ("F", "good", "10", 1.0)
    assert one.nuggets == one.gold_nuggets
    assert metrics.relations["good"].cases == {"F": 1}


def test_what_cannot_be_answered_is_said_before_anything_is_asked(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    model = provider()
    write(Collection.load(collection), tmp_path / "gold.run", "gold", q2=["docs/install.md"])
    (tmp_path / "odd.run").write_text("77 Q0 gone 1 1.0 odd\n")

    for found, said in (
        ([tmp_path / "gold.run"], "two runs are named 'gold'"),
        ([files[0], files[0]], "two runs are named 'good'"),
        ([tmp_path / "odd.run"], "run 'odd' holds nothing for any of the"),
    ):
        with pytest.raises(CollectionError, match=said):
            answering(collection, found, model, tmp_path)
    assert not model.asked


LABELS = {
    "n1": {"a": 1, "b": 1, "d": 1, "e": 0},
    "n2": {"b": 1, "c": 0},
    "n3": {"c": 1},
    "n4": {},
}


def test_gold_chunks_are_those_it_takes_and_then_the_others_that_support_something() -> None:
    graded = {"n1": {"a": 1, "b": 2}, "n2": {"a": 3}}

    assert gold_chunks(Judged(LABELS), 10) == ["b", "c", "a", "d"]
    assert gold_chunks(Judged(LABELS), 2) == ["b", "c"]
    assert gold_chunks(Judged(graded, rel=2), 10) == ["a", "b"]
    assert gold_chunks(Judged({"n1": {"a": 0}}), 10) == []


def test_a_chunk_that_does_not_fit_is_left_out_whole_and_named(tmp_path: Path) -> None:
    config = write_domain(tmp_path)
    (tmp_path / "corpus" / "docs" / "long.md").write_text("# Long\n\n" + "the dial turns " * 150)
    collection = build(config, provider=ScriptedProvider())
    files = ["docs/long.md", "docs/install.md"]
    run = write(collection, tmp_path / "a.run", "a", q2=files, q10=["docs/long.md"])
    text = '[model]\nname = "openai/scripted"\nretries = 0\ncontext = 1500\nmax_tokens = 300\n'
    text += '[judge]\nscale = "binary"\n'  # the shortest prompt

    found = answering(tmp_path / "collection", [run], provider(), tmp_path, text=text)

    ids = chunk_ids(collection)
    (left_out,) = {omitted for one in found.answers for omitted in one.omitted}
    shown = {one.topic_id: (one.references, one.status) for one in found.answers}
    assert left_out == OmittedChunk(chunk_id=ids["docs/long.md"], reason="no_room")
    assert shown["2"] == ((ids["docs/install.md"],), "ok")
    assert shown["10"] == ((), "failed")
    assert "none of the 1 chunks of the context can be shown" in found.failures[-1].message


def test_a_replay_is_offline_and_gives_the_same_bytes(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for mode, folder in zip(("live", "replay"), folders, strict=True):
        model = provider()
        found = answering(collection, files, model, tmp_path, mode=mode)
        assert (mode == "live") == bool(model.asked)
        written(folder, found, tmp_path / "answer.toml", collection)

    assert files_of(folders[0]) == files_of(folders[1])
    scores = score_agreement(read_agreement([folders[0] / "agreement.jsonl"]))
    assert {run.run: run.means["agreement"] for run in scores.runs} == {
        "bad": 0.0,
        "good": 1.0,
    }


def test_deferred_requests_take_two_rounds(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    scripts: dict[str, Any] = {
        "AnswerQuestion": answer,
        "CompareAnswers": compare,
        "JudgeSupportLevel": judge_level,
    }

    def by_script(request: Any) -> Any:
        inputs = inputs_of([turn["content"] for turn in request["body"]["messages"]])
        content = json.dumps(scripts[task(request)](inputs))
        return {"custom_id": request["custom_id"], "content": content}

    rounds = []
    for _ in range(2):
        with pytest.raises(DeferredError, match="same command again"):
            answering(collection, files, provider(), tmp_path, mode="defer")
        (file,) = tmp_path.rglob("requests/*.jsonl")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        rounds.append(sorted(task(line) for line in lines))
        hand_in(load_judging(tmp_path / "answer.toml"), [by_script(one) for one in lines], tmp_path)

    found = answering(collection, files, provider(), tmp_path, mode="defer")

    assert rounds == [
        ["AnswerQuestion"] * 4,
        ["CompareAnswers", *["JudgeSupportLevel"] * 6],
    ]
    assert agreed(found)["good", "10"] == (True, "ok")


@pytest.mark.parametrize(
    ("said", "verdicts"),
    [
        ("yes", {"first": True, "any": True, "majority": True, "all": False}),
        ("no", {"first": False, "any": True, "majority": False, "all": False}),
        (None, {"first": None, "any": True, "majority": None, "all": False}),
    ],
)
def test_verdicts_of_comparers_are_combined(
    collection: Path, files: list[Path], tmp_path: Path, said: str | None, verdicts: dict[str, Any]
) -> None:
    """By token F1 the answers to query 10 agree, by exact match they do not; the model varies."""

    def comparing(_: Any) -> Any:
        return {"reason": "so", "agrees": said} if said else Said("No.", "content_filter")

    comparers = {"yes_no": 1.0, "exact_match": 1.0, "token_f1": 0.5}
    combine: Any
    for combine, agrees in verdicts.items():
        model = provider(CompareAnswers=comparing)
        options: Any = {"comparers": comparers, "combine": combine}
        found = answering(collection, files, model, tmp_path, **options)

        assert agreed(found)["good", "10"] == (agrees, "ok" if agrees is not None else "refused")
        assert agreed(found)["good", "2"] == (True, "ok")
        assert agreed(found)["bad", "10"] == (None, "not_retrieved")
        rates = score_agreement(found.agreements, comparers, combine).measures
        assert rates == ("agreement", *[*comparers][combine == "first" :])


def test_gold_answers_are_compared_one_by_one(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    """Three gold answers, each in a call of its own; any that agrees is enough."""
    texts = [["x."], ["Install it with pip.", "call reset twice."], ["y."]]

    def sampled(inputs: Any) -> Any:
        sentences = texts[sum(model.calls.values()) % 3] if len(inputs["passages"]) == 1 else ["z."]
        return {
            "answerable": True,
            "sentences": [{"text": text, "citations": [1]} for text in sentences],
        }

    def comparing(inputs: Any) -> Any:
        (reference,) = (each["text"] for each in inputs["references"])
        if reference == "y.":
            return Said("No.", "content_filter")
        return {"reason": reference, "agrees": "yes" if reference == agreeing else "no"}

    for agreeing, verdict in (("x.", (True, "ok")), ("z.", (None, "refused"))):
        model = provider(AnswerQuestion=sampled, CompareAnswers=comparing)
        options: Any = {"gold_answers": 3, "gold_per_call": 1}
        folder = tmp_path / agreeing[0]
        folder.mkdir()
        text = '[model]\nname = "openai/scripted"\nretries = 0\nconcurrency = 1\n'
        found = answering(collection, files, model, folder, text=text, **options)

        gold = {each.text for each in found.gold_answers if each.topic_id == "10"}
        assert len(gold) == 3
        assert agreed(found)["good", "10"] == verdict
        assert [each.step for each in found.failures if each.run_id == "good"] == ["comparison"]


def test_a_generator_is_shown_a_context_in_parts(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    ids = chunk_ids(Collection.load(collection))
    paths = ["docs/dial.md", "src/phase.py", "docs/reset.md"]
    run = write(Collection.load(collection), tmp_path / "long.run", "long", q10=paths)
    model = provider(AnswerQuestion=answer)

    found = answering(collection, [run], model, tmp_path, chunks_per_call=1)

    (of_10,) = (each for each in found.answers if each.topic_id == "10")
    shown = [len(asked["passages"]) for asked in model.asked if "passages" in asked]
    assert set(shown) == {1}
    assert of_10.references == tuple(ids[path] for path in paths)
    assert [(each.text, each.citations) for each in of_10.answer] == [
        ("phase of the moon.", (0,)),
        ("call reset twice.", (2,)),
    ]
    assert of_10.response_length == 7
    assert agreed(found)["long", "10"] == (True, "ok")

    def twice(inputs: Any) -> Any:
        if "return day" in inputs["passages"][0]["text"]:
            return Said("No.", "content_filter")
        return {"answerable": True, "sentences": [{"text": "So.", "citations": [1]}]}

    (tmp_path / "again").mkdir()
    found = answering(
        collection, files, provider(AnswerQuestion=twice), tmp_path / "again", chunks_per_call=1
    )

    (of_10,) = (each for each in found.answers if (each.run_id, each.topic_id) == ("good", "10"))
    assert [(each.text, each.citations) for each in of_10.answer] == [("So.", (0, 1))]
    (failure,) = (each for each in found.failures if each.step == "answer")
    assert (failure.run_id, failure.query_id, failure.status) == ("bad", "2", "refused")


def test_another_model_can_answer_from_the_gold_chunks(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "answer.toml"
    path.write_text(
        '[model]\nname = "openai/judge"\nretries = 0\n[generator]\nmodel = "openai/turbo"\n'
        '[gold_generator]\nmodel = "openai/writer"\n'
    )
    loaded, runs_read = Collection.load(collection), [read_run(file) for file in files]
    with open_session(load_judging(path), provider=provider(), searching=False) as session:
        found = answer_from_runs(session, loaded, runs_read)
        account = answering_account(session, loaded, found, k=[10], gold_answers=1)

    assert (account.model, account.gold_model) == ("openai/turbo", "openai/writer")
    assert account.models["answer"] == ("openai/turbo",)
    assert account.models["gold_answer"] == ("openai/writer",)
    assert account.models["comparison"] == ("openai/judge",)
    assert agreed(found)["good", "10"] == (True, "ok")
