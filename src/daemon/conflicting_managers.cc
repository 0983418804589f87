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

bool HasStaticPolicy(const fs::path& state_file) {
  const Result<std::string> text = host::ReadFile(state_file);
  if (!text.ok()) return false;
  const auto state = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return state.is_object() && state.contains("policyName") && state["policyName"] == "static";
}

bool ConfiguresStaticPolicy(const fs::path& config_file) {
  const Result<KubeletConfig> config = host::ReadConfigFile(config_file);
  return config.ok() && config->cpu_manager_policy == CpuManagerPolicy::kStatic;
}

void Report(bool is_so, const std::string& sign, const std::string& remedy,
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
  Report(!shared && HasStaticPolicy(state_file),
         state_file.string() + " is a state file of the kubelet's static CPU manager policy",
         "set cpuManagerPolicy: none in the kubelet's configuration, remove that file, and restart "
         "the kubelet",
         conditions);
  const fs::path config_file = kubelet_dir / "config.yaml";
  Report(!IsSame(config_file, own.config) && ConfiguresStaticPolicy(config_file),
         config_file.string() + " sets the static CPU manager policy for the kubelet",
         "set cpuManagerPolicy: none there and give alignd a separate configuration (--config)",
         conditions);
  Report(
      shared,
      "alignd's state directory " + own.state_dir.string() +
          " is the kubelet's: a kubelet with the static CPU manager policy writes the same file, "
          "and a kubelet without it refuses to start with alignd's file",
      "set cpuManagerPolicy: none in the kubelet's configuration, stop the kubelet and alignd, "
      "move cpu_manager_state and memory_manager_state to a separate directory for alignd "
      "(--state-dir), and start both again",
      conditions);
  conditions.DropExpired();
}

void LookForForeignFiles(allocation::CheckpointStore& store, reconcile::Conditions& conditions) {
  for (const allocation::CheckpointStore::ForeignFile& file : store.FindForeignFiles()) {
    const fs::path copy = file.path.string() + ".foreign";
    const Result<Done> saved = host::ReplaceFile(copy, file.text);
    if (!saved.ok()) {
      spdlog::error("{} could not be saved as {}: {}", file.path.string(), copy.string(),
                    saved.error().Text());
    }
    // The condition expires by itself: after the file is restored, the other program may still run.
    conditions.SawConflictingManager(
        file.path.string() + " was changed by another program (" +
            (saved.ok() ? "the other version is saved as " + copy.string() : saved.error().Text()) +
            "); alignd's state is restored",
        "give alignd a separate state directory (--state-dir), and set cpuManagerPolicy: none in "
        "the kubelet's configuration");
  }
}

void SaveUncertainFiles(const allocation::CheckpointStore& store,
                        const mirror::BindingTable& bindings,
                        allocation::AllocationManager& allocation) {
  if (store.IsUncertain() || bindings.IsUncertain()) return allocation.SaveAgain();
  allocation.SaveUnsaved();
}

}  // namespace alignd::daemon
