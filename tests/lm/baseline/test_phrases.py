"""Key phrases, names of code and error messages are found as they are written."""

from freshstack_dspy.lm.baseline.phrases import faults, key_phrases, names


def test_key_phrases_are_runs_of_uncommon_words_outside_code() -> None:
    text = "We would like to use a vector database for the search. The vector database is slow.\n\n```\nskipped_code()\n```"

    found = key_phrases(text, 2)

    assert found[0] == "vector database"
    assert not any("skipped" in phrase for phrase in found)


def test_names_are_dotted_mixed_or_called_and_come_by_frequency() -> None:
    text = "e.g. `np.zeros` and readFile(), readFile, https://example.com/a.b and plain words"

    assert names(text, 5) == ["readFile", "np.zeros"]


def test_faults_are_quoted_once_without_their_quotes() -> None:
    text = "It says `KeyError: 'a'`. Again KeyError: 'a'.\nerror: no such file"

    assert faults(text, 5) == ["KeyError: 'a'", "error: no such file"]
