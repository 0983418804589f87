// What alignd remembers of CPUs that are offline when it starts: the kernel shows the topology of
// online CPUs only.
#pragma once

#include <filesystem>
#include <string_view>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/machine/machine.h"
#include "host/durable_file.h"

namespace alignd::daemon {

// In the state directory: the boot id, and the machine as the last start since the boot knew it.
inline constexpr std::string_view kKnownCpusFile = "known_cpus";

// `online`, the machine that sysfs below `root` shows, with the CPUs that the file in `state_dir`
// has beside, and which are still in the machine. `online` itself if the file is of another boot,
// contradicts sysfs, or cannot be read; the latter is logged.
Machine WithKnownCpus(Machine online, const std::filesystem::path& root,
                      const std::filesystem::path& state_dir);

// Writes the file, unless it has this already. Errors: as host::ReplaceFile.
Result<Done> SaveKnownCpus(const Machine& machine, const std::filesystem::path& root,
                           const std::filesystem::path& state_dir,
                           host::FileCalls& calls = host::FileCalls::System());

// The CPUs of the machine that are offline now, by sysfs below `root`. Errors: kIo, kCorrupt.
Result<CpuSet> OfflineCpusOf(const Machine& machine, const std::filesystem::path& root);

}  // namespace alignd::daemon
