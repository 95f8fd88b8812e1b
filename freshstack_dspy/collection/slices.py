"""The two filters of the paper, as labelled slices: nothing is thrown away (FreshStack §4)."""

from collections.abc import Sequence

from freshstack_dspy.records import Judgment, Nugget, Query, QuerySlice, SliceName


def slice_queries(
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    judgments: Sequence[Judgment],
    threshold: int = 1,
) -> list[QuerySlice]:
    """Say for each query whether the corpus supports its nuggets.

    A nugget is supported by one positive judgment. One without any is unsupported only if all
    its judgments were made: a failed one could have been the positive, so it is undetermined.

    Args:
        queries: All of them.
        nuggets: Of all queries.
        judgments: Of all nuggets.
        threshold: The lowest label that counts as support.
    """
    supported = {
        judgment.nugget_id
        for judgment in judgments
        if judgment.label is not None and judgment.label >= threshold
    }
    in_doubt = {judgment.nugget_id for judgment in judgments if judgment.status != "ok"} - supported
    nuggets_of: dict[str, list[str]] = {query.query_id: [] for query in queries}
    for nugget in nuggets:
        nuggets_of[nugget.query_id].append(nugget.nugget_id)
    slices = []
    for query_id, own in nuggets_of.items():
        yes, undetermined = len(supported.intersection(own)), len(in_doubt.intersection(own))
        slices.append(
            QuerySlice(
                query_id=query_id,
                slice=_slice(len(own), yes, undetermined),
                nuggets=len(own),
                supported=yes,
                undetermined=undetermined,
                unsupported_nuggets=tuple(sorted(set(own) - supported - in_doubt)),
            )
        )
    return slices


def _slice(nuggets: int, supported: int, undetermined: int) -> SliceName:
    if nuggets == 0:
        return "undetermined"
    if supported == nuggets:
        return "answerable"
    unsupported = nuggets - supported - undetermined
    if supported and unsupported:
        return "partly_supported"  # whatever the failed judgments would have been
    if undetermined:
        return "undetermined"
    return "unanswerable"
