// Why a state file cannot be loaded: the kubelet's text with the file in front, and alignd's remedy
// instead of "drain this node".
#pragma once

#include <filesystem>
#include <string>

#include "alignd/base/result.h"

namespace alignd::allocation {

Error NotRestored(const Error& error, const std::filesystem::path& path, std::string remedy);

Error NotValid(const Error& error, const std::filesystem::path& path, std::string remedy);

// The file is of another policy. That is a change of the configuration, under which nothing is
// rebuilt; but a name of no policy shows that the file is none of a kubelet or of alignd.
Error OfOtherPolicy(const Error& error, const std::string& policy, bool is_known,
                    const char* setting, const std::filesystem::path& path, const char* loss);

// A sound file that contradicts the configured reservations. That is a change of the configuration,
// too. `settings`: where they are configured.
Error OfOtherReservations(Error error, const std::string& settings,
                          const std::filesystem::path& path);

}  // namespace alignd::allocation
