"""The configurations of FreshStack's topics, which `freshstack init --topic` writes."""

import re
from pathlib import Path

import pytest

from freshstack_dspy import cli, load_config
from freshstack_dspy.errors import ConfigError

TOPICS = Path(cli.__file__).with_name("topics")
TABLE_2 = {
    "langchain": "langchain-ai/langchain langchain-ai/langchainjs chroma-core/chroma "
    "langchain-ai/langchain-nextjs-template openai/openai-cookbook openai/openai-python "
    "run-llama/llama_index Azure-Samples/openai Azure-Samples/azure-search-openai-demo "
    "huggingface/transformers",
    "yolo": "ultralytics/ultralytics ultralytics/docs pytorch/pytorch WongKinYiu/yolov7 "
    "opencv/opencv",
    "laravel": "laravel/framework laravel/laravel laravel/laravel.com laravel/docs laravel/breeze "
    "livewire/livewire php/php-src php/doc-en php/web-php",
    "angular": "angular/angular angular/components angular/angular-cli microsoft/TypeScript",
    "godot": "godotengine/godot godotengine/godot-demo-projects godotengine/godot-docs "
    "godotengine/godot-website GDQuest/learn-gdscript dotnet/csharplang",
}


@pytest.mark.parametrize("topic", TABLE_2)
def test_a_topic_lacks_the_dump_alone_and_has_the_papers_repositories_and_settings(
    tmp_path: Path, topic: str
) -> None:
    text = (TOPICS / f"{topic}.toml").read_text(encoding="utf-8")
    path = tmp_path / "topic.toml"
    path.write_text(re.sub(r"^# (?=\w+ = |\[)", "", text, flags=re.MULTILINE))
    with pytest.raises(
        ConfigError, match=r"^[^;]*: queries.path names [^;]*stackoverflow.com, and"
    ):
        load_config(path)
    (tmp_path / "stackoverflow.com").mkdir()

    config = load_config(path)

    repositories = {f"https://github.com/{name}" for name in TABLE_2[topic].split()}
    assert {corpus.url for corpus in config.corpus} == repositories
    assert (config.name, config.chunking.max_tokens, config.judge.scale) == (topic, 4096, "binary")
    assert (config.index.k1, config.index.b) == (0.9, 0.4)
    assert {"bm25", *(each.name for each in config.embedder)} == {"bm25", "bge", "e5", "voyage"}


def test_topics_differ_in_questions_and_documents_alone() -> None:
    rest = {path.read_text().partition("\n[chunking]")[2] for path in TOPICS.iterdir()}

    assert {path.stem for path in TOPICS.iterdir()} == {*TABLE_2}
    assert len(rest) == 1
