#include "daemon/saved_state.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "alignd/checkpoint/binding_checkpoint.h"

namespace alignd::daemon {
namespace {

using allocation::OnBadState;

// The value, or a problem of that file.
template <typename T>
std::optional<T> Take(Result<T> result, const std::filesystem::path& file,
                      std::vector<StartProblem>& problems) {
  if (result.ok()) return *std::move(result);
  problems.push_back({file, "", "", result.error()});
  return std::nullopt;
}

Result<std::unique_ptr<mirror::BindingTable>> LoadBindings(const std::filesystem::path& file,
                                                           OnBadState on_bad,
                                                           allocation::StateFindings& findings,
                                                           host::FileCalls& calls) {
  auto bindings = mirror::BindingTable::Load(file, calls);
  if (bindings.ok() || on_bad == OnBadState::kRefuse ||
      bindings.error().code != ErrorCode::kCorrupt) {
    return bindings;
  }
  Result<allocation::BadFile> kept = allocation::SetAside(file, bindings.error(), calls);
  if (!kept.ok()) return kept.error();
  findings.bad.push_back(*std::move(kept));
  return mirror::BindingTable::Absent(file, calls);
}

bool IsLost(const std::filesystem::path& file, const allocation::StateFindings& findings) {
  return std::ranges::find(findings.missing, file) != findings.missing.end() ||
         std::ranges::find(findings.bad, file, &allocation::BadFile::file) != findings.bad.end();
}

}  // namespace

std::optional<SavedState> LoadState(const Options& options, const admission::Node& node,
                                    std::vector<StartProblem>& problems,
                                    allocation::StateFindings& findings, host::FileCalls& calls) {
  const OnBadState on_bad = options.on_bad_state;
  const std::filesystem::path& directory = options.state_dir;
  const allocation::StatePaths paths{directory, options.DevicePluginDir()};
  auto store = std::make_unique<allocation::CheckpointStore>(paths, calls);
  std::vector<allocation::FileProblem> of_files;
  std::optional<admission::NodeState> state = store->Load(node, of_files, on_bad);
  for (allocation::FileProblem& problem : of_files) {
    problems.push_back({std::move(problem.file), "", "", std::move(problem.error)});
  }
  findings = store->findings();
  findings.on_bad = on_bad;
  const std::filesystem::path binding_file = directory / checkpoint::kBindingFileName;
  auto bindings = Take(LoadBindings(binding_file, on_bad, findings, calls), binding_file, problems);
  bool is_retained = bindings && state;
  // Without the file of the devices, it is not known yet which bindings are left over.
  if (is_retained && !IsLost(paths.DeviceFile(), findings)) {
    is_retained = Take((*bindings)->RetainAssigned(*state), binding_file, problems).has_value();
  }
  const std::filesystem::path switch_file = directory / reconcile::Bypass::kFileName;
  auto bypass = Take(reconcile::Bypass::Load(switch_file), switch_file, problems);
  auto running = Take(allocation::RunningBoot(options.root), options.root, problems);
  // Writes a file that is missing: not if alignd does not start.
  std::optional<std::unique_ptr<allocation::BootRecord>> boot;
  if (is_retained && bypass && running) {
    const std::filesystem::path file = directory / allocation::kBootFileName;
    boot = Take(allocation::BootRecord::Load(file, *std::move(running), calls), file, problems);
  }
  if (!boot) return std::nullopt;
  std::optional<Error> unsaved;
  if (Result<Done> written = store->WriteAgain(); !written.ok()) unsaved = written.error();
  return SavedState{std::move(store), *std::move(state),  *std::move(bindings),
                    *std::move(boot), *std::move(bypass), std::move(unsaved)};
}

void LogSetAside(const allocation::StateFindings& findings) {
  for (const allocation::BadFile& bad : findings.bad) {
    spdlog::error("{} cannot be used and is kept as {}: {}", bad.file.string(), bad.kept.string(),
                  bad.why);
  }
}

}  // namespace alignd::daemon
