import pytest

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.qrels import NuggetQrels

from .five import LABELS, QRELS


def test_the_labels_of_a_query_are_those_of_its_nuggets_in_order() -> None:
    qrels = NuggetQrels({"1": ("z", "a"), "2": ("b",)}, {"a": {"x": 1}, "b": {"y": 1}})

    assert list(qrels.labels_of("1").items()) == [("z", {}), ("a", {"x": 1})]


def test_the_official_dictionaries_are_labels_nuggets_and_counts() -> None:
    official = QRELS.official()

    assert official.qrels_nuggets == LABELS
    assert official.query_to_nuggets == {"q": ["n1", "n2", "n3"]}
    assert official.qrels_query == {"q": {"a": 2, "b": 1, "c": 0, "d": 1}}


def test_graded_labels_become_binary_for_the_official_evaluator() -> None:
    qrels = NuggetQrels({"q": ("n", "m")}, {"n": {"a": 5, "b": 0}, "m": {"a": 1, "b": -2}})

    assert qrels.official().qrels_nuggets == {"n": {"a": 1, "b": 0}, "m": {"a": 1, "b": 0}}
    assert qrels.official().qrels_query == {"q": {"a": 2, "b": 0}}


def test_a_nugget_without_labels_and_a_failed_judgment_have_no_official_label() -> None:
    qrels = NuggetQrels({"q": ("n", "m")}, {"n": {"a": 1}}, {"m": frozenset({"a"})})

    assert qrels.official().qrels_nuggets == {"n": {"a": 1}, "m": {}}
    assert qrels.official().qrels_query == {"q": {"a": 1}}


def test_qrels_do_not_change_with_what_they_were_made_of() -> None:
    labels = {"n": {"a": 1}}
    qrels = NuggetQrels({"q": ("n",)}, labels)
    labels["n"]["b"] = 1

    assert qrels.labels == {"n": {"a": 1}}


@pytest.mark.parametrize(
    ("nuggets", "message"),
    [
        ({"q": ()}, "query 'q' has no nuggets"),
        ({"q": ("n", "n")}, "nugget 'n' belongs to query 'q' and to 'q'"),
        ({"1": ("n",), "2": ("n",)}, "nugget 'n' belongs to query '1' and to '2'"),
    ],
)
def test_a_nugget_belongs_to_one_query_once(
    nuggets: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(CollectionError, match=message):
        NuggetQrels(nuggets, {})


def test_labels_and_failures_of_unknown_nuggets_are_refused() -> None:
    with pytest.raises(CollectionError, match="labels: nugget 'm' belongs to no query"):
        NuggetQrels({"q": ("n",)}, {"m": {"a": 1}})
    with pytest.raises(CollectionError, match="failed: nugget 'm' belongs to no query"):
        NuggetQrels({"q": ("n",)}, {}, {"m": frozenset({"a"})})


def test_a_failed_judgment_has_no_label() -> None:
    with pytest.raises(CollectionError, match="nugget 'n', chunk 'a': a failed judgment"):
        NuggetQrels({"q": ("n",)}, {"n": {"a": 0}}, {"n": frozenset({"a"})})
