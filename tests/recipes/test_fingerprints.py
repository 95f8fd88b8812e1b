"""What the fingerprints of a build's inputs see."""

import subprocess
from pathlib import Path

import pytest

from freshstack_dspy.config import BuildConfig, CorpusConfig
from freshstack_dspy.recipes.provenance import WITHOUT_EFFECT, fingerprint_inputs

from .domain import domain

PARTS = {"code", "settings", "queries", "corpus"}


def test_the_same_inputs_have_the_same_fingerprints_wherever_they_are(tmp_path: Path) -> None:
    here, there = domain(tmp_path / "here"), domain(tmp_path / "there")

    assert fingerprint_inputs(here) == fingerprint_inputs(there)
    assert fingerprint_inputs(here).keys() == PARTS


def test_every_section_is_compared_or_named_as_without_effect(tmp_path: Path) -> None:
    """A section that a later version adds is compared until somebody says otherwise."""
    assert WITHOUT_EFFECT.keys() <= BuildConfig.model_fields.keys()
    for name, excluded in WITHOUT_EFFECT.items():
        if excluded is not True:
            section = getattr(domain(tmp_path), name)
            assert excluded <= type(section).model_fields.keys()


@pytest.mark.parametrize("api_base", ["http://10.0.0.1/v1", "ftp://10.0.0.1"])
def test_an_endpoint_counts_without_its_password(tmp_path: Path, api_base: str) -> None:
    plain = fingerprint_inputs(domain(tmp_path, model={"api_base": api_base}))
    secret = api_base.replace("//", "//me:secret@")

    assert fingerprint_inputs(domain(tmp_path, model={"api_base": secret})) == plain
    assert bool(plain) == api_base.startswith("http"), "a bad address is for the build to refuse"


def test_a_revision_is_the_commit_that_it_names_and_not_its_name(tmp_path: Path) -> None:
    config = domain(tmp_path)
    git = ("git", "-C", str(tmp_path / "corpus"), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "1"), ("tag", "v1")):
        subprocess.run([*git, *words], check=True)

    def marked(revision: str, **more: object) -> str:
        at = {"name": "dial", "path": tmp_path / "corpus", "revision": revision, **more}
        corpus = CorpusConfig.model_validate(at)
        return fingerprint_inputs(config.model_copy(update={"corpus": (corpus,)}))["corpus"]

    first = marked("v1")
    assert first == marked("HEAD")
    assert first != marked("v1", include=("docs/**",))
    (tmp_path / "corpus/src/dial.py").write_text("pass\n")
    assert first == marked("HEAD"), "the working tree is not read"
    subprocess.run([*git, "commit", "-qam", "2"], check=True)
    assert first != marked("HEAD")
    assert first == marked("v1")
