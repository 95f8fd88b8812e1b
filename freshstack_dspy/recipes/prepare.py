"""What can be checked before the work: mode, places and settings, in the order of their cost."""

from collections.abc import Iterator, Mapping
from typing import Any

from freshstack_dspy.config import BuildConfig, EngineConfig, Mode
from freshstack_dspy.errors import CollectionError, ConfigError, argument
from freshstack_dspy.files import check_writable
from freshstack_dspy.languages import language_of
from freshstack_dspy.progress import Progress
from freshstack_dspy.recipes.corpus import check_index, with_repositories
from freshstack_dspy.recipes.provenance import LABELLING, WITHOUT_EFFECT, own_programs, shareable
from freshstack_dspy.recipes.session import check_mode
from freshstack_dspy.stored.manifest import Manifest, read_manifest
from freshstack_dspy.stored.writing import check_replaceable


def prepare(
    config: BuildConfig,
    mode: Mode,
    progress: Progress,
    *,
    dry: bool = False,
) -> BuildConfig:
    """Make every check of a build that needs no work, and pin its repositories to a commit.

    A replay is done on this machine, whatever `[engine]` says.

    With `dry` nothing will be written at `out`.

    Raises:
        CollectionError: At `out` is something else, or the labels of `[trust]` are none.
        ConfigError: No such mode, no detector of languages where one is needed, batches under way, or
            an `out` that cannot be written.
        IndexingError: The object store of the index cannot be reached.
        SourceError: A repository or revision cannot be had.
    """
    check_mode(config, mode)
    check_languages(config)
    _check_place(config, dry=dry)
    if mode == "replay":  # as whoever is given the replies does, without the cluster
        config = config.model_copy(update={"engine": EngineConfig()})
    else:
        check_index(config)
    return with_repositories(config, mode, progress)


def check_languages(config: BuildConfig) -> None:
    """Check that the detector is there and knows the languages, if it is needed."""
    if not (config.queries.language and all(one.language for one in config.corpus)):
        language_of("A text that is long enough to be told.", config.languages)


def _check_place(config: BuildConfig, *, dry: bool) -> None:
    """Check `out`, and the labels of `[trust]`, before anything is cut or paid for."""
    from freshstack_dspy.calibration.labels import read_labels

    if config.trust.labels:
        read_labels(config.trust.labels)
    check_replaceable(config.out)
    if not dry:
        check_writable(config.out)


def check_replaced(config: BuildConfig, recipe: Any, programs: Mapping[str, Any] | None) -> None:
    """Check that a build does not silently replace another collection.

    Raises:
        ConfigError: The collection at `out` has another name, other settings or programs, or was
            extended by runs, whose judgments a build would lose.
    """
    try:
        manifest = read_manifest(config.out)
    except CollectionError:
        return
    if manifest.extensions:
        names = ", ".join(dict.fromkeys(one.run for one in manifest.extensions))
        raise ConfigError(
            f"{config.out}: extended by runs ({names}), whose judgments a build would lose; type: "
            f"freshstack refresh {config.file}, which reuses them, or name another out"
        )
    others = list(_other_settings(manifest, config))
    now = own_programs(config, recipe, programs)
    for name in sorted(manifest.programs.keys() | now.keys()):
        if manifest.programs.get(name) != now.get(name):
            plain = "that of this package"
            others.append(
                f"{name} = {manifest.programs.get(name, plain)}, now {now.get(name, plain)}"
            )
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise ConfigError(
            f"{config.out} holds the collection {manifest.name!r}, built with other settings: "
            f"{'; '.join(others[:3])}{more}; replace it with {argument('replace')}, or name another out"
        )


def _other_settings(manifest: Manifest, config: BuildConfig) -> Iterator[str]:
    """What of the configuration differs from that of the collection."""
    if not manifest.config:
        yield f"it was made by {manifest.recipe}"
        return
    now = _flat(shareable(config.resolved().model_dump(exclude=WITHOUT_EFFECT)))
    before = _flat(manifest.config)
    for role in LABELLING:  # that names no model of its own: it is that of [model]
        if any(key.startswith(f"{role}.model.") for key in (*now, *before)):
            for values in (now, before):
                of_model = [key for key in values if key.startswith("model.")]
                for key in of_model:
                    values.setdefault(f"{role}.{key}", values[key])
    for values in (now, before):  # a revision is only known once a repository is fetched
        values["corpus"] = [corpus["name"] for corpus in values.get("corpus", [])]
    for key in sorted(now.keys() & before.keys()):
        if now[key] != before[key]:
            yield f"{key} = {before[key]!r}, now {now[key]!r}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        flat |= _flat(value, f"{key}.") if isinstance(value, dict) else {key: value}
    return flat
