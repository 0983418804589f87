#!/usr/bin/env bash
# Builds a container image without a registry, as an archive for `ctr images import`.
#   scripts/lib/make-image.sh busybox OUT.tar NAME:TAG   a shell and small tools
#   scripts/lib/make-image.sh pause   OUT.tar NAME:TAG   the program of a pod's sandbox (needs gcc)
# The same input gives the same bytes.
set -euo pipefail

kind=$1 out=$(realpath "$2") name=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,dev,etc,proc,root,sys,tmp,var}

# Sleeps until SIGTERM or SIGINT. It also reaps orphaned processes, as process 1 of a pod's shared PID
# namespace must.
compile_pause() {
  gcc -O1 -static -s -x c -o "$root/pause" - <<'C'
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

int main(void) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  sigaddset(&wanted, SIGCHLD);
  sigprocmask(SIG_BLOCK, &wanted, NULL);
  for (;;) {
    int number = 0;
    if (sigwait(&wanted, &number) != 0) return 1;
    if (number != SIGCHLD) return 0;
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
}
C
}

case $kind in
  busybox)
    busybox=$(command -v busybox)
    cp "$busybox" "$root/bin/busybox"
    "$busybox" --list | while read -r applet; do
      [ "$applet" = busybox ] || ln "$root/bin/busybox" "$root/bin/$applet"
    done
    echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
    command='"/bin/sh"'
    ;;
  pause)
    compile_pause
    command='"/pause"'
    ;;
  *)
    sed -n '2,5p' "$0" >&2
    exit 2
    ;;
esac

pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --format=gnu "$@"; }
digest_of() { sha256sum "$1" | cut -d' ' -f1; }

case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) architecture=$(uname -m) ;;
esac
mkdir "$work/image"
pack -C "$root" -cf "$work/image/layer.tar" .
printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":{"Env":["PATH=/bin"],"Cmd":[%s]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
  "$architecture" "$command" "$(digest_of "$work/image/layer.tar")" >"$work/image/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" \
  >"$work/image/manifest.json"
pack -C "$work/image" -cf "$out" config.json layer.tar manifest.json
