# Results in the Test Anything Protocol, for checks in shell. Sourced.
# shellcheck shell=bash

checks=0

note() { echo "# [$SECONDS s] $*"; }

passes() {
  checks=$((checks + 1))
  echo "ok $checks - $1"
}
fails() {
  checks=$((checks + 1))
  echo "not ok $checks - $1"
}

# Explains a failure: each line as a comment.
details() { printf '%s\n' "$@" | sed 's/^/#   /'; }

# expect WHAT WANTED GOT
expect() {
  if [ "$2" = "$3" ]; then
    passes "$1"
  else
    fails "$1"
    details "wanted: $2" "got: $3"
  fi
}

# expect_part WHAT PART WHOLE
expect_part() {
  if [[ $3 == *"$2"* ]]; then
    passes "$1"
  else
    fails "$1"
    details "wanted: ...$2..." "got: $3"
  fi
}

# succeeds WHAT COMMAND...; refuses WHAT COMMAND...: print the output if it is otherwise. `output` has it.
succeeds() {
  local what=$1
  shift
  if output=$("$@" 2>&1); then
    passes "$what"
  else
    fails "$what"
    details "$output"
  fi
}
refuses() {
  local what=$1
  shift
  if output=$("$@" 2>&1); then
    fails "$what"
    details "$output"
  else
    passes "$what"
  fi
}

# eventually WHAT WANTED COMMAND...: waits until the command prints WANTED, for at most 5 minutes.
eventually() {
  local what=$1 wanted=$2 got until=$((SECONDS + 300))
  shift 2
  until got=$("$@" 2>&1) && [ "$got" = "$wanted" ] || [ $SECONDS -gt $until ]; do sleep 0.2; done
  expect "$what" "$wanted" "$got"
}
