"""Queries from a Stack Exchange dump."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.questions.reading import QueryReading, read_queries
from freshstack_dspy.questions.selection import instant, licence_at
from freshstack_dspy.records import Attribution
from tests.questions.dump import Row, answer, question, write_archive, write_dump


def read(path: Path, **filters: object) -> QueryReading:
    return read_queries(
        QueriesConfig.model_validate({"source": "stackexchange", "path": path, **filters})
    )


def read_rows(folder: Path, *rows: Row, **filters: object) -> QueryReading:
    return read(write_dump(folder / "Posts.xml", *rows), **filters)


def test_a_question_comes_with_its_accepted_answer_as_markdown(tmp_path: Path) -> None:
    body = "<p>Why &lt;T&gt;?</p>\n<pre><code>a &amp;&amp; b\n</code></pre>"

    [query] = read_rows(
        tmp_path, question(1, 3, Body=body), answer(2, 1), answer(3, 1), site="example.org"
    ).queries

    assert query.query_id == "1"
    assert query.title == "Question 1"
    assert query.body == "Why <T>?\n\n```\na && b\n```"
    assert query.answer_id == "3"
    assert query.answer == "Answer 3"
    assert query.tags == ("bam", "python")
    assert query.asked_at == "2017-05-16T18:01:06.383"
    assert query.score == 4


@pytest.mark.parametrize("tags", ["<bam><python>", "|bam|python|"])
def test_both_spellings_of_tags_are_read(tmp_path: Path, tags: str) -> None:
    [query] = read_rows(tmp_path, question(1, 2, Tags=tags), answer(2, 1)).queries

    assert query.tags == ("bam", "python")


def test_every_question_is_kept_or_counted_with_its_reason(tmp_path: Path) -> None:
    rows = [
        question(1, 2),
        answer(2, 1),
        question(3),
        question(4, 99),
        question(5, 6),
        answer(6, 5, Body="<p> </p>"),
        question(7, 8, Tags="<sql>"),
        question(9, 10, Score=0),
        question(11, 2),  # accepts an answer to another question
        question(12, 13, CreationDate="soon"),
        question(14, 15),
        answer(15, 14, CreationDate=None),
        question(16, None, Id=None),
        question(17, None, Title=" "),
        {"Id": 18, "PostTypeId": 5, "Body": "a tag's description"},
    ]

    reading = read_rows(tmp_path, *rows, tags=("bam",), min_score=1)

    assert [query.query_id for query in reading.queries] == ["1"]
    assert reading.rejected == {
        "accepted answer is not in the dump": 2,
        "empty answer": 1,
        "malformed accepted answer": 1,
        "malformed row": 3,
        "no accepted answer": 1,
        "outside the tags": 1,
        "score below min_score": 1,
    }


def test_the_order_is_by_number_and_the_limit_counts_the_rest(tmp_path: Path) -> None:
    """The answers come first and backwards, so that keeping the first few is put to the test."""
    answers = [answer(100 + n, n) for n in range(12, 0, -1)]
    questions = [question(n, 100 + n) for n in range(12, 0, -1)]

    reading = read_rows(tmp_path, *answers, *questions, limit=2)

    assert [query.query_id for query in reading.queries] == ["1", "2"]
    assert reading.rejected == {"beyond limit": 10}


def test_limit_counts_questions_whose_answer_is_good(tmp_path: Path) -> None:
    rows = [question(1, 2), answer(2, 1, Body=""), question(3, 4), answer(4, 3)]

    reading = read_rows(tmp_path, *rows, limit=1)

    assert [query.query_id for query in reading.queries] == ["3"]
    assert reading.rejected == {"empty answer": 1}


def test_posts_are_attributed(tmp_path: Path) -> None:
    users: list[Row] = [{"Id": 44, "DisplayName": "Ann"}, {"Id": 45, "DisplayName": "Bob"}]
    write_dump(tmp_path / "Users.xml", *users, root="users")

    [query] = read_rows(tmp_path, question(1, 2), answer(2, 1), site="example.org").queries

    assert query.question_source == Attribution(
        author="user 43", url="https://example.org/questions/1", licence="CC BY-SA 3.0"
    )
    assert query.answer_source == Attribution(
        author="Ann", url="https://example.org/a/2", licence="CC BY-SA 3.0"
    )


def test_a_name_on_the_post_wins_and_no_owner_at_all_is_anonymous(tmp_path: Path) -> None:
    write_dump(tmp_path / "Users.xml", {"Id": 43, "DisplayName": "Ann"}, root="users")
    asked = question(1, 2, OwnerDisplayName="Once Ann")

    [query] = read_rows(tmp_path, asked, answer(2, 1, OwnerUserId=None)).queries

    assert query.question_source is not None
    assert query.answer_source is not None
    assert query.question_source.author == "Once Ann"
    assert query.answer_source.author == "anonymous"


def test_without_a_site_the_link_is_the_path_alone(tmp_path: Path) -> None:
    [query] = read_rows(tmp_path, question(1, 2), answer(2, 1)).queries

    assert query.answer_source is not None
    assert query.answer_source.url == "/a/2"


@pytest.mark.parametrize("site", ["https://example.org", "example.org/x", "", "a b", "x\n"])
def test_a_site_is_a_host(tmp_path: Path, site: str) -> None:
    with pytest.raises(ConfigError, match=r"queries\.site is .*; allowed: the site's host alone"):
        read_rows(tmp_path, question(1, 2), answer(2, 1), site=site)


@pytest.mark.parametrize(
    ("written", "licence"),
    [
        ("2011-04-07T23:59:59.999", "CC BY-SA 2.5"),
        ("2011-04-08T00:00:00", "CC BY-SA 3.0"),
        ("2018-05-01T23:59:59.999", "CC BY-SA 3.0"),
        ("2018-05-02T00:00:00", "CC BY-SA 4.0"),
    ],
)
def test_the_licence_follows_the_date(written: str, licence: str) -> None:
    assert licence_at(instant(written)) == licence


def test_a_licence_on_the_post_wins_and_an_edit_counts_as_writing(tmp_path: Path) -> None:
    asked = question(1, 2, ContentLicense="CC0", LastEditDate="2020-01-01T00:00:00")
    answered = answer(2, 1, LastEditDate="2020-01-01T00:00:00")

    [query] = read_rows(tmp_path, asked, answered).queries

    assert query.question_source is not None
    assert query.answer_source is not None
    assert query.question_source.licence == "CC0"
    assert query.answer_source.licence == "CC BY-SA 4.0"


@pytest.mark.parametrize(
    "rows",
    [
        [question(1, 2), question(1, 2), answer(2, 1)],
        [answer(2, 1), question(1, 2), answer(2, 1)],
    ],
)
def test_an_id_that_is_there_twice_is_an_error(tmp_path: Path, rows: list[Row]) -> None:
    with pytest.raises(SourceError, match=r"two posts have the Id [12]"):
        read_rows(tmp_path, *rows)


def test_the_folder_of_the_dump_will_do(tmp_path: Path) -> None:
    write_dump(tmp_path / "Posts.xml", question(1, 2), answer(2, 1))

    assert len(read(tmp_path).queries) == 1


@settings(deadline=None)
@given(st.lists(st.sampled_from(["kept", "unanswered", "missing", "empty"]), max_size=12))
def test_no_question_is_lost(tmp_path_factory: pytest.TempPathFactory, kinds: list[str]) -> None:
    rows: list[Row] = []
    for number, kind in enumerate(kinds):
        rows.append(question(number * 2, None if kind == "unanswered" else number * 2 + 1))
        if kind in ("kept", "empty"):
            rows.append(answer(number * 2 + 1, number * 2, Body="x" if kind == "kept" else ""))

    reading = read_rows(tmp_path_factory.mktemp("dump"), *rows, limit=3)

    assert len(reading.queries) == min(3, kinds.count("kept"))
    assert len(reading.queries) + sum(reading.rejected.values()) == len(kinds)


@settings(max_examples=30)
@given(st.permutations(range(9)), st.booleans())
def test_the_order_of_the_posts_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], packed: bool
) -> None:
    """A merged question is younger than its accepted answer; a dump may be in any order at all."""
    rows = [
        question(1, 2),
        answer(2, 1),
        question(3, 5),
        answer(4, 9),
        answer(5, 3),
        question(6, 7),
        answer(7, 9),
        answer(8, 1),
        question(9, 4),
    ]
    folder = tmp_path_factory.mktemp("dump")
    posts = write_dump(folder / "Posts.xml", *(rows[place] for place in order))
    users = write_dump(folder / "Users.xml", {"Id": 44, "DisplayName": "Ann"}, root="users")
    members = {"Users.xml": users, "Posts.xml": posts}

    reading = read(write_archive(folder / "a.7z", dict(members)) if packed else posts)

    assert [(query.query_id, query.answer_id) for query in reading.queries] == [
        ("1", "2"),
        ("3", "5"),
        ("9", "4"),
    ]
    assert {query.answer_source and query.answer_source.author for query in reading.queries} == {
        "Ann"
    }
    assert reading.rejected == {"accepted answer is not in the dump": 1}


def test_answers_are_chosen_by_their_score(tmp_path: Path) -> None:
    rows = [question(1, 2), answer(2, 1, Score=5), question(3, 4), answer(4, 3, Score=4)]
    rows += [question(5, 6), answer(6, 5, Score=None)]

    reading = read_rows(tmp_path, *rows, min_answer_score=5)

    assert [query.query_id for query in reading.queries] == ["1"]
    assert reading.rejected == {
        "answer score below min_answer_score": 1,
        "no answer score to compare with min_answer_score": 1,
    }


def test_both_licences_must_be_allowed(tmp_path: Path) -> None:
    old, new = "2017-01-01T00:00:00", "2020-01-01T00:00:00"
    rows = [
        question(1, 2, CreationDate=old),
        answer(2, 1, CreationDate=new),
        question(3, 4, CreationDate=new),
        answer(4, 3, CreationDate=new),
    ]

    reading = read_rows(tmp_path, *rows, licences=("cc by-sa 4.0",))

    assert [query.query_id for query in reading.queries] == ["3"]
    assert reading.rejected == {"under another licence": 1}
    assert len(read_rows(tmp_path, *rows, licences=("CC BY-SA 4.0", "CC BY-SA 3.0")).queries) == 2
