#include "control/readable.h"

#include "alignd/checkpoint/utf8.h"

namespace alignd::control {

std::string Readable(std::string_view text) {
  std::string readable;
  while (!text.empty()) {
    const checkpoint::Rune rune = checkpoint::DecodeRune(text);
    checkpoint::AppendRune(readable, rune.valid ? rune.code : checkpoint::kReplacementRune);
    text.remove_prefix(rune.bytes);
  }
  return readable;
}

}  // namespace alignd::control
