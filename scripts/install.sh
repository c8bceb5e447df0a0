#!/bin/sh
# Usage: install.sh PYTHON EXTRAS
# Creates .venv if there is none and installs pullback into it, editable, with the named extras.
# Whatever is missing on this machine ends it with one sentence that says what to do.
set -u
python=$1
extras=$2

fail() {
    echo "pullback: $*" >&2
    exit 1
}

if ! .venv/bin/python -c pass 2>/dev/null; then
    command -v "$python" >/dev/null 2>&1 ||
        fail "'$python' is not on this machine; install Python 3.11 or newer, or name one with 'make PYTHON=/path/to/python3'."
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
        fail "'$python' does not run; install Python 3.11 or newer, or name one with 'make PYTHON=/path/to/python3'."
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "needs Python 3.11 or newer and '$python' is $version; name a newer one with 'make PYTHON=/path/to/python3'."
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "this Python $version has no venv module; on Debian or Ubuntu: sudo apt install python$version-venv"
    echo "Creating .venv with Python $version ..."
    problem=$("$python" -m venv --clear .venv 2>&1) ||
        fail "'$python -m venv .venv' failed: $(echo "$problem" | tail -n 1)"
fi

echo "Installing pullback and what it needs into .venv (once, about half a minute) ..."
.venv/bin/python -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 30 \
    --editable ".[$extras]" </dev/null >.venv/install.log 2>&1 ||
    fail "pip could not install the packages that pullback needs; is the network there? The whole story is in .venv/install.log, try again with the same command."
