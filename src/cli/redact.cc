#include "cli/redact.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "host/yaml.h"

namespace alignd::cli {
namespace {

using nlohmann::ordered_json;

std::string TextOfJson(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// Replaces the values of all members whose name `is_secret`, at any depth.
template <typename IsSecret>
void Remove(ordered_json& json, const IsSecret& is_secret) {
  if (!json.is_structured()) return;
  for (auto member = json.begin(); member != json.end(); ++member) {
    if (!json.is_object() || !is_secret(member.key())) {
      Remove(*member, is_secret);
    } else if (!member->is_boolean() && !member->is_null()) {
      *member = kRemoved;
    }
  }
}

}  // namespace

bool IsSecretName(std::string_view given) {
  std::string name(given);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.ends_with("file") || name.ends_with("path")) return false;
  static constexpr std::array<std::string_view, 7> kWords = {
      "token",         "secret", "password",    "credential",
      "authorization", "apikey", "staticpodurl"};  // the URL may have a password or a token
  return std::ranges::any_of(
      kWords, [&name](std::string_view word) { return name.find(word) != std::string::npos; });
}

Result<std::string> WithoutPluginAnswers(std::string_view checkpoint) {
  ordered_json json = ordered_json::parse(checkpoint, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return Error{ErrorCode::kInvalidArgument, "it is not JSON, so nothing can be left out of it",
                 "see what `alignctl checkpoint verify` says of it"};
  }
  Remove(json, [](const std::string& name) { return name == "AllocResp"; });
  return TextOfJson(json);
}

Result<std::string> WithoutSecrets(std::string_view config) {
  const Result<std::string> text = host::YamlToJson(config);
  if (!text.ok()) return text.error();
  ordered_json json = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return Error{ErrorCode::kInvalidArgument, "it is neither YAML nor JSON", "correct the file"};
  }
  Remove(json, IsSecretName);
  return TextOfJson(json);
}

}  // namespace alignd::cli
