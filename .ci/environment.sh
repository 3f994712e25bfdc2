#!/usr/bin/env bash
# Makes .venv with the pinned packages of requirements.lock. PYTHON=... chooses the interpreter, else the first of
# python3.12, python3.11 and python3 that is one of the two and can make environments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fits='import sys, ensurepip, venv; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])'
python=""
for candidate in ${PYTHON:-python3.11 python3.12 python3 python}; do
    if "$candidate" -c "$fits" 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "burnlike needs Python 3.11 or 3.12 with venv (Debian: apt-get install python3-venv); looked at:" \
        "${PYTHON:-python3.11 python3.12 python3 python}. Set PYTHON=/path/to/python to choose one." >&2
    exit 1
fi

[ -x .venv/bin/python ] || "$python" -m venv --clear .venv
export PIP_DISABLE_PIP_VERSION_CHECK=1
echo "Installing the packages of requirements.lock into .venv ($("$python" --version))"
.venv/bin/python -m pip install --quiet --requirement requirements.lock
