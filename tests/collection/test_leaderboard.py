"""A leaderboard small enough to check by hand: two topics, three entries.

topic one is `small`; in topic two docs/b c.md supports the nugget of query 123 as well.

entry  topics    its first chunk for 12, for 123   Coverage@1 one, two   Recall@1 one, two
ada    one, two  b c, a                            1, 1                  3/4, 1/2
bob    one, two  a, b c                            1/4, 3/4              1/4, 1/2
eve    one       a, a                              3/4                   3/4
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import FreshstackError
from freshstack_dspy.collection.leaderboard import (
    EntryInfo,
    Results,
    compute,
    differences,
    leaderboard_entry,
    write_results,
)
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.evaluation import MEASURES_VERSION
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.stored.contents import Contents
from tests.collection.small import CONTENTS, A, B, judgment, write_small

TWO: Contents = dataclasses.replace(
    CONTENTS,
    judgments=tuple(
        judgment("123_0", B, 1) if (each.nugget_id, each.chunk_id) == ("123_0", B) else each
        for each in CONTENTS.judgments
    ),
)
FIRST = {"ada": (B, A), "bob": (A, B), "eve": (A, A)}
BOARD = """\
name = "Small"
measures = ["Coverage@1", "Recall@1"]

[collections.two]
path = "two"
content_hash = "{two}"

[collections.one]
path = "one"
content_hash = "{one}"

[[entries]]
name = "eve"
type = "open_source"
date = 2026-01-31
runs = {{ one = "runs/eve.run" }}

[[entries]]
name = "bob"
size = "9B"
type = "proprietary"
date = "2025-12-31"
link = "https://example.org/bob"
runs = {{ one = "runs/bob.run", two = "runs/bob.run" }}

[[entries]]
name = "ada"
type = "upper_baseline"
date = 2026-01-31
runs = {{ one = "runs/ada.run", two = "runs/ada.run" }}
"""


def write_small_board(folder: Path) -> Path:
    """Write a whole leaderboard, but for its results."""
    hashes = {
        topic: write_small(folder / topic, contents).manifest.content_hash
        for topic, contents in (("one", CONTENTS), ("two", TWO))
    }
    (folder / "leaderboard.toml").write_text(BOARD.format(**hashes))
    (folder / "runs").mkdir()
    for name, (first, second) in FIRST.items():
        write_lists(folder / f"runs/{name}.run", name, {"12": first, "123": second})
    return folder


def write_lists(path: Path, name: str, first: dict[str, str]) -> None:
    """Write a run of one chunk for each query."""
    lines = [f"{query} Q0 {chunk} 1 1.5 {name}\n" for query, chunk in first.items()]
    path.write_text("".join(lines))


def edit(path: Path, old: str, new: str) -> None:
    """Change a file in one place."""
    text = path.read_text()
    assert text.count(old) == 1, text.count(old)
    path.write_text(text.replace(old, new))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_small_board(tmp_path / "board")


def test_the_values_by_hand(folder: Path) -> None:
    results = compute(folder)
    found = {
        entry.info.name: {
            topic: [of.means[measure].value for measure in ("Coverage@1", "Recall@1")]
            for topic, of in entry.topics.items()
        }
        for entry in results.entries
    }
    ada, bob, eve = results.entries

    assert found == {
        "ada": {"one": [1, 3 / 4], "two": [1, 1 / 2]},
        "bob": {"one": [1 / 4, 1 / 4], "two": [3 / 4, 1 / 2]},
        "eve": {"one": [3 / 4, 3 / 4]},
    }
    assert ada.average is not None
    assert bob.average is not None
    assert [ada.average[name].value for name in ("Coverage@1", "Recall@1")] == [1, 5 / 8]
    assert [bob.average[name].value for name in ("Coverage@1", "Recall@1")] == [1 / 2, 3 / 8]
    assert (ada.missing, eve.missing, eve.average) == ((), ("two",), None)
    assert results.measures_version == MEASURES_VERSION
    assert results.collections["two"].queries == 2
    assert results.collections["two"].labels == "openai/some-model"
    assert [entry.info.name for entry in results.ranked()] == ["bob", "eve", "ada"]
    assert ada.topics["one"].headroom == ()
    coverage, recall = bob.topics["one"].headroom
    assert (coverage.oracle, coverage.interval.value, recall.interval.value) == (
        "ada",
        3 / 4,
        1 / 2,
    )
    run = (folder / "runs/ada.run").read_bytes()
    assert ada.topics["one"].sha256 == hashlib.sha256(run).hexdigest()


def test_the_page_says_of_which_topic_questions_count_as_often_as_they_were_asked(
    folder: Path,
) -> None:
    line = "means per question that users asked"
    equal = compute(folder)
    (folder / "two").rename(folder / "equal")
    queries = tuple(each.model_copy(update={"weight": 2.0}) for each in TWO.queries)
    weighted = write_small(folder / "two", dataclasses.replace(TWO, queries=queries))
    known = equal.collections["two"].content_hash
    edit(folder / "leaderboard.toml", known, weighted.manifest.content_hash)

    assert line not in page_markdown(equal.page())
    assert page_markdown(compute(folder).page()).count(f"two: {line}") == 1


def test_what_is_missing_from_a_run_counts_0(folder: Path) -> None:
    write_lists(folder / "runs/eve.run", "eve", {"12": "code/d.py_3_9", "99": "docs/a.md_0_5"})
    eve = compute(folder).entries[-1].topics["one"]

    assert eve.means["Recall@1"].value == 0
    assert (eve.absent, eve.unknown, eve.unjudged) == (1, 1, {1: 1.0})


def test_the_same_leaderboard_is_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = write_small_board(tmp_path / "again")
    head, *entries = (again / "leaderboard.toml").read_text().split("[[entries]]")
    (again / "leaderboard.toml").write_text("\n[[entries]]".join([head, *reversed(entries)]))
    for board in (folder, again):
        write_results(board, compute(board))
    one, two = ((board / "leaderboard.json").read_text() for board in (folder, again))

    assert one == two
    assert Results.model_validate_json(one) == compute(folder)


def test_a_collection_may_be_elsewhere_and_is_known_by_its_hash(
    folder: Path, tmp_path: Path
) -> None:
    inside = compute(folder)
    (folder / "two").rename(tmp_path / "outside")
    edit(folder / "leaderboard.toml", 'path = "two"', 'path = "../outside"')

    assert compute(folder) == inside
    edit(folder / "leaderboard.toml", 'path = "one"', 'path = "../outside"')
    with pytest.raises(CollectionError, match="topic one is of content hash"):
        compute(folder)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"Recall@1"', '"Recal@1"', "'Recal@1'"),
        ('name = "bob"', 'name = "EVE"', "two entries are called"),
        ('type = "proprietary"', 'type = "closed"', "type is 'closed'"),
        ("https://example.org/bob", "javascript:alert(1)", "link is 'javascript"),
        ('["Coverage@1", "Recall@1"]', "[]", "measures is an array of 0"),
        ('{ one = "runs/eve.run" }', '{ six = "runs/eve.run" }', "'six', which is no topic"),
        ("[collections.two]", "[collections.average]", "no topic is called 'average'"),
        ('name = "Small"', "name = Small", "not valid TOML"),
        ("runs/eve", "../eve", "leads out of the leaderboard"),
        ("runs/eve", "/etc/eve", "leads out of the leaderboard"),
        ("runs/eve.run", "runs/gone.run", "gone.run: cannot be read"),
    ],
)
def test_what_is_not_allowed_is_named(folder: Path, old: str, new: str, fault: str) -> None:
    edit(folder / "leaderboard.toml", old, new)

    with pytest.raises(FreshstackError, match=fault):
        compute(folder)


def test_a_run_that_was_searched_with_the_answer_known_is_an_upper_baseline(folder: Path) -> None:
    write_lists(folder / "runs/ada.run", "bm25@answer", {"12": B})
    assert compute(folder).ranked()[-1].info.name == "ada"
    write_lists(folder / "runs/eve.run", "bm25@answer", {"12": B})

    with pytest.raises(CollectionError, match=r"'eve', topic 'one': .*type = \"upper_baseline\""):
        compute(folder)


# Compared with what is stored


@pytest.fixture
def stored(folder: Path) -> Path:
    write_results(folder, compute(folder))
    assert differences(folder, compute(folder)) == []
    return folder


def _made_up(values: Any) -> None:
    values["entries"][1]["average"]["Recall@1"]["value"] = 0.9


def _last_bits(values: Any) -> None:
    values["entries"][1]["average"]["Recall@1"]["value"] += 1e-12


def _another_entry(values: Any) -> None:
    values["entries"][0]["info"]["name"] = "zoe"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_made_up, {"entries.bob.average.Recall@1.value: stored 0.9, now 0.375"}),
        (_last_bits, set()),
        (
            _another_entry,
            {
                'entries.zoe.info.name: stored "zoe", now "nothing"',
                'entries.ada.info.name: stored "nothing", now "ada"',
            },
        ),
    ],
)
def test_what_was_changed_by_hand_is_named(
    stored: Path, change: Callable[[Any], None], named: set[str]
) -> None:
    path = stored / "leaderboard.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))

    lines = differences(stored, compute(stored))
    assert named <= set(lines)
    assert bool(named) == bool(lines)


OFFICIAL = Path(__file__).parents[3] / "shared/data/freshstack-official/leaderboard_data.json"
INFO = {
    "name": "A",
    "size": "9B",
    "type": "open_source",
    "date": "2026-01-31",
    "link": "https://example.org/a",
}
NAMES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")


def means(*values: float) -> dict[str, float]:
    return dict(zip(NAMES, values, strict=True))


def test_an_entry_has_three_decimals_and_averages_of_unrounded_means() -> None:
    """The mean of .1004 and .2008 is .1506: .151; that of .100 and .201 would be .1505: .150."""
    of_topics = {"b": means(0.1004, 1, 0.3), "a": {**means(0.2008, 0, 0.4), "AP": 0.5}}
    entry = leaderboard_entry(EntryInfo.model_validate(INFO), of_topics)

    assert entry == {
        "info": INFO,
        "datasets": {
            "a": {"alpha_ndcg_10": 0.201, "coverage_20": 0, "recall_50": 0.4},
            "b": {"alpha_ndcg_10": 0.1, "coverage_20": 1, "recall_50": 0.3},
            "average": {"alpha_ndcg_10": 0.151, "coverage_20": 0.5, "recall_50": 0.35},
        },
    }
    with pytest.raises(ConfigError, match="topic 'a' has no Recall@50"):
        leaderboard_entry(
            EntryInfo.model_validate(INFO), {"a": {"alpha_nDCG@10": 0.1, "Coverage@20": 0.2}}
        )


def test_a_whole_leaderboard_has_the_official_shape(tmp_path: Path) -> None:
    folder = write_small_board(tmp_path / "board")
    write_results(folder, compute(folder))
    assert not (folder / "leaderboard_data.json").exists()
    edit(folder / "leaderboard.toml", 'measures = ["Coverage@1", "Recall@1"]\n', "")
    write_results(folder, compute(folder))

    data = json.loads((folder / "leaderboard_data.json").read_bytes())
    named = {entry["info"]["name"]: entry["datasets"] for entry in data["leaderboardData"]}
    assert {name: list(datasets) for name, datasets in named.items()} == {
        "ada": ["one", "two", "average"],
        "bob": ["one", "two", "average"],
        "eve": ["one"],
    }
    assert list(named["ada"]["average"]) == ["alpha_ndcg_10", "coverage_20", "recall_50"]


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official data are not there")
def test_official_entries_keep_their_info_and_topics() -> None:
    """113 of 120 averages are what the rounded values give; only unrounded ones explain all."""
    reproduced, off = 0, 0
    entries: list[Any] = json.loads(OFFICIAL.read_text())["leaderboardData"]
    for entry in entries:
        topics = {topic: of for topic, of in entry["datasets"].items() if topic != "average"}
        ours = leaderboard_entry(
            EntryInfo.model_validate(entry["info"]),
            {topic: means(*of.values()) for topic, of in topics.items()},
        )
        assert ours["info"] == entry["info"]
        assert {**ours["datasets"], "average": 0} == {**entry["datasets"], "average": 0}
        for key, average in entry["datasets"]["average"].items():
            mean = sum((Decimal(str(of[key])) for of in topics.values()), Decimal()) / len(topics)
            difference = abs(mean - Decimal(str(average)))
            assert difference <= Decimal("0.001")
            reproduced += difference <= Decimal("0.0005")
            off += difference > Decimal("0.0005")

    assert (reproduced, off) == (113, 7)
