"""The tables of a Stack Exchange dump, wherever they are: XML files, 7z archives, or both."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, Self

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.lines import ReadProgress
from freshstack_dspy.sources.questions.seven_zip import is_seven_zip, member_names, unpack
from freshstack_dspy.sources.questions.xml_rows import Row, RowParser, read_rows

Table = Literal["Posts", "Users", "PostLinks"]


class Place(NamedTuple):
    """Where a table is: a file of XML, or a member of an archive."""

    path: Path
    member: str | None = None


class Dump:
    """The tables of one dump, to be read row by row."""

    def __init__(self, places: dict[Table, Place], progress: ReadProgress | None = None) -> None:
        self._places = places
        self._progress = progress or (lambda _done, _total: None)
        self._done = self._furthest = self._total = 0

    @classmethod
    def at(cls, path: Path, progress: ReadProgress | None = None) -> Self:
        """Find the tables of a dump.

        Args:
            path: `Posts.xml`, a 7z archive that holds it, or a folder with either. The other
                tables are looked for in the same archive, then beside it.
            progress: Is told how the reading goes on.

        Raises:
            SourceError: There is no Posts.xml, or there are several.
        """
        posts = _posts_file(path) if path.is_dir() else path
        if is_seven_zip(posts):
            inside = {table: _inside(posts, table) for table in _TABLES}
        else:
            inside = {"Posts": Place(posts)}
        found: dict[Table, Place] = {}
        for table in _TABLES:
            place = inside.get(table) or _beside(posts, table)
            if place is not None:
                found[table] = place
        if "Posts" not in found:
            raise SourceError(f"{posts}: holds no Posts.xml; name the dump's archive of posts")
        return cls(found, progress)

    def __contains__(self, table: Table) -> bool:
        return table in self._places

    def files(self, tables: Sequence[Table]) -> list[Path]:
        """Name the files that hold these tables, each once; tables that are missing have none."""
        places = [self._places[table] for table in tables if table in self._places]
        return list(dict.fromkeys(place.path for place in places))

    def rows(self, tables: Sequence[Table]) -> Iterator[tuple[Table, Row]]:
        """Read tables, each file once.

        Files come in the order of `tables`, members of an archive in the order of the archive.

        Raises:
            SourceError: A file is damaged or hostile.
        """
        files = self.files(tables)
        sizes = [path.stat().st_size for path in files]
        self._total += sum(sizes)
        for path, size in zip(files, sizes, strict=True):
            here: dict[Table, str | None] = {
                table: place.member
                for table, place in self._places.items()
                if table in tables and place.path == path
            }
            yield from _rows_of(path, here, self._report)
            self._done += size
            self._report(0)

    def _report(self, position: int) -> None:
        # An archive is not read from front to back.
        self._furthest = max(self._furthest, min(self._done + position, self._total))
        self._progress(self._furthest, self._total)


_TABLES: tuple[Table, ...] = ("Posts", "Users", "PostLinks")


def _rows_of(
    path: Path, members: dict[Table, str | None], report: Callable[[int], None]
) -> Iterator[tuple[Table, Row]]:
    """Read the tables that are in one file."""
    table_of: dict[str, Table] = {}
    parsers: dict[str, RowParser] = {}
    for table, member in members.items():
        if member is None:
            for row in read_rows(path, table.lower(), report):
                yield table, row
            return
        table_of[member] = table
        parsers[member] = RowParser(path, table.lower(), member)
    with closing(unpack(path, table_of, report)) as blocks:
        for block in blocks:
            parser = parsers[block.member]
            for row in parser.feed(block.data) if block.data else parser.end():
                yield table_of[block.member], row


def _inside(archive: Path, table: Table) -> Place | None:
    """Find a table in an archive."""
    wanted = f"{table}.xml".casefold()
    names = [
        name
        for name in member_names(archive)
        if PurePosixPath(name.replace("\\", "/")).name.casefold() == wanted
    ]
    if len(names) > 1:
        raise SourceError(
            f"{archive}: holds {len(names)} files {table}.xml, as {names[0]!r} and {names[1]!r}; "
            "give the archive of one site"
        )
    return Place(archive, names[0]) if names else None


def _beside(posts: Path, table: Table) -> Place | None:
    """Find a table in the folder of the posts: as XML, else as the archive of the same site."""
    if table == "Posts":
        return None
    loose = posts.with_name(f"{table}.xml")
    if loose.exists():
        return Place(loose)
    site = re.match(r"(.*-)?posts\.", posts.name, re.IGNORECASE)
    if site is None:
        return None
    names = {f"{site[1] or ''}{table}.7z"}
    found = sorted(path for path in posts.parent.glob("*.7z") if path.name in names)
    if not found and not site[1]:
        found = sorted(posts.parent.glob(f"*-{table}.7z"))
    if len(found) > 1:
        raise SourceError(
            f"{posts}: both {found[0].name} and {found[1].name} are beside it; "
            "keep the dumps of two sites in folders of their own"
        )
    return _inside(found[0], table) if found else None


def _posts_file(folder: Path) -> Path:
    """Find the posts in a folder: as XML, else as an archive of them, else as the only archive."""
    loose = folder / "Posts.xml"
    if loose.exists():
        return loose
    archives = sorted(folder.glob("*.7z"))
    named = [path for path in archives if path.stem.casefold().endswith("posts")]
    found = named or archives
    if len(found) != 1:
        what = f"{len(found)} archives that may hold it" if found else "no 7z archive"
        raise SourceError(
            f"{folder}: holds no Posts.xml and {what}; name the file with the posts itself"
        )
    return found[0]
