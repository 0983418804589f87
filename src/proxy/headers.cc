#include "proxy/headers.h"

namespace alignd::proxy {
namespace {

// The usual sizes of a gRPC call's headers, so that most blocks need one allocation.
constexpr size_t kUsualBytes = 256;
constexpr size_t kUsualFields = 12;

}  // namespace

Headers::Headers(std::initializer_list<Field> fields) {
  for (const Field& field : fields) Add(field.name, field.value);
}

void Headers::Add(std::string_view name, std::string_view value) {
  if (ends_.empty()) {
    text_.reserve(kUsualBytes);
    ends_.reserve(kUsualFields);
  }
  text_ += name;
  const size_t name_end = text_.size();
  text_ += value;
  ends_.push_back({name_end, text_.size()});
}

void Headers::clear() {
  text_.clear();
  ends_.clear();
}

Headers::Field Headers::operator[](size_t index) const {
  const std::string_view text = text_;
  const size_t begin = index == 0 ? 0 : ends_[index - 1].value;
  const Ends& ends = ends_[index];
  return {text.substr(begin, ends.name - begin), text.substr(ends.name, ends.value - ends.name)};
}

std::string_view Headers::Find(std::string_view name) const {
  for (const Field& field : *this) {
    if (field.name == name) return field.value;
  }
  return {};
}

}  // namespace alignd::proxy
