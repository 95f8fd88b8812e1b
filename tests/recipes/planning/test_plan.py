"""The plan of a build, against what the build then does."""

import json
from pathlib import Path

import pytest

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.planning.plan import plan
from freshstack_dspy.recipes.planning.planned import Plan, PlannedStep
from tests.recipes.domain import QUESTIONS, domain, files_of
from tests.recipes.scripted import Said, ScriptedProvider, nuggetize, when
from tests.recipes.test_deferred import by_batch, by_hand, defer, hand_in, task

PRICES = {"input": 10.0, "output": 100.0, "batch_input": 5.0, "batch_output": 50.0}


def steps_of(found: Plan) -> dict[str, PlannedStep]:
    return {step.step: step for step in found.steps}


def tokens_in(config: BuildConfig, folder: Path) -> dict[str, int]:
    """Input tokens of the requests that a deferred build writes down, by signature."""
    tokens: dict[str, int] = {}
    for request in defer(config, folder / "requests.jsonl"):
        body = request["body"]
        schema = body["response_format"]["json_schema"]["schema"]
        texts = [message["content"] for message in body["messages"]]
        texts.append(json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
        tokens[task(request)] = tokens.get(task(request), 0) + sum(map(count_tokens, texts))
    return tokens


def entries_of(config: BuildConfig) -> dict[str, object]:
    store = ReplyStore(config.cache.path, read_only=True)
    return {line.key: line.json for line in store.lines()}


def test_the_first_steps_are_counted_in_the_requests_that_a_build_sends(tmp_path: Path) -> None:
    config = domain(tmp_path)

    steps = steps_of(plan(config))
    sent = tokens_in(config, tmp_path)

    assert [(step.requests, step.recorded, step.exact) for step in steps.values()] == [
        (3, 0, True),
        (3, 0, True),
        (3, 0, True),
        (steps["support"].requests, 0, False),
        (3, 0, False),
    ]
    assert sent == {
        "NuggetizeAnswer": steps["nuggets"].input_tokens,
        "DecomposeQuestion": steps["sub_questions"].input_tokens,
        "AnswerClosedBook": steps["closed_book_answer"].input_tokens,
    }


def test_a_first_plan_writes_nothing(tmp_path: Path) -> None:
    config = domain(tmp_path)
    before = files_of(tmp_path)

    plan(config)

    assert files_of(tmp_path) == before
    assert not config.cache.path.exists()


def test_a_plan_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    """Even where a recorded reply turns out to be invalid, which a build would note."""
    config = domain(tmp_path)
    replies = [by_batch(request) for request in defer(config, tmp_path / "requests.jsonl")]
    replies[0]["response"]["body"]["choices"][0]["message"]["content"] = "Let me think."
    hand_in(config, replies, tmp_path)
    before = entries_of(config)

    plan(config)

    assert entries_of(config) == before


def test_nothing_is_left_to_ask_after_a_build(tmp_path: Path) -> None:
    config = domain(tmp_path)
    provider = ScriptedProvider()
    build(config, provider=provider)

    found = plan(config)

    assert [(step.requests, step.recorded) for step in found.steps] == [
        (3, 3),
        (3, 3),
        (3, 3),
        (provider.calls["JudgeSupport"] - 3,) * 2,
        (3, 3),
    ]
    assert all(step.exact for step in found.steps)
    assert (found.total.missing, found.total.input_tokens, found.total.output_tokens) == (0, 0, 0)
    assert (found.total.cost, found.total.worst_cost) == (0, 0), "whatever the model costs"


def test_support_is_exact_once_the_first_replies_are_recorded(tmp_path: Path) -> None:
    config = domain(tmp_path)
    first = defer(config, tmp_path / "requests.jsonl")
    hand_in(config, [by_hand(request) for request in first], tmp_path)

    steps = steps_of(plan(config))
    support = defer(config, tmp_path / "requests.jsonl")

    assert [steps[name].missing for name in ("nuggets", "sub_questions")] == [0, 0]
    assert (steps["support"].requests, steps["support"].recorded) == (len(support) - 3, 0)
    assert (steps["contamination"].requests, steps["contamination"].recorded) == (3, 0)
    assert steps["support"].exact
    assert steps["contamination"].exact
    assert (
        steps["support"].input_tokens + steps["contamination"].input_tokens
        == tokens_in(config, tmp_path)["JudgeSupport"]
    )


def test_a_question_that_failed_does_not_hide_what_the_others_have(tmp_path: Path) -> None:
    """The refused one is asked again and its support estimated; nothing else would be sent."""
    config = domain(tmp_path)
    refused = when("dial sticks", lambda _: Said("No.", "content_filter"), nuggetize)
    provider = ScriptedProvider(NuggetizeAnswer=refused)
    build(config, provider=provider)

    steps = steps_of(plan(config))

    assert (steps["nuggets"].requests, steps["nuggets"].recorded) == (3, 2)
    assert steps["support"].recorded == provider.calls["JudgeSupport"] - 2
    assert (steps["contamination"].recorded, steps["contamination"].missing) == (2, 1)
    assert not steps["support"].exact
    assert not steps["contamination"].exact
    assert steps["support"].missing == 2, "a third of the 6 of an empty store"


def test_an_invalid_reply_that_is_recorded_leads_to_its_re_ask(tmp_path: Path) -> None:
    config = domain(tmp_path)
    replies = [by_batch(request) for request in defer(config, tmp_path / "requests.jsonl")]
    replies[0]["response"]["body"]["choices"][0]["message"]["content"] = "Let me think."
    hand_in(config, replies, tmp_path)

    found = plan(config)

    judging = ("support", "contamination")
    (step,) = [step for step in found.steps if step.step not in judging and step.missing]
    assert (step.requests, step.recorded) == (4, 3)


def test_replies_of_bundles_are_recorded_ones(tmp_path: Path) -> None:
    whole = domain(tmp_path / "theirs")
    build(whole, provider=ScriptedProvider(), replies_file=tmp_path / "replies.jsonl")
    config = domain(tmp_path / "mine", cache={"bundles": ["../replies.jsonl"]})

    found = plan(config)

    assert found.total.missing == 0
    assert not config.cache.path.exists()


def test_only_the_techniques_that_pool_are_planned(tmp_path: Path) -> None:
    config = domain(tmp_path, pool={"techniques": ["question", "sub_questions"]})

    assert [step.step for step in plan(config).steps] == ["nuggets", "sub_questions", "support"]


def test_dollars_follow_from_tokens_and_prices(tmp_path: Path) -> None:
    """At $10 and $100 a million; half of it through the batch API."""
    found = plan(domain(tmp_path, prices=PRICES, model={"max_tokens": 500}))

    for part in (*found.steps, found.total):
        assert part.worst_output_tokens == 500 * part.missing
        expected = part.input_tokens * 10e-6 + part.output_tokens * 100e-6
        worst = part.input_tokens * 10e-6 + part.worst_output_tokens * 100e-6
        assert part.cost == pytest.approx(expected)
        assert part.batch_cost == pytest.approx(expected / 2)
        assert part.worst_cost == pytest.approx(worst)


def test_without_a_price_dollars_are_unknown(tmp_path: Path) -> None:
    found = plan(domain(tmp_path))

    assert {part.cost for part in (*found.steps, found.total)} == {None}


def test_without_a_batch_price_only_that_is_unknown(tmp_path: Path) -> None:
    found = plan(domain(tmp_path, prices={"input": 1.0, "output": 1.0}))

    assert found.total.cost is not None
    assert found.total.batch_cost is None


def test_the_baseline_costs_nothing(tmp_path: Path) -> None:
    found = plan(domain(tmp_path, model={"name": "extractive/baseline"}))

    assert (found.total.cost, found.total.worst_cost) == (0, 0)


def test_a_reply_is_never_expected_to_be_longer_than_is_allowed(tmp_path: Path) -> None:
    found = plan(domain(tmp_path, model={"max_tokens": 16}))

    for step in found.steps:
        assert step.output_tokens == step.worst_output_tokens == 16 * step.missing


def test_caps_are_held_against_what_was_spent_and_what_is_planned(tmp_path: Path) -> None:
    budget = {"dollars": 2.0, "calls": 12}
    config = domain(tmp_path, prices=PRICES, budget=budget)
    store = ReplyStore(config.cache.path)
    store.charge(config.name, Spent(calls=9, tokens=400, dollars=0.5))
    store.close()

    found = plan(config)
    dollar_cap, call_cap = found.budget

    assert (dollar_cap.cap, dollar_cap.limit, dollar_cap.spent) == ("dollars", 2.0, 0.5)
    assert dollar_cap.left == 1.5
    assert dollar_cap.expected == found.total.cost
    worst, reserved = found.total.worst_cost, found.total.reserved_cost
    assert worst is not None
    assert reserved is not None
    assert dollar_cap.worst == worst + reserved, "a build reserves bytes, and not tokens"
    assert reserved > 0
    assert (call_cap.left, call_cap.expected) == (3, found.total.missing)


def test_no_question_is_an_error_as_in_a_build(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no question is left"):
        plan(domain(tmp_path, queries={"tags": ["nothing"]}))


def test_questions_that_do_not_fit_into_the_window_are_counted(tmp_path: Path) -> None:
    config = domain(tmp_path, model={"context": 3000, "max_tokens": 512})
    long = {**QUESTIONS[2], "body": "And so on. " * 3000}
    lines = [json.dumps(each) + "\n" for each in (*QUESTIONS[:2], long)]
    config.queries.location.write_text("".join(lines))
    collection = build(config, provider=ScriptedProvider())

    steps = steps_of(plan(config))

    assert {one.query_id for one in collection.failures if one.step == "support"} == {"x"}
    assert {name: step.unfit for name, step in steps.items() if step.unfit} == {"support": 1}
    assert steps["support"].exact
