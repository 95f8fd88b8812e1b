"""Reading an export without stopping at what is wrong with it."""

import csv
import re
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.collection.imports.lines import read_lines
from freshstack_dspy.collection.imports.rows import Row, read_rows, shown
from freshstack_dspy.collection.validation.findings import Findings
from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.json_objects import json_object
from freshstack_dspy.sources.questions.lines import decoded

_GRADE = re.compile(r"-?[0-9]{1,9}")


class Line(NamedTuple):
    """The fields of a line of text."""

    place: str
    fields: list[str]


class ExportReading:
    """Reads the files of an export, and takes note of what is wrong with them."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        """Prepare.

        Args:
            folder: Of the export.
            findings: Takes what is found.
        """
        self.folder = folder
        self.findings = findings
        self._dangling: dict[tuple[str, str, str], list[str]] = {}

    def rows(self, name: str) -> Iterator[Row]:
        """Give the rows of a file of JSON Lines, or of a folder of Parquet; those that are none are faults."""
        path = self.folder / name
        if not path.exists():
            self.findings.fault(name, "is missing")
            return
        if path.is_dir():
            try:
                for row in read_rows(path):
                    yield row._replace(file=self._name(row.file))
            except SourceError as error:
                self.findings.fault(name, str(error).removeprefix(f"{path}: "))
            return
        for place, text in self._texts(name):
            if not text.strip():
                continue
            try:
                values = json_object(text, place)
            except SourceError as error:
                self.findings.fault(place, str(error).removeprefix(f"{place}: "))
                continue
            yield Row(name, int(place.rpartition(":")[2]), values)

    def table(self, name: str, columns: int, *, header: bool = False) -> Iterator[Line]:
        """Give the lines of a table with tabs, as BEIR's loader takes them apart."""
        for number, (place, text) in enumerate(self._texts(name), start=1):
            if header and number == 1:
                # BEIR's loader passes over the first line, whatever it is.
                if _GRADE.fullmatch(text.rpartition("\t")[2]):
                    self.findings.fault(place, "a judgment where the names of the columns belong")
                continue
            try:
                fields = next(csv.reader([text], delimiter="\t", strict=True), [])
            except csv.Error as error:
                self.findings.fault(place, f"not a line of a table: {error}")
                continue
            if self._counted(place, fields, columns):
                yield Line(place, fields)

    def words(self, name: str, columns: int) -> Iterator[Line]:
        """Give the lines of a file whose fields are parted by white space."""
        for place, text in self._texts(name):
            if self._counted(place, fields := text.split(), columns):
                yield Line(place, fields)

    def take_ids(self, kind: str, rows: Iterable[Row], id_name: str, text_name: str) -> set[str]:
        """Take the ids of rows that each have one and a text.

        An id that stands twice is a fault; a text that is empty a warning.
        """
        seen: dict[str, str] = {}
        empty, file = [], ""
        for row in rows:
            file = row.file
            try:
                id_, text = row.id(id_name), row.text(text_name)
            except SourceError as error:
                self.findings.fault(row.place, str(error).removeprefix(f"{row.place}: "))
                continue
            if (first := seen.setdefault(id_, row.place)) != row.place:
                self.findings.fault(row.place, f"{kind} {shown(id_)} stands at {first} already")
            if not text.strip():
                empty.append(id_)
        self.findings.warn_of(file, f"{kind} texts are empty", empty)
        self.findings.counts[kind] = len(seen)
        return set(seen)

    def lead(self, place: str, kind: str, id_: str, known: Ids[str]) -> bool:
        """Note an id that leads nowhere; tell whether it leads somewhere."""
        if id_ in known:
            return True
        file, _, number = place.rpartition(":")
        self._dangling.setdefault((file, kind, id_), []).append(number)
        return False

    def grade(self, line: Line) -> int | None:
        """Give the last field of a line as a whole number; a fault where it is none."""
        text = line.fields[-1]
        if _GRADE.fullmatch(text):
            return int(text)
        self.findings.fault(line.place, f"the grade is {shown(text)}; allowed: a whole number")
        return None

    def once(self, place: str, what: tuple[str, ...], seen: dict[tuple[str, ...], str]) -> None:
        """Note what stands twice."""
        if (first := seen.setdefault(what, place)) != place:
            named = ", ".join(map(shown, what))
            self.findings.fault(place, f"{named} stand at {first} already")

    def unjudged(self, queries: Ids[str], judged: Ids[str]) -> None:
        """Warn of queries that no line of qrels names."""
        left = (query_id for query_id in queries if query_id not in judged)
        self.findings.warn_of("qrels", "queries have no qrels", left)

    def finish(self) -> None:
        """Say what leads nowhere: one fault for each id."""
        for (file, kind, id_), numbers in self._dangling.items():
            more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
            self.findings.fault(
                f"{file}:{numbers[0]}", f"names {kind} {shown(id_)}{more}, and there is none such"
            )

    def _texts(self, name: str) -> Iterator[tuple[str, str]]:
        path = self.folder / name
        if not path.is_file():
            self.findings.fault(name, "is missing")
            return
        try:
            for number, line in read_lines(path):
                place = f"{name}:{number}"
                try:
                    text = decoded(line, place)
                except SourceError as error:
                    self.findings.fault(place, str(error).removeprefix(f"{place}: "))
                    continue
                yield place, text
        except SourceError as error:
            self.findings.fault(name, str(error).removeprefix(f"{path}: "))

    def _counted(self, place: str, fields: list[str], columns: int) -> bool:
        if len(fields) != columns or not all(fields):
            self.findings.fault(place, f"has {len(fields)} fields; a line has {columns}")
            return False
        return True

    def _name(self, file: str) -> str:
        path = Path(file)
        inside = path.is_relative_to(self.folder)
        return path.relative_to(self.folder).as_posix() if inside else file
