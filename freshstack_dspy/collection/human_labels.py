"""Labels of people beside a collection: on its scale, or refused."""

from collections.abc import Iterable

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import SCALES, HumanLabel


def refuse_labels_above(collection: Collection, labels: Iterable[HumanLabel]) -> None:
    """Refuse labels above the highest of the collection's scale.

    Beside yes and no, any label from 1 on is support: a person's scale may be finer than the judge's.

    Raises:
        CollectionError: There is one; the message names the first.
    """
    name = collection.manifest.scale.name
    highest = SCALES[name].highest
    if name == "binary":
        return
    for label in labels:
        if label.label > highest:
            raise CollectionError(
                f"a label is {label.label} (query {label.query_id!r}, nugget {label.nugget_id!r}, "
                f"chunk {label.chunk_id!r}, of {label.annotator!r}), and the scale {name} of "
                f"{collection.name!r} ends at {highest}: label on the scale of the collection"
            )
