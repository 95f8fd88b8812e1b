"""What Python users type first: names and folders as text, and mistakes in one line."""

import json
import pickle
from pathlib import Path
from typing import Any

import dspy
import pytest

import freshstack_dspy as fs
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.client import RecordedLM

QUERY = fs.Query(query_id="1", title="How do I undo a commit?", body="")
NAME = "extractive/baseline"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_name_connects_and_its_replies_are_where_a_build_has_them() -> None:
    with dspy.context(lm=fs.connect(NAME)):
        made = fs.QuestionDecomposer()(query=QUERY).expansion

    with dspy.context(lm=fs.connect(NAME, mode="replay", store=".freshstack/cache")):
        assert fs.QuestionDecomposer()(query=QUERY).expansion == made


def test_a_program_with_a_connected_model_is_saved_and_loaded() -> None:
    """Without its key and the password of its address."""
    program, loaded = fs.QuestionDecomposer(), fs.QuestionDecomposer()
    address = "http://me:pass-word@127.0.0.1:8000/v1/"
    secret = fs.ModelConfig(name="openai/x", api_key="sk-secret", api_base=address)
    program.set_lm(fs.connect(secret, store="replies"))
    program.save("secret.json")
    program.set_lm(fs.connect(fs.ModelConfig(name=NAME, api_key="sk-secret"), store="replies"))
    made = program(query=QUERY).expansion
    program.save("program.json")
    loaded.load("program.json", allow_unsafe_lm_state=True)

    saved = Path("program.json").read_text() + Path("secret.json").read_text()
    assert "sk-secret" not in saved
    assert "pass-word" not in saved
    assert isinstance(loaded.predict.lm, RecordedLM)
    loaded.set_lm(fs.connect(NAME, mode="replay", store="replies"))
    assert loaded(query=QUERY).expansion == made


def test_judgments_of_a_collection_are_pickled() -> None:
    collection = fs.Collection.of(
        queries=[QUERY],
        nuggets=[{"nugget_id": "1_0", "query_id": "1", "text": "reset"}],
        judgments=[{"nugget_id": "1_0", "chunk_id": "a", "label": 1}],
        chunks=[{"id": "a", "text": "git reset"}],
    )
    qrels = collection.qrels()
    again = pickle.loads(pickle.dumps(qrels))

    assert again == qrels
    assert fs.evaluate(again, {"1": {"a": 1.0}}) == fs.evaluate(qrels, {"1": {"a": 1.0}})


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (lambda: fs.SupportJudge("bogus"), "no scale 'bogus'; allowed: binary"),  # type: ignore[arg-type]
        (lambda: fs.Nuggetizer()(query="text"), r"the query is 'text'; give a Query"),  # type: ignore[call-overload]
        (lambda: fs.build({"name": "x"}), "dict; give a BuildConfig"),  # type: ignore[arg-type]
        (lambda: fs.connect(NAME, mode="online"), "allowed: live, replay"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_is_one_line(typed: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as error:
        typed()

    assert "\n" not in str(error.value)


def test_a_program_with_another_model_in_it_is_taken_by_a_build() -> None:
    program = fs.Nuggetizer()
    program.set_lm(dspy.LM("openai/some", api_key="sk-secret", api_base="http://evil"))
    program.save("nuggetizer.json")
    state = json.loads(Path("nuggetizer.json").read_text())

    from freshstack_dspy.programs.saved import load_program

    assert state["predict"]["lm"]["model"] == "openai/some"
    assert load_program(fs.Nuggetizer(), Path("nuggetizer.json")).predict.lm is None
