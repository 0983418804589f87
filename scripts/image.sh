#!/usr/bin/env bash
# Makes the container image of alignd, which installs alignd on the nodes of a cluster and has the
# programs that run in pods (docs/kubernetes.md), as an OCI image layout in one archive. Needs tar, gzip,
# sha256sum and Debian's busybox-static; no daemon, no network, no root.
#   scripts/image.sh FROM OUT.tar [NAME]
#     FROM  the static archive (alignd-VERSION-linux-amd64.tar.gz), or a directory with its bin/,
#           systemd/ and config/
#     NAME  the image's name, with tag (default: localhost/alignd:VERSION)
# The same input gives the same bytes.
# Environment:
#   SOURCE_DATE_EPOCH  the time of all files (default: that of the latest entry of the changelog)
#   GZIP_LEVEL         1 to 9 (default: 9)
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9p' "$0" >&2; exit 2; }
from=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(alignd VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
name=${3:-localhost/alignd:$version}
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(date +%s -d "$(sed -n 's/^ -- .*>  //p' packaging/debian/changelog | head -n 1)")
fi
export LC_ALL=C TZ=UTC
umask 022

fail() {
  echo "image: $1" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root layout=$work/layout
mkdir -p "$root"/{bin,etc,host,proc,run,tmp,alignd/licenses} "$layout/blobs/sha256"

# --- The files: a shell with its tools, the installer, and what it installs.
busybox=$(command -v busybox) || fail "busybox is missing: install busybox-static"
if ldd "$busybox" >/dev/null 2>&1; then fail "$busybox needs libraries: install busybox-static"; fi
cp "$busybox" "$root/bin/busybox"
# Not --list-full: which paths it gives is a matter of its build.
"$busybox" --list | while read -r applet; do
  [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
[ ! -f /usr/share/doc/busybox-static/copyright ] ||
  cp /usr/share/doc/busybox-static/copyright "$root/alignd/licenses/busybox"
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
install -m 755 packaging/image/alignd-node packaging/image/alignctl "$root/bin/"
cp config/quickstart/shared-pod.yaml "$root/alignd/check-pod.yaml"
if [ -f "$from" ]; then
  mkdir "$work/from"
  tar -C "$work/from" --strip-components=1 -xzf "$from"
  from=$work/from
fi
# The last two programs run in pods, and are not put on nodes.
for path in bin/alignd bin/alignctl systemd/alignd.service systemd/alignd.socket config/kubelet-config.yaml \
  bin/alignd-events bin/alignd-extender; do
  [ -f "$from/$path" ] || fail "$from has no $path"
  mkdir -p "$(dirname "$root/alignd/$path")"
  cp "$from/$path" "$root/alignd/$path"
done
[ ! -d "$from/licenses" ] || cp "$from"/licenses/* "$root/alignd/licenses/"
cp LICENSE "$root/alignd/licenses/alignd"
chmod -R u=rwX,go=rX "$root"
chmod 755 "$root"/alignd/bin/*
# Names these contents: a node that has them needs no upgrade.
echo "$version-$(cd "$root" && find . -type f ! -name id | sort | xargs sha256sum | sha256sum | cut -c 1-16)" \
  >"$root/alignd/id"

# --- The image layout.
# blob FILE: moves it to where its digest names it; prints the descriptor's digest and size.
blob() {
  local digest
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  printf '"digest":"sha256:%s","size":%s' "$digest" "$(stat -c %s "$1")"
  mv "$1" "$layout/blobs/sha256/$digest"
}
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu "$@"; }

pack -C "$root" -cf "$work/layer.tar" .
diff_id=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
gzip "-${GZIP_LEVEL:-9}n" "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz")
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
cat >"$work/config.json" <<JSON
{"architecture":"amd64","os":"linux","created":"$created","config":{"User":"0:0","Env":["PATH=/bin"],"Entrypoint":["/bin/alignd-node"],"Cmd":["install"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"alignd","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0 AND GPL-2.0-only"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff_id"]}}
JSON
config=$(blob "$work/config.json")
cat >"$work/manifest.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json",$config},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",$layer}]}
JSON
manifest=$(blob "$work/manifest.json")
cat >"$layout/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",$manifest,"platform":{"architecture":"amd64","os":"linux"},"annotations":{"io.containerd.image.name":"$name","org.opencontainers.image.ref.name":"${name##*:}"}}]}
JSON
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
mkdir -p "$(dirname "$out")"
pack -C "$layout" -cf "$out" blobs index.json oci-layout
