// What to do if no thread can be started.
#pragma once

#include <string_view>

namespace alignd {

inline constexpr std::string_view kRaiseThreads =
    "raise TasksMax of alignd.service or kernel.threads-max, and try again";

}  // namespace alignd
