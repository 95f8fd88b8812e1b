"""A whole build against a server that answers badly: no label is invented, nothing is lost.

The server tells the truth, which is a function of the texts that it is given, and spoils a share
of its replies. Which of them depends on the seed and the request alone, so that threads change
nothing, and the same request meets the same fault again.
"""

import json
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from freshstack_dspy import BuildConfig, Collection, ReplyStore, build
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.records import Status
from tests.lm.chat_server import ChatServer, Scripted

from .domain import afresh, domain
from .scripted import SCRIPTS, inputs_of, question_of

REASKS = 2
ATTEMPTS = 1 + REASKS
TEMPERATURE = 0.1
"""Of what is asked first."""
FIRST_TURNS = 2
"""The instructions and the question."""
ALONE, MIXED = 0.2, 0.6
"""The share of spoiled replies, of one kind or of all kinds in equal parts."""

Messages = tuple[tuple[str, str], ...]


class Spoiled(NamedTuple):
    """What the server says in place of an honest answer, and what that is worth."""

    said: Scripted
    status: Status


Spoil = Callable[[str, dict[str, Any], Random], Spoiled]
"""From the task, its honest answer and a source of chance."""


def prose(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    return Spoiled(Scripted("Well, it depends on what you mean by that."), "unparsed")


def fenced(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    return Spoiled(Scripted(f"Sure!\n```json\n{json.dumps(answer)}\n```"), "ok")


def cut_and_told(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    text = json.dumps(answer)
    return Spoiled(Scripted(text[: chance.randrange(len(text))], "length"), "truncated")


def cut_untold(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    text = json.dumps(answer)
    return Spoiled(Scripted(text[: chance.randrange(len(text))]), "unparsed")


def wrong_values(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    ((field, value),) = answer.items()
    if task == "JudgeSupportLevel":
        wrong = dict(chance.choice(value))
        name, bad = chance.choice(
            [("chunk", "1"), ("supported", [999]), ("supported", "all"), ("supported", [{}])]
        )
        value = [one if one["chunk"] != wrong["chunk"] else {**wrong, name: bad} for one in value]
        # Verdicts with valid numbers count one by one; the others are asked about alone.
        worth: Status = "ok" if name == "supported" and len(value) > 1 else "unparsed"
    else:
        value = chance.choice([None, 7, [7], [{"text": True}], {"text": "x"}])
        worth = "unparsed"
    return Spoiled(Scripted(json.dumps({field: value})), worth)


def extra(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    ((field, value),) = answer.items()
    if task == "JudgeSupportLevel":
        more: dict[str, Any] = chance.choice([{"chunk": 999}, {"supported": []}, {"score": 1.0}])
        added = {**chance.choice(value), **more}
        answer = {field: [*value, added]}
        # A chunk with two verdicts has none; the others keep theirs. The same verdict twice is one.
        is_of_given = "chunk" not in more and len(value) > 1
        worth: Status = "ok" if added in value or is_of_given else "unparsed"
    else:
        answer = {**answer, "confidence": 0.9}
        worth = "unparsed"
    return Spoiled(Scripted(json.dumps(answer)), worth)


def missing(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    ((field, value),) = answer.items()
    if task != "JudgeSupportLevel":
        # An answer may have no nuggets.
        answers: list[Any] = [{}, {field: None if task == "NuggetizeAnswer" else []}]
        return Spoiled(Scripted(json.dumps(chance.choice(answers))), "unparsed")
    kept = chance.sample(value, chance.randrange(len(value)))
    return Spoiled(Scripted(json.dumps({field: kept})), "ok" if kept else "unparsed")


def empty(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    return Spoiled(Scripted(""), "unparsed")


def refusal(task: str, answer: dict[str, Any], chance: Random) -> Spoiled:
    kinds = (
        Scripted(None, refusal="I cannot help with that."),
        Scripted(json.dumps(answer), "content_filter"),
        Scripted("", "content_filter"),
    )
    return Spoiled(chance.choice(kinds), "refused")


FAULTS: tuple[Spoil, ...] = (
    prose,
    fenced,
    cut_and_told,
    cut_untold,
    wrong_values,
    extra,
    missing,
    empty,
    refusal,
)


class BadServer:
    """Tells the truth but for a share of its replies, and keeps account of what each is worth."""

    def __init__(self, faults: tuple[Spoil, ...], share: float, seed: int) -> None:
        self.faults, self.share, self.seed = faults, share, seed
        self.worth: dict[Messages, Status] = {}
        self.asked: list[tuple[str, Messages]] = []
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Scripted:
        task = str(body["response_format"]["json_schema"]["name"])
        said = [(turn["role"], turn["content"]) for turn in body["messages"]]
        turns = told_apart(said, body["temperature"])
        answer = SCRIPTS[task](inputs_of([content for _, content in said]))
        chance = Random(f"{self.seed} {json.dumps(turns)}")
        spoiled = Spoiled(Scripted(json.dumps(answer)), "ok")
        if chance.random() < self.share:
            spoiled = chance.choice(self.faults)(task, answer, chance)
        with self._lock:
            self.asked.append((task, turns))
            self.worth[turns] = spoiled.status
        return spoiled.said


def write_questions(folder: Path, count: int, **model: Any) -> BuildConfig:
    """A domain with some more questions, each of whose answers is in part in the corpus."""
    config = domain(
        folder,
        model={"concurrency": 4, "reasks": REASKS, **model},
        judge={"batch": 4},
    )
    lines = []
    for number in range(count):
        name = f"knob{number}"
        (folder / "corpus" / "docs" / f"{name}.md").write_text(
            f"# {name}\n\nTurn {name} to {number}. It is made of brass.\n"
        )
        question = {
            "query_id": f"k{number}",
            "title": f"How far do I turn {name}?",
            "body": f"I see no mark on {name}.",
            "answer": f"Turn {name} to {number}. It is made of brass. Oil {name} first.",
        }
        lines.append(json.dumps(question) + "\n")
    (folder / "questions.jsonl").write_text("".join(lines))
    return config


def recorded(config: BuildConfig) -> dict[Messages, Reply]:
    """Every reply in the store, by the messages that it answers."""
    store = ReplyStore(config.cache.path)
    replies = list(store.replies())
    store.close()
    return {
        told_apart(
            [(turn.role, turn.content) for turn in reply.request.messages],
            reply.request.parameters["temperature"],
        ): reply
        for reply in replies
    }


def told_apart(turns: list[tuple[str, str]], temperature: float) -> Messages:
    """The turns of a request; a re-ask that is hotter, and has no other words, has one more."""
    return (*turns, *([("temperature", str(temperature))] if temperature > TEMPERATURE else []))


def assert_every_query_ended(collection: Collection) -> None:
    """Judged, pair by pair, or in the list of failures; and what failed has no label."""
    failed = {(failure.query_id, failure.step): failure for failure in collection.failures}
    nuggets = defaultdict(list)
    for nugget in collection.nuggets:
        nuggets[nugget.query_id].append(nugget.nugget_id)
    pairs = {(one.query_id, one.nugget_id, one.chunk_id) for one in collection.judgments}
    assert len(pairs) == len(collection.judgments)
    assert pairs == {
        (candidate.query_id, nugget_id, candidate.chunk_id)
        for candidate in collection.pool
        for nugget_id in nuggets[candidate.query_id]
    }
    expanded = {(one.query_id, one.kind) for one in collection.expansions}
    for query in collection.queries:
        assert bool(nuggets[query.query_id]) != ((query.query_id, "nuggets") in failed)
        for kind in ("sub_questions", "closed_book_answer"):
            step = (query.query_id, kind)
            assert (step in expanded) != (step in failed)
    unlabelled = {(one.query_id, one.chunk_id) for one in collection.judgments if one.label is None}
    assert unlabelled == {
        (failure.query_id, chunk_id)
        for failure in collection.failures
        for chunk_id in failure.chunk_ids
    }
    counts = collection.manifest.counts.failures
    assert sum(sum(of_step.values()) for of_step in counts.values()) == len(collection.failures)


def assert_every_label_is_the_truth(collection: Collection) -> None:
    nuggets = {nugget.nugget_id: nugget.text.lower() for nugget in collection.nuggets}
    chunks = {chunk.chunk_id: chunk.text.lower() for chunk in collection.chunks()}
    labelled = [one for one in collection.judgments if one.status == "ok"]

    assert labelled
    for one in labelled:
        assert one.label == 2 * (nuggets[one.nugget_id] in chunks[one.chunk_id]), one


def questions_of(asked: list[tuple[str, Messages]]) -> dict[str, Counter[str]]:
    """The questions of a build; for each how often it, or a part of it, was asked.

    The chunks of a query are cut into batches that share none, so that a targeted re-ask belongs
    to the one batch that its chunks are of.
    """
    parts: dict[tuple[str, str], Counter[frozenset[str]]] = defaultdict(Counter)
    for task, turns in asked:
        inputs = json.loads(turns[1][1])
        chunks = frozenset(chunk.get("path", "") for chunk in inputs.get("chunks", []))
        parts[task, question_of(inputs)][chunks] += 1
    questions: dict[str, Counter[str]] = {}
    for (task, question), asked_of in parts.items():
        for whole in asked_of:
            if not any(whole < other for other in asked_of):
                questions[f"{task} {question} {sorted(whole)}"] = Counter(
                    {str(sorted(part)): asked_of[part] for part in asked_of if part <= whole}
                )
    return questions


def targeted(bad: BadServer) -> int:
    """How many questions are about a part of a batch, without the reply before, and count as re-asks.

    Where a reply was truncated, the first half replaces it, and the second is asked as it would be.
    """
    fresh: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    cut = set()
    for task, turns in bad.asked:
        inputs = json.loads(turns[1][1])
        paths = tuple(chunk.get("path", "") for chunk in inputs.get("chunks", []))
        question = task, question_of(inputs)
        if len(turns) == FIRST_TURNS:
            fresh[question].add(paths)
        if bad.worth[turns] == "truncated":
            cut.add((question, paths))
    number = 0
    for question, parts in fresh.items():
        first = [one for one in parts if not any(set(one) < set(other) for other in parts)]
        for paths in first:  # grows by second halves
            half = paths[len(paths) // 2 :]
            if len(paths) > 1 and (question, paths) in cut and half in parts:
                first.append(half)
        number += len(parts) - len(first)
    return number


def assert_re_asks_are_bounded(asked: list[tuple[str, Messages]]) -> None:
    """Each question at most 1 + reasks times; a batch in at most 1 + reasks parts, each so often."""
    questions = questions_of(asked)
    for name, parts in questions.items():
        assert max(parts.values()) <= ATTEMPTS, name
        assert len(parts) <= (ATTEMPTS if name.startswith("JudgeSupportLevel") else 1), name
    most = sum(
        ATTEMPTS**2 if name.startswith("JudgeSupportLevel") else ATTEMPTS for name in questions
    )
    assert len(asked) <= most


def assert_all_is_recorded(config: BuildConfig, bad: BadServer) -> None:
    """Every request that the server saw is a reply of its own, with what it was worth."""
    replies = recorded(config)

    assert len(bad.asked) == len(bad.worth) == len(replies)
    assert {turns: reply.status for turns, reply in replies.items()} == bad.worth


def assert_the_ledger_is_true(collection: Collection, bad: BadServer) -> None:
    accounts = collection.manifest.ledger.values()
    sent_back = sum(len(turns) > FIRST_TURNS for _, turns in bad.asked)

    assert sum(account.calls for account in accounts) == len(bad.asked)
    assert sum(account.cached for account in accounts) == 0
    assert sum(account.reasked for account in accounts) == sent_back + targeted(bad)
    assert sum(account.failed for account in accounts) == len(collection.failures)


def dead_ends(config: BuildConfig) -> set[Messages]:
    return {
        turns
        for turns, reply in recorded(config).items()
        if reply.status != "ok" and reply.reasked_as is None
    }


def assert_healed(config: BuildConfig, bad: BadServer, ended: set[Messages]) -> None:
    """Told to ask for what failed, a build asks for the dead ends and what follows from them alone."""
    seen = set(bad.worth)
    path = config.cache.path.with_name("healed")
    shutil.copytree(config.cache.path, path)
    bad.share = 0
    bad.asked.clear()
    cache = config.cache.model_copy(update={"path": path})
    config = config.model_copy(update={"cache": cache, "out": path / "collection"})
    healed = build(config, mode="rerecord", failed=True)

    assert {turns for _, turns in bad.asked} & seen == ended
    assert all("left out of 3 replies" in failure.message for failure in healed.failures)
    assert_every_query_ended(healed)
    assert_every_label_is_the_truth(healed)


def stress(folder: Path, bad: BadServer, count: int) -> Collection:
    """Build, build again, build with the server healed, and replay the first with it off."""
    with ChatServer(bad).running() as server:
        config = write_questions(folder, count, api_base=server.api_base)
        collection = build(config)
        assert_every_query_ended(collection)
        assert_every_label_is_the_truth(collection)
        assert_all_is_recorded(config, bad)
        assert_re_asks_are_bounded(bad.asked)
        assert_the_ledger_is_true(collection, bad)
        ended = dead_ends(config)

        bad.asked.clear()
        again = build(config)
        assert not bad.asked, "what failed is asked for again only when told to"
        assert again.manifest.content_hash == collection.manifest.content_hash
        assert_healed(config, bad, ended)

    replayed = build(afresh(config), mode="replay")
    accounts = replayed.manifest.ledger.values()
    assert replayed.manifest.content_hash == collection.manifest.content_hash
    assert sum(account.calls for account in accounts) == 0
    return collection


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_build_against_one_kind_of_fault(tmp_path: Path, fault: Spoil) -> None:
    stress(tmp_path, BadServer((fault,), ALONE, seed=1), count=5)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_a_build_against_all_faults_at_once(tmp_path: Path, seed: int) -> None:
    collection = stress(tmp_path, BadServer(FAULTS, MIXED, seed), count=5)

    assert collection.failures, "the faults are many enough to try what follows from failures"
