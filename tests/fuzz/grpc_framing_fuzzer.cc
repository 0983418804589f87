// A message is the same however it is cut into pieces, and a status that is parsed, written and
// parsed again stays the same, except for bytes that are not UTF-8. The first byte is the length of
// the pieces minus 1.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "alignd/checkpoint/utf8.h"
#include "proxy/grpc_framing.h"

namespace {

using alignd::proxy::MessageReader;

// Reads the bytes in pieces of that length.
grpc::StatusCode Read(MessageReader& reader, std::string_view bytes, size_t piece) {
  while (!bytes.empty()) {
    const grpc::Status status = reader.Append(bytes.substr(0, piece));
    if (!status.ok()) return status.error_code();
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  return grpc::StatusCode::OK;
}

void ReadMessage(std::string_view bytes, size_t piece) {
  MessageReader whole;
  MessageReader pieces;
  const grpc::StatusCode code = Read(whole, bytes, bytes.size() + 1);
  if (Read(pieces, bytes, piece) != code) std::abort();
  if (code != grpc::StatusCode::OK) return;
  if (whole.IsComplete() != pieces.IsComplete()) std::abort();
  if (whole.IsComplete() && alignd::proxy::FrameOf(pieces.TakeMessage()) != bytes) std::abort();
}

void ReadStatus(std::string_view text) {
  const std::string_view code = text.substr(0, text.find('\n'));
  const std::string_view message = text.substr(std::min(text.size(), code.size() + 1));
  const grpc::Status status = alignd::proxy::StatusIn({{"grpc-status", std::string(code)},
                                                       {"grpc-message", std::string(message)},
                                                       {"grpc-status-details-bin", "AAE"}});
  const grpc::Status again = alignd::proxy::StatusIn(alignd::proxy::TrailersWith(status));
  if (again.error_code() != status.error_code() ||
      again.error_message() != alignd::checkpoint::ToValidUtf8(status.error_message()) ||
      again.error_details() != status.error_details()) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  ReadMessage(bytes, size_t{data[0]} + 1);
  ReadStatus(bytes);
  return 0;
}
