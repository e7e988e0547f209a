#!/bin/sh
# Fetches the programs that the checks of packaging ask, where they are not installed: prometheus and promtool, out of Debian's own package,
# unpacked into a folder of ours and installed nowhere. Needs no root. Usage: tools.sh FOLDER
#
# What cannot be had is told in a line, and is no failure: the tests that ask for it skip, and say so.
set -u
folder=$1
if command -v promtool >/dev/null 2>&1 && command -v prometheus >/dev/null 2>&1; then
  exit 0
fi
if [ -x "$folder/bin/promtool" ] && [ -x "$folder/bin/prometheus" ]; then
  exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg >/dev/null 2>&1; then
  echo "prometheus and promtool are not installed, and this is no Debian that could hand them out" >&2
  exit 0
fi
mkdir -p "$folder/bin" "$folder/lists/partial" "$folder/cache/archives/partial"
cd "$folder" || exit 0
apt="apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 -o Acquire::http::Timeout=60"
fresh="-o Dir::State::lists=$PWD/lists -o Dir::Cache=$PWD/cache"

fetch() {
  # The system's own lists first; where they are missing or old, lists of our own.
  $apt download prometheus && return 0
  # shellcheck disable=SC2086  # options, to be split
  $apt $fresh update && $apt $fresh download prometheus
}

for attempt in 1 2 3; do
  if fetch >fetch.log 2>&1 && dpkg -x prometheus_*.deb unpacked 2>>fetch.log; then
    mv unpacked/usr/bin/prometheus unpacked/usr/bin/promtool bin/
    rm -rf unpacked lists cache prometheus_*.deb
    exit 0
  fi
  rm -rf unpacked prometheus_*.deb
  [ "$attempt" = 3 ] || sleep $((attempt * 5))
done
echo "prometheus and promtool could not be fetched: $(tail -n 1 fetch.log)" >&2
exit 0
