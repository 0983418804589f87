// The memory that a message takes once it is parsed: up to 240 times its bytes, if it has many
// small parts.
#pragma once

#include <cstddef>
#include <string_view>

namespace google::protobuf {
class Descriptor;
namespace io {
class CodedInputStream;
}  // namespace io
}  // namespace google::protobuf

namespace alignd::rpc {

// A request that takes more is refused. A pod has at most 1.5 MiB in the API server; of that, 20
// MiB are parsed at the worst.
inline constexpr size_t kMaxParsedRequestBytes = size_t{64} << 20;
// An answer, or a message of a stream. A list of 16 MiB with many short labels takes 100 MiB.
inline constexpr size_t kMaxParsedAnswerBytes = size_t{256} << 20;

// About the bytes of memory that a message of this type takes once it is parsed, with what the
// allocator adds. Stops counting when it has more than `limit`, and where the bytes are no message:
// the parser stops there, too. Reads the bytes and allocates nothing. Thread-safe.
size_t ParsedBytes(google::protobuf::io::CodedInputStream& bytes,
                   const google::protobuf::Descriptor& type, size_t limit);
size_t ParsedBytes(std::string_view bytes, const google::protobuf::Descriptor& type, size_t limit);

}  // namespace alignd::rpc
