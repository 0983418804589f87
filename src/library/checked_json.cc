#include "library/checked_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/json_depth.h"

namespace alignd::library {
Result<nlohmann::json> CheckedJson(std::string_view text, std::string_view name, size_t max_bytes) {
  const std::string place(name);
  if (text.size() > max_bytes) {
    return Error{ErrorCode::kInvalidArgument,
                 place + ": has more than " + std::to_string(max_bytes) + " bytes",
                 "give less at once"};
  }
  if (JsonDepthOf(text) > kMaxJsonDepth) {
    return Error{ErrorCode::kInvalidArgument,
                 place + ": has more than " + std::to_string(kMaxJsonDepth) + " levels",
                 "nest less deeply"};
  }
  using Json = nlohmann::json;
  std::vector<std::set<std::string>> keys;  // of the objects that the parser is in
  std::string twice;
  const auto note_key = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && twice.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) twice = key;
    }
    return true;
  };
  Json value = Json::parse(text, note_key, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return Error{ErrorCode::kInvalidArgument, place + ": is not JSON",
                 "correct the JSON; convert YAML to JSON before the call"};
  }
  if (!twice.empty()) {
    return Error{ErrorCode::kInvalidArgument, place + ": an object has \"" + twice + "\" twice",
                 "give each member once"};
  }
  return value;
}

}  // namespace alignd::library
