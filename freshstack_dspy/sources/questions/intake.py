"""What becomes of a question that was read: kept, counted as rejected, or an error with its place."""

from collections import Counter

from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Query
from freshstack_dspy.sources.questions.selection import Selection, instant


class Intake:
    """Takes the questions of a file, one after the other."""

    def __init__(self, selection: Selection, rejected: Counter[str]) -> None:
        """Begin.

        Args:
            selection: The filters.
            rejected: Reason to count; added to.
        """
        self._selection = selection
        self._rejected = rejected
        self._first_place: dict[str, tuple[str, int]] = {}
        self.queries: list[Query] = []
        """Those that were kept, in the order in which they came."""

    def reject(self, reason: str) -> None:
        """Count a question that is not kept."""
        self._rejected[reason] += 1

    def take(self, query: Query, file: str, row: int) -> None:
        """Keep a question, or count it as rejected.

        Args:
            query: The question.
            file: Where it stands, for messages.
            row: At which line or row, from 1.

        Raises:
            SourceError: `file:row: …` for an id that was there already or holds white space, or a
                date that is none.
        """
        place = f"{file}:{row}"
        _check_id(query.query_id, place)
        first_file, first_row = self._first_place.setdefault(query.query_id, (file, row))
        if (first_file, first_row) != (file, row):
            where = "on line" if first_file == file else f"in {first_file}, line"
            raise SourceError(
                f"{place}: query_id {query.query_id!r} is already {where} {first_row}; "
                "each question needs an id of its own"
            )
        reason = self._reason_against(query, place)
        if reason:
            self.reject(reason)
        else:
            self.queries.append(query)

    def _reason_against(self, query: Query, place: str) -> str | None:
        try:
            asked = None if query.asked_at is None else instant(query.asked_at)
        except ValueError:
            raise SourceError(
                f"{place}: asked_at is {query.asked_at!r}; allowed: an ISO 8601 date and time, "
                "as 2023-01-31T12:00:00"
            ) from None
        if not query.answer.strip():
            return "empty answer"
        licences = [
            source.licence if source else None
            for source in (query.question_source, query.answer_source)
        ]
        return (
            self._selection.reason_against_id(query.query_id)
            or self._selection.reason_against(query.tags, asked, query.score)
            or self._selection.reason_against_licences(*licences)
        )


def _check_id(query_id: str, place: str) -> None:
    """Refuse ids that would break the lines of run and qrels files."""
    if any(character.isspace() or not character.isprintable() for character in query_id):
        raise SourceError(
            f"{place}: query_id is {query_id!r}: white space and control characters are not allowed"
        )
