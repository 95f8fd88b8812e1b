"""From the rows of a dump to its candidates, in as few readings as the order of the dump allows.

The posts are read once. In a dump that is in order of id, as they are published, an answer whose
question comes later has the smaller id, and is kept until then. Any other order takes a second
reading, which also finds posts that are there twice.
"""

from collections import Counter
from collections.abc import Sequence

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.candidates import Candidates
from freshstack_dspy.sources.questions.dump import Dump, Table
from freshstack_dspy.sources.questions.posts import ANSWER, QUESTION, date_of, integer, tags_of
from freshstack_dspy.sources.questions.selection import Selection
from freshstack_dspy.sources.questions.xml_rows import Row

_DUPLICATE_LINK = "3"


def dump_tables(config: QueriesConfig) -> tuple[Table, ...]:
    """Name the tables that a configuration reads, in the best order."""
    links: tuple[Table, ...] = ("PostLinks",) if config.duplicates == "drop" else ()
    return (*links, "Posts", "Users")


def gather(
    dump: Dump,
    tables: Sequence[Table],
    candidates: Candidates,
    selection: Selection,
    rejected: Counter[str],
) -> None:
    """Gather the questions that pass the filters and name an accepted answer, and what they need.

    Args:
        dump: Is read.
        tables: Which tables of it, in order.
        candidates: Added to.
        selection: The filters.
        rejected: Reason to count of the other questions; added to.

    Raises:
        SourceError: A file is damaged or hostile, or a post is there twice.
    """
    posts = _Posts(candidates, selection, rejected)
    users_come_early = False
    for table, row in dump.rows(tables):
        if table == "Posts":
            posts.take(row)
        elif table == "PostLinks":
            _mark_duplicate(row, candidates)
        else:
            users_come_early = users_come_early or not posts.begun
            _name_user(row, candidates)
    if not posts.are_in_order:
        for _, row in dump.rows(("Posts",)):
            if not posts.take_again(row):
                raise SourceError(
                    f"{dump.files(('Posts',))[0]}: two posts have the Id {row['Id']}; "
                    "give one dump, not several joined"
                )
    if users_come_early or not posts.are_in_order:
        for _, row in dump.rows(("Users",)):
            _name_user(row, candidates)


class _Posts:
    """Takes the posts of a dump, one after the other."""

    def __init__(
        self, candidates: Candidates, selection: Selection, rejected: Counter[str]
    ) -> None:
        self._candidates = candidates
        self._selection = selection
        self._rejected = rejected
        self._last_id: int | None = None
        self.begun = False
        self.are_in_order = True

    def take(self, row: Row) -> None:
        """Take a post for the first time."""
        self.begun = True
        post_id = integer(row.get("Id"))
        if post_id is not None:
            if self._last_id is not None and post_id <= self._last_id:
                self.are_in_order = False
            self._last_id = post_id
        if row.get("PostTypeId", QUESTION) == QUESTION:
            self._take_question(row, post_id)
        elif row["PostTypeId"] == ANSWER:
            self._take_answer(row, post_id)

    def take_again(self, row: Row) -> bool:
        """Take a post with all questions known; say whether its id is new in this reading."""
        post_id = integer(row.get("Id"))
        if row.get("PostTypeId") == ANSWER:
            self._take_answer(row, post_id)
        return post_id is None or self._candidates.is_new(post_id)

    def _take_question(self, row: Row, post_id: int | None) -> None:
        asked = date_of(row)
        is_malformed = "PostTypeId" not in row or not row.get("Title", "").strip()
        if post_id is None or asked is None or is_malformed:
            self._rejected["malformed row"] += 1
            return
        score = integer(row.get("Score"))
        reason = self._selection.reason_against_id(str(post_id)) or (
            self._selection.reason_against(tags_of(row), asked, score)
        )
        accepted = integer(row.get("AcceptedAnswerId"))
        if reason is None and accepted is not None:
            self._candidates.add_question(post_id, accepted, row)
        else:
            self._rejected[reason or "no accepted answer"] += 1

    def _take_answer(self, row: Row, post_id: int | None) -> None:
        """Keep an answer that is awaited, or may be: its question comes later."""
        question_id = integer(row.get("ParentId"))
        if question_id is None or post_id is None:
            return
        if question_id > post_id or self._candidates.awaits(question_id, post_id):
            self._candidates.add_answer(post_id, question_id, row)


def _mark_duplicate(row: Row, candidates: Candidates) -> None:
    question_id = integer(row.get("PostId"))
    if row.get("LinkTypeId") == _DUPLICATE_LINK and question_id is not None:
        candidates.add_duplicate(question_id)


def _name_user(row: Row, candidates: Candidates) -> None:
    name = row.get("DisplayName", "").strip()
    if "Id" in row and name:
        candidates.add_name(row["Id"], name)
