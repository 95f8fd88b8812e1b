"""The members of a 7z archive, unpacked as a stream: nothing is written, memory stays bounded.

py7zr pushes what it unpacks. A thread of its own lets a reader pull it instead, and unpacks while
the reader works. The names in an archive are compared and shown, and never become paths.
"""

import lzma
import re
import struct
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from freshstack_dspy.errors import SourceError

if TYPE_CHECKING:
    from py7zr import SevenZipFile

MAGIC = b"7z\xbc\xaf\x27\x1c"
_PLAIN = re.compile(r"(\w[\w. -]*/)*\w[\w. -]*")
_BLOCK = 1 << 20
_BLOCKS_AHEAD = 8
_SECONDS_BETWEEN_LOOKS = 0.2
_METHODS = frozenset(["BCJ", "BZip2", "COPY", "LZMA", "LZMA2"])
"""Those that are unpacked in pieces of bounded size; PPMd crashes on damaged data."""
_LARGEST_DICTIONARY = 1 << 30
_LZMA, _LZMA2 = b"\x03\x01\x01", b"\x21"


class Block(NamedTuple):
    """Some bytes of a member; none at all once it ended and its checksum held."""

    member: str
    data: bytes


def is_seven_zip(path: Path) -> bool:
    """Say whether a file begins as 7z archives do.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def member_names(path: Path) -> list[str]:
    """Name the files in an archive, in its order; folders and links are none.

    Raises:
        SourceError: The archive is damaged, encrypted, or packed in a way that is not read.
    """
    with _opened(path) as (archive, _), _faults_of(path):
        return [member.filename for member in archive.list() if member.is_file]


def unpack(
    path: Path, names: Collection[str], report: Callable[[int], None]
) -> Generator[Block, None, None]:
    """Unpack members, in the order of the archive, a block at a time.

    What stands before them in the same solid block is unpacked too, and passed over. Close what
    this gives to end the thread that unpacks.

    Args:
        path: The archive.
        names: Which members.
        report: Is told now and then how many bytes of the archive were read.

    Raises:
        SourceError: The archive is damaged, names a member twice, or gives it a name that is no
            plain path, as one that leads out of a folder.
    """
    astray = sorted(name for name in names if not _PLAIN.fullmatch(name))
    if astray:
        raise SourceError(f"{path}: holds {astray[0]!r}; allowed: plain names, as site/Posts.xml")
    with _opened(path) as (archive, file):
        counts = Counter(member.filename for member in archive.list())
        twice = sorted(name for name in names if counts[name] > 1)
        if twice:
            raise SourceError(f"{path}: holds {twice[0]!r} more than once; pack it again")
        blocks = _Blocks(archive, names)
        try:
            while (block := blocks.next(lambda: report(file.tell()))) is not None:
                yield block
        finally:
            blocks.stop()
        with _faults_of(path):
            blocks.raise_fault()


class _StoppedError(Exception):
    """The reader wants no more."""


class _Blocks:
    """A thread that unpacks, a few blocks ahead of its reader."""

    def __init__(self, archive: "SevenZipFile", names: Collection[str]) -> None:
        self._archive = archive
        self._names = names
        self._queue: Queue[Block | None] = Queue(_BLOCKS_AHEAD)
        self._stopped = Event()
        self._fault: BaseException | None = None
        self._thread = Thread(target=self._unpack, name="7z", daemon=True)
        self._thread.start()

    def next(self, waiting: Callable[[], None]) -> Block | None:
        """Wait for a block; None when there are no more. `waiting` is called meanwhile."""
        while True:
            waiting()
            try:
                return self._queue.get(timeout=_SECONDS_BETWEEN_LOOKS)
            except Empty:
                continue

    def stop(self) -> None:
        """End the thread, wherever it is."""
        self._stopped.set()
        self._thread.join()

    def raise_fault(self) -> None:
        """Raise what ended the thread, if it was a fault."""
        if self._fault is not None and not isinstance(self._fault, _StoppedError):
            raise self._fault

    def put(self, block: Block | None) -> None:
        """Hand a block over, when there is room."""
        while not self._stopped.is_set():
            try:
                return self._queue.put(block, timeout=_SECONDS_BETWEEN_LOOKS)
            except Full:
                continue
        raise _StoppedError

    def _unpack(self) -> None:
        try:
            self._archive.extract(targets=list(self._names), factory=_writers(self.put))
        except BaseException as fault:  # noqa: BLE001 - raised again in the reader's thread
            self._fault = fault
        try:
            self.put(None)
        except _StoppedError:
            return


def _writers(put: Callable[[Block], None]) -> Any:
    """Make what py7zr writes members to."""
    from py7zr import Py7zIO, WriterFactory

    class Writer(Py7zIO):  # type: ignore[misc]  # untyped for mypy, as all of py7zr
        def __init__(self, member: str) -> None:
            self._member = member

        def write(self, s: bytes | bytearray) -> int:
            for start in range(0, len(s), _BLOCK):
                put(Block(self._member, bytes(s[start : start + _BLOCK])))
            return len(s)

        def close(self) -> None:
            put(Block(self._member, b""))

        def read(self, size: int | None = None) -> bytes:
            return b""

        def seek(self, offset: int, whence: int = 0) -> int:
            return 0

        def flush(self) -> None:
            return

        def size(self) -> int:
            return 0

    class Writers(WriterFactory):  # type: ignore[misc]
        def create(self, filename: str) -> Writer:
            return Writer(filename)

    return Writers()


@contextmanager
def _opened(path: Path) -> Iterator[tuple["SevenZipFile", IO[bytes]]]:
    """Open an archive and check that reading it is safe.

    py7zr is given the open file: handed a path, it would unpack with several threads at once.
    """
    from py7zr import SevenZipFile

    try:
        file = path.open("rb")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    with file:
        with _faults_of(path):
            archive = SevenZipFile(file)
            _check(archive, path)
        yield archive, file


def _check(archive: "SevenZipFile", path: Path) -> None:
    if archive.needs_password():
        raise _encrypted(path)
    unknown = sorted(set(archive.archiveinfo().method_names) - _METHODS)
    if unknown:
        raise SourceError(
            f"{path}: packed with {', '.join(unknown)}; allowed: {', '.join(sorted(_METHODS))}; "
            f"unpack it with: 7z x {path.name}"
        )
    streams = archive.header.main_streams
    for folder in streams.unpackinfo.folders if streams and streams.unpackinfo else ():
        for coder in folder.coders:
            size = _dictionary_size(coder["method"], coder["properties"] or b"")
            if size > _LARGEST_DICTIONARY:
                raise SourceError(
                    f"{path}: unpacking it takes {size / (1 << 30):.1f} GiB of memory, more than "
                    f"{_LARGEST_DICTIONARY >> 30}; unpack it with: 7z x {path.name}"
                )


def _dictionary_size(method: bytes, properties: bytes) -> int:
    """Read how much memory a method takes, in bytes; 0 where it takes little.

    Source: 7zFormat.txt and Methods.txt of the LZMA SDK.
    """
    if method == _LZMA:
        return int(struct.unpack_from("<I", properties, 1)[0])
    if method == _LZMA2:
        return (2 | properties[0] & 1) << (properties[0] // 2 + 11)
    return 0


def _encrypted(path: Path) -> SourceError:
    return SourceError(
        f"{path}: encrypted; archives with a password are not read, "
        f"so unpack it with: 7z x {path.name}"
    )


@contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    """Say in one line what py7zr met; of hostile headers it raises whatever comes up."""
    from py7zr import exceptions

    try:
        yield
    except SourceError:
        raise
    except exceptions.PasswordRequired:
        raise _encrypted(path) from None
    except exceptions.UnsupportedCompressionMethodError as error:
        raise SourceError(
            f"{path}: packed with a method that is not read ({error.message}); "
            f"unpack it with: 7z x {path.name}"
        ) from None
    except (
        exceptions.ArchiveError,
        exceptions.AbsolutePathError,
        lzma.LZMAError,
        struct.error,
        ArithmeticError,
        AssertionError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        what = str(error) or type(error).__name__
        if isinstance(error, exceptions.CrcError):
            what = "a checksum does not hold"
        raise SourceError(
            f"{path}: a damaged 7z archive: {' '.join(what.split())[:200]}; download it again"
        ) from None
