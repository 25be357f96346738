#!/usr/bin/env bash
# Sets up everything and runs all checks; the last lines are pytest's summary. Arguments go to pytest.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

set_up_environment dev
REGION4WEB_BROWSER="$(find_browser)"
export REGION4WEB_BROWSER OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" TOKENIZERS_PARALLELISM=false

say "ruff"
"$VENV/bin/ruff" check .
"$VENV/bin/ruff" format --check .
say "mypy"
"$VENV/bin/mypy"
say "pytest"
exec "$PYTHON" -m pytest -n "${PYTEST_WORKERS:-2}" --dist loadfile "$@"
