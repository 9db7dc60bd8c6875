# Needs Python (3.11 or later) and make. Targets set up virtual environments of their own; `.venv` is left to you.

PYTHON ?= python3
VENV   ?= .venv-dev
DOCS_VENV ?= .venv-docs
BENCH_VENV ?= .venv-bench

# cpu, cuda12 or cuda13, by the GPU driver of this machine.
EXTRA  := $(or $(EXTRA),$(shell $(PYTHON) gpuimg/_runtimes/probe.py))

# For `make test-all`. Without a GPU it is the build for CPUs (190 MB), from where pip is configured to look
# or else from PyTorch's index of them. `make TORCH_CPU=` installs PyPI's, which has CUDA (3 GB with what it needs).
TORCH  ?= torch==2.13.0
TORCH_CPU ?= $(if $(filter cpu,$(EXTRA)),https://download.pytorch.org/whl/cpu)

# References of tests. They pin other builds of torch, and run with the one above.
ORACLES = torchvision==0.28.0 timm==1.0.31

comma := ,
GPU_EXTRAS = $(if $(filter cpu,$(EXTRA)),,$(comma)$(EXTRA)$(comma)jit-$(EXTRA))
TEST_GROUPS = --group test --group dev
ALL_GROUPS = $(TEST_GROUPS) --group oracles --group engines --group s3 $(if $(filter cpu,$(EXTRA)),--group without-gpu)

BIN = $(VENV)/bin
# Byte code is compiled on import, rather than for everything that is installed.
PIP = $(BIN)/python -m pip install --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE

PYTEST = HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -n auto --dist worksteal
# A test whose library is missing fails rather than being skipped.
REQUIRED = GPUIMG_REQUIRE_LIBRARIES=1

.PHONY: help help-all demo test test-all test-wheel wheel-venv cross dist lock docs lint warm bench gpu gpu-photos gpu-pack soak fuzz clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    decode and augment four photos, write demo.png"
	@echo "make test    linter, type check, and tests of all that runs on a CPU, except the slow ones"
	@echo "make lint    linter and type check only"
	@echo "make docs    the documentation site, into docs/_build/html; every warning is an error"
	@echo "make help-all  all other targets"
	@echo
	@echo "This machine gets the extra '$(EXTRA)' (EXTRA=cpu, cuda12 or cuda13 to choose)."

help-all: help
	@echo
	@echo "make test-all  all tests, with torch, JAX, Ray and others (5 GB), and the GPU's path without a GPU"
	@echo "make test-wheel  tests of an installed wheel with compiled loops, where Numba cannot be imported"
	@echo "make cross   the wheel for Arm, in an emulator: results and tests; needs Debian or Ubuntu with qemu-user-static"
	@echo "make dist    source distribution and wheels, into dist; checked and tried"
	@echo "make bench   all benchmarks, with other libraries, on a quiet machine; into bench/results and the pages"
	@echo "make gpu     check and measure the GPU of this machine in seven minutes; gpu-photos makes its photos in advance"
	@echo "make gpu-pack  all that this takes, for a machine without a network, in build/gpu-pack.tar.xz"
	@echo "make soak    damaged files, data sets and servers, up to 20,000 of each kind; NUMBER for others"
	@echo "make fuzz    a thousand of them, in five minutes; FIRST=1000000 for other ones"
	@echo "make clean   remove the virtual environments that make created, and everything that was built"

demo: $(VENV)/.demo-ready
	$(BIN)/gpuimg demo

# What to run before a commit. The slow tests take long for what they cover; frameworks take gigabytes to install.
test: $(VENV)/.test-ready
	$(MAKE) --jobs 2 lint warm
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.all-ready
	$(MAKE) --jobs 2 lint warm
	$(REQUIRED) $(PYTEST) -m "not slow"
	$(REQUIRED) $(PYTEST) -m slow

# The wheel that `pip install .` builds here: its results are those of Numba's loops, and tests that need no Numba pass.
WHEEL = $(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --no-build-isolation --wheel-dir
WHEEL_VENV ?= .venv-wheel
# One list for here and .ci/try-wheel.
WHEEL_TESTS = $(shell cat tests/wheel_tests.txt)

wheel-venv: $(VENV)/.test-ready
	rm -rf build/wheel $(WHEEL_VENV)
	$(WHEEL) build/wheel .
	$(BIN)/python -m buildtools.wheel_env build/wheel/*.whl $(WHEEL_VENV)

test-wheel: wheel-venv
	GPUIMG_NATIVE=jit $(BIN)/python -m tests.compiled.native_results write build/wheel/here.npz
	cd $(WHEEL_VENV)/tree && ../bin/python -m tests.compiled.native_results write ../installed.npz
	$(BIN)/python -m tests.compiled.native_results compare build/wheel/here.npz $(WHEEL_VENV)/installed.npz
	cd $(WHEEL_VENV)/tree && HYPOTHESIS_PROFILE=ci ../bin/python -m pytest -n auto --dist worksteal -m "not slow" \
		-p no:cacheprovider $(WHEEL_TESTS)

# The same for Arm, in an emulator: not a part of continuous integration.
CROSS_TESTS = tests/compiled/test_installed.py tests/decoding/test_decode.py tests/decoding/test_pillow.py \
	tests/operations/test_exact.py tests/operations/test_filters.py tests/operations/test_geometry.py \
	tests/operations/test_results.py

cross: $(VENV)/.all-ready
	rm -rf build/arm
	GPUIMG_BUILD=aarch64 $(WHEEL) build/arm .
	$(BIN)/python -m buildtools.cross build/arm/*.whl build/cross
	GPUIMG_NATIVE=jit $(BIN)/python -m tests.compiled.native_results write build/arm/here.npz
	cd build/cross/tree && ../python -m tests.compiled.native_results write ../../arm/emulated.npz
	$(BIN)/python -m tests.compiled.native_results compare build/arm/here.npz build/arm/emulated.npz
	cd build/cross/tree && ../python -m pytest -q -m "not slow" -p no:cacheprovider $(CROSS_TESTS)

# MACHINES="x86_64 aarch64" for both; the linker for the other one is its gcc, or PyPI's ziglang. CUDA=no leaves the
# kernels of GPUs out. In a separate environment, whose packages are checked against hashes.
DIST_VENV ?= .venv-dist

dist: $(DIST_VENV)/.ready
	rm -rf dist
	$(DIST_VENV)/bin/python -m buildtools.dist dist $(if $(MACHINES),--machines $(MACHINES)) $(if $(filter no,$(CUDA)),--without-cuda)

lint: $(VENV)/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --isolated --line-length 120 docs/*.py
	$(BIN)/lint-imports
	$(BIN)/mypy

# In a separate environment. Neither the build nor the pages load anything from the network. docs/gallery and
# docs/reference/generated are built from scratch, so that no stale page remains.
docs: $(DOCS_VENV)/.ready
	rm -rf docs/_build docs/gallery docs/reference/generated docs/reference/examples
	$(DOCS_VENV)/bin/python -m sphinx -W --keep-going -q -j auto -b html docs docs/_build/html
	$(DOCS_VENV)/bin/python docs/searches.py docs/_build/html

# Compiles once, rather than in each process of the tests.
warm: $(VENV)/.test-ready
	$(BIN)/gpuimg warm --all

# On a quiet machine, in a separate environment of 8 GB. Each part writes a file in bench/results; it can be interrupted and
# repeated. ONLY="peers-S,png" for some parts.
bench: $(BENCH_VENV)/.ready
	$(BENCH_VENV)/bin/python -m bench $(if $(ONLY),--only $(ONLY))

# Checks and measures this machine's GPU, in SECONDS: docs/gpu-internals.md, Measuring a GPU. PARTS="ours rates" runs some
# parts, OUT is the folder of results. It uses PYTHON as it is, without a network. `make gpu-photos` makes its photos.
gpu:
	$(PYTHON) -m bench.gpu --seconds $(or $(SECONDS),420) --out $(or $(OUT),bench/results/gpu) $(PARTS)

gpu-photos: $(VENV)/.photos-ready
	$(BIN)/python -m bench.photos --set S --count 288  # 256 of them are not progressive

# For a machine without a network; MACHINE="--cuda 12 --python 3.11" for another than one with CUDA 13 and Python 3.12.
gpu-pack: gpu-photos $(VENV)/.pack-ready
	$(BIN)/python -m buildtools.gpu_pack $(MACHINE)

# Damaged files, data sets and servers, some of them again with checked bounds; about an hour on two cores.
soak: $(VENV)/.all-ready
	$(BIN)/python -m tests.robustness --number $(or $(NUMBER),20000) --out bench/results
	$(BIN)/python -m tests.robustness "guard pages" --number $(or $(NUMBER),20000) --bounds

# A part of it for each night, which takes about five minutes on two cores.
fuzz: $(VENV)/.all-ready
	rm -rf build/fuzz
	$(BIN)/python -m tests.robustness --number $(or $(NUMBER),1000) --first $(or $(FIRST),0) --out build/fuzz

# A fresh environment for another extra: the nvImageCodec wheels for CUDA 12 and 13 share files.
$(VENV)/.made-for-$(EXTRA):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gpuimg needs Python 3.11 or later: make PYTHON=...")'
	@test ! -e $(VENV) || ls $(VENV)/.made-for-* >/dev/null 2>&1 || \
		{ echo "$(VENV) is not an environment that make created: move it away, or make VENV=another" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(VENV)/.demo-ready: $(VENV)/.made-for-$(EXTRA) pyproject.toml
	$(PIP) -e '.[jit$(GPU_EXTRAS)]'
	touch $@

$(VENV)/.test-ready: $(VENV)/.made-for-$(EXTRA) pyproject.toml
	$(PIP) --quiet --upgrade pip
	$(PIP) -e '.[jit$(GPU_EXTRAS)]' $(TEST_GROUPS)
	touch $@ $(VENV)/.demo-ready

$(VENV)/.torch-ready: $(VENV)/.test-ready
	$(if $(TORCH_CPU),$(PIP) --no-deps '$(TORCH)+cpu' || $(PIP) --no-deps --index-url $(TORCH_CPU) '$(TORCH)+cpu')
	touch $@

$(VENV)/.all-ready: $(VENV)/.torch-ready
	$(PIP) '$(TORCH)' -e '.[jit$(GPU_EXTRAS)]' $(ALL_GROUPS)
	$(PIP) --no-deps $(ORACLES)
	$(if $(filter cpu,$(EXTRA)),$(BIN)/python tests/fakecuda/build.py)
	touch $@

$(DOCS_VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --disable-pip-version-check --quiet --upgrade pip
	$(DOCS_VENV)/bin/python -m pip install --disable-pip-version-check -e '.[jit,progress,video]' --group docs
	$(DOCS_VENV)/bin/gpuimg warm --all
	touch $@

$(DIST_VENV)/.ready: buildtools/requirements.lock
	$(PYTHON) -m venv --clear $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip install --disable-pip-version-check --require-hashes -r buildtools/requirements.lock
	touch $@

lock: $(VENV)/.test-ready
	$(PIP) --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade --no-annotate \
		--output-file buildtools/requirements.lock buildtools/requirements.txt

# The compiler of CUDA kernels, which needs no GPU.
$(VENV)/.pack-ready: $(VENV)/.test-ready
	$(if $(filter cpu,$(EXTRA)),$(PIP) --quiet --group without-gpu)
	touch $@

# The packages that the photos are made from.
$(VENV)/.photos-ready: $(VENV)/.demo-ready
	$(PIP) --quiet --upgrade pip
	$(PIP) --group photos
	touch $@

$(BENCH_VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --disable-pip-version-check --quiet --upgrade pip
	$(BENCH_VENV)/bin/python -m pip install --disable-pip-version-check --no-compile -e '.[jit]' --group photos --group peers --group s3
	touch $@

clean:
	rm -rf $(VENV) $(DOCS_VENV) $(BENCH_VENV) $(WHEEL_VENV) $(DIST_VENV) kernels/_lib docs/_build docs/gallery docs/reference/generated docs/reference/examples build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .soak-bounds demo.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
