"""Filters, order and limit, of queries from any source."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Query
from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.questions.filters import corpus_overlaps, id_order, is_in_image
from freshstack_dspy.questions.reading import QueryReading, read_queries

QUESTIONS: list[dict[str, object]] = [
    {"query_id": "b"},
    {"query_id": "10", "tags": ["Python", "bam"], "asked_at": "2020-05-01T12:00:00", "score": 3},
    {"query_id": "9", "tags": ["bam"], "asked_at": "2021-01-01", "score": 1},
    {"query_id": "a", "tags": ["sql"], "asked_at": "2021-01-01T00:30:00+01:00", "score": 5},
]


def read(folder: Path, **filters: object) -> QueryReading:
    path = folder / "queries.jsonl"
    lines = [json.dumps({"title": "T", "body": "B", "answer": "A", **one}) for one in QUESTIONS]
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_queries(QueriesConfig.model_validate({"path": path, **filters}))


def ids(reading: QueryReading) -> list[str]:
    return [query.query_id for query in reading.queries]


def test_numbers_come_first_by_value_and_then_names(tmp_path: Path) -> None:
    assert ids(read(tmp_path)) == ["9", "10", "a", "b"]


def test_any_of_the_tags_is_enough_and_case_does_not_count(tmp_path: Path) -> None:
    reading = read(tmp_path, tags=("python", "SQL"))

    assert ids(reading) == ["10", "a"]
    assert reading.rejected == {"outside the tags": 2}


@pytest.mark.parametrize("key", ["tags", "all_tags"])
def test_a_misspelt_tag_is_an_error_that_names_the_likely_one(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"queries\.{key}: .* 'pyhton'; did you mean 'python'\?"):
        read(tmp_path, **{key: ("bam", "pyhton")})


def test_all_tags_and_exclude_tags_narrow_further(tmp_path: Path) -> None:
    both = read(tmp_path, all_tags=("BAM", "python"))
    without = read(tmp_path, tags=("bam",), exclude_tags=("PYTHON",))

    assert ids(both) == ["10"]
    assert both.rejected == {"without some of all_tags": 3}
    assert ids(without) == ["9"]
    assert without.rejected == {"outside the tags": 2, "with some of exclude_tags": 1}


def test_both_licences_must_be_known_and_allowed(tmp_path: Path) -> None:
    path = tmp_path / "queries.csv"
    rows = ["1,CC0,cc0", "2,CC0,MIT", "3,CC0,"]
    lines = [f"{row},T,A" for row in rows]
    path.write_text("\n".join(["query_id,question_licence,answer_licence,title,answer", *lines]))

    reading = read_queries(QueriesConfig(source="csv", path=path, licences=("cc0", "GPL")))

    assert ids(reading) == ["1"]
    assert reading.rejected == {
        "no licence to compare with licences": 1,
        "under another licence": 1,
    }


def test_retired_questions_do_not_count_for_the_limit(tmp_path: Path) -> None:
    reading = read(tmp_path, retired=("9", "never there"), limit=2)

    assert ids(reading) == ["10", "a"]
    assert reading.rejected == {"beyond limit": 1, "retired": 1}


IMAGE = "[![plot](https://i.example.org/a.png)](https://i.example.org/a.png)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"I get this: {IMAGE}", True),
        ("I get this: ![][1]\n\n[1]: https://i.example.org/a.png", True),
        ('<img src="a.png" alt="plot">', True),
        (f"{'word ' * 79}{IMAGE}", True),
        (f"{'word ' * 80}{IMAGE}", False),
        (f"{'word ' * 80}{IMAGE} {IMAGE}", True),
        (f"```\nplot(x)\n```\n\n{IMAGE}", False),
        (f"I type\n\n    plot(x)\n\nand get {IMAGE}", False),
        ("I get this: [plot](https://i.example.org/a.png)", False),
    ],
)
def test_content_is_in_an_image_without_code_and_with_little_text(
    body: str, expected: bool
) -> None:
    assert is_in_image(body) == expected


def test_questions_in_images_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(QUESTIONS[0], "body", IMAGE)

    reading = read(tmp_path, images="drop", limit=2)

    assert ids(read(tmp_path)) == ["9", "10", "a", "b"]
    assert ids(reading) == ["9", "10"]
    assert reading.rejected == {"beyond limit": 1, "content in an image": 1}


def test_since_is_included_and_until_is_not(tmp_path: Path) -> None:
    """`a` was asked half an hour before 2021 in UTC."""
    reading = read(tmp_path, since="2020-05-01T12:00:00", until="2021-01-01")

    assert ids(reading) == ["10", "a"]
    assert reading.rejected == {
        "no date to compare with since and until": 1,
        "not before until": 1,
    }
    assert read(tmp_path, since="2020-05-02").rejected["before since"] == 1


@given(st.lists(st.integers(0, 10**30), unique=True))
def test_numeric_ids_are_in_order_of_their_value(numbers: list[int]) -> None:
    assert sorted(map(str, numbers), key=id_order) == [str(number) for number in sorted(numbers)]


# What questions have in common with a corpus


def query(title: str, answer: str) -> Query:
    return Query(query_id="1", title=title, body="Chatty words.", answer_id=None, answer=answer)


def counted_in(chunks_with: Counter[str]) -> Callable[[Iterable[str]], dict[str, int]]:
    return lambda terms: {term: chunks_with[term] for term in terms}


@pytest.mark.parametrize(
    ("title", "answer", "share"),
    [
        ("Winding the dial", "Call reset.", 0.5),  # wind and call are nowhere
        ("The dial", "Of 10 dials, reset\n```py\nfoo\n```\nhttps://foo.org/bar", 1),
        ("The moon", "Call it here, repeatedly.", 0),  # moon is in too many chunks to be rare
        ("The moon", "It is.", 1),
        ("Winding the dial", "", 1),  # a single term is a name or a misspelling
    ],
)
def test_it_is_the_share_of_rare_terms_of_title_and_answer_in_the_corpus(
    title: str, answer: str, share: float
) -> None:
    frequencies = Counter({"dial": 20, "reset": 1, "moon": 21})

    assert corpus_overlaps([query(title, answer)], counted_in(frequencies), 2000) == {"1": share}


def test_in_a_small_corpus_what_ten_chunks_have_is_rare() -> None:
    frequencies = counted_in(Counter({"dial": 10, "moon": 11}))

    found = corpus_overlaps([query("Dial, moon", "Suns, star.")], frequencies, 50)

    assert found == {"1": pytest.approx(1 / 3)}
