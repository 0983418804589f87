#!/usr/bin/env bash
# Measures how long a container with an exclusive CPU takes to start beside shared containers, with a
# private containerd: directly, and through alignd. Prints a table in Markdown.
#   scripts/start-times.sh [BENCH]   BENCH: the program alignd_bench (default: the one of build/)
# Needs root, containerd, runc and two CPUs. Takes about six minutes; nothing else should run on the
# machine meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

bench=${1:-build/tests/bench/alignd_bench}
if [ ! -x "$bench" ]; then
  echo "start-times: $bench does not exist; build it (cmake -G Ninja -B build && ninja -C build alignd_bench) or name another" >&2
  exit 1
fi
missing=$(scripts/lib/containerd.sh missing)
if [ -n "$missing" ]; then
  echo "start-times: this machine cannot run containers; missing: ${missing//$'\n'/, }" >&2
  exit 1
fi

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
ALIGND_BENCH_CONTAINERD=1 "$bench" --benchmark_filter='^StartExclusive/' --benchmark_format=csv \
  >"$results/csv" 2>"$results/context" || { cat "$results/context" >&2; exit 1; }

sed -n -E 's/^(cpu|cpus|compiler|build|commit): /* \1: /p' "$results/context"
containerd --version | sed 's/^/* runtime: /'
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then echo "* cgroups: version 2"; else echo "* cgroups: version 1"; fi
echo
echo "| CreateContainer and StartContainer, median (longest) | directly | directly, with a cpuset | through alignd | one durable write |"
echo "| --- | --- | --- | --- | --- |"
awk -F, '
  /^name,/ { for (i = 1; i <= NF; i++) { gsub(/"/, "", $i); column[$i] = i } }
  /^"StartExclusive/ {
    if ($0 ~ /,true,/) { print "start-times: failed: " $0 >"/dev/stderr"; exit 1 }
    split($1, part, "[:/]")
    row = "| beside " part[3] " shared containers"
    n = split("direct pinned through durable_write", way, " ")
    for (i = 1; i <= n; i++)
      row = row sprintf(" | %.0f (%.0f) ms", $column[way[i] "_ms_p50"], $column[way[i] "_ms_max"])
    print row " |"
  }' "$results/csv"
