"""What a command may write over."""

from pathlib import Path

import pytest

from freshstack_dspy.cli.outputs import (
    check_around,
    check_collection,
    check_inputs,
    check_other_file,
    write_whole,
)
from freshstack_dspy.errors import ConfigError


@pytest.mark.parametrize("kind", ["itself", "hard", "symbolic", "inside"])
def test_no_name_of_an_input_is_written_to(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    given = folder / "a.run"
    given.write_text("x")
    out = given if kind in {"itself", "inside"} else tmp_path / "out"
    if kind == "hard":
        out.hardlink_to(given)
    if kind == "symbolic":
        out.symlink_to(given)

    with pytest.raises(ConfigError, match="is read by this command, and would be lost"):
        check_inputs(out, None, tmp_path / "absent", folder if kind == "inside" else given)
    check_inputs(out, tmp_path / "absent")


def test_a_loop_of_links_is_no_traceback(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    other = tmp_path / "other"
    other.write_text("x")

    check_inputs(loop, other)
    check_inputs(other, loop)
    check_collection(loop, other)
    check_around(loop, other)
    with pytest.raises(ConfigError, match="Too many levels of symbolic links"):
        check_other_file(loop, "a,b")


def test_only_a_file_that_begins_as_ours_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "values.csv"
    check_other_file(out, "a,b")
    check_other_file(None, "a,b")
    for text in ("", "a,b,c\n1,2,3\n"):
        out.write_text(text)
        check_other_file(out, "a,b")
    for data in (b"a", b"a,c\n", b"\xff\xfe", "\N{LATIN SMALL LETTER E WITH ACUTE}".encode()):
        out.write_bytes(data)
        with pytest.raises(ConfigError, match="does not begin with a,b, and would be lost"):
            check_other_file(out, "a,b")


def test_what_was_there_stays_where_nothing_can_be_written(tmp_path: Path) -> None:
    out = tmp_path / "values.csv"
    out.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(out, "new \udcff")

    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        write_whole(tmp_path / "absent" / "x.csv", "new")
