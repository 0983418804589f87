#include "daemon/conflicting_managers.h"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "alignd/config/kubelet_config.h"
#include "host/config_file.h"
#include "host/durable_file.h"
#include "host/file.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

bool IsSame(const fs::path& a, const fs::path& b) {
  std::error_code fault;
  return !b.empty() && fs::equivalent(a, b, fault);
}

bool SaysStatic(const fs::path& state_file) {
  const Result<std::string> text = host::ReadFile(state_file);
  if (!text.ok()) return false;
  const auto state = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return state.is_object() && state.contains("policyName") && state["policyName"] == "static";
}

bool SaysStaticConfig(const fs::path& config_file) {
  const Result<KubeletConfig> config = host::ReadConfigFile(config_file);
  return config.ok() && config->cpu_manager_policy == CpuManagerPolicy::kStatic;
}

void Note(bool is_so, const std::string& sign, const std::string& remedy,
          reconcile::Conditions& conditions) {
  if (is_so) {
    conditions.SawConflictingManager(sign, remedy);
  } else {
    conditions.ConflictingManagerGone(sign);
  }
}

}  // namespace

void LookForKubeletCpuManager(const fs::path& kubelet_dir, const OwnFiles& own,
                              reconcile::Conditions& conditions) {
  const fs::path state_file = kubelet_dir / "cpu_manager_state";
  const bool shared = IsSame(state_file, own.state_dir / "cpu_manager_state");
  Note(!shared && SaysStatic(state_file),
       state_file.string() + " is of the kubelet's static CPU manager policy",
       "set cpuManagerPolicy: none in the kubelet's configuration, remove that file, and restart "
       "the kubelet",
       conditions);
  const fs::path config_file = kubelet_dir / "config.yaml";
  Note(!IsSame(config_file, own.config) && SaysStaticConfig(config_file),
       config_file.string() + " gives the kubelet the static CPU manager policy",
       "set cpuManagerPolicy: none there and give alignd a configuration of its own (--config)",
       conditions);
  Note(shared,
       "alignd's state directory " + own.state_dir.string() +
           " is the kubelet's: a kubelet with the static CPU manager policy writes the same file, "
           "one without it does not start on alignd's",
       "set cpuManagerPolicy: none in the kubelet's configuration, stop the kubelet and alignd, "
       "move cpu_manager_state and memory_manager_state to a directory of alignd's own "
       "(--state-dir), and start them again",
       conditions);
  conditions.DropExpired();
}

void RestoreStateFiles(allocation::CheckpointStore& store,
                       allocation::AllocationManager& allocation,
                       reconcile::Conditions& conditions) {
  for (const allocation::CheckpointStore::ForeignFile& file : store.FindForeignFiles()) {
    const fs::path copy = file.path.string() + ".foreign";
    const Result<Done> saved = host::ReplaceFile(copy, file.text);
    if (!saved.ok()) spdlog::error("{} is lost: {}", file.path.string(), saved.error().Text());
    // It lapses by itself: that the file is ours again does not mean that the other one has gone.
    conditions.SawConflictingManager(
        file.path.string() + " was not what alignd wrote: somebody else keeps his state there (" +
            (saved.ok() ? "it is in " + copy.string() + " now" : saved.error().Text()) + ")",
        "let nobody else write there: give alignd a state directory of its own (--state-dir) and "
        "the kubelet cpuManagerPolicy none");
  }
  if (!store.IsUncertain()) return;
  const Result<Done> saved = allocation.SaveAgain();
  if (!saved.ok()) spdlog::error("the state files are not alignd's: {}", saved.error().Text());
}

}  // namespace alignd::daemon
