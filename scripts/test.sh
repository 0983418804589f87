#!/usr/bin/env bash
# Builds and tests everything, as CI does.
#   scripts/test.sh [--numa-guest] [STAGE...]     without a stage: all stages, in this order
#     install  installs what the build and the tests need (scripts/install-deps.sh)
#     format   clang-format
#     gcc      the shipped build (RelWithDebInfo); all tests
#     packages Kubernetes manifests and chart (tests/kubernetes/check.py); Debian packages of what stage
#              gcc has built: lintian; install, upgrade, removal and purge of packages and container
#              image under a real systemd (scripts/package-test.sh). Skipped, with the reason, where
#              something is missing, such as the system's files: scripts/package-test.sh prepare.
#     clang    thread-safety analysis; unit, conformance and component tests with the address and
#              undefined-behaviour sanitizers
#     fuzz     every fuzzer for FUZZ_SECONDS (default: 10), with the same sanitizers
#     tsan     the tests of modules with threads, without gRPC, with the thread sanitizer
#     guest    alignd, as built by stage gcc, on emulated machines with two and four NUMA nodes and
#              cgroup v2 (scripts/numa-guest.sh). After stage gcc, it runs beside the other stages. Skipped,
#              with the reason, where the emulator is missing and cannot be installed. With
#              --numa-guest or CI=true, a missing emulator is a failure.
# A failed stage does not stop the following stages. A test case that fails is run once more, alone; if it
# passes then, the last lines name it as unsteady. The last line counts test cases.
# Environment:
#   JOBS           number of parallel compilers and tests (default: all CPUs)
#   ALIGND_SHARED  directory with vectors and captured machines (default: ../shared). Without it, the
#                  tests that need it are skipped.
#   TEST_SECONDS   time limit for all stages (default: none). How long stage gcc has taken says how long the
#                  others will take. What would not end in time is skipped, with the reason: stage
#                  guest, stage clang or its component tests, stage fuzz, stage tsan.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

jobs=${JOBS:-$(nproc)}
if [ -z "${ALIGND_SHARED:-}" ] && [ -d ../shared ]; then
  ALIGND_SHARED=$(cd ../shared && pwd)
  export ALIGND_SHARED
fi
export CTEST_OUTPUT_ON_FAILURE=1

numa_guest=false
if [ -n "${CI:-}" ] && [ "$CI" != false ]; then numa_guest=true; fi
if [ "${1:-}" = --numa-guest ]; then
  numa_guest=true
  shift
fi
began=$(date +%s)
gcc_seconds=0

passed=0 failed=0 skipped=0
failures=()
failed_cases=()
unsteady=()
failed_output=build/failed.log

# Adds up the cases that GoogleTest reported in a directory of XML files.
count_cases() {
  cat "$1"/*.xml 2>/dev/null | awk '
    function number(name) {
      if (!match($0, " " name "=\"[0-9]+")) return 0
      return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0
    }
    /<testsuite / {
      all += number("tests")
      bad += number("failures") + number("errors")
      not_run += number("skipped") + number("disabled")
    }
    END { print all - bad - not_run, bad + 0, not_run + 0 }'
}

# show_failed_cases LOG: what GoogleTest printed from the start to the end of each failed case, and what
# a sanitizer reported.
show_failed_cases() {
  awk '
    { line = $0; sub(/^[0-9]+: /, "", line) }
    line ~ /^\[ RUN      \]/ { count = 0 }
    { lines[count++ % 60] = line }
    line ~ /^\[  FAILED  \] .* \([0-9]+ ms\)$/ {
      for (i = count > 60 ? count - 60 : 0; i < count; ++i) print lines[i % 60]
    }
    $0 ~ pattern { report = 60 }
    report > 0 { print line; --report }' pattern="$report_pattern" "$1"
}

# name_failed_cases XML...: the cases that GoogleTest reported as failed.
name_failed_cases() {
  cat "$@" 2>/dev/null | awk '
    function text(name) {
      if (!match($0, " " name "=\"[^\"]*\"")) return "?"
      return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
    }
    /<testcase / { name = text("classname") "." text("name") }
    /<failure / && name != "" { print name; name = "" }'
}

# configure NAME CMAKE-ARGUMENT...
configure() {
  local name=$1
  shift
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -G Ninja -S . -B "build/$name" -DALIGND_TEST_REPORTS="$PWD/build/$name/results" \
    "${launcher[@]}" "$@" >"build/$name.log" 2>&1 ||
    { cat "build/$name.log"; return 1; }
}

# has_time WHAT PERCENT: whether it would end before TEST_SECONDS, if it takes so many percent of the time
# of stage gcc. Counts and names it as skipped if not.
has_time() {
  [ -n "${TEST_SECONDS:-}" ] || return 0
  local needed=$((gcc_seconds * $2 / 100)) left=$((TEST_SECONDS + began - $(date +%s)))
  [ "$needed" -gt "$left" ] || return 0
  echo "SKIPPED: $1: takes about $needed s here, $left s of TEST_SECONDS are left"
  skipped=$((skipped + 1))
  return 1
}

# Tests wait more than they compute. What a later stage needs is compiled beside them, by processes of
# the idle class: they get only the CPU time that the tests leave.
ahead=

# build_ahead STAGE: begins to compile for the stage, if it is one of those to run. The stage waits, and
# repeats what has failed with its own output.
build_ahead() {
  [[ " ${stages[*]} " == *" $1 "* ]] || return 0
  finish_ahead
  set -m  # a process group of its own, so that all of it can be ended
  (chrt --idle --pid 0 "$BASHPID" && "build_$1") >"build/ahead-$1.log" 2>&1 &
  ahead=$!
  set +m
}

finish_ahead() {
  if [ -n "$ahead" ]; then wait "$ahead" || true; fi
  ahead=
}

# build NAME [TARGET...]
build() {
  nice ninja -C "build/$1" -j "$jobs" --quiet "${@:2}"
}

# A sanitizer's report.
report_pattern='ERROR: [A-Za-z]+Sanitizer|WARNING: ThreadSanitizer|runtime error:'

# repeat_failed_cases NAME: runs the cases that failed once more, one after the other, with no other test
# beside them. Other programs can stop a shared machine for seconds, longer than a test that waits for
# another process can allow for. What passes now is counted as passed and named at the end as unsteady.
# Not repeated: what a sanitizer reported, programs that crashed or were not built, and more than three
# cases.
repeat_failed_cases() {
  local build=$1 results report program name again=()
  results="build/$build/results"
  ! grep -qE "$report_pattern|\\(Not Run\\)" "build/$build/tests.log" || return 1
  for report in "$results"/*.xml; do
    program=$(basename "$report" .xml | sed -E 's/_[0-9]+$//')
    while read -r name; do again+=("$program $name"); done < <(name_failed_cases "$report")
  done
  [ ${#again[@]} -gt 0 ] && [ ${#again[@]} -le 3 ] &&
    [ ${#again[@]} = "$(grep -cE '^\[  FAILED  \] .* \([0-9]+ ms\)$' "build/$build/tests.log")" ] ||
    return 1
  for name in "${again[@]}"; do
    program=${name%% *} name=${name#* }
    echo "once more, alone: $name"
    (cd "build/$build/tests" && "./$program" --gtest_filter="$name") >"build/$build/again.log" 2>&1 ||
      { cat "build/$build/again.log"; return 1; }
    grep -q '^\[  PASSED  \] 1 test' "build/$build/again.log" || return 1
    unsteady+=("$name ($build)")
  done
}

# run_tests NAME CTEST-ARGUMENT...
run_tests() {
  local build=$1 status=0 good bad not_run name
  local output="build/$build/tests.log"
  shift
  rm -rf "build/$build/results"
  mkdir -p "build/$build/results"
  # Twice as many tests as CPUs: most of them wait more than they compute.
  ctest --test-dir "build/$build" --no-tests=error -j $((2 * jobs)) "$@" | tee "$output" || status=$?
  read -r good bad not_run < <(count_cases "build/$build/results")
  [ "$status" = 0 ] || show_failed_cases "$output" >>"$failed_output"
  if [ "$status" != 0 ] && repeat_failed_cases "$build"; then
    good=$((good + bad)) bad=0 status=0
  fi
  passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + not_run))
  [ "$status" = 0 ] && return 0
  while read -r name; do failed_cases+=("$name ($build)"); done \
    < <(name_failed_cases "build/$build/results"/*.xml)
  # A program that crashed has written no report, and one that leaked reports no failed case.
  if [ "$bad" = 0 ]; then
    failed=$((failed + 1))
    while read -r name; do failed_cases+=("$name ($build)"); done \
      < <(grep -hoE '[a-z_]+_test[_0-9]* \((Not Run|Failed|Timeout|.*Exception.*)\)|SUMMARY: .*' "$output")
  fi
  return "$status"
}

stage_install() { scripts/install-deps.sh; }

stage_format() {
  find include src tests '(' -name '*.h' -o -name '*.cc' ')' -print0 |
    xargs -0 clang-format-14 --dry-run -Werror
}

stage_gcc() {
  configure gcc -DCMAKE_CXX_COMPILER=g++ &&
    build gcc &&
    build_ahead clang &&
    run_tests gcc
}

# lld links the many large programs of the sanitized builds in a tenth of the time.
clang=(-DCMAKE_CXX_COMPILER=clang++-14 -DCMAKE_C_COMPILER=clang-14 -DCMAKE_BUILD_TYPE=Debug
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld)

# The fuzzers and the tests share one build, which takes longer than running them.
configure_clang() {
  configure clang "${clang[@]}" -DALIGND_SANITIZE=address,undefined -DALIGND_FUZZ=ON
}

build_clang() {
  configure_clang &&
    build clang core_test library_test conformance_test edge_test include_rules_test threads_test component_test e2e_node_test \
      extender_test extender_process_test
}

stage_clang() {
  local tests='unit|conformance'
  if ! has_time "stage clang" 110; then
    if [ -n "$ahead" ]; then kill -- "-$ahead" 2>/dev/null || true; fi  # or has ended
    return 0
  fi
  finish_ahead
  build_clang && build_ahead tsan || return 1
  if has_time "component tests with sanitizers" 60; then tests+='|component'; fi
  run_tests clang -L "$tests"
}

# Debian's gRPC is built without the thread sanitizer. The sanitizer therefore reports a race for
# every message that gRPC passes between threads. The tests that use gRPC are left out: threads_test
# has those of all modules with threads and locks of their own, and fails if gRPC is used.
build_tsan() {
  configure tsan "${clang[@]}" -DALIGND_SANITIZE=thread &&
    build tsan threads_test
}

stage_tsan() {
  has_time "stage tsan" 15 || return 0
  finish_ahead
  build_tsan && run_tests tsan -R '^threads_test$'
}

# fuzz NAME: prints the last line of the fuzzer's log, or the whole log if the fuzzer has failed.
fuzz() {
  local found=build/clang/found/$1
  mkdir -p "$found"
  if "build/clang/tests/fuzz/$1_fuzzer" -max_total_time="${FUZZ_SECONDS:-10}" -timeout=10 \
    -rss_limit_mb=2048 -artifact_prefix="$found-" "$found" "tests/fuzz/corpus/$1" \
    >"$found.log" 2>&1; then
    echo "$1_fuzzer: $(tail -1 "$found.log")"
  else
    cat "$found.log"
    return 1
  fi
}

stage_fuzz() {
  local percent=15
  [ -x build/clang/tests/core_test ] || percent=80  # stage clang has built nothing
  has_time "stage fuzz" "$percent" || return 0
  local fuzzers=() fuzzer process status=0
  local -A running=()
  for fuzzer in tests/fuzz/*_fuzzer.cc; do fuzzers+=("$(basename "$fuzzer" _fuzzer.cc)"); done
  configure_clang && build clang "${fuzzers[@]/%/_fuzzer}" || return 1
  while [ ${#fuzzers[@]} -gt 0 ] || [ ${#running[@]} -gt 0 ]; do
    if [ ${#fuzzers[@]} -gt 0 ] && [ ${#running[@]} -lt "$jobs" ]; then
      fuzz "${fuzzers[0]}" &
      running[$!]=${fuzzers[0]}
      fuzzers=("${fuzzers[@]:1}")
    elif wait -n -p process "${!running[@]}"; then
      passed=$((passed + 1))
      unset "running[$process]"
    else
      failed_cases+=("${running[$process]}_fuzzer")
      failed=$((failed + 1)) status=1
      unset "running[$process]"
    fi
  done
  return "$status"
}

skip_guest() {
  if $numa_guest; then
    echo "$1"
    return 1
  fi
  echo "SKIPPED: $1"
  skipped=$((skipped + 1))
}

# cmake --install must not change the kubelet.
install_leaves_the_kubelet() {
  local root
  root=$(mktemp -d)
  DESTDIR=$root cmake --install build/gcc --prefix /usr >/dev/null &&
    [ -x "$root/usr/bin/alignd" ] && [ -f "$root/usr/lib/systemd/system/alignd.service" ] &&
    [ -z "$(find "$root" -name '*kubelet.service*')" ]
  local status=$?
  rm -rf "$root"
  return "$status"
}

# take_results TAP WHAT STATUS: counts the results of a program that printed the Test Anything Protocol.
take_results() {
  local good bad
  if [ "$3" = 77 ]; then
    echo "SKIPPED: $(sed 's/.*SKIP //' "$1")"
    skipped=$((skipped + 1))
    return 0
  fi
  [ "$3" = 0 ] || cat "$1"
  good=$(grep -c '^ok ' "$1")
  bad=$(grep -c '^not ok ' "$1")
  passed=$((passed + good)) failed=$((failed + bad))
  echo "$2: $good checks passed, $bad failed"
  return "$3"
}

stage_packages() {
  local status=0 code=0 checking
  scripts/install-deps.sh kubernetes || true  # the check reports what could not be installed
  tests/kubernetes/check.py >build/kubernetes.tap &
  checking=$!
  check_packages || status=1
  wait "$checking" || code=$?
  take_results build/kubernetes.tap kubernetes "$code" || status=1
  return "$status"
}

check_packages() {
  local status=0 code=0 packages=build/gcc/packages
  if install_leaves_the_kubelet; then
    passed=$((passed + 1))
  else
    echo "cmake --install: the programs are missing, or there is a drop-in of the kubelet"
    failed=$((failed + 1)) status=1
  fi
  if ! command -v lintian >/dev/null; then
    echo "SKIPPED: missing: the program lintian (scripts/install-deps.sh packages)"
    skipped=$((skipped + 1))
    return "$status"
  fi
  rm -rf "$packages"
  (cd build/gcc && cpack -G DEB) >build/packages.log 2>&1 || { cat build/packages.log; return 1; }
  lintian --allow-root --fail-on error,warning "$packages"/*.deb || status=1
  scripts/package-test.sh run "$packages" build/gcc >build/packages.tap || code=$?
  take_results build/packages.tap packages "$code" || status=1
  return "$status"
}

# The emulator uses one CPU, and the checks in it do not depend on the stages after gcc: it runs beside
# them. The compilers have a lower priority: calls in the guest have time limits.
guest_process=
guest_skipped=false
end_background() {
  local group
  for group in $guest_process $ahead; do kill -- "-$group" 2>/dev/null || true; done  # or has ended
}
trap end_background EXIT

begin_guest() {
  scripts/install-deps.sh guest >build/guest-deps.log 2>&1 || true  # "missing" reports what is missing
  if [ -z "$(scripts/numa-guest.sh missing)" ]; then
    setsid scripts/numa-guest.sh run build/gcc >build/guest.log 2>&1 &
    guest_process=$!
  fi
}

stage_guest() {
  local missing status=0 good bad
  if $guest_skipped; then return 0; fi
  if [ -z "$guest_process" ]; then begin_guest; fi
  if [ -z "$guest_process" ]; then
    cat build/guest-deps.log
    missing=$(scripts/numa-guest.sh missing | paste -s -d , | sed 's/,/, /g')
    skip_guest "the emulated machine cannot run here; missing: $missing"
    return
  fi
  wait "$guest_process" || status=$?
  guest_process=
  if [ "$status" = 0 ]; then
    sed -n '1p;/^# \[/p' build/guest.log
  else
    cat build/guest.log
    grep -B 5 -A 20 '^not ok ' build/guest.log >>"$failed_output"
  fi
  good=$(grep -c '^ok ' build/guest/results.tap)
  bad=$(grep -c '^not ok ' build/guest/results.tap)
  passed=$((passed + good)) failed=$((failed + bad))
  return "$status"
}

stages=("$@")
if [ ${#stages[@]} -eq 0 ]; then stages=(install format gcc packages clang fuzz tsan guest); fi
for stage in "${stages[@]}"; do
  declare -F "stage_$stage" >/dev/null || { sed -n '2,27p' "$0" >&2; exit 2; }
done
mkdir -p build
: >"$failed_output"
for stage in "${stages[@]}"; do
  echo "=== $stage"
  before=$failed
  SECONDS=0
  if "stage_$stage"; then
    echo "=== $stage: passed in $SECONDS s"
    if [ "$stage" = gcc ]; then gcc_seconds=$SECONDS; fi
    # The end-to-end tests of stage gcc have measured CPUs, with nothing beside them.
    if [ "$stage" = gcc ] && [[ " ${stages[*]} " == *" guest "* ]]; then
      if has_time "stage guest beside the other stages" 215; then begin_guest; else guest_skipped=true; fi
    fi
  else
    echo "=== $stage: FAILED after $SECONDS s"
    failures+=("$stage")
    if [ "$failed" = "$before" ]; then failed=$((failed + 1)); fi
  fi
done

echo
# Last, where the reader of a long log looks first.
cat "$failed_output"
if [ ${#failures[@]} -gt 0 ]; then echo "failed: ${failures[*]}"; fi
for name in "${failed_cases[@]}"; do echo "  $name"; done
for name in "${unsteady[@]}"; do echo "unsteady (failed, then passed alone): $name"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
