#!/usr/bin/env bash
# The checks of the Debian packages, run as root in a booted Debian 12 with systemd and containerd:
# scripts/package-test.sh starts it. Prints results in the Test Anything Protocol.
set -uo pipefail
cd /test || exit 1

# shellcheck source=tests/packages/node.sh
. ./node.sh
for part in ./[0-9]*.sh; do
  # shellcheck source=/dev/null
  . "$part"
done
echo "1..$checks"
