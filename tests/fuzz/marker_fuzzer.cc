// Any annotation is refused or read; a marker that is read is written and read again as it is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "mirror/marker.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A random key never fits, so that the key is computed from the resource in the text.
  const size_t line = text.find('\n');
  const std::string_view resource = text.substr(0, line);
  const std::string_view value = line == std::string_view::npos ? text : text.substr(line + 1);
  const std::string key =
      std::string(alignd::mirror::kMarkerPrefix) + alignd::mirror::ResourceHash(resource);
  const alignd::Result<alignd::mirror::Marker> marker = alignd::mirror::ParseMarker(key, value);
  if (!marker.ok()) return 0;
  if (marker->ids.empty() || marker->resource != resource) std::abort();
  const alignd::mirror::Annotation again = alignd::mirror::FormatMarker(*marker);
  const auto read = alignd::mirror::ParseMarker(again.key, again.value);
  if (again.key != key || !read.ok() || *read != *marker) std::abort();
  return 0;
}
