"""Labels of nuggets as columns, from which measures read without a dictionary for each nugget."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Coded = tuple[Sequence[Any], "np.ndarray[Any, Any]"]
"""A column: its distinct values, and for each row the place of its value among them."""


class LabelColumns(Mapping[str, Mapping[str, Any]]):
    """Nugget id -> chunk id -> label; the dictionary of a nugget is made when it is asked for."""

    def __init__(self, nuggets: Coded, chunks: Coded, labels: Coded) -> None:
        """Take the columns of all judgments; the label of one that failed is None."""
        import numpy as np

        ids, codes = nuggets
        self._chunks, self._labels = np.array(chunks[0], object), np.array(labels[0], object)
        self._codes = chunks[1], labels[1]
        if (np.diff(codes) < 0).any():
            order = np.argsort(codes, kind="stable")
            self._codes = chunks[1][order], labels[1][order]
        ends = np.cumsum(np.bincount(codes, minlength=len(ids))).tolist()
        self._rows = self._all_rows = dict(zip(ids, pairwise([0, *ends]), strict=True))
        self._with_failed = True
        self._made: dict[str, dict[str, Any]] = {}
        self._having: dict[int | None, dict[str, list[str]]] = {}

    def __getitem__(self, nugget_id: str) -> dict[str, Any]:
        rows = slice(*self._rows[nugget_id])
        if nugget_id not in self._made:
            chunks, labels = self._chunks[self._codes[0][rows]], self._labels[self._codes[1][rows]]
            self._made[nugget_id] = {
                chunk: label
                for chunk, label in zip(chunks.tolist(), labels.tolist(), strict=True)
                if label is not None or self._with_failed
            }
        return self._made[nugget_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, nugget_ids: Iterable[str]) -> "LabelColumns":
        """Give the labels of some nuggets, in their order; one that is not there has none."""
        return self._with(_rows={id_: self._all_rows.get(id_, (0, 0)) for id_ in nugget_ids})

    def without_failed(self) -> "LabelColumns":
        """Leave the failed judgments out."""
        return self._with(_with_failed=False, _made={})

    def _with(self, **changes: Any) -> "LabelColumns":
        other = copy(self)
        vars(other).update(changes)
        return other

    def having(self, least: int | None) -> Iterator[Sequence[str]]:
        """Give, by nugget, the chunks with this label or a higher one; None: that failed."""
        import numpy as np

        if least not in self._having:
            wanted = [
                label is None if least is None else label is not None and label >= least
                for label in self._labels.tolist()
            ]
            rows = np.flatnonzero(np.array(wanted, bool)[self._codes[1]])
            chunks = self._chunks[self._codes[0][rows]].tolist()
            ends = np.searchsorted(rows, [end for _, end in self._all_rows.values()]).tolist()
            bounds = zip(self._all_rows, pairwise([0, *ends]), strict=True)
            self._having[least] = {id_: chunks[slice(*bound)] for id_, bound in bounds}
        by_nugget = self._having[least]
        return (by_nugget.get(id_, ()) for id_ in self._rows)

    def chunks(self) -> frozenset[str]:
        """Give the chunks of these nuggets, those whose judgments failed too."""
        import numpy as np

        codes = [self._codes[0][slice(*rows)] for rows in self._rows.values()]
        return frozenset(self._chunks[np.concatenate(codes)].tolist() if codes else ())


def labels_of(
    labels: Mapping[str, Mapping[str, Any]], nugget_ids: Iterable[str]
) -> Mapping[str, Mapping[str, Any]]:
    """Give the labels of some nuggets, in their order; one that is not there has none."""
    if type(labels) is LabelColumns:  # isinstance takes its time with a Mapping
        return labels.of(nugget_ids)
    return {id_: labels.get(id_, {}) for id_ in nugget_ids}


def supporting(labels: Mapping[str, Mapping[str, Any]], rel: int) -> Iterator[Sequence[str]]:
    """Give, by nugget, the chunks with this label or a higher one."""
    if type(labels) is LabelColumns:
        return labels.having(rel)
    return (
        [chunk for chunk, label in by_chunk.items() if label >= rel] for by_chunk in labels.values()
    )


def judged_chunks(labels: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Give the chunks that have a label; of columns, those whose judgments failed too."""
    if type(labels) is LabelColumns:
        return labels.chunks()
    return frozenset().union(*labels.values())
