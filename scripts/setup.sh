# Shared by quickstart.sh and test.sh; sourced, not run.
#
# set_up_environment EXTRAS   a virtual environment in .venv with this checkout and the given extras, torch first
# find_browser                prints the path of a Chromium-family browser, installing one when there is none
#
# Both are quick when there is nothing to do. Messages go to stderr; a failure prints one line and ends the script.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="${REGION4WEB_VENV:-$ROOT/.venv}"
PYTHON="$VENV/bin/python"

say() { printf '%s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# The first Python that is new enough.
base_python() {
    local candidate
    for candidate in "${PYTHON_FOR_VENV:-python3}" python3.13 python3.12 python3.11 python3; do
        if command -v "$candidate" >/dev/null 2>&1 \
            && "$candidate" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed (found: $(python3 --version 2>&1 || true)); install it, or name one in PYTHON_FOR_VENV"
}

create_venv() {
    local base
    base="$(base_python)"
    say "Creating a virtual environment in $VENV"
    "$base" -m venv "$VENV" >/dev/null 2>&1 && "$PYTHON" -m pip --version >/dev/null 2>&1 && return
    # Debian without python3-venv: no ensurepip, but the system's pip can fill an empty environment.
    rm -rf "$VENV"
    "$base" -m venv --without-pip "$VENV" >&2 || fail "cannot create $VENV; on Debian: apt-get install python3-venv"
    "$base" -m pip --python "$PYTHON" install --quiet pip >&2 \
        || fail "cannot install pip into $VENV; on Debian: apt-get install python3-venv"
}

# What was installed, so that a second run has nothing to do.
installed_state() {
    printf '%s %s\n' "$ROOT" "$1"
    cat "$ROOT/pyproject.toml" "$ROOT/scripts/constraints.txt"
}

pip_install() {
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$PYTHON" -m pip install --quiet --progress-bar off -c "$ROOT/scripts/constraints.txt" "$@" >&2 \
        || fail "pip could not install $*; its message is above (no network? PIP_INDEX_URL and PIP_CONSTRAINT are honoured)"
}

set_up_environment() {
    local extras="$1" stamp="$VENV/.installed-${1//,/-}"
    if [ -x "$PYTHON" ] && [ -f "$stamp" ] && [ "$(installed_state "$extras")" = "$(cat "$stamp")" ] \
        && "$PYTHON" -c 'import region4web' >/dev/null 2>&1; then
        return
    fi
    "$PYTHON" -m pip --version >/dev/null 2>&1 || create_venv
    say "Installing torch (the pinned version, before anything can ask for another one; a minute or two)"
    pip_install "$(grep -E '^torch==' "$ROOT/scripts/constraints.txt")"
    say "Installing region4web[$extras] (a minute or two)"
    pip_install -e "$ROOT[$extras]"
    installed_state "$extras" >"$stamp"
}

# `timeout` where there is one (macOS has none).
limited() {
    if command -v timeout >/dev/null 2>&1; then timeout "$@"; else "${@:2}"; fi
}

# Tells whether a browser starts at all: a snap stub or a binary without its libraries does not.
browser_runs() {
    [ -x "$1" ] && limited 30 "$1" --version >/dev/null 2>&1
}

existing_browser() {
    local candidate
    for candidate in google-chrome google-chrome-stable chromium chromium-browser microsoft-edge \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" "/Applications/Chromium.app/Contents/MacOS/Chromium"; do
        candidate="$(command -v "$candidate" 2>/dev/null || true)"
        if [ -n "$candidate" ] && browser_runs "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    candidate="$("$PYTHON" - 2>/dev/null <<'PY' || true
from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    print(p.chromium.executable_path)
PY
)"
    if [ -n "$candidate" ] && browser_runs "$candidate"; then
        printf '%s\n' "$candidate"
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null 2>&1; then sudo -n "$@"; else return 1; fi
}

# Debian packages, where there is apt-get and the right to use it; quiet unless it fails.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    say "Installing the system packages $*"
    local log
    log="$(mktemp)"
    # A third-party source that cannot be updated need not matter.
    as_root apt-get -o DPkg::Lock::Timeout=900 -o Dpkg::Use-Pty=0 update -qq >"$log" 2>&1 || true
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=900 -o Dpkg::Use-Pty=0 install -y -qq --no-install-recommends "$@" >"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
}

# Playwright brings its own Node.js, which needs a library that small systems lack.
driver_runs() {
    "$PYTHON" -m playwright --version >/dev/null 2>&1
}

find_browser() {
    local browser
    driver_runs || apt_install libatomic1 || true
    driver_runs || fail "playwright does not start: $("$PYTHON" -m playwright --version 2>&1 | tail -n 1); on Debian: apt-get install libatomic1, as root"
    if [ -n "${REGION4WEB_BROWSER:-}" ]; then
        browser="$(command -v "$REGION4WEB_BROWSER" || true)"
        browser_runs "$browser" || fail "REGION4WEB_BROWSER names '$REGION4WEB_BROWSER', which does not run; unset it to have a browser found"
        printf '%s\n' "$browser"
        return
    fi
    browser="$(existing_browser)"
    if [ -z "$browser" ]; then
        say "No Chrome or Chromium found: downloading playwright's Chromium (a minute or two)"
        limited 600 "$PYTHON" -m playwright install chromium >/dev/null 2>&1 || say "The download failed"
        browser="$(existing_browser)"
    fi
    if [ -z "$browser" ]; then
        apt_install chromium fonts-liberation || true
        browser="$(existing_browser)"
    fi
    [ -n "$browser" ] || fail "no browser: install Chromium (Debian: apt-get install chromium, as root) or name one in REGION4WEB_BROWSER"
    printf '%s\n' "$browser"
}
