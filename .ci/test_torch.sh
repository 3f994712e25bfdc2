#!/usr/bin/env bash
# Builds burnlike and runs its suite with another torch and Python: test_torch.sh 2.15.0 3.13
# All of it happens in a copy of the checkout, .cache/torch-2.15.0-python3.13, with an environment of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

torch=${1:-}
version=${2:-}
if [[ ! $torch =~ ^[0-9]+\.[0-9]+\.[0-9]+$ || ! $version =~ ^3\.[0-9]+$ ]]; then
    echo "expected versions, as in: make test-torch TORCH=2.15.0 PYTHON=3.13" >&2
    exit 1
fi
# pyenv's interpreters are not on the PATH by their versions.
python=$(command -v "python$version" || true)
if ! "$python" -c "" 2>/dev/null; then
    python=$(find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -path "*/$version.*/bin/python$version" 2>/dev/null | sort -V | tail -n 1)
fi
if [ -z "$python" ]; then
    echo "there is no python$version: not on the PATH, nor of pyenv" >&2
    exit 1
fi

copy=.cache/torch-$torch-python$version
mkdir -p "$copy"
# What was removed from the checkout goes from the copy too; its environment, caches and native libraries stay.
find "$copy" -mindepth 1 \( -path "$copy/.venv" -o -path "$copy/.cache" \) -prune -o -type f ! -name '*.so' -exec rm -f {} +
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' path; do
    if [ -e "$path" ] || [ -L "$path" ]; then printf '%s\0' "$path"; fi
done | tar --null --files-from=- -cf - | tar -xf - -C "$copy"

cd "$copy"
unset MAKEFLAGS MAKEOVERRIDES MAKELEVEL
export TORCH=$torch PYTHON=$python
make test
