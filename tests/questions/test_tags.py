"""Tags by the questions they cover, and whose tags are counted."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.questions.tags import TagCount, question_tags, tag_coverage
from tests.questions.dump import answer, question, write_dump

QUESTIONS = [
    ["llm", "python", "chroma"],
    ["llm", "python"],
    ["llm", "Python", "openai"],
    ["llm", "chroma"],
    ["llm", "openai", "chroma"],
    ["llm"],
]


def test_next_comes_the_tag_that_adds_the_most() -> None:
    """By hand: python covers 3 of 6; chroma adds 2; openai adds nothing and is not listed."""
    found = tag_coverage(QUESTIONS, ignored=["LLM"])

    assert (found.questions, found.without, found.distinct) == (6, 1, 3)
    assert found.tags == (
        TagCount(tag="chroma", questions=3, share=3 / 6, added=3, coverage=3 / 6),
        TagCount(tag="python", questions=3, share=3 / 6, added=2, coverage=5 / 6),
    )


@given(st.lists(st.sets(st.sampled_from("abcdefg"), max_size=4), max_size=12), st.integers(1, 8))
def test_the_list_is_what_counting_anew_at_each_step_gives(
    questions: list[set[str]], limit: int
) -> None:
    found = tag_coverage(questions, limit=limit)

    chosen: list[str] = []
    for one in found.tags:
        left = [tags for tags in questions if tags.isdisjoint(chosen)]
        adds = {tag: sum(tag in tags for tags in left) for tag in "abcdefg"}
        has = {tag: sum(tag in tags for tags in questions) for tag in "abcdefg"}
        best = min(adds, key=lambda tag: (-adds[tag], -has[tag], tag))
        chosen.append(one.tag)
        covered = sum(not tags.isdisjoint(chosen) for tags in questions)

        assert (one.tag, one.questions, one.added) == (best, has[best], adds[best])
        assert one.coverage == covered / len(questions)
    if len(found.tags) < limit:
        assert all(not tags or not tags.isdisjoint(chosen) for tags in questions)


def test_the_questions_of_a_dump_count_whether_answered_or_not(tmp_path: Path) -> None:
    dump = write_dump(
        tmp_path / "Posts.xml",
        question(1, 2, Tags="<a><b>"),
        answer(2, 1, Tags="<not>"),
        question(3, Tags="<a><c>"),
        question(4, 9, Tags="<d>"),
        question(5, Tags="<a><e>", CreationDate="2010-01-01T00:00:00"),
        {"Id": 6, "PostTypeId": 5, "Tags": "<a>"},
    )
    config = QueriesConfig(
        source="stackexchange", path=dump, tags=("A",), since="2015-01-01", limit=1
    )

    assert question_tags(config) == [("a", "b"), ("a", "c")]


def test_of_other_sources_the_queries_count_beyond_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("query_id,body,answer,tags\n1,B,A,a|b\n2,B,,a\n3,B,A,c\n")

    assert question_tags(QueriesConfig(source="csv", path=path, limit=1)) == [
        ("a", "b"),
        ("a",),
        ("c",),
    ]
