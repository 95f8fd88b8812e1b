"""The formats of other tools, one file for each: how it is written, read and loaded elsewhere."""

from freshstack_dspy.registry import Registry

_HERE = "freshstack_dspy.formats"
FORMATS = Registry(
    _HERE,
    "format",
    {
        "freshstack": f"{_HERE}.freshstack:FRESHSTACK",
        "beir": f"{_HERE}.beir:BEIR",
        "mteb": f"{_HERE}.beir:MTEB",
        "trec": f"{_HERE}.trec:TREC",
        "hf": f"{_HERE}.hugging_face:HUGGING_FACE",
        "crux": f"{_HERE}.crux:CRUX",
        "nuggetizer": f"{_HERE}.nuggetizer:NUGGETIZER",
        "golden": f"{_HERE}.golden:GOLDEN",
        "triples": f"{_HERE}.triples:TRIPLES",
    },
    is_one=lambda one: hasattr(one, "how_to_load"),
)
