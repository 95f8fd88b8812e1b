"""Tags by the questions they cover, and what questions link to or name."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Query
from freshstack_dspy.config import CorpusConfig, QueriesConfig
from freshstack_dspy.questions.topics import (
    TagCount,
    asked_questions,
    corpus_entries,
    link_coverage,
    links,
    new_topics,
    tag_coverage,
)
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

    asked = [*asked_questions(config)]

    assert [each.tags for each in asked] == [("a", "b"), ("a", "c")]
    assert [each.answered for each in asked] == [True, False]


def test_of_other_sources_the_queries_count_beyond_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("query_id,body,answer,tags\n1,B,A,a|b\n2,B,,a\n3,B,A,c\n")

    asked = [*asked_questions(QueriesConfig(source="csv", path=path, limit=1))]

    assert [each.tags for each in asked] == [("a", "b"), ("a",), ("c",)]
    assert [each.answered for each in asked] == [True, False, True]


def test_new_topics_are_tags_that_hardly_a_question_had_before(tmp_path: Path) -> None:
    """By hand: `old` has 3 of 63 questions before the date, `new` 1 of 41, `few` too few."""
    before, after = "2022-12-31T23:59:59.999", "2023-01-01T00:00:00.000"
    tags = {"<Old>": (3, 50, 10), "<new>": (1, 30, 10), "<few>": (0, 29, 9), "<hot>": (0, 30, 20)}
    rows, number = [], 1000
    for tag, counts in tags.items():
        kinds = ((before, 1), (after, 1), (after, None))
        for (date, accepted), count in zip(kinds, counts, strict=True):
            for _ in range(count):
                number += 1
                rows.append(question(number, accepted, Tags=tag, CreationDate=date))
    dump = write_dump(tmp_path / "Posts.xml", *rows)
    config = QueriesConfig(source="stackexchange", path=dump)

    found = new_topics(asked_questions(config), "2023-01-01", 30)

    assert [(each.tag, each.questions, each.answered, each.earlier) for each in found] == [
        ("old", 60, 50, 3),
        ("hot", 50, 30, 0),
        ("new", 40, 30, 1),
    ]
    assert {each.first for each in found} == {"2023-01-01"}
    assert [each.tag for each in new_topics(asked_questions(config), "2023-01-02", 1)] == []


# Links


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("[the code](https://github.com/Owner/Name/blob/main/a.py#L3)", "repository", "github.com/owner/name"),
        ("<https://gitlab.com/group/tool.git>", "repository", "gitlab.com/group/tool"),
        ("https://raw.githubusercontent.com/o/n/main/a.py", "repository", "github.com/o/n"),
        ("see https://owner.github.io/tool/usage.html.", "repository", "github.com/owner/tool"),
        ("https://owner.github.io/index.html", "site", "owner.github.io"),
        ("https://www.example-docs.dev/a,", "site", "example-docs.dev"),
        ("run `pip install -U some-tool`", "package", "pypi/some-tool"),
        ("https://pypi.org/project/some-tool/", "package", "pypi/some-tool"),
        ("https://cran.r-project.org/web/packages/ape/index.html", "package", "r/ape"),
        ("https://bioconductor.org/packages/release/bioc/html/biomaRt.html", "package", "r/biomart"),
        ("`npm install --save @scope/tool`", "package", "npm/@scope/tool"),
        ("```python\nimport pysam\n```", "package", "pypi/pysam"),
        ("```r\nlibrary(biomaRt)\n```", "package", "r/biomart"),
    ],
)  # fmt: skip
def test_what_is_linked_or_named(text: str, kind: str, name: str) -> None:
    assert (kind, name) in links(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/features/actions",
        "![a picture](https://i.stack.imgur.com/a.png) https://stackoverflow.com/q/1",
        "```python\nimport os\nfrom collections import abc\n```",
        "```java\nimport org.junit.Test;\n```",
        "import duties are high",
        "```text\nfrom a friend\n```",
        "http://[broken",
    ],
)
def test_what_holds_no_documents_is_passed_over(text: str) -> None:
    assert links(text) == frozenset()


def test_questions_and_accepted_answers_are_covered_one_link_after_the_other() -> None:
    bodies = ["https://github.com/a/a", "https://github.com/a/a https://github.com/b/b", "nothing"]
    queries = [
        Query(query_id=str(number), title="t", body=body, answer="see https://docs.dev/x")
        for number, body in enumerate(bodies)
    ]
    coverage = link_coverage(queries)

    assert [(one.tag, one.questions) for one in coverage["repository"].tags] == [
        ("github.com/a/a", 2)
    ]
    assert coverage["repository"].without == 1
    assert [(one.tag, one.coverage) for one in coverage["site"].tags] == [("docs.dev", 1.0)]


def test_repositories_and_installed_packages_become_corpora_with_names_of_their_own() -> None:
    bodies = [
        "https://github.com/a/tool",
        "https://github.com/b/tool",
        "https://github.com/o/numpy",
        "```python\nimport numpy\n```",
        "```python\nimport yaml\n```",
        "`pip install PyYAML nowhere`",
        "`pip install nowhere`",
    ]
    queries = [
        Query(query_id=str(number), title="t", body=body, answer="yes")
        for number, body in enumerate(bodies)
    ]
    coverage = link_coverage(queries)
    distributions = {"numpy": ["numpy"], "yaml": ["PyYAML"], "other": ["other"]}

    entries = tomllib.loads("\n".join(corpus_entries(coverage, distributions)))["corpus"]

    assert {CorpusConfig.model_validate(one).name for one in entries} == {
        *("github.com-a-tool", "github.com-b-tool", "github.com-o-numpy"),
        *("numpy", "PyYAML"),
    }
    assert {one["package"] for one in entries if "package" in one} == {"numpy", "PyYAML"}
    ids = {one.tag: one.query_ids for one in coverage["package"].tags}
    assert ids["pypi/numpy"] == ("3",)
