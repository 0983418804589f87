#include "cri/forwarder_metadata.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <array>

namespace alignd::cri {

// gRPC ends the program when asked to send what HTTP/2 does not allow, though it accepts some of
// that from a peer.
bool IsForwarded(std::string_view key, std::string_view value) {
  constexpr std::array<std::string_view, 7> kOfTheConnection = {
      "connection", "content-type", "host", "keep-alive", "te", "transfer-encoding", "user-agent"};
  if (key.starts_with(':') || key.starts_with("grpc-")) return false;
  for (const std::string_view name : kOfTheConnection) {
    if (key == name) return false;
  }
  const grpc_slice key_slice = grpc_slice_from_static_buffer(key.data(), key.size());
  if (grpc_header_key_is_legal(key_slice) == 0) return false;
  if (grpc_is_binary_header(key_slice) != 0) return true;
  return grpc_header_nonbin_value_is_legal(
             grpc_slice_from_static_buffer(value.data(), value.size())) != 0;
}

}  // namespace alignd::cri
