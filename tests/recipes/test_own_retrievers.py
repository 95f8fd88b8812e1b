"""Retrievers of one's own in the pool: built by all of them, replayed without any of them."""

import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, HybridIndex, build, load_config, plan
from freshstack_dspy.config import PoolConfig
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.opening import open_session
from freshstack_dspy.recipes.own_retrievers import identity_of
from freshstack_dspy.recipes.provenance import export_replies
from tests.heard import Heard

from .domain import FILES, domain, write_domain
from .scripted import ScriptedProvider

INSTALL, RESET, DIAL = (f"docs/{name}.md" for name in ("install", "reset", "dial"))
MODULE = """
asked = []

def search(text, k):
    asked.append(text)
    words = set(text.lower().split())
    return [
        {{"path": path, "text": body[len(body) // 2 :], "score": len(words & set(body.split()))}}
        for path, body in {files!r}.items()
    ][:k]
"""


def chunk_ids(config: BuildConfig, folder: Path) -> dict[str, str]:
    """The id of each file's only chunk, from a pool of everything."""
    plain = build(domain(folder), provider=ScriptedProvider())
    return {chunk.path: chunk.chunk_id for chunk in plain.chunks()}


def write_run(path: Path, ids: dict[str, str], found: dict[str, list[str]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    lines = [
        f"{query_id} Q0 {ids[file]} {rank} {-rank} theirs\n"
        for query_id, files in found.items()
        for rank, file in enumerate(files, 1)
    ]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def ids(usual: Any) -> dict[str, str]:
    return {chunk.path: chunk.chunk_id for chunk in usual.collection.chunks()}


def with_pool(config: BuildConfig, *retrievers: Any, **settings: Any) -> BuildConfig:
    """The configuration with another pool; its other settings are those of the domain."""
    values = {"depth": 5, "top_k": 5, "retrievers": retrievers, **settings}
    return config.model_copy(update={"pool": PoolConfig(**values)})


class Written:
    """A retriever that gives what is written down, and remembers what it was asked."""

    def __init__(self, results: Any, name: str = "written", version: str = "1") -> None:
        self.results, self.asked = results, Counter[str]()
        self.__name__, self.version = name, version
        self.concurrency = 1
        self.lock: Any = None

    def __call__(self, text: str) -> Any:
        self.asked[text] += 1
        return self.results(text) if callable(self.results) else self.results


def found_by(collection: Collection, name: str) -> set[tuple[str, str, str, int]]:
    return {
        (each.query_id, each.chunk_id, found.technique, found.rank)
        for each in collection.pool
        for found in each.found_by
        if found.retriever == name
    }


def test_an_import_path_and_a_run_file_pool_and_are_replayed_where_neither_is(
    tmp_path: Path, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = "pooled_search:search"
    pool = {"retrievers": ["bm25", mine, "runs/theirs.run"]}
    toml = write_domain(tmp_path / "here", pool=pool)
    (toml.parent / "pooled_search.py").write_text(MODULE.format(files=FILES))
    write_run(toml.parent / "runs/theirs.run", ids, {"10": ["src/phase.py"], "2": [INSTALL]})

    made = build(toml, provider=ScriptedProvider())
    bundle = tmp_path / "used.jsonl"
    export_replies(load_config(toml), bundle)

    asked = sys.modules["pooled_search"].asked
    assert len(asked) == len(set(asked)), "a text is asked for once"
    recorded: Any = made.manifest.config
    assert recorded["pool"]["retrievers"] == ["bm25", mine, "theirs.run"]
    assert found_by(made, "theirs.run") == {
        ("10", ids["src/phase.py"], "question", 1),
        ("2", ids[INSTALL], "question", 1),
    }
    assert {technique for _, _, technique, _ in found_by(made, mine)} > {"question", "answer"}

    monkeypatch.delitem(sys.modules, "pooled_search")
    there = write_domain(tmp_path / "there", pool=pool, cache={"bundles": [str(bundle)]})
    replayed = build(there, mode="replay")
    assert replayed.manifest.content_hash == made.manifest.content_hash
    assert "pooled_search" not in sys.modules
    with pytest.raises(ConfigError, match="pooled_search"):
        plan(there)


def test_a_passage_stands_for_the_chunks_it_shares_text_with(tmp_path: Path) -> None:
    long = " ".join(f"word{number}." for number in range(400))
    toml = write_domain(tmp_path, chunking={"max_tokens": 64})
    (tmp_path / "corpus/docs/long.md").write_text(long)
    start = long.index("word100.")
    passage = {"path": "docs/long.md", "start": start, "end": start + 600, "score": 2.0}
    mine = Written(lambda _: [passage, {"path": DIAL, "text": FILES[DIAL], "score": 1.0}])

    made = build(with_pool(load_config(toml), mine), provider=ScriptedProvider())

    ranks = {
        id_: rank
        for query, id_, kind, rank in found_by(made, "written")
        if (query, kind) == ("2", "question")
    }
    chunks = {chunk.chunk_id: chunk for chunk in made.chunks()}
    *overlapping, dial = sorted(ranks, key=ranks.__getitem__)
    assert len(overlapping) > 2
    assert chunks[dial].path == DIAL
    assert all(
        chunk.chunk_id in overlapping
        for chunk in chunks.values()
        if chunk.path == "docs/long.md"
        and chunk.start_byte < start + 600
        and start < chunk.end_byte
    )


def test_a_retriever_that_fails_for_a_query_stops_before_anything_is_paid(
    tmp_path: Path, ids: dict[str, str]
) -> None:
    """What it found by then is not asked for again."""
    provider, works = ScriptedProvider(), False

    def search(text: str) -> Any:
        if "knows" in text and not works:
            raise TimeoutError("no answer")
        return [ids[DIAL]]

    mine = Written(search)
    config = with_pool(domain(tmp_path), "bm25", mine)
    with pytest.raises(
        CollectionError, match="written raised TimeoutError: no answer, at query 'x', after 5 of 6"
    ):
        build(config, provider=provider)
    assert not provider.calls
    works = True
    build(config, provider=provider)
    assert mine.asked.pop("Nobody knows.") == 2
    assert set(mine.asked.values()) == {1}, "what it found was asked for again"


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (["gone"], r"results of written cannot be placed .* no chunk 'gone'"),
        (
            ["dial/docs/dial.md_0_999"],
            "1 of 1 results of written are ids of chunks that this corpus",
        ),
        ([], "written returned nothing for any of 6 texts"),
        ([("a", float("inf"))], "the score inf, at query"),
        ({"a": 1}, "written returned a dict"),
    ],
)
def test_what_no_pool_can_be_made_of_is_refused_before_anything_is_paid(
    tmp_path: Path, results: Any, said: str
) -> None:
    provider = ScriptedProvider()
    with pytest.raises(CollectionError, match=said):
        build(with_pool(domain(tmp_path), "bm25", Written(results)), provider=provider)
    assert not provider.calls


def test_an_index_that_was_mended_is_asked_again(tmp_path: Path, ids: dict[str, str]) -> None:
    mine = Written(["gone"])
    config = with_pool(domain(tmp_path), mine)
    with pytest.raises(CollectionError, match="cannot be placed"):
        build(config, provider=ScriptedProvider())
    mine.results = [ids[DIAL]]
    assert {each.chunk_id for each in build(config, provider=ScriptedProvider()).pool} == {
        ids[DIAL]
    }


def test_results_outside_the_corpus_and_queries_without_any_are_counted(
    tmp_path: Path, ids: dict[str, str]
) -> None:
    heard = Heard()
    mine = Written(lambda text: ["gone", ids[DIAL]] if "phase" in text else [])
    with pytest.warns(UserWarning, match="1 of 2 results of written cannot be placed"):
        made = build(
            with_pool(domain(tmp_path), "bm25", mine), provider=ScriptedProvider(), progress=heard
        )
    assert "none for" in heard.notes["retrievers"]
    assert {id_ for _, id_, _, _ in found_by(made, "written")} == {ids[DIAL]}


def test_a_changed_version_is_asked_again_and_a_bundle_has_its_own(
    tmp_path: Path, ids: dict[str, str]
) -> None:
    first, second = (Written([ids[each]], version=each) for each in (DIAL, RESET))
    config = domain(tmp_path)
    provider = ScriptedProvider()
    made = build(with_pool(config, first), provider=provider)
    bundle = tmp_path / "used.jsonl"
    export_replies(with_pool(config, first), bundle)
    again = build(with_pool(config, first), provider=provider)
    assert max(first.asked.values()) == 1
    assert again.manifest == made.manifest

    other = build(with_pool(config, second), provider=provider)
    assert other.manifest.content_hash != made.manifest.content_hash
    asked = second.asked.copy()
    for mine, expected in ((first, made), (second, other)):
        there = build(with_pool(config, mine), mode="replay", replace=True)
        assert there.manifest.content_hash == expected.manifest.content_hash
    assert second.asked == asked
    elsewhere = domain(tmp_path / "there", cache={"bundles": [str(bundle)]})
    unknown = build(with_pool(elsewhere, second), mode="replay")
    assert unknown.manifest.content_hash == made.manifest.content_hash, "that of the bundle"


def test_other_settings_of_one_function_are_another_retriever() -> None:
    def found(text: str, index: str = "") -> list[str]:
        return [index]

    one, same, other = (identity_of(partial(found, index=index)) for index in "aab")

    assert one == same
    assert len({one, other, identity_of(found), identity_of(partial(found, "so"))}) == 4


def test_of_two_recorded_versions_what_is_gone_does_not_tell_which(
    tmp_path: Path, ids: dict[str, str]
) -> None:
    run = tmp_path / "theirs.run"
    config = with_pool(domain(tmp_path), "bm25", run)
    hashes = set()
    for file in (DIAL, "src/phase.py"):
        write_run(run, ids, {"10": [file]})
        made = build(config, provider=ScriptedProvider())
        hashes.add(made.manifest.content_hash)
    assert len(hashes) == 2, "a changed run file makes another pool"
    assert build(config, mode="replay").manifest.content_hash == made.manifest.content_hash
    run.unlink()
    with pytest.raises(ConfigError, match=r"2 versions of theirs\.run"):
        build(config, mode="replay")
    export_replies(config, tmp_path / "used.jsonl")
    there = domain(tmp_path / "there", cache={"bundles": [str(tmp_path / "used.jsonl")]})
    replayed = build(with_pool(there, "bm25", run), mode="replay")
    assert replayed.manifest.content_hash == made.manifest.content_hash


def test_what_only_a_run_file_found_is_lost_without_it_alone(
    tmp_path: Path, ids: dict[str, str]
) -> None:
    run = write_run(tmp_path / "theirs.run", ids, {"10": ["src/phase.py", RESET]})
    techniques = ("question", "answer")
    config = with_pool(domain(tmp_path), "bm25", run, techniques=techniques)
    plain = build(
        with_pool(domain(tmp_path / "plain"), "bm25", techniques=techniques),
        provider=ScriptedProvider(),
    )
    made = build(config, provider=ScriptedProvider())

    pooled = {(each.query_id, each.chunk_id) for each in plain.pool}
    lost = {
        (each.query_id, each.chunk_id) for each in made.pool if "theirs.run" in each.lost_without
    }
    assert lost == {(each.query_id, each.chunk_id) for each in made.pool} - pooled
    assert ("10", ids["src/phase.py"]) in lost


def test_one_thread_calls_a_retriever_that_does_not_say_otherwise(
    tmp_path: Path, ids: dict[str, str]
) -> None:
    """As a program's copy does not copy what it holds, it may hold a lock."""
    lock = threading.Lock()

    def search(text: str) -> Any:
        assert lock.acquire(blocking=False), "two at once"
        assert threading.current_thread() is threading.main_thread()
        time.sleep(0.001)
        lock.release()
        return [ids[DIAL]]

    one, several = Written(search), Written([ids[RESET]], name="several")
    several.concurrency, one.lock = 3, lock
    config = with_pool(domain(tmp_path), one, several)
    nuggets = {"nuggetizer": "tests.recipes.test_own:Sentences"}
    build(config, provider=ScriptedProvider(), programs=nuggets)
    assert one.asked.keys() == several.asked.keys()


def test_one_query_alone_is_searched_for_by_ones_own_too(
    tmp_path: Path, ids: dict[str, str]
) -> None:
    mine = Written([ids["src/phase.py"]])
    config = with_pool(domain(tmp_path), "bm25", mine)
    made = build(config, provider=ScriptedProvider())
    index = HybridIndex.open(config.index.path / config.name)
    with open_session(config, "replay"):
        alone = FreshStack(config)(made.queries[0], index)
    pooled = [each for each in made.pool if each.query_id == made.queries[0].query_id]
    assert [*alone.pool] == pooled


def test_a_plan_asks_no_retriever_and_knows_what_it_found(
    tmp_path: Path, ids: dict[str, str]
) -> None:
    mine = Written(list(ids.values()))
    config = with_pool(domain(tmp_path), mine)
    before = plan(config)
    assert not mine.asked
    assert before.total.requests > 0
    assert before.unasked == ("written",)
    build(config, provider=ScriptedProvider())
    asked = mine.asked.copy()
    after = plan(config)
    assert after.total.requests == after.total.recorded
    assert not after.unasked
    assert mine.asked == asked


@pytest.mark.parametrize(
    ("retrievers", "said"),
    [
        (["mine.search"], r"names \['mine.search'\]"),
        (["nowhere:search"], "nowhere:search: No module named 'nowhere'"),
        (["json:dumps", "json:dumps"], "each once"),
        (["bm25", "missing.run"], "missing.run: no such file"),
        (["a/x.run", "b/x.run"], "each once"),
        (["only.run"], "write techniques = "),
        (["bm25", "others.run"], "others.run returned nothing .* its queries are '77'"),
        (["bm25", 3], "is the name of a retriever"),
    ],
)
def test_what_cannot_be_a_retriever_is_said_before_anything_is_paid(
    tmp_path: Path, retrievers: Any, said: str
) -> None:
    provider = ScriptedProvider()
    write_run(tmp_path / "others.run", {"x": "x"}, {"77": ["x"]})
    with pytest.raises((ConfigError, CollectionError), match=said):
        build(write_domain(tmp_path, pool={"retrievers": retrievers}), provider=provider)
    assert not provider.calls


def test_a_replay_without_a_recorded_pool_says_so(tmp_path: Path) -> None:
    config, mine = domain(tmp_path), Written(["x"])
    build(config, provider=ScriptedProvider())
    with pytest.raises(CollectionError, match=r"no pool by written .* build it in mode live"):
        build(with_pool(config, "bm25", mine), mode="replay", replace=True)
    assert not mine.asked
