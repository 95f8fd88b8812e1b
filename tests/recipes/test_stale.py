"""What is stale is what a refresh then changes, and what it asks; and nothing is sent for it."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, build, explain, plan, rejudge, stale
from freshstack_dspy.errors import ConfigError, FreshstackError
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.recipes.stale import Stale
from freshstack_dspy.views.queries import query_page
from tests.corpus.test_git import commit, git
from tests.recipes.domain import FILES, QUESTIONS, domain, files_of, write_domain
from tests.recipes.scripted import ScriptedProvider
from tests.recipes.test_refresh import NEW, ask, put, refreshed

RESET = FILES["docs/reset.md"]


@pytest.fixture
def config(copied: Callable[[str], BuildConfig]) -> BuildConfig:
    """A collection whose replies are lost: only its records are there."""
    config = copied("whole")
    shutil.rmtree(config.cache.path)
    return config


def stale_pairs(found: Stale) -> dict[tuple[str, str], str]:
    return {(one.nugget_id, one.chunk_id): one.change for one in found.labels}


def calls(found: Stale) -> int:
    return found.plan.total.requests - found.plan.total.recorded


def test_where_nothing_changed_no_label_is_stale_and_nothing_is_written(
    config: BuildConfig,
) -> None:
    files = files_of(config.out)

    found = stale(config)

    assert (found.labels, found.nuggets, found.queries, found.share) == ((), (), (), 0)
    assert (found.supported, found.kept, calls(found)) == (3, 3, 0)
    assert found.chunks.added == found.chunks.dropped == 0
    assert files_of(config.out) == files
    assert not config.cache.path.exists()


@pytest.mark.parametrize("dry", [plan, stale])
def test_nothing_is_written_to_a_read_only_place(
    copied: Callable[[str], BuildConfig], monkeypatch: pytest.MonkeyPatch, dry: Callable[..., Any]
) -> None:
    """To whom nothing may be written (root may everywhere) it says what it would ask."""
    config = copied("whole")
    put(config, "docs/dial.md", "# The dial\n\nThe dial shows the phase of Mars.\n")
    files = files_of(config.out) | files_of(config.cache.path)
    monkeypatch.setattr("os.access", lambda *_: False)

    dry(config)

    assert files_of(config.out) | files_of(config.cache.path) == files


def test_evidence_is_followed_or_moved_or_gone(config: BuildConfig) -> None:
    before = Collection.load(config.out)
    put(config, "docs/reset.md", f"{RESET}\nAsk no one.\n")  # the sentence stands
    put(config, "docs/install.md", "# Installing\n\nInstall it\nwith pip. Any Python.\n")
    provider = ScriptedProvider()

    found = stale(config)
    after = refreshed(config, provider)

    install = next(one.chunk_id for one in after.collection.chunks() if "install" in one.path)
    moved = next(one for one in found.labels if one.change == "moved")
    assert moved.now == install
    assert sorted(stale_pairs(found).values()) == ["gone", "moved"]
    assert (found.supported, found.kept, found.followed) == (3, 0, 1)
    assert after.difference.followed == found.followed
    assert {one.text for one in found.nuggets if one.unsupported} == {"Python 3.11 is needed"}
    dropped = {
        (one.before.nugget_id, one.before.chunk_id)
        for one in after.difference.changes
        if one.kind == "judgment" and one.change == "dropped"
        if one.before and before.supports(one.before)
    }
    assert stale_pairs(found).keys() == dropped
    assert calls(found) == provider.calls.total() == after.calls > 0
    lost = {id_ for one in after.collection.slices for id_ in one.unsupported_nuggets}
    assert {one.nugget_id for one in found.nuggets if one.unsupported} <= lost


AROUND, AGAIN = f"Ask no one.\n\n{RESET}", f"Ask no one, or two.\n\n{RESET}"
REWORDED = "# Resetting the dial\n\nIf the dial sticks, reset it two times.\n"


@pytest.mark.parametrize(
    ("pages", "followed"),
    [
        ((AROUND, AGAIN), (1, 1)),
        ((AROUND, AROUND), (1, 0)),
        ((AROUND, RESET), (1, 1)),
        ((AROUND, REWORDED), (1, 0)),
        ((REWORDED, RESET), (0, 0)),
    ],
)
def test_stale_refresh_and_diff_count_alike_what_followed(
    config: BuildConfig, pages: tuple[str, ...], followed: tuple[int, ...]
) -> None:
    """Each judgment before is unchanged or changed once, and each one after was there or is new."""
    first = Collection.load(shutil.copytree(config.out, config.out.with_name("first")))
    for page, number in zip(pages, followed, strict=True):
        put(config, "docs/reset.md", page)
        before, said = Collection.load(config.out), stale(config)
        found = refreshed(config)
        counts = (said.kept, said.followed, said.elsewhere)
        assert (said.followed, found.difference.followed) == (number, number)
        assert said.supported == said.kept + said.followed + len(said.labels), counts
        for old, changed in (
            (before, found.difference),
            (first, first.diff(found.collection)),
        ):
            tally = Counter(one.change for one in changed.changes if one.kind == "judgment")
            assert tally["followed"] == changed.followed
            gone = len(old.judgments) - tally["dropped"] + tally["added"]
            assert gone == len(found.collection.judgments)


def test_a_label_holds_where_its_chunk_is_elsewhere_in_its_file(tmp_path: Path) -> None:
    config = domain(tmp_path, chunking={"max_tokens": 32})
    parts = [f"# Part {n}\n\nThe dial {n} has wheels{' and more' * 10}.\n\n" for n in range(3)]
    put(config, "docs/reset.md", f"{parts[0]}{RESET}")
    build(config, provider=ScriptedProvider())
    put(config, "docs/reset.md", f"{''.join(parts)}{RESET}")

    found = stale(config)

    assert (found.labels, found.elsewhere, found.share) == ((), 1, 0)


def test_questions_that_changed_take_their_labels_along(config: BuildConfig) -> None:
    edited = {**QUESTIONS[0], "answer": "The moon must be full."}
    ask(config, edited, QUESTIONS[2], NEW)  # "2" is retired

    found = stale(config)

    assert [(one.query_id, one.change) for one in found.queries] == [
        ("10", "edited"),
        ("11", "added"),
        ("2", "dropped"),
    ]
    assert sorted(stale_pairs(found).values()) == ["edited", "retired", "retired"]
    assert found.share == 1
    assert {step.step for step in found.plan.steps} >= {"nuggets", "sub_questions", "support"}


def test_new_chunks_near_a_nugget_are_named(config: BuildConfig) -> None:
    put(config, "docs/moon.md", "# The moon\n\nThe moon must be full, or the dial sticks.\n")

    found = stale(config)

    near = {one.text: one.near for one in found.nuggets}
    (chunk_id,) = near["The moon must be full"]
    assert "moon.md" in chunk_id
    assert found.labels == ()


def test_what_is_true_at_a_commit_has_its_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = domain(tmp_path, pool={"depth": 20, "top_k": 20})
    corpus = tmp_path / "corpus"

    def committed(date: str) -> None:
        monkeypatch.setenv("GIT_COMMITTER_DATE", date)
        git(corpus, "init", "-q")
        commit(corpus)

    committed("2024-02-29T23:30:00-01:00")
    of_git = [one.model_copy(update={"revision": "HEAD"}) for one in config.corpus]
    config = config.model_copy(update={"corpus": tuple(of_git)})
    first = build(config, provider=ScriptedProvider()).true_at()
    put(config, "docs/reset.md", "# Resetting\n\nIt cannot be reset.\n")
    committed("2025-01-01T00:00:00+00:00")

    found = stale(config)
    after = refreshed(config).collection

    assert first["10_0"] == found.nuggets[0].true_at == "2024-03-01T00:30:00+00:00"
    assert [(one.date_before, one.date_now) for one in found.revisions] == [
        ("2024-03-01T00:30:00+00:00", "2025-01-01T00:00:00+00:00")
    ]
    assert after.true_at().keys() == {"2_0", "2_1"}
    assert "supported by 1 chunk of 2025-01-01" in page_text(query_page(after, "2"))
    chunk_id = next(one.chunk_id for one in after.judgments if after.supports(one))
    explained = page_text(explain(after, "2", chunk_id).page())
    assert " of 2025-01-01, bytes" in " ".join(explained.split())
    shutil.rmtree(corpus)
    again = rejudge(config.out, config, tmp_path / "again", provider=ScriptedProvider()).collection
    assert again is not None
    assert again.true_at() == after.true_at()


@pytest.mark.parametrize(
    ("sections", "error", "says"),
    [
        ({}, ConfigError, "no collection to refresh; type: freshstack build"),
        ({"model": {"name": "openai/other"}}, ConfigError, "now 'openai/other"),
        ({"judge": {"scale": "binary"}}, ConfigError, "no label can be reused"),
    ],
)
def test_what_cannot_be_refreshed_is_one_line(
    copied: Callable[[str], BuildConfig],
    tmp_path: Path,
    sections: dict[str, Any],
    error: type[FreshstackError],
    says: str,
) -> None:
    if sections:
        copied("usual")
    path = write_domain(tmp_path, **sections)
    with pytest.raises(error, match=says):
        stale(path)
