# Two commands: `make demo` and `make test`. Each sets up its own virtual environment, with what it
# needs and no more.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := .venv-demo
# Two test workers with one BLAS thread each beat one worker with two threads.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test lint quick study bench docs oldest clean

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

# Any study: make study ARGS="reproduce sign --jobs 2"
study: $(VENV)/.installed
	$(BIN)/python -m studies $(ARGS)

# Under ten minutes on two cores, with as many BLAS threads as there are cores.
bench: $(VENV)/.installed
	$(BIN)/python -m studies benchmark speed --fresh

docs: $(VENV)/.installed
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
	rm -rf $(VENV) $(DEMO) $(OLDEST) .mypy_cache .ruff_cache .pytest_cache build dist
