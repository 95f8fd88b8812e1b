"""Refreshing a collection: what did not change is kept, only the rest is asked."""

from collections.abc import Collection as Ids
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.collection.collection import (
    CORPUS_FILE,
    Collection,
    corpus_sha256,
    sorted_chunks,
)
from freshstack_dspy.collection.contents import RECORD_FILES
from freshstack_dspy.collection.diff import Difference, State, difference, write_changes
from freshstack_dspy.collection.manifest import Manifest, Provenance
from freshstack_dspy.collection.writing import check_foreign, write_collection
from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.files import standing_folder
from freshstack_dspy.lm.engine import Provider
from freshstack_dspy.lm.events import Callback
from freshstack_dspy.recipes.corpus import with_repositories
from freshstack_dspy.recipes.growing.extending import added
from freshstack_dspy.recipes.session import Progress, Session, Silence, open_session

_HOW_LABELS_ARE_MADE = {
    "model": ("temperature",),
    "nuggets": ("limit",),
    "sub_questions": ("limit",),
    "judge": ("shape", "batch", "window", "shuffle", "votes"),
}
"""Settings by which what is kept was made: with others, a build would make it otherwise.

Not what fits into a request: `[model] context` and `max_tokens` are raised where a question or a
reply did not fit, so that a refresh can ask for what failed, and nothing else needs to be anew."""
_OF_THIS_RUN = {"ledger", "estimate", "fingerprints", "reasked", "versions"}
"""What a manifest tells of how it was made, and that no reader of the data needs to be anew."""


class Refreshed(NamedTuple):
    """What came of refreshing."""

    collection: Collection
    """As it stands on disk."""
    difference: Difference
    changed: bool
    """Whether the collection was written anew."""
    calls: int
    """Requests sent to the model for it; the manifest counts all since the first build."""


def refresh(
    config: BuildConfig,
    *,
    mode: Mode = "live",
    progress: Progress | None = None,
    requests_file: Path | None = None,
    difference_file: Path | None = None,
    keep_labels: bool = False,
    provider: Provider | None = None,
    callback: Callback | None = None,
) -> Refreshed:
    """Bring the collection at `out` to the state of the inputs, and say what became of it.

    Nuggets, expansions and judgments of what did not change are kept as they are recorded in the
    collection, even where their replies are lost; see `standing.Kept`. What failed is asked again.

    Args:
        config: As `load_config` reads it; a collection stands at its `out`.
        mode: `live`, `replay` or `defer`; see `lm/client.py`.
        progress: Whom to tell how it goes.
        requests_file: Where `defer` writes the missing requests; by default beside the store.
        difference_file: Where to write each change as a line of JSON, before the collection.
        keep_labels: Whether labels stay that were made by another model, prompt or setting.
        provider: What answers, in place of the one that the model's name chooses.
        callback: Told of every request to the model, by many threads.

    Raises:
        ConfigError: No collection stands there, or its labels were made otherwise.
        BudgetError: The budget is used up; what was answered is recorded, and a larger one goes on.
        DeferredError: In mode `defer`, requests were written down; answer and import them.
        FreshstackError: Anything else that stops it, in one line; the collection still stands.
    """
    if mode == "rerecord":
        raise ConfigError("refresh asks only for what changed; allowed modes: live, replay, defer")
    if not standing_folder(config.out).exists():
        raise ConfigError(f"{config.out}: no collection to refresh; type: freshstack build CONFIG")
    if config.queries.is_synthetic:
        raise ConfigError(
            "[queries] source is synthetic: its questions are made anew from the corpus; to keep "
            f"those of the collection, copy {config.out / 'queries.jsonl'} elsewhere and name the "
            'copy as path, with source = "jsonl"'
        )
    check_foreign(config.out)
    standing = Collection.load(config.out)
    config = with_repositories(config, mode, progress or Silence())
    with open_session(
        config,
        mode,
        progress=progress,
        requests_file=requests_file,
        provider=provider,
        callback=callback,
    ) as session:
        return _rerecorded(session, standing, difference_file, keep_labels=keep_labels)


def _rerecorded(
    session: Session, standing: Collection, difference_file: Path | None, *, keep_labels: bool
) -> Refreshed:
    from freshstack_dspy.recipes.growing.standing import Kept
    from freshstack_dspy.recipes.provenance import provenance
    from freshstack_dspy.recipes.run import Run

    run = Run(session, Kept(standing, session.config.judge.graded.threshold))
    now = provenance(session.config, run.recipe, session.lm.ledger)
    _check_other_labels(standing.manifest, now, keep_labels=keep_labels)
    made = run.made({})
    found = difference(State(standing, standing.chunks()), State(made.contents, made.chunks))
    before = standing.manifest
    told = made.provenance.model_copy(
        update={
            "extensions": before.extensions,
            "earlier_models": _earlier_models(before, made.provenance.model),
            "ledger": added(before.ledger, made.provenance.ledger),
            "reasked": tuple(sorted({*before.reasked, *made.provenance.reasked})),
        }
    )
    calls = sum(account.calls for account in made.provenance.ledger.values())
    chunks = sorted_chunks(made.chunks)
    is_same = (
        all(getattr(standing, one.name) == getattr(made.contents, one.name) for one in RECORD_FILES)
        and corpus_sha256(chunks) == before.files[CORPUS_FILE]
        and dict(made.rejected) == before.counts.rejected
        and _of_the_data(before) == _of_the_data(told)
    )
    if difference_file is not None and not is_same:
        write_changes(found, difference_file)
    if is_same:
        return Refreshed(standing, found, changed=False, calls=calls)
    written = write_collection(
        session.config.out, made.contents, chunks, told, rejected=made.rejected
    )
    return Refreshed(written, found, changed=True, calls=calls)


def retire(config: BuildConfig, query_ids: Ids[str]) -> BuildConfig:
    """A configuration that leaves these queries of its collection out.

    Raises:
        ConfigError: The collection has no such query.
    """
    if not query_ids:
        return config
    known = {query.query_id for query in Collection.load(config.out).queries}
    if unknown := sorted(set(query_ids) - known):
        raise ConfigError(
            f"{config.out}: no query {unknown[0]!r} to retire ({len(unknown)} such of "
            f"{len(query_ids)}); there are {len(known)}, as {min(known, default=None)!r}"
        )
    retired = tuple(sorted({*config.queries.retired, *query_ids}))
    queries = config.queries.model_copy(update={"retired": retired})
    return config.model_copy(update={"queries": queries})


def _check_other_labels(before: Manifest, now: Provenance, *, keep_labels: bool) -> None:
    """Refuse to put labels of two scales, and unless it is wished of two judges, into one."""
    if before.name != now.name:
        raise ConfigError(
            f"the collection there is {before.name!r}, and the configuration makes {now.name!r}; "
            "give it the same name, or another folder as out"
        )
    if before.scale.name != now.scale.name:
        raise ConfigError(
            f"[judge] scale is {now.scale.name!r}, and the labels of {before.name} are on scale "
            f"{before.scale.name!r}: no label can be kept; write under [judge]: "
            f'scale = "{before.scale.name}", or build the other with another out'
        )
    if not keep_labels and (others := list(_made_otherwise(before, now))):
        raise ConfigError(
            f"{before.name} was made otherwise: {'; '.join(others)}; what is kept and what is "
            "asked now would not be comparable: go back to the old settings, keep the old "
            "labels all the same with --keep-labels, or judge everything anew with another out: "
            "freshstack build CONFIG"
        )


def _made_otherwise(before: Manifest, now: Provenance) -> Iterator[str]:
    """Say what made the labels of the collection and is another now."""
    if before.model != now.model:
        yield f"model {before.model!r}, now {now.model!r}"
    for name in sorted(before.prompts.keys() & now.prompts.keys()):
        if before.prompts[name] != now.prompts[name]:
            yield f"another prompt of {name}"
    for section, keys in _HOW_LABELS_ARE_MADE.items():
        old, new = before.config.get(section), now.config.get(section)
        if not isinstance(old, dict) or not isinstance(new, dict):
            continue
        for key in keys:
            if key in old and key in new and old[key] != new[key]:
                yield f"{section}.{key} = {old[key]!r}, now {new[key]!r}"


def _earlier_models(before: Manifest, model: str) -> tuple[str, ...]:
    earlier = dict.fromkeys((*before.earlier_models, before.model))
    return tuple(name for name in earlier if name != model)


def _of_the_data(provenance: Provenance) -> dict[str, object]:
    fields = set(Provenance.model_fields) - _OF_THIS_RUN
    return provenance.model_dump(mode="json", include=fields)
