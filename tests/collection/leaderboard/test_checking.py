"""Every difference between stored and computed results is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.leaderboard import (
    compute,
    differences,
    encode_values,
    read_board,
    write_results,
)
from freshstack_dspy.errors import CollectionError

from .boards import write_lists, write_small_board


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_small_board(tmp_path / "board")
    write_results(folder, compute(folder, read_board(folder)))
    return folder


def found(folder: Path) -> list[str]:
    return differences(folder, compute(folder, read_board(folder)))


def rewrite(folder: Path, change: Callable[[Any], object]) -> None:
    path = folder / "leaderboard.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(encode_values(values))


def test_what_was_just_written_has_no_differences(folder: Path) -> None:
    assert found(folder) == []


def test_a_changed_run_differs_in_its_hash_and_its_figures(folder: Path) -> None:
    write_lists(folder / "runs/eve.run", "eve", {"12": "x", "123": "y"})

    lines = found(folder)

    assert lines[0].startswith("entries.'eve'.topics.one.sha256: stored ")
    assert "entries.'eve'.topics.one.figures.Recall@1.value: stored 0.75, now 0.0" in lines
    assert "entries.'eve'.topics.one.unjudged.1: stored 0.0, now 1.0" in lines
    assert all(line.startswith("entries.'eve'.topics.one.") for line in lines)


def test_a_figure_that_was_made_up_is_named(folder: Path) -> None:
    rewrite(folder, lambda it: it["entries"][1]["average"]["Recall@1"].update(value=0.9))

    assert found(folder) == ["entries.'bob'.average.Recall@1.value: stored 0.9, now 0.375"]


def test_another_version_comes_before_the_figures(folder: Path) -> None:
    def older(values: Any) -> None:
        values["measures_version"] = 0
        values["collections"]["one"]["content_hash"] = "0"
        values["entries"][0]["average"]["Recall@1"]["value"] = 0.1

    rewrite(folder, older)

    versions, hashes, figure = sorted(found(folder)[:2], reverse=True) + found(folder)[2:]
    assert versions == "measures_version: stored 0, now 1"
    assert hashes.startswith('collections.one.content_hash: stored "0", now ')
    assert figure.startswith("entries.'ada'.average.Recall@1.value: ")


def test_an_entry_that_was_added_or_taken_out_is_one_difference(folder: Path) -> None:
    def another(values: Any) -> None:
        del values["entries"][0]
        values["entries"].append({"info": {"name": "zoe"}})

    rewrite(folder, another)

    assert found(folder) == [
        "entries.'ada': not stored, now a table",
        "entries.'zoe': stored, and nothing now",
    ]


def test_the_last_bits_of_a_figure_are_no_difference(folder: Path) -> None:
    rewrite(folder, lambda it: it["entries"][1]["average"]["Recall@1"].update(value=0.375 + 1e-12))

    assert found(folder) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"leaderboard\.json: no such file; write it with: freshstack leaderboard"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"measures_version": NaN}', "not valid JSON: NaN is no number of JSON"),
        ('{"measures_version": 1, "measures_version": 2}', "'measures_version' stands twice"),
        ('{"entries": [{"a": {"value": 0.999, "value": 0.83}}]}', "the key 'value' stands twice"),
        (f'{{"measures_version": {"9" * 5_000}}}', "not valid JSON"),
        ("[]", "not the results of a leaderboard"),
    ],
)
def test_what_are_no_results_is_refused(folder: Path, text: str | None, said: str) -> None:
    path = folder / "leaderboard.json"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)

    with pytest.raises(CollectionError, match=said):
        found(folder)


@pytest.mark.parametrize(
    "entries", [1, {}, [1], [{"info": 1}], [{"info": {"name": 3}}], [{"info": {"name": "ada"}}] * 3]
)
def test_stored_entries_of_any_shape_are_differences(folder: Path, entries: object) -> None:
    rewrite(folder, lambda it: it.update(entries=entries))

    assert found(folder)


def minified(values: Any) -> str:
    return json.dumps(values)


def reordered(values: Any) -> str:
    return encode_values(values | {"entries": values["entries"][::-1]})


def unsorted(values: Any) -> str:
    return json.dumps(dict(reversed(values.items())), indent=1) + "\n"


def with_a_zero_more(values: Any) -> str:
    return encode_values(values).replace("0.375\n", "0.3750\n", 1)


@pytest.mark.parametrize("written", [minified, reordered, unsorted, with_a_zero_more])
def test_the_same_figures_written_otherwise_are_a_difference(
    folder: Path, written: Callable[[Any], str]
) -> None:
    path = folder / "leaderboard.json"
    before = path.read_text()
    path.write_text(written(json.loads(before)))

    assert path.read_text() != before
    assert found(folder) == [
        "leaderboard.json: the figures are the same, the file was written otherwise"
    ]


def test_a_stored_name_or_key_of_any_length_is_cut(folder: Path) -> None:
    def longer(values: Any) -> None:
        values["entries"][0]["info"]["name"] = "n" * 5_000
        values["k" * 5_000] = "v" * 5_000
        values["name"] = "v" * 5_000

    rewrite(folder, longer)

    lines = found(folder)
    assert any("nnn…: stored, and nothing now" in line for line in lines)
    assert max(map(len, lines)) < 300


def test_the_command_that_writes_the_results_is_whole(folder: Path, tmp_path: Path) -> None:
    results = compute(folder, read_board(folder))
    (folder / "leaderboard.json").unlink()

    with pytest.raises(CollectionError) as raised:
        differences(folder, results, {"two": tmp_path / "far away"})
    assert str(raised.value).endswith(
        f"write it with: freshstack leaderboard {folder} --collection 'two={tmp_path}/far away'"
    )
