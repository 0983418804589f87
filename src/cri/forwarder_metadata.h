// Which headers pass from one connection to the other.
#pragma once

#include <grpcpp/support/string_ref.h>

#include <map>
#include <string>
#include <string_view>

namespace alignd::cri {

// Whether a header is the user's and not the connection's, and can be sent.
bool IsForwarded(std::string_view key, std::string_view value);

// Calls `add` with the key and the value of each header that passes.
template <typename Add>
void ForEachForwarded(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata, Add add) {
  for (const auto& [key, value] : metadata) {
    if (!IsForwarded({key.data(), key.size()}, {value.data(), value.size()})) continue;
    add(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
}

}  // namespace alignd::cri
