"""A dump in every form in which it comes."""

from itertools import pairwise
from pathlib import Path

import pytest

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.reading import QueryReading, query_files, read_queries
from freshstack_dspy.records import Attribution
from tests.questions.dump import Row, answer, question, write_archive, write_dump


def read(path: Path, **filters: object) -> QueryReading:
    return read_queries(
        QueriesConfig.model_validate({"source": "stackexchange", "path": path, **filters})
    )


def read_rows(folder: Path, *rows: Row, **filters: object) -> QueryReading:
    return read(write_dump(folder / "Posts.xml", *rows), **filters)


DUMP = Path(__file__).parents[4] / "shared/data/stackexchange-bioinformatics"


def small_dump(folder: Path) -> dict[str, Path]:
    """The tables of a small dump, by the names of the files."""
    users: list[Row] = [{"Id": 44, "DisplayName": "Ann"}]
    links: list[Row] = [
        {"Id": 1, "PostId": 1, "RelatedPostId": 3, "LinkTypeId": 3},
        {"Id": 2, "PostId": 3, "RelatedPostId": 1, "LinkTypeId": 1},
        {"Id": 3, "PostId": 5, "RelatedPostId": 1, "LinkTypeId": 3},
    ]
    posts = [question(1, 2), answer(2, 1), question(3, 4), answer(4, 3), question(5)]
    return {
        "PostLinks.xml": write_dump(folder / "links", *links, root="postlinks"),
        "Posts.xml": write_dump(folder / "posts", *posts),
        "Users.xml": write_dump(folder / "users", *users, root="users"),
    }


def lay_out(folder: Path, layout: str) -> Path:
    """Publish a small dump in one of the ways in which dumps are found; give what to name."""
    tables = small_dump(folder)
    home = folder / "home"
    home.mkdir()
    archived = home / "site.org.7z"
    if layout == "one archive":
        return write_archive(archived, {"Badges.xml": "<badges/>", **tables})
    if layout == "one archive, users first":
        return write_archive(archived, dict(sorted(tables.items(), reverse=True)))
    if layout == "folder with one archive":
        return write_archive(archived, dict(tables)).parent
    packed = {
        "archives": ["PostLinks", "Posts", "Users"],
        "folder of archives": ["PostLinks", "Posts", "Users"],
        "posts packed": ["Posts"],
        "users packed": ["Users"],
    }.get(layout, [])
    for name, content in tables.items():
        stem = name.removesuffix(".xml")
        if stem in packed:
            write_archive(home / f"site.org-{stem}.7z", {name: content})
        else:
            (home / name).write_bytes(content.read_bytes())
    if layout.startswith("folder"):
        return home
    return home / ("site.org-Posts.7z" if "Posts" in packed else "Posts.xml")


LAYOUTS = [
    "files",
    "folder of files",
    "one archive",
    "one archive, users first",
    "folder with one archive",
    "archives",
    "folder of archives",
    "posts packed",
    "users packed",
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_dump_is_read_in_every_form_in_which_it_comes(tmp_path: Path, layout: str) -> None:
    path = lay_out(tmp_path, layout)
    before = sorted(tmp_path.rglob("*"))

    reading = read(path, duplicates="drop")

    assert [query.query_id for query in reading.queries] == ["3"]
    assert reading.queries[0].answer_source is not None
    assert reading.queries[0].answer_source.author == "Ann"
    assert reading.rejected == {"closed as a duplicate": 1, "no accepted answer": 1}
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_files_that_matter_are_those_that_are_read(tmp_path: Path, layout: str) -> None:
    """Changing any of them changes the outcome, and links count only if duplicates do."""
    path = lay_out(tmp_path, layout)
    config = QueriesConfig(source="stackexchange", path=path)
    named = {file.name for file in query_files(config)}
    dropping = config.model_copy(update={"duplicates": "drop"})

    assert named <= {file.name for file in query_files(dropping)}
    assert {file.name for file in query_files(dropping)} == {
        file.name for file in (tmp_path / "home").iterdir()
    }
    assert not any("PostLinks" in name for name in named)


def test_two_dumps_in_one_folder_are_not_guessed_at(tmp_path: Path) -> None:
    posts = small_dump(tmp_path)["Posts.xml"]
    for site in ("a.org", "b.org"):
        write_archive(tmp_path / f"{site}-Posts.7z", {"Posts.xml": posts})

    with pytest.raises(SourceError, match=r"holds no Posts\.xml and 2 archives that may hold it"):
        read(tmp_path)


def test_a_folder_without_a_dump_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no Posts\.xml and no 7z archive"):
        read(tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_progress_grows_until_all_is_read(tmp_path: Path, layout: str) -> None:
    path = lay_out(tmp_path, layout)
    told: list[tuple[int, int]] = []

    read_queries(
        QueriesConfig(source="stackexchange", path=path),
        lambda done, total: told.append((done, total)),
    )

    assert all(before[0] <= after[0] for before, after in pairwise(told))
    assert told[-1][0] == told[-1][1] > 0


def test_a_dump_in_order_is_read_once(tmp_path: Path) -> None:
    path = write_dump(
        tmp_path / "Posts.xml", question(1, 2), answer(2, 1), answer(3, 5), question(5, 3)
    )
    told: list[tuple[int, int]] = []

    read_queries(
        QueriesConfig(source="stackexchange", path=path),
        lambda done, total: told.append((done, total)),
    )

    assert told[-1] == (path.stat().st_size, path.stat().st_size)


@pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not there")
def test_a_real_dump_is_the_same_as_an_archive(tmp_path: Path) -> None:
    names = ["PostLinks.xml", "Posts.xml", "Tags.xml", "Users.xml"]
    path = write_archive(tmp_path / "dump.7z", {name: DUMP / name for name in names})

    reading = read(path, duplicates="drop")

    assert reading == read(DUMP, duplicates="drop")
    assert reading.rejected == {
        "closed as a duplicate": 1,
        "no accepted answer": 181,
    }


@pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not there")
def test_a_real_dump_is_read_whole() -> None:
    """419 questions, 238 accepted; each indented block of code is there as it was written."""
    reading = read(DUMP, site="bioinformatics.stackexchange.com")

    assert len(reading.queries) == 238
    assert reading.rejected == {"no accepted answer": 181}
    first = reading.queries[0]
    assert first.query_id == "1"
    assert first.question_source == Attribution(
        author="kenorb",
        url="https://bioinformatics.stackexchange.com/questions/1",
        licence="CC BY-SA 3.0",
    )


def test_duplicates_are_kept_unless_told_otherwise(tmp_path: Path) -> None:
    assert len(read(lay_out(tmp_path, "files")).queries) == 2


def test_without_links_duplicates_cannot_be_dropped(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no PostLinks\.xml, .* duplicates = \"keep\""):
        read_rows(tmp_path, question(1, 2), answer(2, 1), duplicates="drop")
