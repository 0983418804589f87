// The most similar of some names, for "did you mean ...?". Private to the core.
#pragma once

#include <span>
#include <string_view>

namespace alignd {

// The name that differs in the fewest characters, regardless of case; of equally similar ones the
// first. If none is similar, the only one that begins so. Empty if there is none either.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> names);

// Whether they differ in one or two characters, regardless of case, or in case only.
bool IsMisspelling(std::string_view name, std::string_view of);

}  // namespace alignd
