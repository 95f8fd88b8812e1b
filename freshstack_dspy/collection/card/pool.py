"""What the pool holds, who found it, and what would be lost without each of them."""

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import escape, table

_DEPTHS = (1, 5, 10, 20, 50, 100)


def pool_section(contents: Contents, manifest: Manifest) -> str:
    """Leave each technique and retriever out, and cut the pool at a few depths.

    It is about the queries with nuggets that are answerable or partly supported; nothing is
    written where no record says who found what.
    """
    from freshstack_dspy.collection.diagnostics.depths import depth_curve
    from freshstack_dspy.collection.diagnostics.losses import leave_one_out
    from freshstack_dspy.collection.diagnostics.pooled import pooled

    pool = pooled(contents, ("answerable", "partly_supported"))
    if not pool.candidates:
        return ""
    found = leave_one_out(pool)
    rows: list[tuple[str, ...]] = [
        (
            escape(loss.without),
            loss.kind,
            f"{loss.chunks:,}",
            f"{loss.relevant:,}",
            f"{loss.nuggets:,}",
        )
        for loss in found.without
    ]
    rows.append(
        ("(the whole pool)", "", f"{found.chunks:,}", f"{found.relevant:,}", f"{found.nuggets:,}")
    )
    header = ("without", "is a", "pooled chunks lost", "supporting ones", "supported nuggets")
    curve = {point.depth: point for point in depth_curve(pool)}
    shown = [curve[depth] for depth in sorted({*_DEPTHS, max(curve)} & curve.keys())]
    depths = [
        (
            str(point.depth),
            f"{point.chunks:,}",
            "-" if point.relevant_share is None else f"{point.relevant_share:.1%}",
            "-" if point.nugget_share is None else f"{point.nugget_share:.1%}",
        )
        for point in shown
    ]
    depth_header = ("depth", "chunks to judge", "supporting ones", "supported nuggets")
    return (
        "## The pool\n\n"
        f"Of the {len(pool.queries):,} queries with a supported nugget. What only one technique "
        "or retriever brought in would be missing without it:\n\n"
        f"{table(header, rows)}\n"
        "and a shallower pool would have found this much of it:\n\n"
        f"{table(depth_header, depths)}\n"
        "`freshstack diagnose` tells more of it.\n"
    )
