"""Queries from a Stack Exchange dump."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.filters import licence_at
from freshstack_dspy.questions.reading import QueryReading, read_queries
from freshstack_dspy.records import Attribution, instant
from tests.questions.dump import Row, answer, question, write_dump


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

    assert (query.query_id, query.title, query.score) == ("1", "Question 1", 4)
    assert query.body == "Why <T>?\n\n```\na && b\n```"
    assert (query.answer_id, query.answer) == ("3", "Answer 3")
    assert (query.tags, query.asked_at) == (("bam", "python"), "2017-05-16T18:01:06.383")


def test_questions_without_an_accepted_answer_are_read_where_none_is_needed(tmp_path: Path) -> None:
    rows = [question(1, 2), answer(2, 1), question(3), answer(4, 3), question(5, 99)]
    config = QueriesConfig(source="stackexchange", path=write_dump(tmp_path / "Posts.xml", *rows))

    found = read_queries(config, answered=False)

    assert [(one.query_id, one.answer) for one in found.queries] == [
        ("1", "Answer 2"),
        ("3", ""),
        ("5", ""),
    ]
    assert found.queries[1].answer_source is None
    assert not found.rejected


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
        question(19, 20),
        answer(20, 19, Score=0),
        {"Id": 18, "PostTypeId": 5, "Body": "a tag's description"},
    ]

    reading = read_rows(tmp_path, *rows, tags=("bam",), min_score=1, min_answer_score=1)

    assert [query.query_id for query in reading.queries] == ["1"]
    assert reading.rejected == {
        "accepted answer is not in the dump": 2,
        "answer score below min_answer_score": 1,
        "empty answer": 1,
        "malformed accepted answer": 1,
        "malformed row": 3,
        "no accepted answer": 1,
        "outside the tags": 1,
        "score below min_score": 1,
    }


def test_questions_beyond_the_limit_have_their_own_reasons(tmp_path: Path) -> None:
    rows = [question(1, 2), answer(2, 1)]
    bodies = "<p>Text</p>", "<pre><code>code</code></pre>", "<p></p>", "<p><b>x</b></p>", " "
    for number, body in enumerate(bodies):
        rows += [question(10 + number, 20 + number), answer(20 + number, 10 + number, Body=body)]

    reading = read_rows(tmp_path, *rows, limit=1)

    assert [query.query_id for query in reading.queries] == ["1"]
    assert reading.rejected == {"beyond limit": 3, "empty answer": 2}


def test_posts_are_attributed(tmp_path: Path) -> None:
    users: list[Row] = [{"Id": 44, "DisplayName": "Ann"}, {"Id": 45, "DisplayName": "Bob"}]
    write_dump(tmp_path / "Users.xml", *users, root="users")

    asked = question(1, 2, ContentLicense="CC0", LastEditDate="2020-01-01T00:00:00")
    answered = answer(2, 1, LastEditDate="2020-01-01T00:00:00")

    [query] = read_rows(tmp_path, asked, answered, site="example.org").queries

    assert query.question_source == Attribution(
        author="user 43", url="https://example.org/questions/1", licence="CC0"
    )
    assert query.answer_source == Attribution(
        author="Ann", url="https://example.org/a/2", licence="CC BY-SA 4.0"
    )


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


@given(st.permutations(range(9)))
def test_the_order_of_the_posts_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    """A merged question is younger than its accepted answer; a dump may be in any order at all."""
    rows = [
        question(1, 2), answer(2, 1), question(3, 5), answer(4, 9), answer(5, 3), question(6, 7),
        answer(7, 9), answer(8, 1), question(9, 4),
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("dump")
    posts = write_dump(folder / "Posts.xml", *(rows[place] for place in order))
    write_dump(folder / "Users.xml", {"Id": 44, "DisplayName": "Ann"}, root="users")

    reading = read(posts, limit=3)

    pairs = [(query.query_id, query.answer_id) for query in reading.queries]
    assert pairs == [("1", "2"), ("3", "5"), ("9", "4")]
    assert {query.answer_source and query.answer_source.author for query in reading.queries} == {
        "Ann"
    }
    assert reading.rejected == {"accepted answer is not in the dump": 1}


# The tables of a dump


@pytest.mark.parametrize("named", ["folder", "file"])
def test_the_other_tables_are_looked_for_next_to_the_posts(tmp_path: Path, named: str) -> None:
    links: list[Row] = [
        {"Id": 1, "PostId": 1, "RelatedPostId": 3, "LinkTypeId": 3},
        {"Id": 2, "PostId": 3, "RelatedPostId": 1, "LinkTypeId": 1},
        {"Id": 3, "PostId": 5, "RelatedPostId": 1, "LinkTypeId": 3},
    ]
    write_dump(tmp_path / "PostLinks.xml", *links, root="postlinks")
    write_dump(tmp_path / "Users.xml", {"Id": 44, "DisplayName": "Ann"}, root="users")
    rows = [question(1, 2), answer(2, 1), question(3, 4), answer(4, 3), question(5)]
    posts = write_dump(tmp_path / "Posts.xml", *rows)

    reading = read(tmp_path if named == "folder" else posts, duplicates="drop")

    assert [query.query_id for query in reading.queries] == ["3"]
    assert reading.queries[0].answer_source is not None
    assert reading.queries[0].answer_source.author == "Ann"
    assert reading.rejected == {"closed as a duplicate": 1, "no accepted answer": 1}


@pytest.mark.parametrize("named", ["", "site.7z"])
def test_an_archive_is_answered_with_what_unpacks_it(tmp_path: Path, named: str) -> None:
    (tmp_path / "site.7z").write_bytes(b"7z\xbc\xaf\x27\x1c and more")

    with pytest.raises(SourceError, match=r"unpack it with: 7z x .*site\.7z -o.*site; "):
        read(tmp_path / named)


# Damaged and hostile dumps

LAUGHS = "\n".join(f'<!ENTITY lol{level} "{f"&lol{level - 1};" * 10}">' for level in range(1, 10))


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE posts [<!ENTITY lol0 "lol">{LAUGHS}]>',
        '<!DOCTYPE posts [<!ENTITY lol9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE posts SYSTEM "http://127.0.0.1:1/evil.dtd">',
    ],
    ids=["billion laughs", "external entity", "external DTD"],
)
def test_a_document_type_is_an_error(tmp_path: Path, doctype: str) -> None:
    path = tmp_path / "Posts.xml"
    path.write_text(f'{doctype}<posts><row Id="1" Body="&lol9;"/></posts>')

    with pytest.raises(SourceError, match="declares a document type"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not well-formed XML"),
        (b"<posts><row Id='1'", "is it cut short"),
        (b"<posts><row Body='&nbsp;'/></posts>", "undefined entity"),
        (b"<users><row Id='1'/></users>", "its root is <users>, not <posts>"),
        (b"<posts><row Body='" + b"x" * 12_000_000, "no row ends within 8 MiB"),
    ],
)
def test_what_is_no_dump_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "Posts.xml"
    path.write_bytes(content)

    with pytest.raises(SourceError, match=message):
        read(path)


def test_memory_does_not_grow_with_the_dump(tmp_path: Path) -> None:
    rows = [question(number, Body="x" * 10_000) for number in range(1, 1_500)]
    posts = write_dump(tmp_path / "Posts.xml", *rows, question(3_001, 3_002), answer(3_002, 3_001))
    tracemalloc.start()
    reading = read(posts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(reading.queries) == 1
    assert posts.stat().st_size > 15_000_000
    assert peak < 8_000_000
