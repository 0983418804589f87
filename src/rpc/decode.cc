#include "rpc/decode.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rpc/parsed_bytes.h"

namespace alignd::rpc {
namespace {

// `7 bytes (0a 05 ff ff ff ff ff)`.
std::string Describe(const std::string& bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  constexpr size_t kShownBytes = 16;
  std::string shown;
  for (size_t i = 0; i < std::min(bytes.size(), kShownBytes); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (i > 0) shown += ' ';
    shown += {kHex[byte >> 4], kHex[byte & 15]};
  }
  if (bytes.size() > kShownBytes) shown += " ...";
  return std::to_string(bytes.size()) + " bytes (" + shown + ")";
}

}  // namespace

grpc::Status Decode(const std::string& bytes, google::protobuf::Message& message) {
  constexpr size_t kMax = kMaxParsedAnswerBytes;
  if (ParsedBytes(bytes, *message.GetDescriptor(), kMax) > kMax) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED,
            Describe(bytes) + " have so many parts that " + message.GetTypeName() +
                " would take more than " + std::to_string(kMax) + " bytes of memory"};
  }
  if (message.ParseFromString(bytes)) return grpc::Status();
  return {grpc::StatusCode::INTERNAL,
          Describe(bytes) + " cannot be decoded as " + message.GetTypeName()};
}

}  // namespace alignd::rpc
