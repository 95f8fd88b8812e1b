"""A refresh reuses what did not change, asks for the rest, and says exactly what changed."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, Judgment, build, explain, refresh
from freshstack_dspy.collection.diff import JudgmentChange, NuggetChange, QueryChange, Tally
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.formats.validate import validate
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.recipes.make import Refreshed
from tests.recipes.conftest import POOLS
from tests.recipes.domain import FILES, QUESTIONS, domain, files_of, questions_file
from tests.recipes.scripted import (
    Inputs,
    Said,
    ScriptedProvider,
    judge,
    nuggetize,
    question_of,
    when,
)
from tests.recipes.test_extend import extended, written

WHOLE = POOLS["whole"]
NEW = {**QUESTIONS[1], "query_id": "11", "title": "Where is pip?"}
MARS = "# The dial\n\nThe dial shows the phase of Mars.\n"


def refreshed(
    config: BuildConfig, provider: ScriptedProvider | None = None, **options: Any
) -> Refreshed:
    return refresh(config, provider=provider or ScriptedProvider(), **options)


def ask(config: BuildConfig, *questions: dict[str, Any]) -> None:
    """Put other questions into the file."""
    questions_file(config).write_text("".join(json.dumps(each) + "\n" for each in questions))


def put(config: BuildConfig, name: str, text: str) -> None:
    """Write a file of the corpus."""
    (questions_file(config).parent / "corpus" / name).write_text(text)


def shown(provider: ScriptedProvider) -> set[str]:
    """The files whose chunks the judge was shown; closed-book answers are none."""
    return {
        chunk["path"]
        for inputs in provider.asked
        for chunk in inputs.get("chunks", [])
        if "path" in chunk
    }


def labels(collection: Collection) -> Counter[tuple[str, str, str, int | None]]:
    """Every judgment by what it is about, without ids."""
    nuggets = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    chunks = {chunk.chunk_id: (chunk.path, chunk.text) for chunk in collection.chunks()}
    return Counter(
        (one.query_id, nuggets[one.nugget_id], str(chunks[one.chunk_id]), one.label)
        for one in collection.judgments
    )


def changes(found: Refreshed) -> list[QueryChange | NuggetChange | JudgmentChange]:
    return list(found.difference.changes)


@pytest.fixture
def config(copied: Callable[[str], BuildConfig]) -> BuildConfig:
    """A collection whose replies are lost: only its records are there."""
    config = copied("whole")
    shutil.rmtree(config.cache.path)
    return config


def test_failures_of_what_is_reused_stay_counted(tmp_path: Path) -> None:
    """Nuggets that were misquoted are reused, and so is the failure that says so."""

    def misquote(inputs: Inputs) -> Any:
        made = nuggetize(inputs)["nuggets"]
        return {"nuggets": [each | {"quote": f"{each['quote']} indeed"} for each in made]}

    config = domain(tmp_path)
    before = build(config, provider=ScriptedProvider(NuggetizeAnswer=misquote))
    ask(config, *QUESTIONS, NEW)
    after = refreshed(config).collection

    def nuggets_failed(collection: Collection) -> set[str]:
        return {one.query_id for one in collection.failures if one.step == "nuggets"}

    assert nuggets_failed(before) == nuggets_failed(after) == {"2", "10", "x"}


def test_of_what_did_not_change_nothing_is_asked_and_nothing_written(config: BuildConfig) -> None:
    """Not even of the replies: the collection itself knows."""
    files, provider = files_of(config.out), ScriptedProvider()

    found = refreshed(config, provider)

    assert provider.calls.total() == 0
    assert (found.changed, changes(found)) == (False, [])
    assert found.difference.judgments.kept == len(found.collection.judgments)
    assert files_of(config.out) == files


def test_of_an_edited_file_only_its_chunks_are_asked_about(config: BuildConfig) -> None:
    before = Collection.load(config.out)
    of_file = {chunk.chunk_id for chunk in before.chunks() if chunk.path == "docs/dial.md"}
    put(config, "docs/dial.md", MARS)
    provider = ScriptedProvider()

    found = refreshed(config, provider)

    assert provider.calls.keys() == {"JudgeSupportLevel"}
    assert shown(provider) == {"dial/docs/dial.md"}
    gone = [one for one in before.judgments if one.chunk_id in of_file]
    tally = found.difference.judgments
    assert (tally.kept, tally.dropped) == (len(before.judgments) - len(gone), len(gone))
    assert found.difference.chunks == Tally(kept=len(FILES) - 1, added=1, dropped=1, changed=0)
    kept = [one for one in before.judgments if one.chunk_id not in of_file]
    assert all(one in found.collection.judgments for one in kept)
    assert Collection.load(config.out) == found.collection


def test_a_chunk_that_moved_within_its_file_is_the_same(config: BuildConfig) -> None:
    """Offsets and ids are others, source, path and text are not, and nothing is asked."""
    first = "def reset(dial):\n    '''Reset a dial.'''\n    dial.phase = 0\n"
    small = {"max_tokens": 32}
    moved = domain(config.out.parent, pool=WHOLE, chunking=small)
    body = "\n".join(f"def part_{n}(dial):\n    return dial.part[{n}] + {n}\n" for n in range(12))
    put(moved, "src/dial.py", f"{first}\n{body}")
    shutil.rmtree(moved.out)
    before = build(moved, provider=ScriptedProvider())
    said = labels(before)
    old = {chunk.text: chunk.chunk_id for chunk in before.chunks() if "dial.py" in chunk.path}
    put(moved, "src/dial.py", f"# ten more\n{first}\n{body}")
    provider = ScriptedProvider()

    found = refreshed(moved, provider)

    new = {
        chunk.text: chunk.chunk_id for chunk in found.collection.chunks() if "dial.py" in chunk.path
    }
    same = old.keys() & new.keys()
    assert len(same) >= 3
    assert all(old[text] != new[text] for text in same)
    texts = {chunk["text"] for inputs in provider.asked for chunk in inputs.get("chunks", [])}
    assert not texts & {text.strip() for text in same}
    kept = said & labels(found.collection)
    assert kept.total() == found.difference.judgments.kept
    assert any(one.chunk_id in set(new.values()) for one in found.collection.judgments)


RESET = FILES["docs/reset.md"]


def of_reset(collection: Collection) -> dict[str, Judgment]:
    """The judgments of the page on resetting for its question, by nugget."""
    return {
        one.nugget_id: one
        for one in collection.judgments
        if one.query_id == "10" and "reset.md" in one.chunk_id
    }


@pytest.mark.parametrize("name", ["docs/reset.md", "docs/new/reset.md"])
def test_a_label_of_support_follows_its_evidence_where_the_rest_is_edited(
    config: BuildConfig, name: str
) -> None:
    """The label without support is asked for; the same holds where the file has another folder."""
    before = of_reset(Collection.load(config.out))
    page = questions_file(config).parent / "corpus" / name
    page.parent.mkdir(exist_ok=True)
    (questions_file(config).parent / "corpus/docs/reset.md").rename(page)
    page.write_text(f"Ask no one.\n\n{RESET}")

    found = refreshed(config)

    now = of_reset(found.collection)
    label, asked = now["10_0"], now["10_1"]
    assert label.followed_from == before["10_0"].chunk_id != label.chunk_id
    assert (label.label, label.call_id) == (before["10_0"].label, before["10_0"].call_id)
    assert [page.read_bytes()[slice(*span)] for span in label.evidence] == [b"call reset twice"]
    assert (asked.label, asked.followed_from) == (0, None)
    assert asked.call_id != before["10_1"].call_id
    (change,) = [one for one in changes(found) if one.change == "followed"]
    assert (change.before, change.after) == (before["10_0"], label)
    assert f"{label.followed_from}  10_0 in {label.chunk_id}" in page_text(found.difference.page())
    shown = page_text(explain(found.collection, "10", label.chunk_id).page())
    assert f"judged as {label.followed_from}, before an edit" in " ".join(shown.split())
    assert "judge has not seen: 1." in (config.out / "README.md").read_text()
    assert not validate(config.out).faults

    page.write_text(f"Ask no one, or two.\n\n{RESET}")
    again = of_reset(refreshed(config).collection)["10_0"]
    assert again.followed_from == label.followed_from
    assert not refreshed(config).changed


@pytest.mark.parametrize(
    ("judge", "calls"),
    [({"batch": 3}, 1), ({"shape": "pairwise"}, 1), ({"shape": "pairwise", "edited": "judge"}, 2)],
)
def test_what_followed_adds_no_call_and_is_asked_for_where_that_is_wished(
    tmp_path: Path, judge: dict[str, Any], calls: int
) -> None:
    """Of the two nuggets, one followed; with 'judge' also one that followed before is asked for."""
    first = domain(tmp_path, pool=WHOLE, judge=judge | {"edited": "follow"})
    build(first, provider=ScriptedProvider())
    config, provider = domain(tmp_path, pool=WHOLE, judge=judge), ScriptedProvider()
    put(config, "docs/reset.md", f"{RESET}\nAsk no one.\n")
    found = refreshed(config, provider)

    judged = [one for one in provider.asked if "resetting" in str(one.get("chunks")).lower()]
    assert len([one for one in judged if "sticks" in question_of(one)]) == calls
    followed = [one for one in found.collection.judgments if one.followed_from]
    assert len(followed) == (judge.get("edited") != "judge")
    assert len(of_reset(found.collection)) == 2
    config = domain(tmp_path, pool=WHOLE, judge=judge | {"edited": "judge"})
    put(config, "docs/reset.md", f"{RESET}\nAsk no one.\n")
    again = refreshed(config).collection
    assert {one.followed_from for one in again.judgments} == {None}
    assert len(again.judgments) == len(found.collection.judgments)


def test_a_new_question_is_asked_about_and_no_other(config: BuildConfig) -> None:
    before = Collection.load(config.out)
    ask(config, *QUESTIONS, NEW)
    provider = ScriptedProvider()

    found = refreshed(config, provider)

    assert all("Where is pip?" in question_of(inputs) for inputs in provider.asked)
    assert provider.calls["NuggetizeAnswer"] == 1
    assert set(before.judgments) <= set(found.collection.judgments)
    assert found.difference.queries == Tally(kept=3, added=1, dropped=0, changed=0)
    first, *judgments = changes(found)
    assert (first.kind, first.change, first.query_id) == ("query", "added", "11")
    assert {one.change for one in judgments} == {"added"}
    tallies = found.difference.nuggets, found.difference.judgments
    assert len(judgments) == sum(tally.added for tally in tallies)


def test_of_an_edited_question_all_is_asked(config: BuildConfig) -> None:
    ask(config, {**QUESTIONS[0], "body": "How do I set it back?"}, *QUESTIONS[1:])
    provider = ScriptedProvider()

    found = refreshed(config, provider)

    assert all("set it back" in question_of(inputs) for inputs in provider.asked)
    assert provider.calls["NuggetizeAnswer"] == provider.calls["DecomposeQuestion"] == 1
    edited = changes(found)[0]
    assert isinstance(edited, QueryChange)
    assert (edited.change, edited.edited) == ("edited", ("body",))
    assert found.difference.queries.changed == 1
    assert {one.query_id for one in changes(found)} == {"10"}
    assert {one.change for one in changes(found)[1:]} == {"added", "dropped"}


def test_of_an_edited_answer_the_nuggets_that_stay_keep_their_judgments(
    config: BuildConfig,
) -> None:
    """The other nugget was the second and is the first now: its text counts, not its id."""
    before = Collection.load(config.out)
    ask(config, {**QUESTIONS[0], "answer": "The moon must be full. Wait a day."}, *QUESTIONS[1:])
    provider = ScriptedProvider()

    found = refreshed(config, provider)

    judged = [inputs for inputs in provider.asked if "chunks" in inputs]
    of_corpus = [one for one in judged if "path" in one["chunks"][0]]
    old = {one.chunk_id: one.label for one in before.judgments if one.nugget_id == "10_1"}
    files = {id_.rsplit("_", 2)[0] for id_ in old}
    again = {
        one["text"]
        for inputs in of_corpus
        for one in inputs["nuggets"]
        if any(chunk["path"] in files for chunk in inputs["chunks"])
    }
    assert again == {"Wait a day"}
    new = {one.chunk_id: one.label for one in found.collection.judgments if one.nugget_id == "10_0"}
    assert old.items() <= new.items()
    assert found.difference.nuggets == Tally(kept=4, added=1, dropped=1, changed=0)
    assert found.difference.judgments.dropped == len(old)


def test_a_judgment_stays_where_its_chunk_is_pooled_no_more(config: BuildConfig) -> None:
    before = Collection.load(config.out)
    narrow = domain(config.out.parent, pool={"depth": 1, "top_k": 1})
    provider = ScriptedProvider()

    found = refreshed(narrow, provider)

    assert provider.calls.total() == 0
    assert found.collection.judgments == before.judgments
    origins = Counter(candidate.origin for candidate in found.collection.pool)
    assert origins["reused"] > 0
    assert origins.total() == len(before.pool)
    assert changes(found) == [], "the same chunks are judged"
    again = refreshed(config)
    assert {candidate.origin for candidate in again.collection.pool} == {"pooled"}
    assert again.collection.manifest.content_hash == before.manifest.content_hash


def test_what_failed_is_asked_again_when_told_to_and_is_a_changed_label(
    config: BuildConfig,
) -> None:
    shutil.rmtree(config.out)
    failing = ScriptedProvider(JudgeSupportLevel=when("sticks", lambda _: Said("nothing"), judge))
    before = build(config, provider=failing)
    failed = [one for one in before.judgments if one.label is None]
    assert failed
    provider = ScriptedProvider()

    kept = refreshed(config, provider)
    assert (kept.collection.failures, provider.asked) == (before.failures, [])

    found = refreshed(config, provider, mode="rerecord", failed=True)

    assert not found.collection.failures
    assert found.difference.judgments.changed == len(failed)
    changed = [one for one in changes(found) if isinstance(one, JudgmentChange)]
    assert [one.before for one in changed] == failed
    assert {one.after.status for one in changed if one.after} == {"ok"}
    assert all("sticks" in question_of(inputs) for inputs in provider.asked)


def test_runs_and_what_they_brought_are_kept(config: BuildConfig, tmp_path: Path) -> None:
    narrow = domain(tmp_path, pool={"depth": 1, "top_k": 1})
    shutil.rmtree(narrow.out)
    first = build(narrow, provider=ScriptedProvider())
    ids = list(first.corpus.ids)
    run = written(tmp_path / "mine.run", {"2": ids, "10": ids, "x": ids})
    before = extended(narrow, [run]).collection
    put(narrow, "docs/dial.md", MARS)
    provider = ScriptedProvider()

    found = refreshed(narrow, provider)

    after = found.collection
    assert after.manifest.extensions == before.manifest.extensions
    here = set(after.corpus.ids)
    stays = {(c.query_id, c.chunk_id): c for c in before.pool if c.chunk_id in here}
    now = {(c.query_id, c.chunk_id): c for c in after.pool}
    assert stays.keys() <= now.keys()
    assert all(now[key].runs == candidate.runs for key, candidate in stays.items())
    kept = [one for one in before.judgments if one.chunk_id in here]
    assert all(one in after.judgments for one in kept)
    assert shown(provider) <= {"dial/docs/dial.md"}


def test_labels_of_another_model_are_reused_only_where_it_is_wished(
    config: BuildConfig, tmp_path: Path
) -> None:
    files = files_of(config.out)
    other = domain(tmp_path, pool=WHOLE, model={"name": "openai/other"})
    put(other, "docs/dial.md", MARS)

    with pytest.raises(
        ConfigError, match=r"'openai/scripted', now 'openai/other'.*keep_labels=True"
    ):
        refreshed(other)
    assert files_of(config.out) == files
    found = refreshed(other, keep_labels=True)

    assert found.collection.manifest.model == "openai/other"
    assert found.collection.manifest.earlier_models == ("openai/scripted",)
    graded = domain(tmp_path, pool=WHOLE, judge={"scale": "graded_3"})
    with pytest.raises(ConfigError, match=r"'graded_3'.*'support'"):
        refreshed(graded, keep_labels=True)


@pytest.mark.parametrize("what", ["path", "tags", "date"])
def test_what_the_judge_is_shown_otherwise_is_judged_again(config: BuildConfig, what: str) -> None:
    before = Collection.load(config.out)
    if what == "path":
        docs = config.out.parent / "corpus/docs"
        (docs / "reset.md").rename(docs / "again.md")
    else:
        more = {"tags": ["dial"]} if what == "tags" else {"asked_at": "2024-05-01"}
        ask(config, {**QUESTIONS[0], **more}, *QUESTIONS[1:])

    found = refreshed(config).collection

    known = {one.call_id for one in before.judgments}
    assert any(one.call_id not in known for one in found.judgments if one.query_id == "10")
