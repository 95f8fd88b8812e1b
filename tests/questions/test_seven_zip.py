"""7z archives: streamed whole, and every damaged or hostile one refused in one line."""

import random
import struct
import threading
import zlib
from pathlib import Path

import py7zr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.reading import read_queries
from freshstack_dspy.questions.stackexchange import is_seven_zip, member_names, unpack
from tests.questions.dump import answer, question, write_archive, write_dump

TEXT = random.Random(1).randbytes(1_100_000)
_NOTES = b"notes" * 1000


def unpacked(path: Path, *names: str) -> dict[str, bytes]:
    """What the named members hold, once each of them is known to be whole."""
    found: dict[str, bytes] = {}
    ended = []
    for block in unpack(path, names, lambda _: None):
        found[block.member] = found.get(block.member, b"") + block.data
        if not block.data:
            ended.append(block.member)
    assert ended == list(found)
    return found


@pytest.mark.parametrize("method", ["copy", "lzma", "lzma2", "bzip2"])
def test_members_come_byte_for_byte_and_in_the_order_of_the_archive(
    tmp_path: Path, method: str
) -> None:
    members: dict[str, Path | str | bytes] = {"a": TEXT, "b": _NOTES, "c": b"", "d": b"end"}
    path = write_archive(tmp_path / "a.7z", members, method=method)

    found = unpacked(path, "d", "a")

    assert found == {"a": TEXT, "d": b"end"}
    assert list(found) == ["a", "d"]
    assert member_names(path) == ["a", "b", "c", "d"]
    assert is_seven_zip(path)


def test_reading_is_reported_up_to_the_size_of_the_archive(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.7z", {"a": TEXT}, method="copy")
    told: list[int] = []

    for _ in unpack(path, ["a"], told.append):
        pass

    assert len(TEXT) <= max(told) <= path.stat().st_size


def test_a_reader_that_stops_early_leaves_no_thread_behind(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.7z", {"a": bytes(20_000_000)})
    blocks = unpack(path, ["a"], lambda _: None)

    first = next(blocks)
    blocks.close()

    assert len(first.data) == 1 << 20
    assert [each for each in threading.enumerate() if each.name == "7z"] == []


@pytest.mark.parametrize("method", ["ppmd", "zstd"])
def test_methods_that_could_crash_or_flood_us_are_refused(tmp_path: Path, method: str) -> None:
    path = write_archive(tmp_path / "a.7z", {"Posts.xml": "x"}, method=method)

    with pytest.raises(SourceError, match=r"packed with (PPMd|ZStandard); allowed: .*7z x a\.7z"):
        unpacked(path, "Posts.xml")


@pytest.mark.parametrize("hidden", [False, True])
def test_an_encrypted_archive_is_named_as_such(tmp_path: Path, hidden: bool) -> None:
    path = write_archive(
        tmp_path / "a.7z", {"Posts.xml": "x"}, password="secret", header_encryption=hidden
    )

    with pytest.raises(SourceError, match=r"a\.7z: encrypted; .*7z x a\.7z"):
        member_names(path)


def test_a_checksum_that_does_not_hold_is_an_error_after_the_bytes(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.7z", {"a": TEXT}, method="copy")
    data = bytearray(path.read_bytes())
    data[500_000] ^= 1
    path.write_bytes(data)

    with pytest.raises(SourceError, match="a damaged 7z archive: a checksum does not hold"):
        unpacked(path, "a")


def test_an_archive_that_needs_gigabytes_to_unpack_is_refused(tmp_path: Path) -> None:
    """Its dictionary is declared in one byte of the header."""
    path = tmp_path / "a.7z"
    with py7zr.SevenZipFile(path, "w", filters=[{"id": py7zr.FILTER_LZMA2, "preset": 0}]) as file:
        file.set_encoded_header_mode(False)
        file.writestr(b"x" * 1000, "Posts.xml")
    data = bytearray(path.read_bytes())
    data[data.index(b"\x21\x21\x01") + 3] = 40
    path.write_bytes(with_right_checksums(data))

    with pytest.raises(SourceError, match=r"unpacking it takes 4\.0 GiB of memory, more than 1;"):
        member_names(path)


def with_right_checksums(data: bytearray) -> bytearray:
    """Make a header that was tampered with look like one that was written so."""
    offset, size = struct.unpack("<QQ", data[12:28])
    header = data[32 + offset : 32 + offset + size]
    data[28:32] = struct.pack("<I", zlib.crc32(header))
    data[8:12] = struct.pack("<I", zlib.crc32(data[12:32]))
    return data


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("sound")
    return {
        method: write_archive(
            folder / f"{method}.7z", {"a": TEXT[:3000], "b": _NOTES}, method=method
        ).read_bytes()
        for method in ("copy", "lzma", "lzma2", "bzip2")
    }


@settings(max_examples=80)
@given(st.data())
def test_a_damaged_archive_is_whole_or_an_error_in_one_line(
    sound: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = bytearray(sound[data.draw(st.sampled_from(sorted(sound)))])
    kind = data.draw(st.sampled_from(["cut", "changed", "forged"]))
    if kind == "cut":
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]
    else:
        offset = struct.unpack("<Q", damaged[12:20])[0] + 32 if kind == "forged" else 0
        place = data.draw(st.integers(offset, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
        damaged = with_right_checksums(damaged) if kind == "forged" else damaged
    path = tmp_path_factory.mktemp("damaged") / "x.7z"
    path.write_bytes(damaged)

    message = ""
    try:
        found = unpacked(path, "a")
    except SourceError as error:
        found, message = {}, str(error)

    assert found in ({"a": TEXT[:3000]}, {})
    assert "\n" not in message
    assert not message or message.startswith(f"{path}: ")


def posts(folder: Path) -> bytes:
    return write_dump(folder / "unpacked.xml", question(1, 2), answer(2, 1)).read_bytes()


def read(path: Path) -> int:
    return len(read_queries(QueriesConfig(source="stackexchange", path=path)).queries)


@pytest.mark.parametrize(
    "name", ["../Posts.xml", "/tmp/Posts.xml", "a/../../Posts.xml", "C:\\Posts.xml"]
)
def test_a_name_that_leads_elsewhere_is_never_written(tmp_path: Path, name: str) -> None:
    place = tmp_path / "deep" / "er"
    place.mkdir(parents=True)
    path = write_archive(place / "a.7z", {name: posts(tmp_path)})
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(SourceError, match=r"holds '.*'; allowed: plain names, as site/Posts\.xml"):
        read(path)

    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_inside_the_archive_is_no_hindrance(tmp_path: Path) -> None:
    assert read(write_archive(tmp_path / "a.7z", {"site/Posts.xml": posts(tmp_path)})) == 1


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a/Posts.xml", "b/posts.xml"], "holds 2 files Posts.xml, as 'a/Posts.xml' and"),
        (["Posts.xml", "Posts.xml"], "holds 2 files Posts.xml"),
        (["Comments.xml"], "holds no Posts.xml; name the dump's archive of posts"),
    ],
)
def test_an_archive_holds_one_table_of_posts(
    tmp_path: Path, names: list[str], message: str
) -> None:
    path = tmp_path / "a.7z"
    with py7zr.SevenZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(posts(tmp_path), name)

    with pytest.raises(SourceError, match=message):
        read(path)


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "secret"
    target.write_bytes(posts(tmp_path))
    link = tmp_path / "Posts.xml"
    link.symlink_to(target)
    with py7zr.SevenZipFile(tmp_path / "a.7z", "w") as archive:
        archive.write(link, "Posts.xml")

    with pytest.raises(SourceError, match=r"holds no Posts\.xml"):
        read(tmp_path / "a.7z")


def test_a_bomb_ends_with_its_first_megabytes(tmp_path: Path) -> None:
    """30 MB of one row in 5 kB; the thread that unpacks ends too."""
    bomb = b"<posts><row Body='" + bytes([65]) * 30_000_000
    path = write_archive(tmp_path / "a.7z", {"Posts.xml": bomb})

    with pytest.raises(SourceError, match=r"a\.7z: Posts\.xml: no row ends within 8 MiB"):
        read(path)

    assert path.stat().st_size < 100_000
    assert [each for each in threading.enumerate() if each.name == "7z"] == []


@pytest.mark.parametrize(
    "content", [b"7z\xbc\xaf\x27\x1c", b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(24)]
)
def test_the_mere_beginning_of_an_archive_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.7z"
    path.write_bytes(content)

    with pytest.raises(SourceError, match=r"a\.7z: "):
        read(path)
