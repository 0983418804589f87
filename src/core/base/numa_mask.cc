#include "alignd/base/numa_mask.h"

namespace alignd {

std::string NumaMask::ToString() const {
  std::string text = "{";
  for (const int position : *this) {
    if (text.size() > 1) text += ',';
    text += std::to_string(position);
  }
  return text + "}";
}

}  // namespace alignd
