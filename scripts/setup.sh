#!/usr/bin/env bash
# Make .venv what requirements/dev.txt says. Needs python3 (3.11 or newer); called by make, safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*" >&2; }

command -v "$python" >/dev/null || {
  say "$python is not there: install Python 3.11 or newer, or run: make PYTHON=/path/to/python3.11"
  exit 1
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  say "$("$python" --version) is too old: install Python 3.11 or newer, or run: make PYTHON=/path/to/python3.11"
  exit 1
}

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  # Debian splits ensurepip from python3, into a package named after the exact version.
  package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $package"
    apt-get update -qq
    apt-get install -y -qq "$package" >/dev/null
  fi
  "$python" -c 'import ensurepip, venv' 2>/dev/null || {
    say "Python's venv module is missing: install the package $package (as root: apt-get install $package)"
    exit 1
  }
fi

# A virtual environment that was copied, moved or half made by an interrupted run is made anew: it knows its place.
if [ "$(cat .venv/.place 2>/dev/null)" != "$PWD" ] || ! .venv/bin/uv --version >/dev/null 2>&1; then
  rm -rf .venv
  "$python" -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
  printf '%s\n' "$PWD" >.venv/.place
fi

export VIRTUAL_ENV="$PWD/.venv"
.venv/bin/uv pip sync --quiet --require-hashes requirements/uv.txt requirements/dev.txt
.venv/bin/uv pip install --quiet --no-deps --no-build-isolation --editable .
touch .venv/.ready
say "ready: $(.venv/bin/python --version), $(.venv/bin/uv pip list --quiet | tail -n +3 | wc -l) packages in .venv"
