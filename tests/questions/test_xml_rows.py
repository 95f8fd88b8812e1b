"""Dumps that are damaged or made to do harm."""

import tracemalloc
from pathlib import Path

import pytest

from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.stackexchange import read_rows
from tests.questions.dump import question, write_dump

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'
LAUGHS = "\n".join(f'<!ENTITY lol{level} "{f"&lol{level - 1};" * 10}">' for level in range(1, 10))


def read(path: Path, text: str | bytes) -> list[dict[str, str]]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_rows(path, "posts"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "Posts.xml"


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE posts [<!ENTITY lol0 "lol">{LAUGHS}]>',
        '<!DOCTYPE posts [<!ENTITY lol9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE posts SYSTEM "http://127.0.0.1:1/evil.dtd">',
        '<!DOCTYPE posts [<!ENTITY % lol9 SYSTEM "file:///etc/passwd"> %lol9;]>',
        '<!DOCTYPE posts [<!ATTLIST row PostTypeId CDATA "1">]>',
        "<!DOCTYPE posts>",
    ],
    ids=["billion laughs", "external entity", "external DTD", "parameter", "defaults", "empty"],
)
def test_a_document_type_is_refused_in_one_line(path: Path, doctype: str) -> None:
    with pytest.raises(SourceError) as error:
        read(path, f'{HEAD}{doctype}<posts><row Id="1" Body="&lol9;"/></posts>')

    message = str(error.value)
    assert message.startswith(f"{path}: declares a document type (line ")
    assert "\n" not in message
    assert "root:" not in message


def test_an_entity_that_nobody_declared_is_an_error(path: Path) -> None:
    with pytest.raises(SourceError, match=r"Posts.xml: not well-formed XML at line 2, .*entity"):
        read(path, f'{HEAD}<posts><row Id="1" Body="&nbsp;"/></posts>')


@pytest.mark.parametrize("bytes_missing", [1, 8, 9, 30, 200])
def test_a_file_that_is_cut_short_is_an_error_with_the_place(
    path: Path, bytes_missing: int
) -> None:
    write_dump(path, question(1), question(2), question(3))
    whole = path.read_bytes()

    with pytest.raises(SourceError, match=r"not well-formed XML at line \d, .*cut short\?"):
        read(path, whole[:-bytes_missing])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not well-formed XML at line 1, column 1, byte 0: no element found"),
        (b"<posts><row Id='1' Id='2'/></posts>", "duplicate attribute"),
        (b"<posts><row Body='\xff'/></posts>", "not well-formed"),
        (b"<posts><row Body='\x00'/></posts>", "not well-formed"),
        (b"<posts><row Body='&#0;'/></posts>", "invalid character number"),
        (
            b"<users><row Id='1'/></users>",
            "its root is <users>, not <posts>; give the dump's Posts",
        ),
        (b"PK\x03\x04", "not well-formed"),
    ],
)
def test_what_is_no_dump_is_named(path: Path, content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=r"Posts\.xml: ") as error:
        read(path, content)

    assert message in str(error.value)


def test_only_rows_right_below_the_root_count(path: Path) -> None:
    rows = read(path, "<posts><row Id='1'><row Id='2'/></row><x><row Id='3'/></x></posts>")

    assert rows == [{"Id": "1"}]


def test_characters_are_decoded_once(path: Path) -> None:
    [row] = read(path, "<posts><row Body='&amp;lt;p&gt; &#xA; &#x1F600; é'/></posts>")

    assert row == {"Body": "&lt;p> \n \U0001f600 é"}


def test_memory_does_not_grow_with_the_file(path: Path) -> None:
    write_dump(path, *(question(number, Body="x" * 10_000) for number in range(3_000)))
    tracemalloc.start()
    count = sum(1 for _ in read_rows(path, "posts"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert count == 3_000
    assert path.stat().st_size > 30_000_000
    assert peak < 8_000_000


def test_an_endless_row_is_refused_before_it_fills_the_memory(path: Path) -> None:
    with pytest.raises(SourceError, match="no row ends within 8 MiB after line 1"):
        read(path, b"<posts><row Body='" + b"x" * 12_000_000 + b"'/></posts>")


@pytest.mark.parametrize("encoding", ["nonsense", "shift_jis", "idna", "hex", "punycode"])
def test_an_encoding_that_is_not_read_is_an_error_in_one_line(path: Path, encoding: str) -> None:
    with pytest.raises(SourceError) as error:
        read(path, f'<?xml version="1.0" encoding="{encoding}"?><posts><row Id="1"/></posts>')

    assert str(error.value) == (
        f"{path}: declares an encoding that is not read; a dump is in UTF-8"
    )
