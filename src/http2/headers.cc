#include "http2/headers.h"

namespace alignd::http2 {

std::string_view Find(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

size_t SizeOf(const Headers& headers) {
  size_t size = 0;
  for (const auto& [name, value] : headers) size += name.size() + value.size();
  return size;
}

}  // namespace alignd::http2
