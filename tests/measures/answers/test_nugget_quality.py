import pytest

from freshstack_dspy.measures.answers import (
    NuggetVerdict,
    ReadNuggets,
    nugget_completeness,
    nugget_groundedness,
    nugget_precision,
    pooled_nugget_quality,
    score_nuggets,
)

GOOD = NuggetVerdict(hallucinated=False, redundant=False)
MINOR = NuggetVerdict(hallucinated=False, redundant=True)
MADE_UP = NuggetVerdict(hallucinated=True, redundant=False)


def read(
    *nuggets: NuggetVerdict, additional: int | None = 0, annotator: str = "ada", query: str = "q"
) -> ReadNuggets:
    return ReadNuggets(annotator, query, nuggets, additional)


def test_the_equations_by_hand() -> None:
    """FreshStack, equations 2 to 4: 5 nuggets, B once, A twice, 2 more needed."""
    given = [read(GOOD, GOOD, MADE_UP, MADE_UP, MINOR, additional=2)]

    assert nugget_precision(given).value == 4 / 5
    assert nugget_completeness(given).value == 4 / 6
    assert nugget_groundedness(given).value == 3 / 5


def test_counts_that_give_table_5_of_the_paper() -> None:
    given = [read(*[GOOD] * 193, *[MADE_UP] * 8, *[MINOR] * 22, additional=7)]

    figures = pooled_nugget_quality(given)

    shown = {name: round(100 * (each.value or 0), 1) for name, each in figures.items()}
    assert shown == {"precision": 90.1, "recall": 96.6, "groundedness": 96.4}


@pytest.mark.parametrize(
    ("given", "without"),
    [
        (read(), {"precision", "groundedness", "recall"}),
        (read(MINOR), {"recall"}),
        (read(GOOD, additional=None), {"recall"}),
        (read(GOOD._replace(redundant=None)), {"precision", "recall"}),
        (read(GOOD._replace(hallucinated=None)), {"groundedness"}),
    ],
)
def test_what_was_not_answered_takes_the_value_of_what_needs_it(
    given: ReadNuggets, without: set[str]
) -> None:
    (answer,) = score_nuggets([given]).answers

    assert answer.without.keys() == without
    assert all(answer.without.values())


def test_no_nugget_where_some_are_needed_is_no_recall_at_all() -> None:
    assert nugget_completeness([read(MINOR, additional=1)]).value == 0


def test_each_query_weighs_the_same_in_the_mean_and_each_nugget_in_the_pool() -> None:
    given = [read(GOOD, query="1"), read(MINOR, MINOR, GOOD, MINOR, query="2")]

    (annotator,) = score_nuggets(given).runs

    assert annotator.means["precision"].value == (1 + 1 / 4) / 2
    assert pooled_nugget_quality(given)["precision"].value == 2 / 5


def test_annotators_are_kept_apart() -> None:
    given = [read(GOOD, annotator="ada"), read(MINOR, annotator="bob", additional=1)]

    scores = score_nuggets(given)

    assert [(run.run, run.means["recall"].value) for run in scores.runs] == [("ada", 1), ("bob", 0)]
    assert scores.values("bob", "groundedness") == {"q": 1}
