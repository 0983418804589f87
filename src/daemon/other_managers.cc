#include "daemon/other_managers.h"

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "alignd/config/kubelet_config.h"
#include "host/config_file.h"
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

}  // namespace

void LookForKubeletCpuManager(const fs::path& kubelet_dir, const fs::path& our_state_dir,
                              const fs::path& our_config, allocation::UpkeepLog& upkeep) {
  const fs::path state_file = kubelet_dir / "cpu_manager_state";
  if (!IsSame(state_file, our_state_dir / "cpu_manager_state") && SaysStatic(state_file)) {
    upkeep.SawOtherManager(
        state_file.string() + " is of the kubelet's static CPU manager policy",
        "set cpuManagerPolicy: none in the kubelet's configuration, remove that file, and restart "
        "the kubelet");
  }
  const fs::path config_file = kubelet_dir / "config.yaml";
  if (IsSame(config_file, our_config)) return;
  const Result<KubeletConfig> config = host::ReadConfigFile(config_file);
  if (config.ok() && config->cpu_manager_policy == CpuManagerPolicy::kStatic) {
    upkeep.SawOtherManager(
        config_file.string() + " gives the kubelet the static CPU manager policy",
        "set cpuManagerPolicy: none there and give alignd a configuration of its own (--config)");
  }
}

}  // namespace alignd::daemon
