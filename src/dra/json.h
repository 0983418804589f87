// Reads JSON that drivers and the kubelet have written: what is absent or has another type is
// empty, unless the reader checks it. Private to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::dra {

// Errors: kInvalidArgument if the text is no JSON object.
inline Result<nlohmann::json> ParseObject(std::string_view text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_object()) return parsed;
  return Error{ErrorCode::kInvalidArgument,
               parsed.is_discarded() ? "not JSON" : "not a JSON object",
               "see the documentation of the program that writes it"};
}

// Null if there is no such member.
inline const nlohmann::json& MemberOf(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none;
  if (!object.is_object()) return none;
  const auto member = object.find(key);
  return member == object.end() ? none : *member;
}

// The text of that member; empty if it has none.
inline std::string TextOf(const nlohmann::json& object, const char* key) {
  const nlohmann::json& member = MemberOf(object, key);
  return member.is_string() ? member.get<std::string>() : std::string();
}

// The elements of that member; empty if it is no list.
inline const nlohmann::json& ElementsOf(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json& member = MemberOf(object, key);
  return member.is_array() ? member : none;
}

}  // namespace alignd::dra
