// JSON objects of the API server: their members, and what is kept of those that describe nodes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "apiserver/object_list.h"

namespace alignd::apiserver {

// The member of that name. Null: there is none, or `object` is no object.
const nlohmann::json* MemberIn(const nlohmann::json& object, const char* name);

// The text in the member `inner` of the member `outer`. Empty: it is not there, or no text.
std::string TextIn(const nlohmann::json& object, const char* outer, const char* inner);

// Null: the text is no JSON object, or has more than kMaxJsonDepth levels.
nlohmann::json ParsedObject(std::string_view text);

// NAME, of a pod NAMESPACE/NAME. Empty: the object has no name.
std::string KeyOf(ObjectKind kind, const nlohmann::json& object);

// The object with kind and apiVersion, which the objects of lists do not have, and without what is
// not read here, and is large or new with each write.
std::string Pruned(ObjectKind kind, nlohmann::json object);

}  // namespace alignd::apiserver
