# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.installed

.PHONY: demo test formats lint types docs bench

demo: $(SETUP)  ## build the sample collection from recorded replies, offline, and evaluate retrievers on it
	$(BIN)/freshstack build examples/quickstart/build.toml --mode replay
	$(BIN)/freshstack retrieve collections/quickstart --retriever bm25 --out collections/bm25.run
	$(BIN)/freshstack retrieve collections/quickstart --retriever hybrid --out collections/hybrid.run
	$(BIN)/freshstack evaluate collections/quickstart collections/bm25.run collections/hybrid.run

test: $(SETUP)  ## every test, with the blocks of README and docs; `pytest` alone leaves the slow ones out
	$(BIN)/python -m pytest -n 2 -m "slow or not slow"

formats:  ## exports loaded by BEIR and MTEB, which bring PyTorch: in an environment of their own
	test -x .venv-formats/bin/python || $(PYTHON) -m venv .venv-formats
	.venv-formats/bin/python -m pip install --quiet uv
	.venv-formats/bin/uv pip install --quiet --python .venv-formats/bin/python torch==2.13.0
	.venv-formats/bin/uv pip install --quiet --python .venv-formats/bin/python --constraint constraints.txt --editable '.[dev,formats]'
	.venv-formats/bin/python -m pytest -m formats tests/collection/exports

lint: $(SETUP)  ## style and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(SETUP)
	$(BIN)/mypy
	$(BIN)/pyright

docs: $(SETUP)  ## write the help pages of the commands into docs/cli.md
	$(BIN)/python docs/write_cli_help.py

bench: $(SETUP)  ## one JSON line for each figure
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

$(SETUP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(SETUP)
