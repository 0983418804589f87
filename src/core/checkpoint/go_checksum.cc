#include "alignd/checkpoint/go_checksum.h"

namespace alignd::checkpoint {

uint32_t Fnv1a32(std::string_view bytes) {
  uint32_t hash = 2166136261;
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 16777619;
  }
  return hash;
}

void GoPrinter::Content(const GoBytes& value) {
  if (!value.bytes) return PrintNull();
  out_ += '[';
  bool first = true;
  for (const char byte : *value.bytes) {
    if (!std::exchange(first, false)) out_ += ' ';
    out_ += std::to_string(static_cast<unsigned char>(byte));
  }
  out_ += ']';
}

void GoPrinter::Content(const CpuSet& cpus) {
  out_ += "{elems:(map[int]struct {})map[";
  bool first = true;
  for (const int cpu : cpus) {
    if (!std::exchange(first, false)) out_ += ' ';
    out_ += std::to_string(cpu) + ":{}";
  }
  out_ += "]}";
}

}  // namespace alignd::checkpoint
