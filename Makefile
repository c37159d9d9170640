# Each command sets up .venv by itself when it is missing or older than what it needs. PYTHON=python3.12 chooses another Python.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONUTF8 = 1
# threads that wait leave the processors to what runs beside, lessons to a training (engine/startup.py)
export GOMP_SPINCOUNT ?= 10000
STARTED := $(shell date +%s)

.PHONY: help run translate test lab translator bench train-large

help:  ## list the commands
	@awk -F ':[^#]*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:[^#]*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

# $(call flag,NAME,OPTION): the option if NAME is 1 or yes; anything but that and no is an error
flag = $(if $(filter 1 yes true,$(value $1)),$2,$(if $(filter-out 0 no false,$(value $1)),$(error $1: give 1, or leave it out)))

##@ Learn
TEXT ?= He plays the violin.
# neither make nor the shell expands what is given: quotes, $ and ` are text
unexport TEXT DATA RUN
translate: export RAW := $(value TEXT)
translate translator train-large: export RAW_RUN := $(value RUN)
translate: .venv/ready  ## translate TEXT: with runs/small if it is finished, else with the model in the box, or with RUN
	@$(BIN)/python translate.py $(if $(value RUN),--run "$$RAW_RUN") -- "$$RAW"

lab: .venv/ready  ## open the course in JupyterLab
	$(BIN)/jupyter lab --allow-root --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks/00_setup.ipynb

translator: .venv/ready  ## write the folder translator: a page with the finished runs/small, else the model in the box, or RUN, that translates in a browser
	$(BIN)/python export.py --form page $(if $(value RUN),--run "$$RAW_RUN") --out translator

##@ Train
OTHERS := $(filter command,$(origin DATA) $(origin RUN))
run: .venv/ready  ## train the preset `small` on data_small, anew by RESTART=1, then translate and score the test set
	$(if $(OTHERS),$(error make run takes neither DATA nor RUN. Type: python train.py --data FOLDER --run FOLDER))
	$(BIN)/python train.py --data data_small --config small --run runs/small $(call flag,RESTART,--restart)
	$(BIN)/python translate.py --run runs/small --score data_small --split test

DATA ?= data_large
PROCESSES ?= $(shell nvidia-smi --list-gpus 2>/dev/null | grep -c GPU | sed 's/^0$$/1/')
NODES ?= 1
NODE ?= 0
MASTER ?= localhost
MACHINES = $(if $(filter 1,$(NODES)),--standalone,--nnodes $(NODES) --node-rank $(NODE) --master-addr $(MASTER) --master-port 29500)
train-large: export RAW_DATA := $(value DATA)
train-large: .venv/ready  ## train the paper's base model on DATA, a process for each GPU; on machine NODE, from 0, of NODES, MASTER being the first
	test -e "$$RAW_DATA/prepared/settings.json" || $(BIN)/python prepare.py --data "$$RAW_DATA" --config base --out "$$RAW_DATA/prepared"
	$(BIN)/torchrun $(MACHINES) --nproc-per-node $(PROCESSES) train.py -- --data "$$RAW_DATA/prepared" --run "$${RAW_RUN:-runs/large}"

.PHONY: verbs first-words sentences starts log
verbs: .venv/ready  ## train `small` with three seeds and ask each hundred steps for the verbs of play, 40 minutes on 2 cores: studies/verbs.json
	$(BIN)/python -m studies.verbs

first-words: .venv/ready  ## train `small` with and without the phrases, in small letters or not: studies/first_words.json
	$(BIN)/python -m studies.first_words

sentences: .venv/ready  ## train `small` on a corpus in which a piano is kicked, and with fewer lines of it: studies/sentences.json
	$(BIN)/python -m studies.sentences

log: .venv/ready  ## train `small` once and ask it the six sentences of lesson 00 at each evaluation: studies/log.jsonl
	$(BIN)/python -m studies.log

starts: .venv/ready  ## train `small` from other first weights, three hours on 2 cores: studies/starts.json
	$(BIN)/python -m studies.starts

##@ Measure
test: .venv/dev  ## check style, run the tests, re-run all notebooks and compare their outputs
	@STARTED=$(STARTED) $(BIN)/python tools/run_tests.py

bench: .venv/bench  ## speed against other programs, as ratios, some minutes: runs/bench.json
	$(BIN)/python benchmarks/bench.py

# pip would compile 12,000 modules on one core. A few are templates that are no Python: their errors say nothing
compile = $(BIN)/python -m compileall -q -j 0 $(BIN)/../lib >/dev/null 2>&1 || true
.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=python3.12')"
	@echo "setting up .venv: 0.5 to 3 GB to download, some minutes"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements.txt
	@$(compile)
	$(BIN)/jupyter labextension disable --level=sys_prefix @jupyterlab/apputils-extension:announcements 2>/dev/null
	touch .venv/ready

.venv/dev: .venv/ready requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements-dev.txt
	@$(compile)
	touch .venv/dev

.venv/class: .venv/ready
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[class]"
	touch .venv/class

.venv/bench: .venv/ready
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch .venv/bench

# For teachers, and for who works on the course. What stands above is also in a student's copy.
.PHONY: check model test-device notebook notebooks schedules ablation fuzz versions pages wheels chinese student assignments grade
##@ Teach
OUT ?= student
unexport OUT LANGUAGE
student: export RAW := $(value OUT)
student: export RAW_LANGUAGE := $(value LANGUAGE)
student: $(if $(value LANGUAGE),.venv/dev,.venv/class)  ## write a copy of the project without solutions and outputs to the new folder OUT, its prose in LANGUAGE (zh_CN)
	$(BIN)/python tools/student.py $(if $(value LANGUAGE),--language "$$RAW_LANGUAGE") -- "$$RAW"

assignments: .venv/class  ## write the folder class for nbgrader, of all lessons or ONLY="03 04"; students get class/release
	$(BIN)/python tools/school.py assignments $(ONLY)

grade: .venv/class  ## mark what stands in class/handed_in/NAME, of all lessons or ONLY="03 04", and print the class
	$(BIN)/python tools/school.py grade $(ONLY)

pages: .venv/dev  ## write the course, as it is, as a site in English and Chinese: pages/index.html; with solutions by SOLUTIONS=1
	$(BIN)/python tools/pages.py $(call flag,SOLUTIONS,--solutions)

chinese: .venv/dev  ## write the whole course in Chinese to the folder chinese, beside this one's .venv; with Chinese pictures, some minutes more, by EXECUTE=1
	$(BIN)/python tools/translated_copy.py $(call flag,EXECUTE,--execute)

wheels: .venv/ready  ## fill the folder wheels, from which machines of the same kind install without a network
	$(BIN)/python -m pip wheel --quiet --wheel-dir wheels "setuptools>=77" wheel --requirement requirements.txt

##@ Maintain
QUICK := $(wildcard tests/test_[01]*.py) $(addprefix tests/test_,$(addsuffix .py,box edited fast_forms importer notebooks pictures run_config stream tidy utils))
check: .venv/dev  ## style, the quick tests with the lines of plain files that they cover, and what the model in the box was made from
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --cov=notebooks --cov=engine --cov-report=term:skip-covered $(QUICK)

notebooks: .venv/dev  ## execute all notebooks again, each as in a fresh clone
	$(BIN)/python -m engine.lessons
	$(BIN)/python tools/execute.py $(N)
	$(BIN)/python tools/lesson_tables.py

N ?=
notebook: notebooks  ## execute lesson N again: make notebook N=14

model: .venv/ready  ## make the model in the box, data_small/model, from the finished runs/small
	$(BIN)/python tools/model.py

schedules: .venv/ready  ## train `small` at rates with and without warm-up, three hours on 2 cores: studies/schedules.json
	$(BIN)/python -m studies.schedules

ablation: .venv/ready  ## train `small` with and without each part, and with later ideas, about an hour and a half on 2 cores: studies/ablation.json
	$(BIN)/python -m studies.ablation

TEST_DEVICE ?= sim
DEVICE_TESTS := tests/device $(foreach n,10 13 15 16,$(wildcard tests/test_$(n)_*.py))
test-device: .venv/dev  ## run tests and notebooks on a simulated accelerator, or on TEST_DEVICE (cuda, mps)
	TEST_DEVICE=$(TEST_DEVICE) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --maxschedchunk 1 $(DEVICE_TESTS)

fuzz: .venv/dev  ## texts of all scripts to tokens and back, and operations of the page, many of them
	$(BIN)/python -m pytest -q --hypothesis-profile=fuzz tests/test_01_data_preparation.py tests/test_export.py -k "any_text or joined or every_sign"
	DRAWS=100 $(BIN)/python -m pytest -q tests/test_page_engine.py -k lessons

RESOLUTION ?= lowest-direct
versions: .venv/dev  ## the tests on the lowest versions that pyproject.toml allows, or on the newest: RESOLUTION=highest
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python runs/versions
	$(BIN)/uv pip install --quiet --python runs/versions --resolution $(RESOLUTION) --editable ".[dev]"
	PATH="$(CURDIR)/runs/versions/bin:$$PATH" runs/versions/bin/python tools/run_tests.py
