#include "kubelet/agreement.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "alignd/base/cpu_set.h"
#include "alignd/base/quantity.h"
#include "host/config_file.h"
#include "kubelet/words.h"

namespace alignd::kubelet {
namespace {

using nlohmann::json;

// A setting of the kubelet: the flag, else the field, else the default. Flags of maps have the form
// cpu=100m,memory=1Gi.
class Settings {
 public:
  explicit Settings(const Setup& setup)
      : words_(setup.words),
        config_(json::parse(setup.config_json, nullptr, /*allow_exceptions=*/false)) {}

  std::string Text(const char* flag, const char* field, const char* standard) const {
    if (const auto value = LastFlag(words_, flag)) return *value;
    if (!config_.is_object() || !config_.contains(field)) return standard;
    const json& value = config_[field];
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  std::string Entry(const char* flag, const char* field, const std::string& key) const {
    if (const auto value = LastFlag(words_, flag)) {
      std::string list = *value;
      std::ranges::replace(list, ',', ' ');
      return LastFlag(SplitWords(list), key).value_or("");
    }
    if (!config_.is_object() || !config_.contains(field)) return "";
    const json& map = config_[field];
    if (!map.is_object() || !map.contains(key)) return "";
    return map[key].is_string() ? map[key].get<std::string>() : map[key].dump();
  }

 private:
  const std::vector<std::string>& words_;
  const json config_;
};

struct Reserved {
  int64_t millis = 0;
  std::string cpus;  // reservedSystemCPUs; empty: none given
  bool readable = true;
};

void AddMillis(const std::string& quantity, Reserved& reserved) {
  if (quantity.empty()) return;
  const Result<Quantity> parsed = Quantity::Parse(quantity);
  if (!parsed.ok()) {
    reserved.readable = false;
    return;
  }
  reserved.millis += parsed->MilliValue();
}

void TakeSet(const std::string& list, Reserved& reserved) {
  const Result<CpuSet> cpus = CpuSet::Parse(list);
  reserved.readable = cpus.ok();
  if (!cpus.ok()) return;
  reserved.cpus = cpus->ToString();
  reserved.millis = int64_t{1000} * cpus->Count();
}

Reserved ReservedByKubelet(const Settings& kubelet) {
  Reserved reserved;
  const std::string list = kubelet.Text("--reserved-cpus", "reservedSystemCPUs", "");
  if (!list.empty()) {
    TakeSet(list, reserved);
    return reserved;
  }
  AddMillis(kubelet.Entry("--kube-reserved", "kubeReserved", "cpu"), reserved);
  AddMillis(kubelet.Entry("--system-reserved", "systemReserved", "cpu"), reserved);
  return reserved;
}

Reserved ReservedByAlignd(const KubeletConfig& config) {
  Reserved reserved;
  if (!config.reserved_system_cpus.empty()) {
    TakeSet(config.reserved_system_cpus, reserved);
    return reserved;
  }
  for (const ResourceList* list : {&config.kube_reserved, &config.system_reserved}) {
    const auto cpu = list->find("cpu");
    if (cpu != list->end()) reserved.millis += cpu->second.MilliValue();
  }
  return reserved;
}

std::string DescribeReserved(const Reserved& reserved) {
  const std::string amount = std::to_string(reserved.millis) + "m CPU";
  return reserved.cpus.empty() ? amount : "CPUs " + reserved.cpus + " (" + amount + ")";
}

// The scheduler places pods for what the kubelet does not reserve.
void CompareReserved(const Settings& kubelet, const AligndSetup& alignd,
                     std::vector<Disagreement>& found) {
  if (!alignd.config || alignd.config->cpu_manager_policy == CpuManagerPolicy::kNone) return;
  const Reserved theirs = ReservedByKubelet(kubelet);
  const Reserved ours = ReservedByAlignd(*alignd.config);
  const bool same_set = theirs.cpus == ours.cpus || theirs.cpus.empty() || ours.cpus.empty();
  if (theirs.readable && ours.readable && theirs.millis == ours.millis && same_set) return;
  found.push_back(
      {"the kubelet reserves " +
           (theirs.readable ? DescribeReserved(theirs) : "an unreadable amount") + ", alignd " +
           DescribeReserved(ours) +
           ": the scheduler places pods for CPUs that alignd does not allocate, or leaves some "
           "unused",
       "set the same reservedSystemCPUs, or the same cpu in systemReserved and kubeReserved, for "
       "the kubelet and in " +
           alignd.config_file + ", and restart both"});
}

// What to do for a policy: where it is set, it is to be `none`.
std::string SetPolicy(const Setup& setup, const std::string& flag, const std::string& field,
                      const std::string& none) {
  if (LastFlag(setup.words, flag)) {
    return "set " + flag + "=" + none + ": the kubelet has " + DescribeFlag(setup, flag) +
           ", which overrides its configuration";
  }
  const auto file = setup.field_files.find(field);
  return "set " + field + ": " + none + " in " +
         (file == setup.field_files.end() ? setup.config_file : file->second);
}

void ComparePolicies(const FileView& files, const Setup& setup, const Settings& kubelet,
                     std::vector<Disagreement>& found) {
  const std::string cpu = kubelet.Text("--cpu-manager-policy", "cpuManagerPolicy", "none");
  if (cpu != "none") {
    found.push_back({"the kubelet manages CPUs itself: cpuManagerPolicy is " + cpu,
                     SetPolicy(setup, "--cpu-manager-policy", "cpuManagerPolicy", "none") +
                         "; to keep the assignments of running pods, follow docs/moving.md",
                     true});
  }
  const std::string memory = kubelet.Text("--memory-manager-policy", "memoryManagerPolicy", "None");
  if (memory != "None") {
    found.push_back({"the kubelet manages memory itself: memoryManagerPolicy is " + memory,
                     SetPolicy(setup, "--memory-manager-policy", "memoryManagerPolicy", "None") +
                         "; to keep the assignments of running pods, follow docs/moving.md",
                     true});
  }
  const std::string topology =
      kubelet.Text("--topology-manager-policy", "topologyManagerPolicy", "none");
  if (topology != "none") {
    found.push_back(
        {"the kubelet aligns devices itself: topologyManagerPolicy is " + topology +
             ", and it can refuse pods that alignd would admit",
         SetPolicy(setup, "--topology-manager-policy", "topologyManagerPolicy", "none")});
  }
  const auto state = files.Read("/var/lib/kubelet/cpu_manager_state");
  if (cpu == "none" && state.ok() && *state) {
    const json parsed = json::parse(**state, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object() && parsed.contains("policyName") && parsed["policyName"] == "static") {
      found.push_back(
          {"/var/lib/kubelet/cpu_manager_state is of the static policy: a kubelet with "
           "cpuManagerPolicy: none does not start with it",
           "move it to alignd's state directory, as docs/moving.md describes, or remove "
           "it",
           true});
    }
  }
}

// The kubelet asks newer runtimes for their driver. Only what both say is compared.
void CompareDriver(const FileView& files, const Settings& kubelet,
                   std::vector<Disagreement>& found) {
  const std::string driver = kubelet.Text("--cgroup-driver", "cgroupDriver", "");
  const auto containerd = files.Read("/etc/containerd/config.toml");
  if (driver.empty() || !containerd.ok() || !*containerd) return;
  std::string runtime;
  for (const EnvironmentLine& line : ParseEnvironmentFile(**containerd)) {
    if (line.name != "SystemdCgroup") continue;
    runtime = line.value.starts_with("true") ? "systemd" : "cgroupfs";
  }
  if (runtime.empty() || runtime == driver) return;
  found.push_back({"the kubelet's cgroup driver is " + driver + ", containerd's is " + runtime,
                   "set cgroupDriver: " + runtime + " for the kubelet, or SystemdCgroup = " +
                       (driver == "systemd" ? "true" : "false") +
                       " in /etc/containerd/config.toml; drain the node first"});
}

}  // namespace

Result<AligndSetup> FindAligndFlags(const FileView& files) {
  AligndSetup setup;
  const Result<std::optional<Unit>> unit = LoadUnit(files, "alignd.service");
  if (!unit.ok()) return unit.error();
  std::vector<std::string>& words = setup.words;
  if (*unit) {
    for (Unit::Word& word : (*unit)->CommandLine()) words.push_back(std::move(word.text));
  }
  setup.listen = LastFlag(words, "--listen").value_or("unix:///run/alignd/alignd.sock");
  setup.runtime_endpoint = LastFlag(words, "--runtime-endpoint").value_or(kDefaultEndpoint);
  setup.has_unit = unit->has_value();
  setup.compatibility = LastFlag(words, "--kubelet-compatibility").value_or("");
  setup.pod_policies = LastFlag(words, "--pod-policies").value_or("");
  setup.state_dir = LastFlag(words, "--state-dir").value_or("/var/lib/alignd");
  setup.device_plugin_dir =
      LastFlag(words, "--device-plugin-dir").value_or(setup.state_dir + "/device-plugins");
  for (const char* const flag : {"--mirror", "--mirror-resource"}) {
    const std::string value = LastFlag(words, flag).value_or("off");
    if (value != "off" && !value.ends_with("=off")) setup.mirror = std::string(flag) + "=" + value;
  }
  const std::string shipped = "/etc/alignd/kubelet-config.yaml";
  const bool is_there = !*unit && files.Exists(shipped);
  setup.config_file = LastFlag(words, "--config").value_or(is_there ? shipped : "");
  return setup;
}

Result<AligndSetup> FindAligndSetup(const FileView& files) {
  Result<AligndSetup> setup = FindAligndFlags(files);
  if (!setup.ok()) return setup;
  if (setup->config_file.empty()) {
    setup->config = KubeletConfig();
    return setup;
  }
  Result<KubeletConfig> config = host::ReadConfigFile(files.OnThisMachine(setup->config_file));
  if (!config.ok()) return config.error();
  setup->config = *std::move(config);
  return setup;
}

std::vector<Disagreement> Compare(const FileView& files, const Setup& kubelet,
                                  const AligndSetup& alignd, const std::string& runtime) {
  std::vector<Disagreement> found;
  const Settings settings(kubelet);
  ComparePolicies(files, kubelet, settings, found);
  if (!runtime.empty() && !IsSameEndpoint(runtime, alignd.runtime_endpoint)) {
    found.push_back({"the kubelet uses the runtime at " + runtime + ", alignd the one at " +
                         alignd.runtime_endpoint + ": the kubelet would lose its containers",
                     "start alignd with --runtime-endpoint " + runtime, true});
  }
  CompareReserved(settings, alignd, found);
  CompareDriver(files, settings, found);
  return found;
}

}  // namespace alignd::kubelet
