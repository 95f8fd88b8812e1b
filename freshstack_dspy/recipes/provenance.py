"""How a collection was made: its manifest's account, and the replies that it was made from."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import from_json

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import TRANSPORT, BuildConfig, Role
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import Uri
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.lm.bundle import write_bundle
from freshstack_dspy.lm.reply import encodable
from freshstack_dspy.lm.request import endpoint_identity, sha256_of, text_hash
from freshstack_dspy.lm.store import FirstOf, Recorded
from freshstack_dspy.lm.usage import StepLedger
from freshstack_dspy.stored.contents import Contents, searched
from freshstack_dspy.stored.manifest import NO_MODEL, Manifest, Provenance
from freshstack_dspy.stored.writing import call_ids_of

if TYPE_CHECKING:
    from freshstack_dspy.recipes.session import Session

LABELLING: tuple[Role, ...] = ("judge", "nuggets", "synthesis", "reranker")
"""The roles whose models shape a collection."""
WITHOUT_EFFECT = (
    *("out", "index.path", "cache", "budget", "trust", "prices", "generator", "gold_generator"),
    *(
        f"{table}.{key}"
        for table in ("model", *(f"{role}.model" for role in LABELLING))
        for key in sorted(TRANSPORT)
    ),
)
"""Settings, and tables of them, that change no record of a collection."""
_PACKAGES = ("freshstack_dspy", "bm25s", "dspy", "instructor", "lancedb", "litellm", "pydantic")
_PRIVATE = frozenset(["api_key", "api_base"])


def provenance(
    session: "Session",
    contents: Contents | None = None,
    dates: Mapping[str, str] | None = None,
    corpus: ChunkFile | None = None,
    before: Collection | None = None,
) -> Provenance:
    """Describe how a collection is made, without secrets and names of machines.

    Args:
        session: What was asked, for which configuration, by which recipe.
        contents: Its records; replies that were used and that none of these names are listed.
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


def made_otherwise(
    before: Manifest, session: "Session", only: Literal["judge", "programs"] | None = None
) -> list[str]:
    """Say which model, prompts and programs are others than those a collection was made with.

    Args:
        before: The manifest of the collection.
        session: What would be asked now.
        only: `judge`: compare what judges support; an import's labels may be by anybody.
            `programs`: compare the programs that are not this package's.
    """
    recipe, now, then = session.recipe, session.identities, before.programs
    changes, names = [], now.keys() | then.keys()
    if only != "programs":
        model, judge = before.model, session.judges
        if only == "judge":
            names &= set() if before.recipe.startswith("import:") else {"support_judge"}
            recipe = recipe.support_judge
            if model == NO_MODEL:
                model = before.extensions[-1].model if before.extensions else judge
        changes = [f"model {model!r}, now {judge!r}"] if model != judge else []
        changes += [
            f"another prompt of {name}"
            for name, prompt in sorted(prompts_of(recipe.named_predictors()).items())
            if before.prompts.get(name, prompt) != prompt
        ]
    return changes + [
        f"another program {name}" for name in sorted(names) if now.get(name) != then.get(name)
    ]


def shareable(value: Any) -> Any:
    """A configuration without secrets and machines, and of each path only the last part."""
    if isinstance(value, dict):
        return {name: shareable(item) for name, item in value.items() if name not in _PRIVATE}
    if isinstance(value, (list, tuple)):
        return [shareable(item) for item in value]
    return value.name if isinstance(value, Path | Uri) else value


def effective(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings of a manifest that shape a collection, by `table.key`."""
    settings: dict[str, Any] = {}
    for name, value in config.items():
        key = f"{prefix}{name}"
        if key not in WITHOUT_EFFECT:
            inside = isinstance(value, dict)
            settings |= effective(value, f"{key}.") if inside else {key: value}
    return settings


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

    chunks = [indexed_text(chunk) for chunk in collection.chunks()]
    texts: list[str] = []
    for by_technique in collection.texts(collection.queries).values():
        for of_technique in by_technique.values():
            texts += searched(of_technique, config.pool.lists)
    for embedder in hosted:
        yield from HostedEmbedder(embedder, Access("replay")).wanted(chunks, texts)
    model = config.reranker and config.reranker.model
    if config.reranker is None or not isinstance(model, str):
        return
    searches = {text_hash(encodable(text)) for text in texts}
    asked = model, endpoint_identity(model, config.reranker.api_base)
    for key, data in recorded.lines(b'"kind":"rerank"'):
        request = from_json(data).get("request", {})
        if (request.get("model"), request.get("endpoint")) == asked and request[
            "query"
        ] in searches:
            yield key
