"""The configuration: what it takes, and one line for what is wrong in it."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from freshstack_dspy import BuildConfig, ModelConfig, load_config
from freshstack_dspy.config import (
    NuggetsConfig,
    QueriesConfig,
)
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.records import OF_THE_QUESTION, TECHNIQUES

LEAST = """
name = "small"
out = "out"
[queries]
path = "questions.jsonl"
[[corpus]]
name = "docs"
path = "docs"
"""
SECRET = "sk-very-secret-1234"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the inputs of `LEAST`."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "questions.jsonl").write_text("{}")
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "build.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path) -> str:
    """What is said of a configuration after the name of its file, which comes first."""
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)

    assert message.startswith(f"{path}: ")
    assert message.isprintable(), "one line"

    return message.removeprefix(f"{path}: ")


def test_the_least_configuration_has_the_papers_defaults(folder: Path) -> None:
    config = load_config(written(folder, LEAST))

    assert config.model.name == "extractive/baseline"
    assert (config.pool.depth, config.pool.top_k, config.judge.batch) == (100, 20, 20)
    assert config.pool.techniques == TECHNIQUES


def test_every_path_is_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder / "docs")
    bundle, absolute, program = (folder / name for name in ("a.jsonl", "b.jsonl", "judge.json"))
    for path in (bundle, absolute, program):
        path.write_text("")
    written(
        folder,
        f'{LEAST}[cache]\nbundles = ["a.jsonl", "{absolute}"]\n'
        '[programs]\nsupport_judge = "~/docs/../judge.json"\n',
    )

    config = load_config("../build.toml")

    assert config.queries.path == folder / "questions.jsonl"
    assert config.corpus[0].path == folder / "docs"
    assert config.index.path == folder / ".freshstack/index"
    assert config.cache.bundles == (bundle, absolute)
    assert config.programs.named["support_judge"].state == program


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ('[pool]\ndepth = "deep"', "pool.depth is 'deep': input should be a valid integer"),
        ('[pool]\nretrievers = ["bm52"]', "['bm52']; there are: bm25, lsa, hybrid"),
        ("[pool]\ndepth = 5\ntop_k = 6", "pool: top_k (6) cannot be larger than depth (5)"),
        ("[pool]\ntopk = 3", "unknown key pool.topk; did you mean top_k? allowed here: depth, "),
        ('[[corpus]]\nname = "b"\npath = "docs"\nglob = "*"', "unknown key corpus[1].glob; "),
        ('[[corpus]]\nname = "b"', "corpus[1]: name one of path, url and package"),
        ('[[embedder]]\nname = "bm25"\nmodel = "openai/e"', "embedder[0]: name is 'bm25'"),
        ('[index]\npath = "s3://bucket/indexes"', 'bm25s needs a folder; write lexical = "lance"'),
        ('[index]\npath = "db://bucket"\nlexical = "lance"', "is no object store (db://)"),
        ('[index]\npath = "s3://me:pass@b/x"\nlexical = "lance"', "holds a name or password"),
        ('[index]\nlexical = "lance"', "pool.retrievers names ['lsa']; there are: bm25, hybrid"),
        ("[index]\nk1 = -0.1", "index.k1 is -0.1: input should be greater than or equal to 0"),
        ('[index]\nb = 0.4\nlexical = "lance"', "LanceDB takes neither"),
    ],
)
def test_a_fault_is_one_line_with_file_key_found_and_allowed(
    folder: Path, added: str, words: str
) -> None:
    line = refused(written(folder, LEAST + added))

    assert words in line
    assert "pass@" not in line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('[queries]\npath = "questions.jsonl"', "queries is missing"),
        ('path = "questions.jsonl"', "queries: path is missing"),
    ],
)
def test_a_missing_part_is_named(folder: Path, line: str, message: str) -> None:
    assert line in LEAST
    assert refused(written(folder, LEAST.replace(line, ""))) == message


def test_every_fault_is_said_at_once(folder: Path) -> None:
    text = LEAST.replace('"small"', '""') + "[judge]\nbatch = 0\nsize = 1\n[pool]\ndepth = 0"

    message = refused(written(folder, text))

    for fault in ("name is ''", "judge.batch is 0", "unknown key judge.size", "pool.depth is 0"):
        assert fault in message


def test_every_missing_input_is_named(folder: Path) -> None:
    text = (
        LEAST.replace('"questions.jsonl"', '"lost.jsonl"').replace('path = "docs"', 'path = "gone"')
        + '[cache]\nbundles = ["replies.jsonl"]\n[programs]\nnuggetizer = "n.json"\n'
        + '[[corpus]]\nname = "other"\npackage = "pysamm"'
    )

    faults, _, last = refused(written(folder, text)).rpartition("; ")[0].rpartition("; ")
    assert last == "corpus 'other': package is not installed"
    assert faults == "; ".join(
        f"{key} names {folder / name}, and there is no such file or folder"
        for key, name in [
            ("queries.path", "lost.jsonl"),
            ("corpus 'docs': path", "gone"),
            ("cache.bundles", "replies.jsonl"),
            ("programs.nuggetizer", "n.json"),
        ]
    )


@pytest.mark.parametrize("section", ["", "[cache]\n", "[index]\n"])
def test_a_build_may_not_write_into_what_it_reads(folder: Path, section: str) -> None:
    """The next build would read the last one's files, and be another."""
    at_once = LEAST.replace('"out"', '"docs/made"')
    text = f'{LEAST}{section}path = "docs/made"' if section else at_once

    assert "inside corpus 'docs', so a build would read what it writes" in refused(
        written(folder, text)
    )
    at_a_commit = text.replace('path = "docs"', 'path = "docs"\nrevision = "HEAD"')
    assert load_config(written(folder, at_a_commit)).corpus[0].revision == "HEAD"


def test_an_object_store_is_kept_as_it_is_named_and_changes_no_settings(folder: Path) -> None:
    bm25 = '[pool]\nretrievers = ["bm25"]\n'
    there = load_config(
        written(folder, f'{LEAST}{bm25}[index]\npath = "s3://bucket/indexes"\nlexical = "lance"')
    )

    assert there.index.path / there.name == f"s3://bucket/indexes/{there.name}"
    assert there.chunks_folder == load_config(written(folder, LEAST)).chunks_folder
    assert there.chunks_folder.is_relative_to(folder)
    here = load_config(written(folder, LEAST)).index
    assert here.model_dump(mode="json", exclude={"path"}) == {"dimensions": 256}


def test_a_secret_is_in_no_error_and_no_text_of_the_configuration(folder: Path) -> None:
    with_key = f'{LEAST}[model]\napi_key = "{SECRET}"\n'

    config = load_config(written(folder, with_key))

    assert config.model.api_key == SecretStr(SECRET)
    for text in (repr(config), str(config), config.model_dump_json(), repr(config.model)):
        assert SECRET not in text
    assert SECRET not in refused(written(folder, f"{with_key}temperature = 9\napikey = '{SECRET}'"))
    message = refused(written(folder, f"{LEAST}[model]\napi_key = 12345678"))
    assert message == "model.api_key is a value that is not shown: input should be a valid string"
    assert SECRET not in refused(written(folder, f"{LEAST}[model]\napi_key = ['{SECRET}']"))
    assert SECRET not in refused(written(folder, f"{LEAST}[model.api_key]\nvalue = '{SECRET}'"))


def test_every_section_refuses_unknown_keys_and_is_frozen() -> None:
    def sections(annotation: Any) -> list[type[BaseModel]]:
        found: list[type[BaseModel]] = []
        inside = list(getattr(annotation, "__args__", ()))
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found.append(annotation)
            inside += [field.annotation for field in annotation.model_fields.values()]
        for each in inside:
            found += sections(each)
        return found

    found = sections(BuildConfig)

    assert {ModelConfig, QueriesConfig} <= {*found}
    for section in found:
        assert section.model_config.get("extra") == "forbid", section
        assert section.model_config.get("frozen"), section


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('source = "synthetic"', "queries: count is missing"),
        (
            'source = "synthetic"\ncount = 1\nlimit = 3',
            "source synthetic has no key limit; allowed",
        ),
        ('source = "synthetic"\ncount = 1\nsources = ["doc"]', "queries.sources names ['doc']"),
        ('path = "questions.jsonl"\nseed = 4', "source jsonl has no key seed; allowed"),
        ('path = "questions.jsonl"\nlimti = 3', "unknown key queries.limti; did you mean limit?"),
        ('path = "questions.jsonl"\nsource = "json"', "none of the name 'json'; allowed: s"),
        ('path = "questions.jsonl"\nrows = []', "queries.rows: is for Python"),
    ],
)
def test_keys_of_another_source_are_named(folder: Path, keys: str, message: str) -> None:
    text = LEAST.replace('path = "questions.jsonl"', keys)

    assert message in refused(written(folder, text))


def test_a_manifest_has_the_keys_of_every_source(folder: Path) -> None:
    """So that those of different sources, and of earlier versions, are compared key by key."""
    jsonl = load_config(written(folder, LEAST)).queries
    made = QueriesConfig(source="synthetic", count=7)

    assert jsonl.model_dump().keys() == made.model_dump().keys()
    assert (jsonl.model_dump()["count"], made.model_dump()["count"]) == (None, 7)
    assert "path" not in made.model_dump(exclude={"path"})


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"recipe": "freshstack"}, ("support", TECHNIQUES, 10)),
        ({"recipe": "nuggets"}, ("support", OF_THE_QUESTION, 20)),
        (
            {"recipe": "nuggets", "pool": {"techniques": ["question"]}},
            ("support", ("question",), 20),
        ),
        (
            {"recipe": "nuggets", "nuggets": NuggetsConfig(limit=10)},
            ("support", OF_THE_QUESTION, 10),
        ),
        ({"recipe": "crux"}, ("graded_5", TECHNIQUES, 10)),
        ({"recipe": "crux", "judge": {"scale": "binary"}}, ("binary", TECHNIQUES, 10)),
    ],
)
def test_python_has_the_defaults_of_a_toml_file(
    tmp_path: Path, sections: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    needed = {"name": "c", "out": tmp_path, "queries": {"path": "q.jsonl"}}
    corpus = [{"name": "docs", "path": tmp_path}]

    config = BuildConfig.model_validate({**needed, "corpus": corpus, **sections})

    assert (config.judge.scale, config.pool.techniques, config.nuggets.limit) == expected
