#!/usr/bin/env bash
# Builds an initramfs from a directory and programs of this machine.
#   scripts/lib/make-initramfs.sh OUT.cpio DIR PROGRAM...
# Copies the programs, their shared libraries and busybox with its applets into DIR, and packs DIR.
# DIR must contain an executable `init`; other files in it are packed as well. Programs are stripped,
# as debugging information would fill the guest's memory.
set -euo pipefail

out=$(realpath "$1") dir=$(realpath "$2")
shift 2
PATH=$PATH:/usr/sbin:/sbin
busybox=$(command -v busybox)
programs=()
for program in "$@"; do
  path=$(command -v "$program") || { echo "the program $program is missing" >&2; exit 1; }
  programs+=("$(realpath "$path")")
done

cd "$dir"
mkdir -p usr/bin usr/lib usr/lib64 dev proc sys run tmp root var/lib etc moved
for link in bin:usr/bin sbin:usr/bin lib:usr/lib lib64:usr/lib64 usr/sbin:bin; do
  ln -sfn "${link#*:}" "${link%:*}"
done

add_program() {
  local library
  rm -f "usr/bin/$(basename "$1")"  # perhaps a link to busybox
  cp "$1" usr/bin/
  strip --strip-all "usr/bin/$(basename "$1")"
  # ldd fails for a static program.
  { ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true; } | while read -r library; do
    [ ! -e ".$library" ] || continue
    mkdir -p ".$(dirname "$library")"
    cp -L "$library" ".$library"
  done
}

"$busybox" --list | while read -r applet; do ln -sfn busybox "usr/bin/$applet"; done
rm -f usr/bin/busybox
cp "$busybox" usr/bin/busybox
for program in "${programs[@]}"; do add_program "$program"; done

echo 'root:x:0:0:root:/root:/bin/sh' >etc/passwd
echo 'root:x:0:' >etc/group
echo '127.0.0.1 localhost guest' >etc/hosts
echo guest >etc/hostname
: >etc/resolv.conf

find . | "$busybox" cpio -o -H newc -R 0:0 >"$out" 2>/dev/null
