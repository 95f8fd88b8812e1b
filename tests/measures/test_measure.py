import pytest

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures import FAMILIES, Judged, parse_measure

from .five import LABELS


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("k", [1, 7, 20, 1000])
def test_a_name_reads_back_as_it_is_written(family: str, k: int) -> None:
    measure = parse_measure(f"{family}@{k}")

    assert (family, k) == (measure.family, measure.k)
    assert f"{family}@{k}" == measure.name


def test_a_parsed_measure_measures_at_its_cut_off() -> None:
    assert parse_measure("Recall@1")(["a", "b"], Judged(LABELS)) == 1 / 3
    assert parse_measure("Recall@2")(["a", "b"], Judged(LABELS)) == 2 / 3


@pytest.mark.parametrize(
    "name",
    ["nGCD@10", "alpha-nDCG@10", "recall@5", "Recall@", "Recall@0", "Recall@-1", "@5",
     "Recall@05", "Recall@1.5", "Recall@\u0665", "Recall@" + "9" * 5000, ""],
)  # fmt: skip
def test_an_unknown_name_is_refused_with_the_list_of_those_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match=r"alpha_nDCG@k, Coverage@k, "):
        parse_measure(name)
