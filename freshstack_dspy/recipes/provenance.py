"""How a collection was made: its manifest's account, its replies, and whether it would come again.

Two builds whose fingerprints are equal make the same requests; given the same replies, they make
the same collection. Content is hashed, not its date, and every setting that is not in
`WITHOUT_EFFECT` is taken to matter. The fingerprints of a collection are in its manifest. They are of what was there
before anything was read: what changes meanwhile is a change for the next build.
"""

import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import TRANSPORT, BuildConfig, CorpusConfig, Mode, Role
from freshstack_dspy.corpus.files import ReadFile, look_at_files
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import CollectionError, FreshstackError, StoreError
from freshstack_dspy.files import Uri
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.lm.bundle import write_bundle
from freshstack_dspy.lm.reply import encodable
from freshstack_dspy.lm.request import endpoint_identity, sha256_of, text_hash
from freshstack_dspy.lm.store import FirstOf, Recorded, fingerprint
from freshstack_dspy.lm.usage import StepLedger
from freshstack_dspy.questions.reading import query_files
from freshstack_dspy.recipes.chunking import chosen_by, commit_of, seen_files
from freshstack_dspy.recipes.code import code_sha256, file_sha256
from freshstack_dspy.registry import is_imported
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import Provenance, read_manifest
from freshstack_dspy.stored.writing import call_ids_in, call_ids_of, is_as_written

if TYPE_CHECKING:
    from freshstack_dspy.recipes.session import Replies, Session

LABELLING: tuple[Role, ...] = ("judge", "nuggets", "synthesis")
"""The roles whose models shape a collection."""
WITHOUT_EFFECT: dict[str, Any] = {
    "out": True,
    "index": {"path"},
    "cache": True,
    "budget": True,
    "trust": True,
    "prices": True,
    "model": TRANSPORT,
    **{role: {"model": TRANSPORT} for role in LABELLING},
    "generator": True,
}
"""Settings that change no record of a collection, in the form of Pydantic's `exclude`."""
_WITH_FILES = ("queries", "corpus", "chunking", "programs", "embedder", "reranker")
"""Settings that are fingerprinted together with the files they name."""
_REPLIES = "replies"
_PACKAGES = ("freshstack_dspy", "bm25s", "dspy", "instructor", "lancedb", "litellm", "pydantic")
_PRIVATE = frozenset(["api_key", "api_base"])


def provenance(
    session: "Session",
    contents: Contents | None = None,
    inputs: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    corpus: ChunkFile | None = None,
    before: Collection | None = None,
) -> Provenance:
    """Describe how a collection is made, without secrets and names of machines.

    Args:
        session: What was asked, for which configuration, by which recipe.
        contents: Its records; replies that were used and that none of these names are listed.
        inputs: The fingerprints of what it is made from, where a build may find it unchanged.
        dates: By source, when the commit of its chunks was made, where it is known.
        corpus: Its chunks, with which people's labels are compared.
        before: The collection that is replaced, whose ids people's labels may have.
    """
    from freshstack_dspy.calibration.agreement import measured_trust

    config, used = session.config, session.used()
    return Provenance(
        name=config.name,
        recipe=config.recipe.program,
        model=session.judges,
        models=session.lm.ledger.models(),
        scale=config.judge.graded,
        prompts=prompts_of(session.recipe.named_predictors()),
        programs=session.identities,
        versions=_versions(),
        ledger=session.lm.ledger.steps(),
        config=shareable(session.settings.resolved().model_dump()),
        fingerprints={**inputs, _REPLIES: sha256_of(used)} if inputs else {},
        reasked=tuple(sorted(used.keys() - call_ids_of(contents))) if contents else (),
        trust=measured_trust(
            contents, corpus, config.judge.graded, config.name, config.trust, before=before
        )
        if contents and corpus is not None
        else None,
        dates=dict(dates or {}),
    )


@functools.cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in _PACKAGES}


def prompts_of(predictors: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """The hash of each prompt, by the name of its signature, or else of its predictor."""
    from freshstack_dspy.lm.typed import UNNAMED, demonstrations, instructions, name_of

    found: dict[str, str] = {}
    for place, predictor in predictors:
        name = name_of(predictor.signature)
        prompt = sha256_of([instructions(predictor.signature), demonstrations(predictor)])
        is_taken = name == UNNAMED or found.get(name, prompt) != prompt
        found[place if is_taken else name] = prompt
    return found


def shareable(value: Any) -> Any:
    """A configuration without secrets and machines, and of each path only the last part."""
    if isinstance(value, dict):
        return {name: shareable(item) for name, item in value.items() if name not in _PRIVATE}
    if isinstance(value, (list, tuple)):
        return [shareable(item) for item in value]
    return value.name if isinstance(value, Path | Uri) else value


def added(before: Mapping[str, StepLedger], now: Mapping[str, StepLedger]) -> dict[str, StepLedger]:
    """Add up the accounts of two pieces of work, step by step."""
    sums = {}
    for name in sorted({*before, *now}):
        one, other = before.get(name, StepLedger()), now.get(name, StepLedger())
        sums[name] = StepLedger(
            **{key: getattr(one, key) + getattr(other, key) for key in StepLedger.model_fields}
        )
    return sums


def export_replies(config: BuildConfig, path: Path) -> int:
    """Write what the built collection used as a bundle, and return how many entries there are.

    These are the replies and searches that its records or its manifest name, and the vectors and
    scores of its chunks and of what was searched for: all that a replay needs.

    Raises:
        CollectionError: There is no collection, or a reply of it is not recorded.
        StoreError: An entry cannot be read, or the bundle not be written.
    """
    from freshstack_dspy.recipes.session import open_replies

    collection = Collection.load(config.out)
    used = call_ids_of(collection).union(collection.manifest.reasked)
    with open_replies(config, "replay") as replies:
        recorded = FirstOf(*replies)
        for key in sorted(used):
            if recorded.read(key) is None:
                raise CollectionError(
                    f"{collection.name}: the reply {key} that the collection was made from is not "
                    "recorded here; name the store or the bundle that it was built with in [cache], "
                    "or build it again"
                )
        return write_bundle(
            used.union(_keys_of_numbers(config, collection, recorded)), recorded, path
        )


def _keys_of_numbers(
    config: BuildConfig, collection: Collection, recorded: Recorded
) -> Iterator[str]:
    """The keys of the vectors and scores of a collection's chunks and of what was searched for."""
    hosted = [embedder for embedder in config.embedder if embedder.model is not None]
    if not hosted and config.reranker is None:
        return
    from freshstack_dspy.index.models import HostedEmbedder
    from freshstack_dspy.lm.recorder import Access
    from freshstack_dspy.recipes.pooling import searched, technique_texts

    chunks = [indexed_text(chunk) for chunk in collection.chunks()]
    texts: list[str] = []
    for query in collection.queries:
        nuggets = [one for one in collection.nuggets if one.query_id == query.query_id]
        expansions = [one for one in collection.expansions if one.query_id == query.query_id]
        for of_technique in technique_texts(query, nuggets, expansions).values():
            texts += searched(of_technique, config.pool)
    for embedder in hosted:
        yield from HostedEmbedder(embedder, Access("replay")).wanted(chunks, texts)
    if config.reranker is None or config.reranker.model is None:
        return
    model, searches = config.reranker.model, {text_hash(encodable(text)) for text in texts}
    asked = model, endpoint_identity(model, config.reranker.api_base)
    for key, data in recorded.lines(b'"kind":"rerank"'):
        request = from_json(data).get("request", {})
        if (request.get("model"), request.get("endpoint")) == asked and request[
            "query"
        ] in searches:
            yield key


def unchanged(
    config: BuildConfig, mode: Mode, inputs: Mapping[str, str], replies: "Replies"
) -> Collection | None:
    """The collection at `out`, where a build would make the same again, or None.

    Its settings and inputs must be those of now, every byte of its folder as it was written, and
    every reply that it was made from recorded, with the same content. Never in mode `rerecord`,
    nor where something failed and the mode may ask again, nor with an embedder or a reranker, of
    whose vectors and scores no record tells. Its records are read when they are first needed.
    """
    try:
        manifest = read_manifest(config.out)
    except CollectionError:
        return None
    may_ask = mode == "rerecord" or (mode != "replay" and manifest.counts.failures)
    if may_ask or config.embedder or config.reranker:
        return None
    if not inputs or any(manifest.fingerprints.get(part) != inputs[part] for part in inputs):
        return None
    try:
        used = call_ids_in(config.out).union(manifest.reasked)
        same = manifest.fingerprints.get(_REPLIES) == fingerprint(used, FirstOf(*replies))
        same = same and is_as_written(config.out)
    except (OSError, StoreError, ValueError):  # what is missing or damaged is a change
        return None
    return Collection.load(config.out) if same else None


def fingerprint_inputs(
    config: BuildConfig, recipe: Any = None, programs: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Fingerprint what a build would be made from now, by a recipe or programs of one's own.

    Returns:
        SHA-256 by part (`code`, `settings`, `queries`, `corpus`); nothing at all where an input
        cannot be read, for the build itself then says what is wrong with it.
    """
    without = {**WITHOUT_EFFECT, **dict.fromkeys(_WITH_FILES, True)}
    own: dict[str, Any] = {
        "model": TRANSPORT | {"api_base"}
    }  # of an address, credentials do not matter
    without |= {**own, "recipe": {"state"}, "judge": own, "synthesis": own}
    without |= {"nuggets": {**own, "edited": True}}
    most = config.chunking.max_file_bytes
    try:
        settings = {
            "config": config.resolved().model_dump(mode="json", exclude=without),
            "endpoints": [
                endpoint_identity(one.name, one.api_base)
                for one in map(config.model_of, (None, *LABELLING))
            ],
            "edited": config.nuggets.edited and file_sha256(config.nuggets.edited),
            "programs": own_programs(config, recipe, programs),
            "trust": [config.trust.min_kappa, *map(file_sha256, config.trust.labels)],
        }
        queries = {
            "config": config.queries.model_dump(mode="json", exclude={"path", "style"}),
            "files": [file_sha256(path) for path in query_files(config.queries)],
        }
        corpus = {
            "chunking": config.chunking.model_dump(mode="json"),
            "corpora": [
                [one.name, _files(one, most, config.chunks_folder)] for one in config.corpus
            ],
        }
        return {
            "code": code_sha256(),
            "settings": sha256_of(settings),
            "queries": sha256_of(queries),
            "corpus": sha256_of(corpus),
        }
    except (OSError, FreshstackError):
        return {}


def _files(corpus: CorpusConfig, most: int, kept: Path) -> list[Any]:
    """The files that would be read and those that would not, as the build itself finds them."""
    if corpus.revision:  # a commit names its content, so none of it need be read
        return [commit_of(corpus), chosen_by(corpus)]
    files = look_at_files(corpus, most, seen_files(corpus, most, kept))
    return [[*file] if isinstance(file, ReadFile) else file.model_dump() for file in files]


def own_programs(
    config: BuildConfig, recipe: Any, programs: Mapping[str, Any] | None
) -> dict[str, str]:
    """What is not ours of the recipe and the programs; DSPy is imported only where there is any."""
    names = {*config.programs.named, *(programs or {})}
    of_ours = not is_imported(config.recipe.program) and config.recipe.state is None
    dspy = sys.modules.get("dspy")  # where it was not imported, nobody configured an adapter
    plain = getattr(getattr(dspy, "settings", None), "adapter", None) is None
    if not names and recipe is None and of_ours and plain:
        return {}
    from freshstack_dspy.recipes.recipe import identities, recipe_of, with_programs

    used = recipe_of(config) if recipe is None else recipe
    own = {name: one for name, one in (programs or {}).items() if name != "comparer"}
    return identities(with_programs(used, own), names)
