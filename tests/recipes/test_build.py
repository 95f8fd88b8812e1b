"""A whole build, answered by a script that can be worked out by hand, and by the baseline."""

import json
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig, JudgeConfig
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.lm.bundle import Bundle
from freshstack_dspy.lm.client import connect
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.session import Progress

from .domain import FILES, afresh, domain, files_of
from .scripted import ScriptedProvider

BASELINE = {"name": "extractive/baseline", "concurrency": 2}
INSTALL = f"dial/docs/install.md_0_{len(FILES['docs/install.md'])}"
RESET = f"dial/docs/reset.md_0_{len(FILES['docs/reset.md'])}"


class Heard(Progress):
    """A listener that remembers."""

    def __init__(self) -> None:
        self.started: dict[str, int] = {}
        self.advanced: dict[str, int] = {}
        self.notes: dict[str, str] = {}

    def start(self, step: str, total: int) -> None:
        self.started[step] = total
        self.advanced[step] = 0

    def advance(self, step: str) -> None:
        self.advanced[step] += 1

    def finish(self, step: str, note: str = "") -> None:
        self.notes[step] = note


def test_a_build_ends_with_the_collection_worked_out_by_hand(tmp_path: Path) -> None:
    provider = ScriptedProvider()

    collection = build(domain(tmp_path), provider=provider)

    assert [query.query_id for query in collection.queries] == ["10", "2", "x"]
    assert {(nugget.nugget_id, nugget.text) for nugget in collection.nuggets} == {
        ("2_0", "Install it with pip"),
        ("2_1", "Python 3.11 is needed"),
        ("10_0", "Call reset twice"),
        ("10_1", "The moon must be full"),
        ("x_0", "Nobody knows"),
    }
    assert {
        (judgment.nugget_id, judgment.chunk_id)
        for judgment in collection.judgments
        if judgment.label
    } == {("2_0", INSTALL), ("2_1", INSTALL), ("10_0", RESET)}
    assert {(part.query_id, part.slice) for part in collection.slices} == {
        ("2", "answerable"),
        ("10", "partly_supported"),
        ("x", "unanswerable"),
    }
    assert [file.path for file in collection.skipped] == ["logo.png"]
    assert {chunk.path for chunk in collection.chunks()} == FILES.keys()
    assert collection.query_ids("answerable") == ("2",)
    assert Collection.load(tmp_path / "collection") == collection


def test_each_question_is_asked_once_and_all_pairs_of_the_pool_are_judged(tmp_path: Path) -> None:
    provider = ScriptedProvider()

    collection = build(domain(tmp_path), provider=provider)

    pools = {
        query.query_id: [c.chunk_id for c in collection.pool if c.query_id == query.query_id]
        for query in collection.queries
    }
    batches = sum(-(-len(pooled) // 3) for pooled in pools.values())
    assert provider.calls == {
        "NuggetizeAnswer": 3,
        "DecomposeQuestion": 3,
        "AnswerClosedBook": 3,
        "JudgeSupport": batches + 3,
    }
    assert {(j.nugget_id, j.chunk_id) for j in collection.judgments} == {
        (nugget.nugget_id, chunk_id)
        for nugget in collection.nuggets
        for chunk_id in pools[nugget.query_id]
    }
    ledger = collection.manifest.ledger
    assert {name: account.calls for name, account in ledger.items()} == {
        "nuggets": 3,
        "sub_questions": 3,
        "closed_book_answer": 3,
        "support": batches,
        "contamination": 3,
    }
    assert sum(account.tokens for account in ledger.values()) == 110 * provider.calls.total()


def test_every_record_leads_back_to_the_reply_it_came_from(tmp_path: Path) -> None:
    bundle = tmp_path / "replies.jsonl"

    collection = build(domain(tmp_path), provider=ScriptedProvider(), replies_file=bundle)

    replies = {reply.key: reply for reply in Bundle(bundle).replies()}
    for nugget in collection.nuggets:
        assert nugget.text in replies[nugget.call_id or ""].text
        assert replies[nugget.call_id or ""].request.task == "NuggetizeAnswer"
    for judgment in collection.judgments:
        assert replies[judgment.call_id or ""].request.task == "JudgeSupport"
    for expansion in collection.expansions:
        assert expansion.texts[0] in replies[expansion.call_id].text
    for known in collection.contamination:
        assert replies[known.call_id or ""].request.task == "JudgeSupport"
    assert len(replies) == collection.manifest.ledger["support"].calls + 12


def test_the_oracles_words_never_reach_the_questions_of_the_inference_setting(
    tmp_path: Path,
) -> None:
    """Sub-questions and closed-book answers are made from the question alone."""
    provider = ScriptedProvider()

    build(domain(tmp_path), provider=provider)

    without_answer = [inputs for inputs in provider.asked if "answer" not in inputs]
    assert all("chunks" in each or each.keys() <= {"question", "limit"} for each in without_answer)
    assert len([each for each in without_answer if "chunks" not in each]) == 6


def test_a_second_build_asks_nothing_and_gives_the_same_data(tmp_path: Path) -> None:
    config = domain(tmp_path)
    first = build(config, provider=ScriptedProvider())
    silent = ScriptedProvider()

    second = build(afresh(config), provider=silent)

    assert silent.calls.total() == 0
    assert second.manifest.content_hash == first.manifest.content_hash
    for name, account in second.manifest.ledger.items():
        assert (account.calls, account.cached) == (0, first.manifest.ledger[name].calls)
        assert account.cached_tokens == first.manifest.ledger[name].tokens


def test_a_bundle_is_all_that_others_need(tmp_path: Path) -> None:
    """They have the configuration, the inputs and the bundle: no store, no index, no model."""
    bundle = tmp_path / "replies.jsonl"
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    first = build(domain(mine), provider=ScriptedProvider(), replies_file=bundle)

    second = build(domain(theirs, cache={"bundles": [str(bundle)]}), mode="replay")

    assert second.manifest.content_hash == first.manifest.content_hash
    assert not (theirs / "cache").exists(), "a replay makes no store"
    mine_files, their_files = (files_of(each / "collection") for each in (mine, theirs))
    for name in mine_files.keys() - {"manifest.json"}:
        assert mine_files[name] == their_files[name], name


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_data_do_not_depend_on_concurrency(tmp_path: Path, concurrency: int) -> None:
    hashes = {
        build(
            domain(tmp_path / str(number), model={"concurrency": number}),
            provider=ScriptedProvider(),
        ).manifest.content_hash
        for number in (2, concurrency)
    }

    assert len(hashes) == 1


def test_the_baseline_builds_and_replays_the_same_bytes(tmp_path: Path) -> None:
    config = domain(tmp_path, model=BASELINE)
    first = build(config)
    second = build(afresh(config))
    files = files_of(config.out)
    third = build(afresh(config), mode="replay")

    assert first.manifest.counts.nuggets > 0
    assert sum(account.calls for account in second.manifest.ledger.values()) == 0
    assert files_of(config.out) == files
    assert {each.manifest.content_hash for each in (first, second, third)} == {
        first.manifest.content_hash
    }
    assert first.manifest.model == "extractive/baseline"


@pytest.mark.parametrize("name", ["openai/scripted", "extractive/baseline"])
def test_the_module_gives_for_one_query_the_records_of_the_build(tmp_path: Path, name: str) -> None:
    import dspy

    config = domain(tmp_path, model={"name": name})
    scripted = ScriptedProvider() if name == "openai/scripted" else None
    collection = build(config, provider=scripted)
    index = HybridIndex.open(config.index.path)
    recorded = _recorded(config, tmp_path)

    with dspy.context(lm=connect(config.model, mode="replay", recorded=recorded)):
        for query in collection.queries:
            found = FreshStack(config)(query=query, index=index)

            for kind in ("nuggets", "pool", "judgments", "expansions"):
                ours = {one for one in getattr(collection, kind) if one.query_id == query.query_id}
                assert set(getattr(found, kind)) == ours, kind


def _recorded(config: BuildConfig, folder: Path) -> Bundle:
    build(afresh(config), mode="replay", replies_file=folder / "replies.jsonl")
    return Bundle(folder / "replies.jsonl")


def test_a_technique_that_does_not_pool_is_not_paid_for(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    config = domain(tmp_path, pool={"techniques": ["question", "nuggets"]})

    collection = build(config, provider=provider)

    assert provider.calls.keys() == {"NuggetizeAnswer", "JudgeSupport"}
    assert collection.expansions == ()
    ranks = {by.technique for candidate in collection.pool for by in candidate.pooled_by}
    assert ranks == {"question", "nuggets"}


def test_progress_is_told_of_every_step_and_part(tmp_path: Path) -> None:
    heard = Heard()

    build(domain(tmp_path), provider=ScriptedProvider(), progress=heard)

    assert list(heard.started) == [
        "questions",
        "files",
        "chunks",
        "terms",
        "bm25",
        "lsa",
        "table",
        "nuggets",
        "sub_questions",
        "closed_book_answer",
        "pool",
        "support",
        "contamination",
    ]
    assert heard.advanced == heard.started
    assert heard.notes["files"] == "5 to index; skipped: 1 binary"
    assert heard.notes["chunks"] == "5 of 5 files"
    assert heard.notes["nuggets"] == "3 calls, 0 recorded"


def test_the_manifest_tells_how_and_no_secret_machine_or_path(tmp_path: Path) -> None:
    model = {"api_key": "sk-very-secret", "api_base": "http://me:pass-word@gpu17.example:8000/v1"}

    collection = build(domain(tmp_path, model=model), provider=ScriptedProvider())

    everything = b"".join(files_of(tmp_path / "collection").values())
    for private in ("sk-very-secret", "pass-word", "gpu17", str(tmp_path)):
        assert private.encode() not in everything, private
    manifest = collection.manifest
    assert manifest.config["queries"]["path"] == "questions.jsonl"  # type: ignore[index, call-overload]
    assert manifest.config["judge"] == JudgeConfig(batch=3).model_dump()
    assert manifest.prompts.keys() == {
        "NuggetizeAnswer",
        "DecomposeQuestion",
        "AnswerClosedBook",
        "JudgeSupport",
    }
    assert manifest.versions.keys() > {"freshstack_dspy", "dspy", "litellm"}


def test_questions_left_out_are_counted(tmp_path: Path) -> None:
    config = domain(tmp_path, queries={"limit": 2})
    unanswered = {"query_id": "3", "title": "Why?", "body": ""}
    with config.queries.location.open("a") as file:
        file.write(json.dumps(unanswered) + "\n")

    collection = build(config, provider=ScriptedProvider())

    assert collection.manifest.counts.rejected == {"beyond limit": 1, "no accepted answer": 1}


def test_a_question_that_finds_nothing_is_unanswerable_and_unjudged(tmp_path: Path) -> None:
    config = domain(tmp_path, pool={"techniques": ["question"]})
    question = {"query_id": "z", "title": "zzz", "body": "qqq", "answer": "Zzz. Qqq."}
    config.queries.location.write_text(json.dumps(question))

    collection = build(config, provider=ScriptedProvider())

    assert (collection.pool, collection.judgments) == ((), ())
    (part,) = collection.slices
    assert (part.slice, part.nuggets) == ("unanswerable", 2)
