"""What hypothesis draws: labels of one query, rankings over them, with unjudged chunks among."""

from hypothesis import settings
from hypothesis import strategies as st

NuggetLabels = dict[str, dict[str, int]]

CHUNKS = [*"abcdefgh", "A", "B10", "B9", "é", "with  two spaces", "with space"]
"""Ids whose byte order is not their natural order."""
UNJUDGED = ["u1", "u2", "u3"]

untimed = settings(deadline=None)
"""How long an example takes says nothing on a busy machine."""

chunks = st.sampled_from(CHUNKS)
cutoffs = st.integers(1, 20)


def labels(max_label: int = 1) -> st.SearchStrategy[NuggetLabels]:
    """Labels of one to five nuggets; some may have none."""
    nugget = st.dictionaries(chunks, st.integers(0, max_label), max_size=8)
    return st.lists(nugget, min_size=1, max_size=5).map(
        lambda nuggets: {f"n{number}": nugget for number, nugget in enumerate(nuggets)}
    )


rankings = st.lists(st.sampled_from(CHUNKS + UNJUDGED), unique=True)
tied_scores = st.dictionaries(
    st.sampled_from(CHUNKS + UNJUDGED), st.sampled_from([0.0, 0.5, 1.0]), min_size=1
)
