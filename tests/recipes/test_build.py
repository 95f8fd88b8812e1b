"""A whole build, answered by a script that can be worked out by hand, and by the baseline."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, FreshStack, HybridIndex, build, connect
from freshstack_dspy.config import JudgeConfig
from freshstack_dspy.errors import (
    CollectionError,
    ConfigError,
    FatalModelError,
    ReplayMissError,
    SourceError,
)
from freshstack_dspy.lm.bundle import Bundle
from freshstack_dspy.recipes.provenance import export_replies

from .conftest import Built
from .domain import FILES, afresh, domain, files_of, write_domain
from .scripted import (
    Inputs,
    Said,
    Script,
    ScriptedProvider,
    answer_closed_book,
    decompose,
    judge,
    nuggetize,
    question_of,
    when,
)

BASELINE = {"name": "extractive/baseline", "concurrency": 2}
INSTALL = f"dial/docs/install.md_0_{len(FILES['docs/install.md'])}"
RESET = f"dial/docs/reset.md_0_{len(FILES['docs/reset.md'])}"
Copied = Callable[[str], BuildConfig]


def test_a_build_ends_with_the_collection_worked_out_by_hand(usual: Built) -> None:
    collection = usual.collection

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
    assert Collection.load(usual.folder / "collection") == collection
    answers = {query.query_id: query.answer for query in collection.queries}
    for nugget in collection.nuggets:
        assert nugget.answer_span is not None
        assert answers[nugget.query_id][slice(*nugget.answer_span)] == nugget.text


def test_each_question_is_asked_once_and_all_pairs_of_the_pool_are_judged(usual: Built) -> None:
    collection, provider = usual.collection, usual.provider
    pools = {
        query.query_id: [c.chunk_id for c in collection.pool if c.query_id == query.query_id]
        for query in collection.queries
    }
    batches = sum(-(-len(pooled) // 3) for pooled in pools.values())
    assert provider.calls == {
        "NuggetizeAnswer": 3,
        "DecomposeQuestion": 3,
        "AnswerClosedBook": 3,
        "JudgeSupportLevel": batches + 3,
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
    # Sub-questions and closed-book answers are made from the question alone.
    without_answer = [each for each in provider.asked if not {"answer", "chunks"} & each.keys()]
    assert len(without_answer) == 6
    assert all(each.keys() <= {"question", "limit"} for each in without_answer)


def test_every_record_leads_back_to_the_reply_it_came_from(usual: Built) -> None:
    collection = usual.collection
    replies = {reply.key: reply for reply in Bundle(usual.bundle).replies()}
    for nugget in collection.nuggets:
        assert nugget.text in replies[nugget.call_id or ""].text
        assert replies[nugget.call_id or ""].request.task == "NuggetizeAnswer"
    for expansion in collection.expansions:
        assert expansion.texts[0] in replies[expansion.call_id].text
    keys = [one.call_id or "" for one in collection.judgments]
    keys += [one.call_id or "" for one in collection.contamination]
    assert {replies[key].request.task for key in keys} == {"JudgeSupportLevel"}
    assert len(replies) == collection.manifest.ledger["support"].calls + 12


def test_progress_is_told_of_every_step_and_part(usual: Built) -> None:
    heard = usual.heard
    corpus = ["questions", "files", "chunks", "terms", "bm25", "lsa", "overlap"]
    steps = ["nuggets", "sub_questions", "closed_book_answer", "pool", "support", "contamination"]
    assert list(heard.notes) == [*corpus, *steps, "collection"]
    assert heard.advanced == heard.started
    assert heard.notes["files"] == "5 to index; skipped: 1 binary"
    assert heard.notes["chunks"] == "5 of 5 files"
    assert heard.notes["nuggets"] == "3 calls, 0 recorded"


def test_the_data_do_not_depend_on_concurrency(usual: Built, tmp_path: Path) -> None:
    config = domain(tmp_path, model={"concurrency": 8})

    collection = build(config, provider=ScriptedProvider())

    assert collection.manifest.content_hash == usual.collection.manifest.content_hash


def test_the_baseline_builds_and_replays_to_the_same_bytes(tmp_path: Path) -> None:
    config = domain(tmp_path, model=BASELINE)
    first = build(config)
    second = build(afresh(config), mode="replay")
    files = files_of(config.out)
    build(afresh(config), mode="replay")

    assert first.manifest.counts.nuggets > 0
    assert sum(account.calls for account in second.manifest.ledger.values()) == 0
    assert files_of(config.out) == files
    assert second.manifest.content_hash == first.manifest.content_hash


def test_the_module_gives_for_one_query_the_records_of_the_build(
    usual: Built, copied: Copied
) -> None:
    import dspy

    config = copied("usual")
    index = HybridIndex.open(config.index.path / config.name)

    with dspy.context(lm=connect(config.model, mode="replay", recorded=Bundle(usual.bundle))):
        for query in usual.collection.queries:
            found = FreshStack(config)(query=query, index=index)

            for kind in ("nuggets", "pool", "judgments", "expansions"):
                of = getattr(usual.collection, kind)
                ours = {one for one in of if one.query_id == query.query_id}
                assert set(getattr(found, kind)) == ours, kind


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
        "JudgeSupportLevel",
    }
    assert manifest.versions.keys() > {"freshstack_dspy", "dspy", "litellm"}


# What stops a build, before anything is cut or paid for


class NoStep:
    """Progress that must not begin a step of the corpus."""

    def start(self, step: str, _total: int) -> None:
        raise AssertionError(f"{step} began")

    def advance(self, step: str, note: str = "") -> None: ...

    def finish(self, step: str, note: str = "") -> None: ...


def test_a_replay_without_the_reply_says_how_to_record_it(tmp_path: Path) -> None:
    with pytest.raises(ReplayMissError, match="mode='live'"):
        build(domain(tmp_path), mode="replay")

    assert not (tmp_path / "collection").exists()


@pytest.mark.parametrize("name", ["opnai/gpt-4o", "gpt-4o", "openai/gpt-4o"])
def test_a_model_without_provider_or_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(FatalModelError):
        build(write_domain(tmp_path, model={"name": name}), progress=NoStep())


def test_a_place_that_cannot_be_written_or_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = domain(tmp_path)
    elsewhere = config.model_copy(update={"out": tmp_path / "file" / "collection"})
    with pytest.raises(ConfigError, match="no folder that can be written"):
        build(elsewhere, provider=ScriptedProvider(), progress=NoStep())

    config.out.mkdir()
    (config.out / "thesis.tex").write_text("years of work")
    with pytest.raises(CollectionError, match="not a collection"):
        build(config, provider=ScriptedProvider(), progress=NoStep())
    assert (config.out / "thesis.tex").read_text() == "years of work"


def test_another_collection_is_replaced_only_if_that_is_said(
    usual: Built, copied: Copied, tmp_path: Path
) -> None:
    copied("usual")
    other = domain(tmp_path, nuggets={"limit": 1})

    with pytest.raises(ConfigError, match=r"'small', built with other settings: nuggets.limit"):
        build(other, provider=ScriptedProvider(), progress=NoStep())
    replaced = build(other, provider=ScriptedProvider(), replace=True)

    assert replaced.manifest.content_hash != usual.collection.manifest.content_hash


# The replies that a collection was made from, as a bundle


def stammering(script: Script, times: int) -> Script:
    """Give an invalid reply a few times to each question before the right one."""
    guard, said = threading.Lock(), dict[str, int]()

    def answer(inputs: Inputs) -> Any:
        with guard:
            count = said[question_of(inputs)] = said.get(question_of(inputs), 0) + 1
        return Said("Well, it depends.") if count <= times else script(inputs)

    return answer


def unreliable() -> ScriptedProvider:
    """Answers some questions late, some never, and one with a refusal."""
    dial, phase = "The dial sticks", "phase of the dial"
    return ScriptedProvider(
        NuggetizeAnswer=stammering(nuggetize, 2),
        DecomposeQuestion=when(dial, lambda _: Said("I will not.", "content_filter"), decompose),
        AnswerClosedBook=when(phase, lambda _: Said("Never."), answer_closed_book),
        JudgeSupportLevel=when(dial, stammering(judge, 1), judge),
    )


def test_a_collection_is_rebuilt_elsewhere_from_its_bundle_alone(tmp_path: Path) -> None:
    config = domain(tmp_path / "here", model={"concurrency": 1})
    used = tmp_path / "used.jsonl"
    built = build(config, provider=unreliable())
    written = export_replies(config, used)
    there = domain(tmp_path / "there", cache={"bundles": ["../used.jsonl"]})

    rebuilt = build(there, mode="replay")

    assert {failure.status for failure in built.failures} == {"refused", "unparsed"}
    assert rebuilt.manifest.content_hash == built.manifest.content_hash
    assert not there.cache.path.exists()
    statuses = [each.status for each in Bundle(used).replies()]
    assert len(statuses) == written - 3, "and a search for each question"
    assert statuses.count("unparsed") > 6, "those that were sent back are there too"


def test_questions_below_the_least_overlap_are_left_out_before_they_cost_anything(
    tmp_path: Path,
) -> None:
    """The shares of 10, 2 and x are 6/8, 5/6 and 2/5."""
    config = domain(tmp_path, queries={"min_corpus_overlap": 0.5, "limit": 2}, model=BASELINE)

    collection = build(config)
    bundle = tmp_path / "replies.jsonl"
    export_replies(config, bundle)
    elsewhere = domain(
        tmp_path / "b",
        queries={"min_corpus_overlap": 0.5, "limit": 2},
        model=BASELINE,
        cache={"bundles": [str(bundle)]},
    )

    counts = collection.manifest.counts
    assert {query.query_id for query in collection.queries} == {"10", "2"}
    assert counts.rejected == {"below min_corpus_overlap": 1}
    assert collection.manifest.ledger["nuggets"].calls == 2
    replayed = build(elsewhere, mode="replay")
    assert replayed.manifest.content_hash == collection.manifest.content_hash
    fewer = domain(tmp_path / "c", queries={"min_corpus_overlap": 0.5, "limit": 1}, model=BASELINE)
    assert build(fewer).manifest.counts.rejected == {
        "below min_corpus_overlap": 1,
        "beyond limit": 1,
    }
    with pytest.raises(SourceError, match="min_corpus_overlap"):
        build(
            domain(
                tmp_path / "d",
                queries={"min_corpus_overlap": 0.9, "retired": ["2", "10"]},
                model=BASELINE,
            )
        )
