"""The gate: a collection is called calibrated if its labels agree with people's."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, HumanLabel, build, export_collection, load_config, refresh
from freshstack_dspy.calibration.agreement import measured_trust
from freshstack_dspy.config import TrustConfig
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import encode_records
from freshstack_dspy.stored.manifest import Kappa, Trust, people_of

from .domain import FILES, domain, write_domain

MODEL = {"name": "extractive/baseline"}


def people(collection: Collection, *, wrong_every: int) -> list[HumanLabel]:
    """Labels of all judged pairs, of which one in so many is not the judge's."""
    return [
        HumanLabel(
            query_id=one.query_id,
            nugget_id=one.nugget_id,
            chunk_id=one.chunk_id,
            label=int((not one.label) != (number % wrong_every > 0)),
            annotator="ada",
        )
        for number, one in enumerate(collection.judgments)
    ]


def test_a_build_and_its_exports_say_what_was_measured(tmp_path: Path) -> None:
    before = build(load_config(write_domain(tmp_path, model=MODEL)))
    assert "trust" not in json.loads((tmp_path / "collection/manifest.json").read_bytes())
    assert "Agreement with people: not measured." in (tmp_path / "collection/README.md").read_text()
    labels = people(before, wrong_every=9)
    (tmp_path / "ada.jsonl").write_bytes(encode_records(labels))

    gated = {"labels": "ada.jsonl", "min_kappa": 0.99}
    after = build(load_config(write_domain(tmp_path, model=MODEL, trust=gated)))
    export_collection(after, "beir", tmp_path / "beir")

    trust = after.manifest.trust
    assert trust is not None
    assert trust.kappa is not None
    assert not trust.calibrated
    assert (trust.labels, trust.annotators, trust.ceiling) == (len(labels), 1, None)
    assert trust.line.endswith(
        f" no interval (lower end must be at least 0.99) of {len(labels)} labels by 1"
    )
    assert after.manifest.content_hash == before.manifest.content_hash, "labels are no content"
    assert "- Not calibrated: kappa 0." in (tmp_path / "collection/README.md").read_text()
    exported = json.loads((tmp_path / "beir/export.json").read_bytes())
    assert (exported["calibrated"], exported["agreement"]) == (False, trust.line)


def test_the_lower_end_of_the_interval_decides(tmp_path: Path) -> None:
    made = build(load_config(write_domain(tmp_path, model=MODEL)))
    path = tmp_path / "ada.jsonl"
    labels = people(made, wrong_every=6)  # kappa .48, and 0 is the lower end

    def trust(labels: list[HumanLabel], min_kappa: float) -> Trust:
        path.write_bytes(encode_records(labels))
        settings = TrustConfig(labels=(path,), min_kappa=min_kappa)
        found = measured_trust(made, made.corpus, made.manifest.scale, made.name, settings)
        assert found is not None
        return found

    assert trust(labels, 0).calibrated
    assert not trust(labels, 0.01).calibrated
    assert " (lower end at least 0) of " in trust(labels, 0).line
    assert " (lower end below 0.01) of " in trust(labels, 0.01).line
    below = Trust(calibrated=False, min_kappa=0.6, kappa=Kappa(value=-0.03, low=-0.07, high=0.01))
    assert "kappa -0.03 [-0.07, 0.01] (lower end below 0.6)" in below.line
    one = trust(labels[:1], 0)
    assert not one.calibrated, "without an interval"
    elsewhere = [labels[0].model_copy(update={"query_id": "elsewhere"})]
    assert trust(elsewhere, 0).line.startswith("not calibrated: none of the 1 labels is of a pair")


@pytest.mark.parametrize(
    ("kappa", "labels", "judged", "needed"),
    [
        (None, 0, 5_000, 364),  # (1.43 * 1.6 / (.72 - .6))²
        (None, 0, 200, 200),  # there are no more
        ((0.7, 0.55), 100, 5_000, 461),  # 100 * (1.43 * .15 / .1)²; rounded up
        ((0.7, 0.55), 100, 400, None),
        ((0.55, 0.4), 100, 5_000, None),  # more labels would only show it
        ((0.9, 0.7), 100, 5_000, None),  # calibrated
    ],
)
def test_how_many_labels_calibrate(
    tmp_path: Path,
    kappa: tuple[float, float] | None,
    labels: int,
    judged: int,
    needed: int | None,
) -> None:
    manifest = build(load_config(write_domain(tmp_path, model=MODEL))).manifest
    counts = manifest.counts.model_copy(update={"judgments": judged, "unlabelled": 0})
    trust = None
    if kappa is not None:
        ends = Kappa(value=kappa[0], low=kappa[1], high=1.0)
        calibrated = kappa[1] >= 0.6
        trust = Trust(calibrated=calibrated, min_kappa=0.6, kappa=ends, labels=labels, seconds=9.5)
    manifest = manifest.model_copy(update={"counts": counts, "trust": trust})

    found = people_of(manifest)

    assert (found.labels, found.needed) == (labels, needed)
    assert found.seconds == (trust and 9.5)
    assert found.pairs == judged / counts.queries


def test_labels_are_read_before_anything_is_asked(tmp_path: Path) -> None:
    trust = {"labels": ["ada.jsonl"]}
    config = write_domain(tmp_path, model=MODEL, trust=trust)
    with pytest.raises(ConfigError, match=r"trust\.labels names .*ada\.jsonl"):
        load_config(config)
    (tmp_path / "ada.jsonl").write_text('{"label": "yes"}\n')

    with pytest.raises(CollectionError, match=r"ada\.jsonl:1: not a label"):
        build(load_config(config))


def test_labels_with_ids_alone_follow_a_refresh(tmp_path: Path) -> None:
    """The collection that is refreshed holds their texts; the new one has other ids."""
    settings: dict[str, Any] = {"model": MODEL, "chunking": {"max_tokens": 32}}
    config = domain(tmp_path, **settings)
    parts = [f"# Part {n}\n\nThe dial {n} has wheels{' and more' * 10}.\n\n" for n in range(3)]
    page = tmp_path / "corpus/docs/reset.md"
    page.write_text(parts[0] + FILES["docs/reset.md"])
    labels = people(build(config), wrong_every=9)
    (tmp_path / "ada.jsonl").write_bytes(encode_records(labels))
    config = domain(tmp_path, **settings, trust={"labels": "ada.jsonl"})
    page.write_text("".join(parts) + FILES["docs/reset.md"])

    after = refresh(config).collection

    assert {one.chunk_id for one in labels} - set(after.corpus.ids)
    assert after.manifest.trust is not None
    assert after.manifest.trust.labels == len(labels)
