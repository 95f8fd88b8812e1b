"""The configuration: what it takes, and one line for whatever is wrong in it."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from freshstack_dspy.config import BuildConfig, ModelConfig, load_config
from freshstack_dspy.records import TECHNIQUES

from .least import LEAST, refused, written

SECRET = "sk-very-secret-1234"


def test_the_least_configuration_has_the_papers_defaults(folder: Path) -> None:
    config = load_config(written(folder, LEAST))

    assert config.model.name == "extractive/baseline"
    assert (config.pool.depth, config.pool.top_k, config.judge.batch) == (100, 20, 20)
    assert config.pool.techniques == TECHNIQUES


def test_paths_are_relative_to_the_file_wherever_one_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(folder, LEAST)
    elsewhere = folder / "docs"
    monkeypatch.chdir(elsewhere)

    config = load_config("../build.toml")

    assert config.queries.path == folder / "questions.jsonl"
    assert config.corpus[0].path == folder / "docs"
    assert config.out == folder / "out"
    assert config.index.path == folder / ".freshstack/index"
    assert config.cache.path == folder / ".freshstack/cache"


def test_lists_of_paths_absolute_paths_and_the_home_are_resolved(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    bundle, absolute, program = (folder / name for name in ("a.jsonl", "b.jsonl", "judge.json"))
    for path in (bundle, absolute, program):
        path.write_text("")
    text = (
        f'{LEAST}[cache]\nbundles = ["a.jsonl", "{absolute}"]\n'
        '[programs]\nsupport_judge = "~/docs/../judge.json"\n'
    )

    config = load_config(written(folder, text))

    assert config.cache.bundles == (bundle, absolute)
    assert config.programs.support_judge == program


FAULTS = {
    "a word for a number": (
        '[pool]\ndepth = "deep"',
        "pool.depth is 'deep': input should be a valid integer",
    ),
    "text that only looks like a number": (
        '[model]\ntemperature = "0.1"',
        "model.temperature is '0.1': input should be a valid number",
    ),
    "too small": (
        "[chunking]\nmax_tokens = 31",
        "chunking.max_tokens is 31: input should be greater than or equal to 32",
    ),
    "one of a list outside of its set": (
        '[pool]\nretrievers = ["bm25", "bm52"]',
        "the file: pool.retrievers names ['bm52']; there are: bm25, lsa, hybrid",
    ),
    "a name twice": (
        '[pool]\nretrievers = ["lsa", "lsa"]',
        "pool: retrievers takes at least one name, each once, not ['lsa', 'lsa']",
    ),
    "numbers that do not go together": (
        "[pool]\ndepth = 5\ntop_k = 6",
        "pool: top_k (6) cannot be larger than depth (5)",
    ),
    "a misspelt key": (
        "[pool]\ntopk = 3",
        "unknown key pool.topk; did you mean top_k? allowed here: depth, lists, retrievers, techniques, top_k",
    ),
    "an unknown section": (
        "[judges]\nbatch = 3",
        (
            "unknown key judges; did you mean judge? allowed here: budget, cache, chunking, contamination, corpus, embedder, "
            "fusion, index, judge, model, name, nuggets, out, pool, prices, programs, "
            "queries, recipe, reranker, sub_questions"
        ),
    ),
    "an unknown key in one of several tables": (
        '[[corpus]]\nname = "b"\npath = "docs"\nglob = "*"',
        (
            "unknown key corpus[1].glob; allowed here: exclude, include, keep, name, package, "
            "pages, path, revision, url"
        ),
    ),
    "a missing key in one of several tables": (
        '[[corpus]]\nname = "b"',
        "corpus[1]: name one of path, url and package, not none",
    ),
    "a name that two corpora share": (
        '[[corpus]]\nname = "docs"\npath = "docs"',
        "the file: each [[corpus]] needs a name of its own, not ['docs', 'docs']",
    ),
    "an unknown home": (
        '[cache]\npath = "~nobody-of-this-name/cache"',
        "Could not determine home directory.",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_with_file_key_found_and_allowed(folder: Path, fault: str) -> None:
    added, said = FAULTS[fault]

    assert refused(written(folder, LEAST + added)) == said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('name = "small"', "name is missing"),
        ('out = "out"', "out is missing"),
        ('[queries]\npath = "questions.jsonl"', "queries is missing"),
        ('[[corpus]]\nname = "docs"\npath = "docs"', "corpus is missing"),
    ],
)
def test_a_missing_part_is_named(folder: Path, line: str, said: str) -> None:
    assert line in LEAST
    assert refused(written(folder, LEAST.replace(line, ""))) == said


def test_an_empty_list_of_corpora_is_one_fault(folder: Path) -> None:
    text = 'name = "a"\nout = "b"\ncorpus = []\n[queries]\npath = "questions.jsonl"'

    assert refused(written(folder, text)) == "corpus is an array of 0: at least 1 is needed"


def test_a_fault_inside_the_only_corpus_is_one_fault(folder: Path) -> None:
    """Pydantic adds that the list of valid corpora is then too short."""
    text = LEAST.replace('name = "docs"', 'name = "my docs"')

    said = refused(written(folder, text))

    assert said == "corpus[0].name is 'my docs': string should match pattern '^[^/\\s]+$'"


def test_every_fault_is_said_at_once(folder: Path) -> None:
    text = LEAST.replace('"small"', '""') + "[judge]\nbatch = 0\nsize = 1\n[pool]\ndepth = 0"

    said = refused(written(folder, text))

    for fault in ("name is ''", "judge.batch is 0", "unknown key judge.size", "pool.depth is 0"):
        assert fault in said


def test_every_missing_input_is_named(folder: Path) -> None:
    text = (
        LEAST.replace('"questions.jsonl"', '"lost.jsonl"').replace('path = "docs"', 'path = "gone"')
        + '[cache]\nbundles = ["replies.jsonl"]\n[programs]\nnuggetizer = "n.json"'
    )

    assert refused(written(folder, text)) == "; ".join(
        f"{key} names {folder / name}, and there is no such file or folder"
        for key, name in [
            ("queries.path", "lost.jsonl"),
            ("corpus 'docs': path", "gone"),
            ("cache.bundles", "replies.jsonl"),
            ("programs.nuggetizer", "n.json"),
        ]
    )


@pytest.mark.parametrize(
    ("section", "key"),
    [("", "out"), ("[cache]\n", "path"), ("[index]\n", "path")],
)
def test_a_build_may_not_write_into_what_it_reads(folder: Path, section: str, key: str) -> None:
    """The next build would read the last one's files, and be another."""
    text = (
        f'{LEAST}{section}{key} = "docs/made"' if section else LEAST.replace('"out"', '"docs/made"')
    )
    name = f"{section.strip(chr(10) + '[]')}.{key}".removeprefix(".")

    assert refused(written(folder, text)) == (
        f"{name} is {folder / 'docs/made'}, inside corpus 'docs', so a build would read what it "
        "writes; name a folder outside, or a revision of the corpus"
    )
    at_a_commit = text.replace('path = "docs"', 'path = "docs"\nrevision = "HEAD"')
    assert load_config(written(folder, at_a_commit)).corpus[0].revision == "HEAD"


def test_a_missing_file_says_how_to_get_an_example(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"

    assert refused(path) == (
        f"no such file; write a commented example with: freshstack init {path}"
    )


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    assert refused(tmp_path) == "a folder, and the TOML file of a build is wanted"


@pytest.mark.parametrize("data", [b"name = ", b'name = "a"\nname = "b"', b"x = " + b"[" * 100_000])
def test_what_is_no_toml_is_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "build.toml"
    path.write_bytes(data)

    assert refused(path).startswith("not valid TOML: ")


def test_dates_may_be_dates_of_toml(folder: Path) -> None:
    text = LEAST.replace(
        "[[corpus]]", "since = 2023-01-31\nuntil = 2024-01-31T10:00:00Z\n[[corpus]]"
    )

    queries = load_config(written(folder, text)).queries

    assert (queries.since, queries.until) == ("2023-01-31", "2024-01-31T10:00:00+00:00")


def test_a_secret_is_in_no_error_and_no_text_of_the_configuration(folder: Path) -> None:
    with_key = f'{LEAST}[model]\napi_key = "{SECRET}"\n'

    config = load_config(written(folder, with_key))

    assert config.model.api_key == SecretStr(SECRET)
    for text in (repr(config), str(config), config.model_dump_json(), repr(config.model)):
        assert SECRET not in text
    assert SECRET not in refused(written(folder, f"{with_key}temperature = 9\napikey = '{SECRET}'"))
    said = refused(written(folder, f"{LEAST}[model]\napi_key = 12345678"))
    assert said == "model.api_key is a value that is not shown: input should be a valid string"
    assert SECRET not in refused(written(folder, f"{LEAST}[model]\napi_key = ['{SECRET}']"))
    assert SECRET not in refused(written(folder, f"{LEAST}[model.api_key]\nvalue = '{SECRET}'"))


def test_every_section_refuses_unknown_keys_and_is_frozen() -> None:
    def sections(model: type[BaseModel]) -> list[type[BaseModel]]:
        found = [model]
        for field in model.model_fields.values():
            types: list[Any] = [field.annotation, *getattr(field.annotation, "__args__", ())]
            for each in types:
                if isinstance(each, type) and issubclass(each, BaseModel):
                    found += sections(each)
        return found

    found = sections(BuildConfig)

    assert ModelConfig in found
    for section in found:
        assert section.model_config.get("extra") == "forbid", section
        assert section.model_config.get("frozen"), section


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("", "name one of path, url and package, not none"),
        ('path = "docs"\nurl = "https://example.org/r.git"', "name one of path, url and package"),
        ('package = "numpy"\nrevision = "v1"', "a package has no revision"),
    ],
)
def test_a_corpus_is_in_one_place(folder: Path, place: str, said: str) -> None:
    assert said in refused(written(folder, LEAST.replace('path = "docs"', place)))
