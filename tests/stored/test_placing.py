"""Where a retriever's result is in a file: by id, by offset, by its text, or nowhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Chunk
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.measures.spans import Hit, Place
from freshstack_dspy.records import SourceFile
from freshstack_dspy.stored.passages import Files, FileText

TEXT = "# Größe\n\nHow large it is.\r\n\r\nUse `len(a)`.\n\nHow large it is.\n" * 3 + "The end.\n"


def chunks_of(text: str, *, path: str = "docs/size.md", encoding: str = "utf-8") -> list[Chunk]:
    return chunk_file(SourceFile("lib", path, text.encode(encoding), encoding=encoding), 32)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@given(text=st.text(min_size=1).filter(str.strip), place=st.integers(0, 200))
def test_characters_and_bytes_lead_to_one_another(mark: str, text: str, place: int) -> None:
    data = (mark + text.replace("\ufeff", "")).encode()
    file = FileText(chunk_file(SourceFile("lib", "a.txt", data), 16))
    place = min(place, len(file.text))
    offset = file.byte_at(place)

    assert data[offset:].decode() == file.text[place:]
    assert file.character_at(offset) == place


FILES = Files([*chunks_of(TEXT), *chunks_of("Other.\n", path="src/size.md")])
DATA = TEXT.encode()


def placed(hit: Hit) -> str | None:
    place = FILES.find(hit)
    return None if place is None else DATA[place.start : place.end].decode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The end.", "The end."),
        ("it is.\nThe  end.", "it is.\nThe end."),
        ("How large it is.", None),  # six times in the file
        ("Not there.", None),
        ("  ", None),
    ],
)
def test_a_text_alone_is_placed_where_it_is_once(text: str, found: str | None) -> None:
    assert placed(Hit(1.0, path="docs/size.md", text=text, start=3)) == found


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("docs/size.md", None, ["docs/size.md"]),
        ("/home/ana/lib/docs/size.md", None, ["docs/size.md"]),
        ("lib\\docs\\size.md", None, ["docs/size.md"]),
        ("size.md", None, ["docs/size.md", "src/size.md"]),
        ("docs/size.md", "other", []),
        ("docs/sizes.md", None, []),
    ],
)
def test_a_path_is_a_file_by_its_end(path: str, source: str | None, expected: list[str]) -> None:
    assert sorted(path for _, path in FILES.named(path, source)) == expected


ROOT_AND_FOLDER = Files(
    [
        *chunks_of(TEXT, path="README.md"),
        *chunks_of(f"# More\n\n{TEXT}", path="docs/README.md"),
        *chunks_of("Only here.\n", path="lib/README.md"),
    ]
)


@pytest.mark.parametrize(
    ("source", "path", "text", "expected"),
    [
        *(
            (source, *case)
            for source in (None, "lib")
            for case in (
                ("README.md", None, "README.md"),
                ("docs/README.md", None, "docs/README.md"),
                ("lib/README.md", None, "lib/README.md"),
                ("README.md", "The end.", "README.md"),
            )
        ),
        (None, "README.md", "# More", "docs/README.md"),
    ],
)
def test_an_exact_path_is_that_file_though_its_name_occurs_in_a_folder_too(
    source: str | None, path: str, text: str | None, expected: str
) -> None:
    offsets = {} if text else {"start": 0, "end": 5, "unit": "bytes"}
    hit = Hit(1.0, source=source, path=path, text=text, **offsets)  # type: ignore[arg-type]

    place = ROOT_AND_FOLDER.find(hit)

    assert place is not None
    assert place.path == expected


def test_of_files_of_one_name_the_text_tells_which_it_is() -> None:
    """As it is in one of them; in another only its white space differs."""
    files = Files(
        [
            *chunks_of("one  two three", path="a/README.md"),
            *chunks_of("zero one two three", path="b/README.md"),
        ]
    )

    assert files.find(Hit(1.0, path="README.md", text="one two")) == Place(
        "lib", "b/README.md", 5, 12
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the  end.", None),  # another case
        ("zero one two three", Place("lib", "b.md", 0, 18)),
        ("ro one two\nth", Place("lib", "b.md", 2, 15)),  # cut words, and other white space
        ("wird", Place("lib", "c.md", 1, 5)),
        ("und Zeit", Place("lib", "d.md", 0, 10)),  # a whole chunk
        ("one two three", None),  # in two files
        ("four", None),
    ],
)
def test_a_text_without_a_path_is_placed_where_it_is_once(text: str, expected: Place) -> None:
    texts = {
        "a.md": "one two three The end.",
        "b.md": "zero one two three",
        "c.md": " wird so",
        "d.md": "und Zeit\n\n",
    }
    files = Files(chunk for path, of in texts.items() for chunk in chunks_of(of, path=path))

    assert files.find(Hit(1.0, text=text)) == expected
