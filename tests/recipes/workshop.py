"""A domain of documents alone: ten tools, each with a page of its own, and a scripted synthesizer.

Of a page the script asks one question, `How do I <task> with the <tool>?`, whose answer is the last
sentence of the page, so the scripted judge finds it in that page and in no other.
"""

import json
from pathlib import Path
from typing import Any

from freshstack_dspy import BuildConfig, load_config

from .scripted import Inputs

TOOLS = {
    "lathe": "turn brass",
    "plane": "smooth oak",
    "chisel": "cut joints",
    "anvil": "bend iron",
    "kiln": "fire clay",
    "loom": "weave linen",
    "press": "print posters",
    "forge": "melt copper",
    "grinder": "sharpen blades",
    "saw": "split logs",
}


def page(tool: str) -> str:
    return (
        f"# The {tool}\n\nEvery workshop needs a {tool}, and beginners fear it.\n\n"
        f"Hold it firmly. To {TOOLS[tool]} set its {tool}dial to {len(tool)}0.\n"
    )


def question(tool: str) -> str:
    return f"How do I {TOOLS[tool]} when all I have is this {tool}?"


def answer(text: str) -> str:
    return text.strip().rsplit(". ", 1)[-1].rstrip(".")


def tool_of(text: str) -> str:
    return text.split("# The ", 1)[1].split("\n", 1)[0]


def synthesize(inputs: Inputs) -> Any:
    texts = [passage["text"] for passage in inputs["passages"]]
    return {
        "queries": [
            {
                "question": " ".join(question(tool_of(text)) for text in texts),
                "answer": ". ".join(answer(text) for text in texts),
            }
        ]
    }


def write_workshop(folder: Path, *, tools: tuple[str, ...] = tuple(TOOLS), **sections: Any) -> Path:
    """Write the pages, in two sources, and a configuration; return the configuration's path."""
    for number, tool in enumerate(tools):
        path = folder / ("hot" if number % 2 else "cold") / f"{tool}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(tool))
    tables: dict[str, dict[str, Any]] = {
        "queries": {"source": "synthetic", "count": 4, "per_seed": 1, "min_tokens": 8},
        "model": {"name": "openai/scripted", "concurrency": 2, "retries": 0, "reasks": 0},
        "index": {"path": "index", "dimensions": 4},
        "cache": {"path": "cache"},
        "pool": {"depth": 2, "top_k": 1},
    }
    for name, values in sections.items():
        tables[name] = tables.get(name, {}) | values
    text = 'name = "workshop"\nout = "collection"\n'
    for name in ("cold", "hot"):
        if (folder / name).is_dir():
            text += f'\n[[corpus]]\nname = "{name}"\npath = "{name}"\n'
    for name, values in tables.items():
        entries = "".join(
            f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None
        )
        text += f"\n[{name}]\n{entries}"
    path = folder / "build.toml"
    path.write_text(text)
    return path


def workshop(folder: Path, **sections: Any) -> BuildConfig:
    """Write the domain and read its configuration."""
    return load_config(write_workshop(folder, **sections))
