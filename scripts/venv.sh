#!/bin/sh
# Makes .venv with everything in requirements.lock and sqb itself; does nothing when that is there already.
# Every package is checked against the hashes in the lock, setuptools included: nothing is fetched beside it.
set -eu
cd "$(dirname "$0")/.."

stamp=.venv/.installed
wanted="$(cat requirements.lock pyproject.toml scripts/venv.sh | cksum) $PWD"
if [ -x .venv/bin/sqb ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

fits() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python=
for name in ${PYTHON:+"$PYTHON"} python3 python3.12 python3.11 python3.13; do
    if command -v "$name" >/dev/null 2>&1 && fits "$name"; then
        python=$name
        break
    fi
done
if [ -z "$python" ]; then
    echo "sqb needs Python 3.11 or newer with its venv module, and none was found." >&2
    echo "Install one (for instance: apt-get install python3 python3-venv, or brew install python@3.12)," >&2
    echo "or name one: make venv PYTHON=/path/to/python3" >&2
    exit 1
fi

# An environment holds absolute paths, so that of a folder that was moved is made anew.
if ! .venv/bin/python -c '' 2>/dev/null || { [ -f "$stamp" ] && ! grep -qF " $PWD" "$stamp"; }; then
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
rm -f "$stamp"

pip() {
    PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip --no-input "$@"
}

echo "Installing the packages in requirements.lock (the first time this fetches Spark, some 450 MB)"
build_tools=.venv/build-tools.txt
awk '/^setuptools==/ { found = 1 } found { print } found && !/\\$/ { exit }' requirements.lock >"$build_tools"
pip install --quiet --require-hashes --no-deps -r "$build_tools"
# What is imported is compiled then, and most of it never is.
pip install --require-hashes --no-build-isolation --no-compile -r requirements.lock
pip install --quiet --no-deps --no-build-isolation -e .
printf '%s' "$wanted" >"$stamp"
echo "Ready: .venv/bin/sqb"
