#include "daemon/saved_state.h"

#include <filesystem>
#include <string>
#include <utility>

namespace alignd::daemon {
namespace {

// The value, or a problem of that file.
template <typename T>
std::optional<T> Take(Result<T> result, const std::filesystem::path& file,
                      std::vector<StartProblem>& problems) {
  if (result.ok()) return *std::move(result);
  problems.push_back({file, "", "", result.error()});
  return std::nullopt;
}

}  // namespace

std::optional<SavedState> LoadState(const Options& options, const admission::Node& node,
                                    std::vector<StartProblem>& problems, host::FileCalls& calls) {
  const std::filesystem::path& directory = options.state_dir;
  auto store = std::make_unique<allocation::CheckpointStore>(
      allocation::StatePaths{directory, options.DevicePluginDir()}, calls);
  std::vector<allocation::FileProblem> of_files;
  std::optional<admission::NodeState> state = store->Load(node, of_files);
  for (allocation::FileProblem& problem : of_files) {
    problems.push_back({std::move(problem.file), "", "", std::move(problem.error)});
  }
  const std::filesystem::path binding_file = directory / checkpoint::kBindingFileName;
  auto bindings = Take(mirror::BindingTable::Load(binding_file, calls), binding_file, problems);
  const bool is_retained =
      bindings && state && Take((*bindings)->RetainAssigned(*state), binding_file, problems);
  const std::filesystem::path switch_file = directory / reconcile::Bypass::kFileName;
  auto bypass = Take(reconcile::Bypass::Load(switch_file), switch_file, problems);
  auto running = Take(allocation::RunningBoot(options.root), options.root, problems);
  // Writes a file that is missing: not if alignd does not start.
  std::optional<std::unique_ptr<allocation::BootRecord>> boot;
  if (state && is_retained && bypass && running) {
    const std::filesystem::path file = directory / allocation::kBootFileName;
    boot = Take(allocation::BootRecord::Load(file, *std::move(running), calls), file, problems);
  }
  if (!boot) return std::nullopt;
  return SavedState{std::move(store), *std::move(state), *std::move(bindings), *std::move(boot),
                    *std::move(bypass)};
}

}  // namespace alignd::daemon
