# make demo   train a network on real handwritten digits (the first run creates .venv)
# make demo-detect   find the face in a photo with a pretrained detector
# make demo-yolo     train a detector of digits on photos from scratch
# make test   the whole test-suite, fixed seeds
# make prove  the same tests with every dtype, backend and many random draws, and with the ordinary rewrites off
# make lint   style, import order, file lengths
# make bench  pullback beside PyTorch on this machine
# make docs   the documentation as a web site in site/
# make atlas  check_op on every operation, recorded for the atlas in the documentation

PYTHON ?= python3
BIN := .venv/bin
LONGEST_MODULE := 600

.PHONY: demo demo-detect demo-yolo test prove lint bench docs atlas
.DEFAULT_GOAL := demo

demo: .venv/installed
	@$(BIN)/pullback demo

demo-detect demo-yolo: demo-%: .venv/installed
	@$(BIN)/pullback demo $*

test: .venv/installed
	@$(BIN)/python -m pytest -n 2 -q

prove: .venv/installed
	@PULLBACK_PROVE=1 $(BIN)/python -m pytest -n 2 -q
	@PULLBACK_REWRITES=stabilising $(BIN)/python -m pytest -n 2 -q

lint: .venv/installed
	@$(BIN)/ruff check
	@find src -name '*.py' -exec wc -l {} + | awk -v longest=$(LONGEST_MODULE) \
	    '$$2 != "total" && $$1 > longest { print $$2 " has " $$1 " lines; at most " longest; long = 1 } END { exit long }'

bench: .venv/installed
	@$(BIN)/python -m benchmarks --setup torch
	@$(BIN)/python -m benchmarks mlp lenet

docs: .venv/installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "Open site/index.html"

atlas: .venv/installed
	@$(BIN)/python scripts/record_checks.py

.venv/installed: pyproject.toml scripts/install.sh
	@sh scripts/install.sh "$(PYTHON)" dev
	@touch $@

.venv/installed-docs: .venv/installed
	@sh scripts/install.sh "$(PYTHON)" dev,docs
	@touch $@
