#include "daemon/saved_state.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "alignd/checkpoint/binding_checkpoint.h"

namespace alignd::daemon {
namespace {

using allocation::OnBadState;

Result<std::unique_ptr<mirror::BindingTable>> LoadBindings(const std::filesystem::path& file,
                                                           OnBadState on_bad,
                                                           allocation::StateFindings& findings) {
  auto bindings = mirror::BindingTable::Load(file);
  if (bindings.ok() || on_bad == OnBadState::kRefuse ||
      bindings.error().code != ErrorCode::kCorrupt) {
    return bindings;
  }
  Result<allocation::BadFile> kept = allocation::SetAside(file, bindings.error());
  if (!kept.ok()) return kept.error();
  findings.bad.push_back(*std::move(kept));
  return mirror::BindingTable::Load(file);
}

bool IsLost(const std::filesystem::path& file, const allocation::StateFindings& findings) {
  return std::ranges::find(findings.missing, file) != findings.missing.end() ||
         std::ranges::find(findings.bad, file, &allocation::BadFile::file) != findings.bad.end();
}

}  // namespace

Result<SavedState> LoadSavedState(const Options& options, const admission::Node& node) {
  SavedState saved;
  const allocation::StatePaths paths{options.state_dir, options.DevicePluginDir()};
  saved.store = std::make_unique<allocation::CheckpointStore>(paths);
  Result<admission::NodeState> state = saved.store->Load(node, options.on_bad_state);
  if (!state.ok()) return state.error();
  saved.state = *std::move(state);
  saved.findings = saved.store->findings();
  auto bindings = LoadBindings(options.state_dir / checkpoint::kBindingFileName,
                               options.on_bad_state, saved.findings);
  if (!bindings.ok()) return bindings.error();
  saved.bindings = *std::move(bindings);
  // Without the file of the devices, it is not known yet which bindings are left over.
  if (!IsLost(paths.DeviceFile(), saved.findings)) {
    const Result<Done> retained = saved.bindings->RetainAssigned(saved.state);
    if (!retained.ok()) return retained.error();
  }
  Result<std::string> running_boot = allocation::RunningBoot(options.root);
  if (!running_boot.ok()) return running_boot.error();
  auto boot = allocation::BootRecord::Load(options.state_dir / allocation::kBootFileName,
                                           *std::move(running_boot));
  if (!boot.ok()) return boot.error();
  saved.boot = *std::move(boot);
  return saved;
}

}  // namespace alignd::daemon
