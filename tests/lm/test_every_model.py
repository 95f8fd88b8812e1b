"""The judge's request to every chat model of the main providers in LiteLLM's table.

Each is formed with the defaults, built as it goes out, and checked against the model's own rules: its
parameters as LiteLLM and DSPy's client know them, its limits in the table, and its provider's rules
for schemas.
"""

import functools
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request, Response

from freshstack_dspy import Chunk, ModelConfig, Nugget, Query, SupportJudge, connect
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.capabilities import capabilities_of, table
from freshstack_dspy.lm.dspy_parts import lm15
from freshstack_dspy.lm.engine import imported_litellm, litellm_engine

from .asking import Scribe
from .strict_servers import anthropic_faults, gemini_faults, schema_faults

PROVIDERS = {
    **{
        name: name
        for name in "openai azure azure_ai anthropic gemini mistral groq deepseek".split()
    },
    **{name: name for name in "xai openrouter together_ai fireworks_ai ollama cerebras".split()},
    **{name: name for name in "perplexity databricks moonshot zai deepinfra watsonx".split()},
    **dict.fromkeys(("cohere", "cohere_chat"), "cohere"),
    **dict.fromkeys(("bedrock", "bedrock_converse"), "bedrock"),
}
"""By the table's word for a provider, the first part of the names of its models."""
NO_CHAT = ("audio", "search-preview", "computer-use", "deep-research", "realtime", "embed")
"""In the names of models that take other requests than those for a text."""

EXCEPTIONS = {
    "bedrock/ap-southeast-3/deepseek.v3.2",
    "bedrock/ap-southeast-3/minimax.minimax-m2.1",
    "bedrock/ap-southeast-3/minimax.minimax-m2.5",
    "bedrock/ap-southeast-3/qwen.qwen3-coder-next",
}
"""LiteLLM refuses of a region's model what its own table says that it takes."""


def _models() -> Iterator[str]:
    for name, entry in table().items():
        provider = entry.get("litellm_provider", "")
        first = "vertex_ai" if provider.startswith("vertex_ai") else PROVIDERS.get(provider)
        if (
            first
            and entry.get("mode") in ("chat", "responses")
            and not any(each in name for each in NO_CHAT)
        ):
            yield name if name.startswith(f"{first}/") else f"{first}/{name}"


class _Seen:
    """Takes what is asked, before it is fitted to a model."""

    reads_schema = True

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def complete(self, request: Request) -> Response:
        self.asked.append(request)
        return Scribe('{"verdicts": []}').complete(request)


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Request:
    """The judge's request for twenty chunks and ten nuggets, as it is asked of any model."""
    seen = _Seen()
    model = ModelConfig(name="hosted_vllm/any", reasks=0)
    lm = connect(model, provider=seen, store=tmp_path_factory.mktemp("replies"))
    nuggets = [
        Nugget(nugget_id=f"1#{n}", query_id="1", text=f"Fact {n}.", call_id=None) for n in range(10)
    ]
    chunks = [
        Chunk(
            chunk_id=f"docs/{n}_0_40",
            source="docs",
            path=str(n),
            start_byte=0,
            end_byte=40,
            text=f"Passage {n}, which says what it says.",
            tokens=9,
        )
        for n in range(20)
    ]
    query = Query(query_id="1", title="What does it say?", body="", answer="")
    with dspy.context(lm=lm), pytest.raises(ReplyError):
        SupportJudge()(query=query, nuggets=nuggets, chunks=chunks)
    lm.client.close()
    return seen.asked[0]


def _asked_of(name: str, judging: Request) -> Request:
    capabilities = capabilities_of(ModelConfig(name=name))
    answer = judging.config.max_tokens or 0
    most = capabilities.reply_tokens(answer)
    config = replace(judging.config, max_tokens=most)
    return capabilities.fitted(replace(judging, model=name, config=config))


def _native_faults(request: Request) -> Iterator[str] | None:
    """What DSPy's own client would change, and what its server would refuse; None: not its model."""
    try:
        provider = _router("openai").resolve_openai_chat(request.model).provider
    except (lm15.UnknownModelError, lm15.UnsupportedFeatureError):
        return None
    if provider.startswith("azure"):
        return None  # it has a deployment's address, which LiteLLM knows to use
    return _faults_of_body(provider, request)


@functools.cache
def _router(provider: str) -> Any:
    return lm15.LMRouter(lm15.RouterConfig(api_keys={provider: "key"}))


def _faults_of_body(provider: str, request: Request) -> Iterator[str]:
    resolved = _router(provider).resolve_openai_chat(request.model)
    client = _router(provider).lm(f"{provider}:{resolved.model}")
    request = replace(request, model=resolved.model)
    for change in client.plan(request):
        if change.action not in ("satisfied", "defaulted"):
            yield f"{change.field} is {change.action}: {change.reason}"
    built = client.build_request(request, stream=False)
    body = json.loads(built.body)
    if provider == "anthropic" and "output_config" in body:
        yield from (f for f in anthropic_faults(body) if not f.startswith("temperature"))
    elif provider == "gemini" and request.config.response_format is not None:
        yield from (f for f in gemini_faults(body) if '"temperature"' not in f)
    elif (form := body.get("response_format", {}).get("json_schema", {})).get("strict"):
        yield from schema_faults(form["schema"])


def _litellm_faults(request: Request) -> Iterator[str]:
    """What LiteLLM refuses to translate for a model."""
    litellm = imported_litellm(ModelConfig(name=request.model))
    name, provider, _, _ = litellm.get_llm_provider(request.model)
    given = litellm_engine()()._arguments(request)
    for name_of_call in ("model", "messages", "max_retries", "num_retries", "cache", "n"):
        given.pop(name_of_call, None)
    try:
        litellm.get_optional_params(model=name, custom_llm_provider=provider, **given)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said
        yield " ".join(str(error).split())[:150]


def _table_faults(name: str, request: Request) -> Iterator[str]:
    entry = table().get(name) or table().get(name.partition("/")[2]) or {}
    entry = table()[entry["alias_of"]] if "alias_of" in entry else entry
    config = request.config
    if config.max_tokens is None or config.max_tokens > (entry.get("max_output_tokens") or 10**6):
        yield f"max_tokens is {config.max_tokens} of {entry.get('max_output_tokens')}"
    if entry.get("supports_sampling_params") is False and (config.temperature or config.top_p):
        yield "it takes no sampling parameters"
    if config.reasoning is not None:
        yield "an effort that nobody asked for"


def test_the_judge_has_room_for_twenty_verdicts_on_ten_nuggets_and_for_no_loop(
    judging: Request,
) -> None:
    assert judging.config.max_tokens == 512 + 20 * (96 + 16 * 10)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_every_chat_model_of_the_main_providers_can_be_judged_with(
    judging: Request, capsys: pytest.CaptureFixture[str], every: int
) -> None:
    names = sorted(set(_models()))[::every]
    counts, faults = Counter[tuple[str, str]](), dict[str, list[str]]()
    for name in names:
        request = _asked_of(name, judging)
        form = request.config.response_format or {"type": "prompt alone"}
        kind = "strict" if form.get("strict") else form["type"]
        counts[name.partition("/")[0], kind] += 1
        native = _native_faults(request)
        found = [
            *_table_faults(name, request),
            *(_litellm_faults(request) if native is None else native),
        ]
        if found:
            faults[name] = found
    lines = [
        f"{len(names):,} models, {len(faults)} with faults",
        *(f"{provider}: {number} by {kind}" for (provider, kind), number in sorted(counts.items())),
        *(f"{name}: {'; '.join(found)}" for name, found in faults.items()),
    ]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n  ".join(lines) + "\n")
    assert len(names) > 1000 // every
    assert faults.keys() == EXCEPTIONS & {*names}
