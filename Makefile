# Two commands: `make demo` and `make test`. Each sets up its own virtual environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Two test workers with one BLAS thread each beat one worker with two threads.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test lint quick bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python -m angcal.demo

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal

quick: lint
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Under ten minutes on two cores, with as many BLAS threads as there are cores.
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.speed.run --fresh
	$(BIN)/python -m benchmarks.speed.plot --run quick

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist
