#include "alignd/placement/node_files.h"

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"

namespace alignd::placement {
namespace {

template <typename Parsed>
Result<Done> CheckStateFile(const char* name, const Result<Parsed>& parsed) {
  if (parsed.ok()) return Done{};
  Error error = parsed.error().In(name);
  // The parser's remedy is for the node itself.
  error.remedy = "give the file as the node has it";
  return error;
}

}  // namespace

Result<Done> CheckStateFiles(const NodeFiles& files) {
  Result<Done> checked = Done{};
  if (!files.cpu_manager_state.empty()) {
    checked = CheckStateFile("cpu_manager_state",
                             checkpoint::ParseCpuCheckpoint(files.cpu_manager_state));
  }
  if (checked.ok() && !files.memory_manager_state.empty()) {
    checked = CheckStateFile("memory_manager_state",
                             checkpoint::ParseMemoryCheckpoint(files.memory_manager_state));
  }
  return checked;
}

}  // namespace alignd::placement
