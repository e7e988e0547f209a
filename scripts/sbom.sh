#!/bin/sh
# Installs the project with its pinned dependencies into an environment of its own, as the image does, and lists what is in it as
# CycloneDX. The developers' environment would list pytest as well. Usage: sbom.sh CYCLONEDX_PY OUTPUT
set -eu
tool=$1 output=$2
cd "$(dirname "$0")/.."
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
"${PYTHON:-python3}" -m venv "$environment"
"$environment/bin/python" -m pip install -q --disable-pip-version-check --no-compile -c constraints.txt .
# Installers are no part of what runs.
"$environment/bin/python" -m pip uninstall -q -y setuptools pip 2>/dev/null || true
mkdir -p "$(dirname "$output")"
"$tool" environment --pyproject pyproject.toml --output-reproducible --of JSON -o "$output" "$environment/bin/python"
echo "$output"
