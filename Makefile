# Two commands: `make demo` and `make test`. Each sets up its own virtual environment, with what it
# needs and no more.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := .venv-demo
# Two test workers with one BLAS thread each beat one worker with two threads.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test lint quick study bench coverage docs oldest hostile flips lock sbom clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

$(DEMO)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --editable '.[demo]'
	touch $@

demo: $(DEMO)/.installed
	$(DEMO)/bin/python -m angcal.demo

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(THREADS) $(BIN)/python -m pytest -q tests/test_docstrings.py

test: lint
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal

quick: lint
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# 10,000 flips and 1,000 forgeries of each kind of model file; some minutes.
flips: $(VENV)/.installed
	ANGCAL_FLIPS=10000 ANGCAL_FORGERIES=1000 $(THREADS) $(BIN)/python -m pytest -s -q \
		tests/test_model_files.py tests/test_export.py -k "flipped or forged"

# Hostile fits in child processes with limits; goes on where it was. make hostile CASES=1000000
CASES ?= 20000
hostile: $(VENV)/.installed
	$(THREADS) $(BIN)/python -m studies.hostile --cases $(CASES)

# Versions and hashes of everything that `make test` needs: requirements-dev.lock. To install exactly
# these: pip install --require-hashes -r requirements-dev.lock && pip install --no-deps -e .
LOCK := .venv-lock
lock:
	$(PYTHON) -m venv $(LOCK)
	$(LOCK)/bin/python -m pip install --quiet uv
	$(LOCK)/bin/uv pip compile pyproject.toml --extra dev --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --quiet --output-file requirements-dev.lock

# What an installation consists of, in CycloneDX format: build/angcal.cdx.json.
SBOM := .venv-sbom
sbom:
	$(PYTHON) -m venv $(SBOM)
	$(SBOM)/bin/python -m pip install --quiet '.[cli,onnx]'
	$(PYTHON) -m venv $(SBOM)/tool
	$(SBOM)/tool/bin/python -m pip install --quiet 'cyclonedx-bom>=7,<8'
	mkdir -p build
	$(SBOM)/tool/bin/cyclonedx-py environment $(SBOM)/bin/python --pyproject pyproject.toml \
		--output-reproducible --of JSON -o build/angcal.cdx.json

# Any study: make study ARGS="reproduce sign --jobs 2"
study: $(VENV)/.installed
	$(BIN)/python -m studies $(ARGS)

# Under ten minutes on two cores, with as many BLAS threads as there are cores.
bench: $(VENV)/.installed
	$(BIN)/python -m studies benchmark speed --fresh

# Lines and branches of the library that the tests run.
coverage: $(VENV)/.installed
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-report=html:build/coverage

docs: $(VENV)/.installed
	rm -rf docs/api/generated  # pages of names that are gone
	$(BIN)/python -m sphinx -W -b html docs build/site

# The core, on the oldest versions that pyproject.toml allows.
OLDEST := .venv-oldest
CORE := $(addprefix tests/test_,$(addsuffix .py,angle bad_input baselines baselines_multiclass \
	calibration covariance doubtful_input estimator_inputs estimators estimators_multiclass fitting \
	hessian iterative link_posterior links losses matrix_free metrics metrics_multiclass observables path \
	penalties pools predict_proba prediction prediction_table reading score_bins multiclass_angles \
	multiclass_integration multiclass_observables simulation simulation_multiclass targets threads triangle))

oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet --editable . 'numpy==1.26.*' 'scipy==1.13.*' \
		'scikit-learn==1.6.*' 'pandas==2.2.*' 'polars==1.0.*' 'pytest<9' mpmath
	$(THREADS) $(OLDEST)/bin/python -m pytest -m "not slow" $(CORE)

clean:
	rm -rf $(VENV) $(DEMO) $(OLDEST) $(SBOM) $(LOCK) .mypy_cache .ruff_cache .pytest_cache build dist
