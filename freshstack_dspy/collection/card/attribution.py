"""Who wrote the questions and answers, and under which licence they may be passed on."""

from collections import Counter
from collections.abc import Sequence

from freshstack_dspy.collection.markdown import escape, link, table
from freshstack_dspy.records import Attribution, Query

UNKNOWN = "not recorded"
_BY_MODEL = "made by a model"


def attribution(queries: Sequence[Query]) -> str:
    """Write the section that says who wrote the questions and answers, and under which licence."""
    licences: Counter[str] = Counter()
    rows = []
    for query in queries:
        for part, source in (("question", query.question_source), ("answer", query.answer_source)):
            nobody = _BY_MODEL if query.origin == "synthetic" else UNKNOWN
            licences[source.licence if source else nobody] += 1
            rows.append(
                (escape(query.query_id), escape(query.title), part, *_cells(source, nobody))
            )
    licence_rows = [(escape(licence), str(licences[licence])) for licence in sorted(licences)]
    return (
        "## Attribution\n\n"
        "The questions and answers belong to their authors and may be passed on under these "
        "licences, with this table.\n\n"
        f"{table(('licence', 'texts'), licence_rows)}\n"
        f"{table(('query', 'title', 'text', 'author', 'address', 'licence'), rows)}"
    )


def _cells(source: Attribution | None, nobody: str) -> tuple[str, str, str]:
    if source is None:
        return nobody, "", nobody
    return escape(source.author), link(source.url), escape(source.licence)
