// Any text is refused or becomes JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "host/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return 0;  // passed through
  const alignd::Result<std::string> json = alignd::host::YamlToJson(text);
  if (json.ok() && !nlohmann::json::accept(*json)) std::abort();
  return 0;
}
