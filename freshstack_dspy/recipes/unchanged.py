"""Whether a build would only make again the collection that stands: then there is nothing to do.

The collection itself is all that is looked at. Its manifest has the fingerprints of what it was
made from; they are compared with those of now, and nothing is guessed from dates or names.
"""

from collections.abc import Mapping

from freshstack_dspy.collection.manifest import read_manifest
from freshstack_dspy.collection.writing import Intact, intact_collection
from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.errors import CollectionError, StoreError
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.lm.store import Recorded, ReplyStore, fingerprint
from freshstack_dspy.recipes.fingerprints import fingerprint_inputs

_REPLIES = "replies"


def unchanged(
    config: BuildConfig,
    mode: Mode,
    inputs: Mapping[str, str],
    *,
    store: ReplyStore | None,
    recorded: Recorded,
) -> Intact | None:
    """Give the collection that stands where a build would make it again, or None: then build.

    It stands when its settings and inputs are those of now, every byte of its folder is as it was
    written, and every reply that it was made from is recorded, undamaged, and says the same.
    `refresh` asks again in any case, and so do `live` and `defer` where something failed.

    Args:
        config: Of the build.
        mode: Of the build.
        inputs: As `fingerprint_inputs` gives them.
        store: Where replies are kept.
        recorded: Replies of bundles, read beside the store.
    """
    try:
        manifest = read_manifest(config.out)
    except CollectionError:
        return None
    if mode == "rerecord" or (mode != "replay" and manifest.counts.failures):
        return None
    if not inputs or any(manifest.fingerprints.get(part) != inputs[part] for part in inputs):
        return None
    standing = intact_collection(config.out, manifest)
    if standing is None:
        return None
    try:
        replies = fingerprint(standing.call_ids, (store, recorded))
    except StoreError:
        return None
    return standing if replies == manifest.fingerprints.get(_REPLIES) else None


def fingerprints(
    config: BuildConfig, inputs: Mapping[str, str], used: Mapping[str, str]
) -> dict[str, str]:
    """The fingerprints of a build that is about to be written.

    Args:
        config: Of the build.
        inputs: As `fingerprint_inputs` gave them before anything was read.
        used: What each reply said when it was used, by key.

    Returns:
        By part; none where an input changed meanwhile, for nobody knows which state was read.
    """
    if not inputs or fingerprint_inputs(config) != dict(inputs):
        return {}
    return {**inputs, _REPLIES: sha256_of(dict(used))}
