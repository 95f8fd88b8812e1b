"""Names of groups beside the rows of the averages, which no group can be mistaken for."""

from freshstack_dspy.cli.lines import cut

ALL = "all"
MACRO = "macro-average"


def group_label(name: str) -> str:
    """Give the name of a group for a table, in quotes where it could be taken for an average's."""
    folded = name.casefold()
    quoted = folded == ALL or folded.startswith((MACRO, '"'))
    return cut(f'"{name}"' if quoted else name)
