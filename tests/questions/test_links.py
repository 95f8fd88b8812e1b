"""What questions link to or name."""

import tomllib

import pytest

from freshstack_dspy import Query
from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.questions.links import corpus_entries, link_coverage, links


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
