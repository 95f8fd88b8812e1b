"""The chunks of the collection that stands, where cutting the corpora again would give the same."""

from collections.abc import Mapping

from freshstack_dspy.collection import Collection
from freshstack_dspy.collection.manifest import read_manifest
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.recipes.corpus import CutCorpus

_DECISIVE = ("code", "corpus")


def standing_chunks(config: BuildConfig, inputs: Mapping[str, str]) -> CutCorpus | None:
    """Give what `cut_corpus` would, in another order, or None where it has to be asked.

    Other questions, another model or other filters leave the corpora as they are: they are then
    read from the collection, and checked against the hashes in its manifest.

    Args:
        config: Of the build.
        inputs: As `fingerprint_inputs` gives them.
    """
    try:
        manifest = read_manifest(config.out)
        marks = manifest.fingerprints
        if not inputs or any(marks.get(part) != inputs[part] for part in _DECISIVE):
            return None
        collection = Collection.unread(config.out, manifest)
        return CutCorpus(list(collection.chunks()), list(collection.read_skipped()))
    except CollectionError:
        return None
