"""Pooled chunks that say the same are judged once, and share the judgment."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from freshstack_dspy import BuildConfig, Collection, Judgment, build, plan, refresh
from freshstack_dspy.formats.validate import validate
from tests.recipes.domain import FILES, domain
from tests.recipes.scripted import ScriptedProvider
from tests.recipes.test_extend import chunk_ids, extended, written

COPY = "docs/old/install.md"


def with_copy(folder: Path, **sections: dict[str, Any]) -> BuildConfig:
    """The domain with a copy of one page, with other line breaks and two lines farther down."""
    config = domain(folder, **sections)
    copy = folder / "corpus" / COPY
    copy.parent.mkdir()
    copy.write_text("\n\n" + FILES["docs/install.md"].replace(". ", ".\n"))
    return config


def of_file(collection: Collection, path: str) -> list[Judgment]:
    return [one for one in collection.judgments if f"/{path}_" in one.chunk_id]


def words(folder: Path, path: str, judgment: Judgment) -> list[bytes]:
    """The evidence of a judgment, as it is in the file."""
    data = (folder / "corpus" / path).read_bytes()
    return [data[start:end] for start, end in judgment.evidence]


def shown(provider: ScriptedProvider) -> list[str]:
    return [one.get("path", "") for asked in provider.asked for one in asked.get("chunks", ())]


def test_a_copy_is_not_asked_about_and_has_the_judgment_of_the_other(tmp_path: Path) -> None:
    config, provider = with_copy(tmp_path), ScriptedProvider()
    planned = plan(config)

    collection = build(config, provider=provider)

    assert f"dial/{COPY}" not in shown(provider)
    copies, originals = of_file(collection, COPY), of_file(collection, "docs/install.md")
    assert {one.nugget_id for one in copies} == {one.nugget_id for one in originals} != set()
    for copy, original in zip(copies, originals, strict=True):
        assert copy.same_as == original.chunk_id
        as_original = {"chunk_id": copy.same_as, "same_as": None, "evidence": original.evidence}
        assert copy.model_copy(update=as_original) == original
        assert words(tmp_path, COPY, copy) == words(tmp_path, "docs/install.md", original)
    assert any(words(tmp_path, COPY, one) for one in copies)
    assert collection.manifest.counts.shared == len(copies)
    assert f"which was judged: {len(copies)}." in (config.out / "README.md").read_text()
    assert not validate(config.out).faults
    support = next(step for step in planned.steps if step.step == "support")
    assert (
        support.requests == provider.calls["JudgeSupportLevel"] - planned.queries
    )  # contamination's


def test_a_chunk_of_a_run_shares_the_judgment_that_is_known(
    copied: Callable[[str], BuildConfig], tmp_path: Path
) -> None:
    config = copied("narrow")
    shutil.rmtree(config.out)
    with_copy(tmp_path, pool={"techniques": ["question"], "retrievers": ["bm25"], "top_k": 1})
    before = build(config, provider=ScriptedProvider())
    pages = [id_ for id_ in chunk_ids(config) if "install.md" in id_]
    (judged,) = {one.chunk_id for one in before.judgments} & set(pages)
    run, silent = written(tmp_path / "mine.run", {"2": pages}), ScriptedProvider()

    after = extended(config, [run], silent).collection

    assert not silent.calls
    (other,) = set(pages) - {judged}
    found = {one.same_as for one in after.judgments if one.chunk_id == other}
    assert found == {judged}


def test_a_refresh_keeps_what_is_shared_and_names_no_chunk_that_is_gone(tmp_path: Path) -> None:
    config = with_copy(tmp_path)
    build(config, provider=ScriptedProvider())
    assert not refresh(config, provider=ScriptedProvider()).changed
    (tmp_path / "corpus" / "docs" / "install.md").unlink()
    silent = ScriptedProvider()

    after = refresh(config, provider=silent).collection

    assert not silent.calls["JudgeSupportLevel"]
    assert [one.same_as for one in of_file(after, COPY)] == [None] * len(of_file(after, COPY))
    assert of_file(after, COPY)
