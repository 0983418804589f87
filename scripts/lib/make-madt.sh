#!/usr/bin/env bash
# Makes an initramfs that gives a guest's CPUs other numbers.
#   scripts/lib/make-madt.sh OUT.cpio APIC-ID...
# The kernel numbers CPUs in the order of the ACPI table "APIC" (MADT). It takes the table in OUT.cpio
# instead of the emulator's if OUT.cpio comes before other archives of the initramfs (kernel
# documentation, admin-guide/acpi/initrd_table_override.rst). QEMU puts the threads of a core next to
# each other; most real machines number all first threads, then all second ones.
# The first CPU stays the first. The other entries are those of QEMU's machine q35.
set -euo pipefail
out=$(realpath "$1")
shift
busybox=$(command -v busybox)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Bytes of a number, as printf %b takes them.
u8() { printf '\\x%02x' $(($1 & 255)); }
u32() { u8 "$1" && u8 $(($1 >> 8)) && u8 $(($1 >> 16)) && u8 $(($1 >> 24)); }

body=$(u32 0xfee00000 && u32 1) # address of the local APICs; there are two 8259s
for id in "$@"; do
  body+="\x00\x08$(u8 "$id")$(u8 "$id")$(u32 1)" # an enabled local APIC
done
body+="\x01\x0c\x00\x00$(u32 0xfec00000)$(u32 0)" # the I/O APIC
body+="\x02\x0a\x00\x00$(u32 2)\x00\x00"          # the timer is interrupt 2
for irq in 5 9 10 11; do
  body+="\x02\x0a\x00$(u8 $irq)$(u32 $irq)\x0d\x00" # level-triggered, active high
done
body+='\x04\x06\xff\x00\x00\x01' # NMI at LINT1 of all CPUs

# Emulator's names, with a higher revision: the kernel takes no older table.
length=$((36 + ${#body} / 4))
table() { printf '%b' "APIC$(u32 $length)\x03$(u8 "$1")BOCHS BXPC    $(u32 2)BXPC$(u32 1)$body"; }
sum=0
for byte in $(table 0 | od -An -v -tu1); do sum=$((sum + byte)); done

mkdir -p "$work/kernel/firmware/acpi"
table $((-sum & 255)) >"$work/kernel/firmware/acpi/madt.aml"
cd "$work"
find kernel | "$busybox" cpio -o -H newc -R 0:0 >"$out" 2>/dev/null
