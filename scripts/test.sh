#!/usr/bin/env bash
# Sets up everything and runs all checks; the last lines are pytest's summary. Arguments go to pytest.
# REGION4WEB_TEST_SITES names the local test sites whose tasks are replayed; empty leaves them out (three minutes less).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

set_up_environment dev
REGION4WEB_BROWSER="$(find_browser)"
export REGION4WEB_BROWSER OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" TOKENIZERS_PARALLELISM=false

# The sites are installed once, into a cache folder, while ruff and mypy run.
TEST_SITES="${REGION4WEB_TEST_SITES-forum shop}"
sites_log="$(mktemp)"
# shellcheck disable=SC2086
{ [ -z "$TEST_SITES" ] || "$PYTHON" scripts/sites.py install $TEST_SITES; } >"$sites_log" 2>&1 &
sites_job=$!

# Every check runs, whatever the ones before it found.
status=0
say "ruff"
"$VENV/bin/ruff" check --quiet . || status=1
"$VENV/bin/ruff" format --check --quiet . || status=1
say "mypy"
"$VENV/bin/mypy" || status=1
[ "$status" = 0 ] || say "ruff or mypy found something (above); the tests run all the same, the exit status will be 1"
wait "$sites_job" || say "$(grep '^sites:' "$sites_log" || tail -n 1 "$sites_log") (the tasks of that site are not replayed this time)"
rm -f "$sites_log"
say "pytest"
"$PYTHON" -m pytest -n "${PYTEST_WORKERS:-2}" --dist loadfile "$@" || status=1
exit "$status"
