#!/usr/bin/env bash
# From nothing but python3 and pip to the regions of a page: bash scripts/quickstart.sh [URL|FILE]
# Without an argument, on a page that ships with the repository, rendered live in the browser.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

[ $# -le 1 ] || { say "usage: bash scripts/quickstart.sh [URL|FILE]"; exit 2; }
PAGE="${1:-$ROOT/data/pages/order_back_office/index.html}"
VIEW="$ROOT/output/regions.html"

set_up_environment model,browser
REGION4WEB_BROWSER="$(find_browser)"
export REGION4WEB_BROWSER

mkdir -p "$(dirname "$VIEW")"
"$VENV/bin/region4web" segment "$PAGE" --view "$VIEW"
say "Open $VIEW in a browser to see the regions drawn on the page."
