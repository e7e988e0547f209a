#!/bin/sh
# Makes .venv and installs the project into it. Debian splits `venv` off Python: where it is missing, root installs the
# package and everybody else is told which one.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=${VENV:-.venv}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "modelwarden needs Python 3.11 or newer; $("$python" --version) was found. Set PYTHON=/path/to/python3.11." >&2
  exit 1
}
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  rm -rf "$venv"
  if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    rm -rf "$venv"
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
      apt-get update -q >&2 && apt-get install -y -q "$package" >&2
      "$python" -m venv "$venv"
    else
      echo "python's venv module cannot make an environment. Install it: apt-get install $package" >&2
      exit 1
    fi
  fi
fi
echo "making $venv; this takes a minute, once" >&2
# Dependency groups need pip 25.1 or newer; the one that venv brings may be older.
if ! "$venv/bin/python" -m pip install --help | grep -q -e '--group'; then
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -U pip
fi
"$venv/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt -e . --group dev
# As an installed wheel is: no first start that compiles.
"$venv/bin/python" -m compileall -q api app certs controller deploy engines kube local webhooks
touch "$venv/.installed"
