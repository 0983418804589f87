// Errors as return values: `Error` in a `Result<T>`. A refused pod is not an error, see
// pod/refusal.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace alignd {

enum class ErrorCode {
  kInvalidArgument,   // the input is wrong; the same call will fail again
  kNotFound,          // the named thing does not exist
  kCorrupt,           // stored data does not verify
  kUnavailable,       // a peer or resource is not available now; the same call may succeed later
  kDeadlineExceeded,  // a peer did not answer in time
  kIo,                // the operating system refused; the message carries path and errno text
  kInternal,          // a bug in alignd, found before it did damage
};

// `message` is lower case, without a full stop, and has the wrong value in it. Where the kubelet
// has the same error, `message` is the kubelet's exact text. `remedy`, if there is one, says what
// the operator can do; it is a member of its own so that the message can be compared.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message = {};
  std::string remedy = {};

  // For log and error output: the message, and after a semicolon the remedy.
  std::string Text() const { return remedy.empty() ? message : message + "; " + remedy; }

  // The same error with `context` and a colon in front: "read /sys/x: no such file".
  Error In(std::string_view context) const {
    return {code, std::string(context) + ": " + message, remedy};
  }

  friend bool operator==(const Error&, const Error&) = default;
};

// The value of a `Result` that has nothing to return.
struct Done {
  friend bool operator==(Done, Done) = default;
};

// A value or the error that prevented it. A value type.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return content_.index() == 0; }

  // Only if ok(); otherwise the program ends (std::bad_variant_access is never caught).
  const T& value() const& { return std::get<0>(content_); }
  T& value() & { return std::get<0>(content_); }
  T&& value() && { return std::get<0>(std::move(content_)); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

  // Only if not ok().
  const Error& error() const { return std::get<1>(content_); }

 private:
  std::variant<T, Error> content_;
};

}  // namespace alignd
