#!/usr/bin/env bash
# Makes .venv with torch and the packages of requirements.lock, whose hashes are checked: what training needs.
# PYTHON=... chooses the interpreter, else the first of python3.11, python3.12, python3.13 and python3 that is one of the
# three and can make environments.
# TORCH=2.15.0 takes that version of torch in place of the pinned one (on Linux a build for CUDA: gigabytes).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fits='import sys, ensurepip, venv; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12), (3, 13)])'
python=""
for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3 python}; do
    if "$candidate" -c "$fits" 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "burnlike needs Python 3.11, 3.12 or 3.13 with venv (Debian: apt-get install python3-venv); looked at:" \
        "${PYTHON:-python3.11 python3.12 python3.13 python3 python}. Set PYTHON=/path/to/python to choose one." >&2
    exit 1
fi

[ -x .venv/bin/python ] || "$python" -m venv --clear .venv
export PIP_DISABLE_PIP_VERSION_CHECK=1
# `===` means this very text, so that a build with a suffix such as +cpu does not pass for it.
torch=${TORCH:+torch===$TORCH}
torch=${torch:-$(grep '^torch==' requirements-torch.lock)}
echo "Installing the packages of requirements.lock and $torch into .venv ($("$python" --version))"
.venv/bin/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
.venv/bin/python -m pip install --quiet "$torch"
