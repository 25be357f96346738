#!/usr/bin/env bash
# Sets up everything and runs all checks; the last lines are pytest's summary. Arguments go to pytest.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

set_up_environment dev
REGION4WEB_BROWSER="$(find_browser)"
export REGION4WEB_BROWSER OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" TOKENIZERS_PARALLELISM=false

# Every check runs, whatever the ones before it found.
status=0
say "ruff"
"$VENV/bin/ruff" check --quiet . || status=1
"$VENV/bin/ruff" format --check --quiet . || status=1
say "mypy"
"$VENV/bin/mypy" || status=1
[ "$status" = 0 ] || say "ruff or mypy found something (above); the tests run all the same, the exit status will be 1"
say "pytest"
"$PYTHON" -m pytest -n "${PYTEST_WORKERS:-2}" --dist loadfile "$@" || status=1
exit "$status"
