"""How far the judge agrees with itself: in a batch and alone, and from vote to vote."""

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.markdown import table


def agreement_section(contents: Contents) -> str:
    """Say how far labels depend on what else a call held; nothing where nothing was judged twice."""
    from freshstack_dspy.collection.batch_agreement import batch_agreement
    from freshstack_dspy.collection.self_agreement import self_agreement

    rows = []
    if contents.single_judgments:
        alone = batch_agreement(contents)
        rows += [
            ("pairs judged in a call with others and alone", f"{alone.pairs:,}"),
            ("the same label both ways", _share(alone.exact.value)),
            ("Cohen's kappa of both ways", _number(alone.kappa.value)),
            ("the same as to support", _share(alone.support_exact.value)),
        ]
    votes = self_agreement(contents.judgments)
    if votes.pairs:
        rows += [
            ("pairs with several votes", f"{votes.pairs:,}"),
            ("two votes agree", _share(votes.agreement.value)),
            ("all votes agree", _share(votes.unanimous.value)),
        ]
    if not rows:
        return ""
    return (
        f"## Agreement of the judge\n\n{table(('what', 'value'), rows)}\n"
        "It says how steady the judge is, and not whether it is right.\n"
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
