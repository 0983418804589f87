#include "proxy/grpc_framing.h"

#include <absl/strings/escaping.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "alignd/checkpoint/utf8.h"

namespace alignd::proxy {
namespace {

constexpr size_t kPrefixBytes = 5;  // a flag for compression, and the size, high byte first
constexpr char kStatus[] = "grpc-status";
constexpr char kText[] = "grpc-message";
constexpr char kDetails[] = "grpc-status-details-bin";

// The text as grpc-message carries it: printable ASCII, the rest as %XX.
std::string PercentEncoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    // HTTP does not keep spaces at the ends.
    const bool at_an_end = i == 0 || i + 1 == text.size();
    if (byte >= 0x20 && byte < 0x7f && c != '%' && !(c == ' ' && at_an_end)) {
      encoded += c;
    } else {
      encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return encoded;
}

// Text that is not %XX stays as it is.
std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      const char* const digits = text.data() + i + 1;
      const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
      if (error == std::errc() && end == digits + 2) {
        decoded += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    decoded += text[i];
  }
  return decoded;
}

std::string Base64Decoded(std::string_view text) {
  std::string bytes;
  // Padded or not.
  return absl::Base64Unescape({text.data(), text.size()}, &bytes) ? bytes : std::string();
}

// Of an answer without a gRPC status. Source: gRPC's doc/http-grpc-status-mapping.md.
grpc::StatusCode CodeOfHttp(std::string_view status) {
  if (status == "400") return grpc::StatusCode::INTERNAL;
  if (status == "401") return grpc::StatusCode::UNAUTHENTICATED;
  if (status == "403") return grpc::StatusCode::PERMISSION_DENIED;
  if (status == "404") return grpc::StatusCode::UNIMPLEMENTED;
  if (status == "429" || status == "502" || status == "503" || status == "504") {
    return grpc::StatusCode::UNAVAILABLE;
  }
  return grpc::StatusCode::UNKNOWN;
}

}  // namespace

grpc::Status MessageReader::Append(std::string_view bytes) {
  if (!size_) {
    const size_t missing = kPrefixBytes - prefix_.size();
    prefix_.append(bytes.substr(0, missing));
    bytes.remove_prefix(std::min(missing, bytes.size()));
    if (prefix_.size() < kPrefixBytes) return grpc::Status();
    if (prefix_[0] != 0) {
      return {grpc::StatusCode::UNIMPLEMENTED,
              "alignd does not support compressed messages: send this message without compression"};
    }
    size_t size = 0;
    for (size_t i = 1; i < kPrefixBytes; ++i) {
      size = size << 8 | static_cast<unsigned char>(prefix_[i]);
    }
    if (size > max_bytes_) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "received message larger than max (" +
                                                        std::to_string(size) + " vs. " +
                                                        std::to_string(max_bytes_) + ")"};
    }
    size_ = size;
  }
  if (bytes.size() > *size_ - bytes_.size()) {
    return MoreThanOneMessage();
  }
  bytes_.append(bytes);
  return grpc::Status();
}

grpc::Status MoreThanOneMessage() {
  return {grpc::StatusCode::INTERNAL, "more than one message in a unary call"};
}

grpc::Status TooManyKept() {
  return {
      grpc::StatusCode::RESOURCE_EXHAUSTED,
      "alignd still decides about too many requests, also of callers that have gone; send fewer "
      "at a time; see in alignd's status whether the runtime answers"};
}

grpc::Status TooManyParts(size_t bytes, size_t limit) {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED,
          "the " + std::to_string(bytes) +
              " bytes of the request have so many parts that it would take more than " +
              std::to_string(limit) +
              " bytes of memory; use fewer arguments, variables, mounts and annotations"};
}

size_t MessageReader::Missing() const {
  return size_ ? *size_ - bytes_.size() : kPrefixBytes - prefix_.size();
}

std::string MessageReader::TakeMessage() {
  return std::exchange(*this, MessageReader(max_bytes_)).bytes_;
}

std::string FrameOf(std::string message) {
  const size_t size = message.size();
  std::string prefix(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) prefix += static_cast<char>(size >> shift & 0xff);
  message.insert(0, prefix);
  return message;
}

std::optional<std::chrono::microseconds> ParseTimeout(std::string_view value) {
  using std::chrono::microseconds;
  constexpr size_t kMaxDigits = 8;
  constexpr microseconds kMaxTimeout = std::chrono::hours(24);
  if (value.size() < 2 || value.size() > kMaxDigits + 1) return std::nullopt;
  int64_t amount = 0;
  const char* const unit = value.data() + value.size() - 1;
  const auto [end, error] = std::from_chars(value.data(), unit, amount);
  if (error != std::errc() || end != unit || amount < 0) return std::nullopt;
  microseconds timeout{};
  switch (*unit) {
    case 'H':
      timeout = std::chrono::hours(amount);
      break;
    case 'M':
      timeout = std::chrono::minutes(amount);
      break;
    case 'S':
      timeout = std::chrono::seconds(amount);
      break;
    case 'm':
      timeout = std::chrono::milliseconds(amount);
      break;
    case 'u':
      timeout = microseconds(amount);
      break;
    case 'n':
      timeout = microseconds(amount / 1000);
      break;
    default:
      return std::nullopt;
  }
  return std::min(timeout, kMaxTimeout);
}

Headers ForNewMessage(const Headers& headers) {
  Headers changed;
  for (const auto& [name, value] : headers) {
    if (name == "content-length" || name == "grpc-encoding" || name == "grpc-accept-encoding") {
      continue;
    }
    changed.Add(name, value);
  }
  changed.Add("grpc-accept-encoding", "identity");  // alignd reads the answer as well
  return changed;
}

bool HasStatus(const Headers& trailers) { return !trailers.Find(kStatus).empty(); }

grpc::Status StatusIn(const Headers& trailers) {
  const std::string_view text = trailers.Find(kStatus);
  int code = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    const std::string_view http = trailers.Find(":status");
    return {text.empty() ? CodeOfHttp(http) : grpc::StatusCode::UNKNOWN,
            "the answer ended without a gRPC status" +
                (http.empty() ? std::string() : ", HTTP status " + std::string(http))};
  }
  const bool is_known = code >= 0 && code <= grpc::StatusCode::UNAUTHENTICATED;
  return {is_known ? static_cast<grpc::StatusCode>(code) : grpc::StatusCode::UNKNOWN,
          PercentDecoded(trailers.Find(kText)), Base64Decoded(trailers.Find(kDetails))};
}

Headers TrailersWith(const grpc::Status& status) {
  Headers headers = {{kStatus, std::to_string(status.error_code())}};
  if (!status.error_message().empty()) {
    headers.Add(kText, PercentEncoded(checkpoint::ToValidUtf8(status.error_message())));
  }
  if (const std::string& details = status.error_details(); !details.empty()) {
    headers.Add(kDetails, absl::Base64Escape(details));
  }
  return headers;
}

Headers AnswerBegin() { return {{":status", "200"}, {"content-type", "application/grpc"}}; }

Headers AnswerWith(const grpc::Status& status) {
  Headers headers = AnswerBegin();
  for (const auto& [name, value] : TrailersWith(status)) headers.Add(name, value);
  return headers;
}

}  // namespace alignd::proxy
