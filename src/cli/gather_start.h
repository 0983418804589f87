// What a start of alignd would find on a node where it does not run.
#pragma once

#include <filesystem>

#include "alignd/base/result.h"
#include "daemon/start_check.h"
#include "kubelet/agreement.h"

namespace alignd::cli {

// Which are looked at: those of the unit, or others that are given.
struct StartPlaces {
  std::filesystem::path config;  // empty: none
  std::filesystem::path state_dir;
  std::filesystem::path device_plugin_dir;
};

// With the flags of the unit. Flags with which alignd ends at once are the only problem then: it
// looks at nothing else. Sockets are not checked. Errors: how alignd is started is not known.
Result<daemon::StartCheck> CheckStartOfUnit(const Result<kubelet::AligndSetup>& unit,
                                            const StartPlaces& places);

}  // namespace alignd::cli
