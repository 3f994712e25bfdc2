#!/usr/bin/env bash
# Writes the hashes of these lock files anew, after a version in one was changed or a line added. Needs uv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pins=$(mktemp)
trap 'rm -f "$pins"' EXIT
for lock in requirements.lock requirements-dev.lock requirements-docs.lock; do
    grep '==' "$lock" | sed 's/ *\\$//' > "$pins"
    { grep '^#' "$lock"; uv pip compile --quiet --no-deps --generate-hashes --no-annotate --no-header --python-version 3.11 "$pins"; } > "$pins.new"
    mv "$pins.new" "$lock"
done
