#!/usr/bin/env bash
# Measures what an admission costs, then what the start of an exclusive container costs where this
# machine can run containers (scripts/start-times.sh), and prints the tables of docs/performance.md in
# Markdown.
#   scripts/scaling.sh [BENCH]   BENCH: the program alignd_bench (default: the one of build/)
# SECONDS_PER_CASE (0.5) is how long each case is repeated. About ten minutes; nothing else should run on
# the machine meanwhile. Times of admissions are of the processor, so what else runs disturbs them little.
set -euo pipefail
cd "$(dirname "$0")/.."

bench=${1:-build/tests/bench/alignd_bench}
seconds=${SECONDS_PER_CASE:-0.5}
if [ ! -x "$bench" ]; then
  echo "scaling: $bench does not exist; build it (cmake -G Ninja -B build && ninja -C build alignd_bench) or name another" >&2
  exit 1
fi

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
csv=$results/results.csv

# measure FILTER: one line `name,ns` for each case.
measure() {
  "$bench" --benchmark_filter="$1" --benchmark_min_time="$seconds" --benchmark_format=csv \
    2>"$results/context" |
    awk -F, '/^"/ { gsub(/"/, "", $1)
                    if ($0 ~ /,true,/) { print "scaling: " $1 " failed: " $0 >"/dev/stderr"; exit 1 }
                    print $1 "," $4 }'
}

measure '^(Admit|AdmitExhaustively|AdmitGrid|AdmitGridExhaustively|AdmitBesidePods)/' >"$csv"
measure '^(MergeAtWorst|MergeAtWorstByTables|ContainerAtWorst)/' >>"$csv"

context() { sed -n "s/^$1: //p" "$results/context"; }

# time_of NAME: "12.3 µs", or nothing if there is no such case.
time_of() {
  awk -F, -v name="$1" '
    $1 == name {
      if ($2 < 1e3) printf "%.0f ns", $2
      else if ($2 < 1e6) printf "%.1f µs", $2 / 1e3
      else if ($2 < 1e9) printf "%.1f ms", $2 / 1e6
      else printf "%.1f s", $2 / 1e9
    }' "$csv"
}

echo "Measured with \`scripts/scaling.sh\` on $(context cpu), $(context cpus) CPUs," \
  "$(context compiler), $(context build | tr -s ' '), commit $(context commit)."
echo
echo "| case, one pod on an empty node unless said otherwise | best-effort | restricted |"
echo "| --- | --- | --- |"
row() {
  echo "| $1 | $(time_of "Admit/$2/restricted:0") | $(time_of "Admit/$2/restricted:1") |"
}
row "2 NUMA nodes, 128 CPUs: cpu, memory, 1 device" numa2_cpus128_cpu_memory_gpu
row "8 NUMA nodes, 512 CPUs: cpu, memory, huge pages, 2 devices" \
  numa8_cpus512_cpu_memory_hugepages_gpu_nic
row "GB200, 34 NUMA nodes, 2 with CPUs: cpu, memory, 1 device" gb200_cpu_memory_gpu
row "the same with memory on all 34" gb200_memory_everywhere_cpu_memory_gpu
row "64 NUMA nodes, 1024 CPUs: cpu, memory, 2 devices" numa64_cpus1024_cpu_memory_gpu_nic
echo "| 8 NUMA nodes, 512 CPUs: cpu, memory, 1 device | $(time_of AdmitBesidePods/pods:0) | |"
echo "| the same with 250 pods placed | $(time_of AdmitBesidePods/pods:250) | |"

# grid TITLE NEEDED
grid() {
  local needed=$2 nodes resources alignd exhaustive line
  echo
  echo "| $1 | 1 | 2 | 3 | 4 | 5 |"
  echo "| --- | --- | --- | --- | --- | --- |"
  for nodes in 2 4 8 16 32 64; do
    line="| $nodes |"
    for resources in 1 2 3 4 5; do
      alignd=$(time_of "AdmitGrid/nodes:$nodes/resources:$resources/needed:$needed")
      exhaustive=$(time_of "AdmitGridExhaustively/nodes:$nodes/resources:$resources/needed:$needed")
      line+=" $alignd${exhaustive:+ ($exhaustive)} |"
    done
    echo "$line"
  done
}
echo
echo "By NUMA nodes and number of resources (cpu, memory, two kinds of devices, huge pages); in" \
  "brackets the exhaustive computation of the affinity alone (all hints listed, all their combinations" \
  "merged; no allocation), if it ends within a minute."
grid "NUMA nodes; the pod fits on one" 1
grid "NUMA nodes; the pod needs three (two of two)" 3

echo
echo "The merge at its worst (five resources with two demands each, all NUMA nodes and distances" \
  "different, devices on pairs of nodes): with the lowest set, and with prefer-closest-numa-nodes."
echo
echo "| common NUMA nodes | used | lowest set | closest set | all searches of a container |"
echo "| --- | --- | --- | --- | --- |"
# worst NODES USED CASE
worst() {
  echo "| $1 | $2 | $(time_of "$3/nodes:$1/closest:0") | $(time_of "$3/nodes:$1/closest:1")" \
    "| $(time_of "ContainerAtWorst/nodes:$1") |"
}
for nodes in 8 12 14 16; do worst "$nodes" tables MergeAtWorst; done
for nodes in 17 20 24 32 48 64; do worst "$nodes" search MergeAtWorst; done
for nodes in 18 20; do worst "$nodes" "tables, not used" MergeAtWorstByTables; done

echo
missing=$(scripts/lib/containerd.sh missing)
if [ -n "$missing" ]; then
  echo "The start of an exclusive container is not measured: this machine cannot run containers; missing:" \
    "${missing//$'\n'/, }."
else
  scripts/start-times.sh "$bench"
fi
