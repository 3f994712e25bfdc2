#!/usr/bin/env bash
# Writes the hashes of requirements.lock anew, after a version in it was changed or a line added. Needs uv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pins=$(mktemp)
trap 'rm -f "$pins"' EXIT
grep '==' requirements.lock | sed 's/ *\\$//' > "$pins"
{ grep '^#' requirements.lock; uv pip compile --quiet --no-deps --generate-hashes --no-annotate --no-header --python-version 3.11 "$pins"; } > "$pins.new"
mv "$pins.new" requirements.lock
