"""The manifest: what a collection is, what is in it, how it was made."""

import hashlib
import json
import math
import operator
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, JsonValue, ValidationError

from freshstack_dspy.corpus.parquet import damaged
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.request import BY_HAND
from freshstack_dspy.lm.usage import StepLedger
from freshstack_dspy.pages.page import interval
from freshstack_dspy.records import MIN_KAPPA, Record, Scale
from freshstack_dspy.stored.contents import Counts

if TYPE_CHECKING:
    from freshstack_dspy.measures.qrels import People

MANIFEST_FILE = "manifest.json"
CORPUS_FILE = "corpus.parquet"
SUMS_FILE = "SHA256SUMS"
"""The SHA-256 of the bytes of every other file in the folder, as `sha256sum -c` reads it."""
SCHEMA_VERSION: Literal[6] = 6
"""The version of the files; any change to a record or to the manifest raises it."""


class Extension(Record):
    """A run whose unjudged chunks were judged after the collection was built."""

    run: str
    sha256: str
    """The hash of the run file; for a run from Python, of its top results."""
    depth: int = Field(ge=1)
    """How many chunks of each ranking were looked at."""
    judged: int = Field(ge=0)
    """How many (nugget, chunk) pairs were judged for it."""
    model: str


class Kappa(Record):
    """Cohen's kappa with its 95 % interval over queries; None where it is undefined."""

    value: float | None
    low: float | None
    high: float | None


class Trust(Record):
    """How far the labels agree with people, and whether that is enough."""

    calibrated: bool
    """Whether the lower end of kappa's interval reaches `min_kappa`."""
    min_kappa: float
    kappa: Kappa | None = None
    """The kappa of judge and people, for labels read as support or none."""
    ceiling: Kappa | None = None
    """That of people among themselves; None where no pair was labelled by two."""
    labels: int = 0
    annotators: int = 0
    reason: str = ""
    """Why there is no kappa."""
    seconds: float | None = Field(default=None, exclude_if=operator.not_)
    """The median time that a label took, by the times of the labelling page."""

    @property
    def line(self) -> str:
        """What was measured, in one line."""
        if self.kappa is None or self.kappa.value is None:
            return f"not calibrated: {self.reason or 'kappa is undefined on these labels'}"
        ends = "must be at least" if self.kappa.low is None else "below"
        bound = f" (lower end {'at least' if self.calibrated else ends} {self.min_kappa:g})"
        people = f"; people {_written(self.ceiling)}" if self.ceiling else ""
        return (
            f"{'' if self.calibrated else 'not '}calibrated: kappa {_written(self.kappa)}{bound} "
            f"of {self.labels:,} labels by {self.annotators:,}{people}"
        )


def _written(kappa: Kappa) -> str:
    if kappa.value is None or kappa.low is None or kappa.high is None:
        return "without an interval" if kappa.value is None else f"{kappa.value:.2f}, no interval"
    return str(interval(kappa, ".2f", ".2f"))


_KAPPA = 0.72
"""What readers with the default prompt reached on TREC RAG 2024, benchmarks/LOG.md, 2026-11-22."""
_FEWEST_LABELS = 150
"""With fewer, disagreements are so few that the lower end of kappa's interval is a wider bound."""
NOT_MEASURED = "agreement with people: not measured"


class Provenance(Record):
    """How a collection was made, as its maker says. It may name no secret and no machine."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    recipe: str
    model: str
    """The language model that judges; those of all steps are in `models`."""
    models: dict[str, tuple[str, ...]] = Field(default_factory=dict, exclude_if=operator.not_)
    """By step, the models that answered, live or from recorded replies, of programs with a model of
    their own too. Empty in collections of earlier versions: there `model` was asked in all steps."""
    scale: Scale = Scale()
    """What the labels mean."""
    extensions: tuple[Extension, ...] = ()
    """In the order in which they were made."""
    earlier_models: tuple[str, ...] = ()
    """Other models that were asked before a refresh, and some of whose labels may be kept."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of the prompt, by the signature's name, or else by the predictor's."""
    programs: dict[str, str] = Field(default_factory=dict)
    """Those that are not this package's: by name, or `recipe`, the class and a hash of its source and
    prompts."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Version by package, of those that shape the outcome."""
    ledger: dict[str, StepLedger] = Field(default_factory=dict)
    """What was asked and paid, by step."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """The configuration of the build."""
    fingerprints: dict[str, str] = Field(default_factory=dict, exclude=True)
    """In manifests of earlier versions; nothing reads them."""
    trust: Trust | None = Field(default=None, exclude_if=operator.not_)
    """None where there were no labels."""
    dates: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    """By source, when the commit that its chunks are of was made (UTC, ISO 8601); of repositories."""
    reasked: tuple[str, ...] = ()
    """Keys of the replies that no record names: they were sent back as invalid, or belong to
    synthetic questions that were refused."""


class Manifest(Provenance):
    """`manifest.json`: the provenance, the counts and the hashes of a collection."""

    schema_version: Literal[6]
    content_hash: str
    """The identity of the data: SHA-256 over the names and hashes in `files`."""
    counts: Counts
    files: dict[str, str]
    """SHA-256 of each data file's content, by file name; of the corpus, of its rows as JSON Lines."""


def hash_content(files: Mapping[str, str]) -> str:
    """Hash the data as a whole: SHA-256 over one line `<sha256>  <name>` for each file, by name."""
    return hashlib.sha256(encode_sums(files)).hexdigest()


def encode_sums(hashes: Mapping[str, str]) -> bytes:
    """Write hashes by file name as `sha256sum` does."""
    return "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode("utf-8")


def read_sums(folder: Path) -> dict[str, str]:
    """Read the hashes of a folder's files by name; none in a collection of before 0.3."""
    path = folder / SUMS_FILE
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CollectionError(f"{path}: cannot be read: {error.strerror}") from None
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def encode_manifest(manifest: Manifest) -> bytes:
    """Write a manifest as indented JSON with sorted keys."""
    values = manifest.model_dump(mode="json")
    return f"{json.dumps(values, ensure_ascii=False, indent=2, sort_keys=True)}\n".encode()


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a collection."""
    path = folder / MANIFEST_FILE
    values = _read(folder)
    expected = read_sums(folder).get(MANIFEST_FILE)
    if expected not in (None, hashlib.sha256(path.read_bytes()).hexdigest()):
        raise damaged(path)
    version = values.get("schema_version")
    if version != SCHEMA_VERSION:
        do = "rebuild it: freshstack build CONFIG --mode replay asks no model and costs nothing"
        if isinstance(version, int) and version > SCHEMA_VERSION:
            do = "update freshstack_dspy"
        raise CollectionError(
            f"{path}: schema version {version}, and this freshstack_dspy reads {SCHEMA_VERSION}; "
            f"{do}"
        )
    try:
        manifest = Manifest.model_validate(values)
    except ValidationError as error:
        raise CollectionError(f"{path}: not a manifest: {first_fault(error)}") from None
    if manifest.content_hash != hash_content(manifest.files):
        raise damaged(path)
    return manifest


def is_collection(folder: Path) -> bool:
    """Tell whether a folder has the manifest of a collection, of any schema version."""
    try:
        return {"schema_version", "content_hash"} <= _read(folder).keys()
    except CollectionError:
        return False


def _read(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST_FILE
    if not folder.exists():
        others = [path.parent.name for path in folder.parent.glob(f"*/{MANIFEST_FILE}")]
        near = get_close_matches(folder.name, others, n=1)
        hint = f"; did you mean {folder.parent / near[0]}?" if near else ""
        raise CollectionError(f"{folder}: no such collection{hint}")
    if not path.is_file():
        raise CollectionError(f"{folder}: not a collection, for it has no {MANIFEST_FILE}")
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CollectionError(f"{path}: not a manifest: {error}") from None
    if not isinstance(values, dict):
        raise CollectionError(f"{path}: not a manifest but a JSON {type(values).__name__}")
    return values


NO_MODEL = "none"
"""The model of a collection that was imported: no model was asked."""


def is_baseline(model: str) -> bool:
    """Tell whether a model is the embedded baseline, which counts words."""
    return model.startswith("extractive/")


def is_dry_run(manifest: Manifest) -> bool:
    """Tell whether the baseline may have made labels, so that no conclusions are drawn."""
    return any(map(is_baseline, makers(manifest)))


def by_hand(manifest: Manifest, step: str = "support") -> bool:
    """Tell whether an agent may have answered the requests of a step."""
    models = manifest.models.get(step, (manifest.model,))
    return any(model.startswith(BY_HAND) for model in models)


def asking_again(manifest: Manifest) -> str:
    """Give the options that ask again for what failed: an agent's requests can only be deferred."""
    models = {manifest.model, *chain(*manifest.models.values())}
    agent = any(model.startswith(BY_HAND) for model in models)
    return f"--mode {'defer' if agent else 'rerecord'} --failed"


def exported_from(manifest: Manifest) -> dict[str, str]:
    """Give `collection`, `content_hash`, `recipe` and `model` of the export this was imported from.

    Empty if it was not imported from an export.
    """
    imported: Any = manifest.config.get("import", {})
    return dict(imported.get("export", {}))


def trust_line(manifest: Manifest) -> str:
    """Say in one line how far the labels agree with people."""
    return manifest.trust.line if manifest.trust else NOT_MEASURED


def uncalibrated(manifest: Manifest) -> str:
    """Say why labels by a model cannot be trusted yet; empty where they can, or no model made any."""
    trusted = manifest.trust is not None and manifest.trust.calibrated
    return "" if trusted or not makers(manifest) else trust_line(manifest)


def people_of(manifest: Manifest) -> "People":
    """Say how many labels by people there are, and how many calibrate the collection."""
    from freshstack_dspy.measures.kappa import KAPPA_HALF_WIDTH
    from freshstack_dspy.measures.qrels import People

    trust, counts = manifest.trust, manifest.counts
    judged = counts.judgments - counts.unlabelled
    pairs = judged / max(1, counts.queries)
    seconds = trust.seconds if trust else None
    labels, kappa, width = 0, _KAPPA, KAPPA_HALF_WIDTH
    known = trust.kappa if trust else None
    if trust and known and known.value is not None and known.low is not None:
        labels, kappa = trust.labels, known.value
        width = (kappa - known.low) * math.sqrt(labels)
    room, needed = kappa - (trust.min_kappa if trust else MIN_KAPPA), None
    if uncalibrated(manifest) and room > 0:
        needed = max(labels_that_calibrate(room, width), labels + 1 if labels else _FEWEST_LABELS)
        if needed > judged:  # all of them, unless too few are known to be too few
            needed = None if labels else judged
    return People(labels=labels, needed=needed, kappa=kappa, seconds=seconds, pairs=pairs)


def labels_that_calibrate(room: float, width: float) -> int:
    """Forecast how many labels bring the lower end of kappa's interval to a bound, 4 times in 5.

    The half width of the interval is `width` / √n from n labels. That end is above the bound with
    power .8 if kappa exceeds the bound by the half width times 1 + z(.8) / z(.975).

    Args:
        room: What kappa exceeds the bound by.
        width: The half width from one label.
    """
    return math.ceil((1.43 * width / room) ** 2)


def dollars_per_query(manifest: Manifest) -> float | None:
    """What asking for a query's replies first cost, in US dollars; None where no price is known."""
    dollars = sum(usage.cost + usage.cached_cost for usage in manifest.ledger.values())
    return dollars / manifest.counts.queries if dollars and manifest.counts.queries else None


def labels_by(manifest: Manifest) -> str:
    """Say in one line who made the labels, and how far they agree with people."""
    models = makers(manifest)
    named = (f"{model}, a word counter" if is_baseline(model) else model for model in models)
    by = f"by {' and '.join(named)}" if models else "as they were imported"
    return f"labels {by}; {manifest.trust.line}" if manifest.trust else f"labels {by}"


def with_models(before: Manifest, now: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """By step, the models that answered for a collection, and those that answered since."""
    models = dict(before.models)
    if "support" not in models and before.model != NO_MODEL:
        models["support"] = (before.model,)
    steps = sorted({*models, *now})
    return {step: tuple(sorted({*models.get(step, ()), *now.get(step, ())})) for step in steps}


def makers(manifest: Manifest) -> tuple[str, ...]:
    """Name every model that may have made labels, each once; the collection's own first."""
    named = [*manifest.models.get("support", (manifest.model,)), *manifest.earlier_models]
    named += [extension.model for extension in manifest.extensions]
    if manifest.recipe.startswith("import:"):  # judged again, its labels are by others
        named.append(exported_from(manifest).get("model", NO_MODEL))
    return tuple(dict.fromkeys(model for model in named if model != NO_MODEL))
