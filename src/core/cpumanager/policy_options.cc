#include "alignd/cpumanager/policy_options.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/counted.h"
#include "alignd/cpumanager/config_problems.h"

namespace alignd::cpumanager {
namespace {

constexpr std::string_view kFullPcpusOnly = "full-pcpus-only";
constexpr std::string_view kAcrossNuma = "distribute-cpus-across-numa";
constexpr std::string_view kAlignBySocket = "align-by-socket";
constexpr std::string_view kAcrossCores = "distribute-cpus-across-cores";
constexpr std::string_view kStrictReservation = "strict-cpu-reservation";
constexpr std::string_view kAlignByUncore = "prefer-align-cpus-by-uncorecache";

constexpr std::array<std::pair<std::string_view, bool PolicyOptions::*>, 6> kOptions{{
    {kFullPcpusOnly, &PolicyOptions::full_pcpus_only},
    {kAcrossNuma, &PolicyOptions::distribute_cpus_across_numa},
    {kAlignBySocket, &PolicyOptions::align_by_socket},
    {kAcrossCores, &PolicyOptions::distribute_cpus_across_cores},
    {kStrictReservation, &PolicyOptions::strict_cpu_reservation},
    {kAlignByUncore, &PolicyOptions::prefer_align_cpus_by_uncorecache},
}};

constexpr std::string_view kField = "cpuManagerPolicyOptions";

Error InvalidOptions(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, "new static policy error: " + std::move(message),
          std::move(remedy)};
}

// In double quotes, as Go's %q prints printable text.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

Error UnknownOption(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const auto& [known, member] : kOptions) {
    names.push_back(known);
    list += (list.empty() ? "known are " : ", ") + std::string(known);
  }
  return InvalidOptions("unknown CPU Manager Policy option: " + Quoted(name),
                        SuggestName(name, names, std::move(list)));
}

Result<Done> SetOption(PolicyOptions& options, std::string_view name, std::string_view value) {
  for (const auto& [known, member] : kOptions) {
    if (known != name) continue;
    const std::optional<bool> on = ParseGoBool(value);
    if (!on) {
      return InvalidOptions("bad value for option " + Quoted(name) +
                                ": strconv.ParseBool: parsing " + Quoted(value) +
                                ": invalid syntax",
                            "give true or false, in quotes");
    }
    options.*member = *on;
    return Done{};
  }
  return UnknownOption(name);
}

// Pairs of options that exclude each other.
void CheckTogether(const KubeletConfig& config, const PolicyOptions& options,
                   std::vector<ConfigProblem>& problems) {
  const std::array<std::pair<std::string_view, std::string_view>, 4> exclusive{{
      {kFullPcpusOnly, kAcrossCores},
      {kAcrossNuma, kAcrossCores},
      {kAlignByUncore, kAcrossCores},
      {kAlignByUncore, kAcrossNuma},
  }};
  const auto is_on = [&](std::string_view name) {
    for (const auto& [known, member] : kOptions) {
      if (known == name) return options.*member;
    }
    return false;
  };
  for (const auto& [first, second] : exclusive) {
    if (!is_on(first) || !is_on(second)) continue;
    problems.push_back(
        {std::string(kField) + "." + std::string(first),
         config.cpu_manager_policy_options.at(std::string(first)),
         InvalidOptions("static policy options " + std::string(first) + " and " +
                            std::string(second) + " can not be used at the same time",
                        "remove one of them")});
  }
}

// What cannot be distributed over NUMA nodes.
void CheckStrategy(const KubeletConfig& config, const PolicyOptions& options,
                   std::vector<ConfigProblem>& problems) {
  if (config.numa_allocate_strategy != NumaAllocateStrategy::kAllNodes) return;
  const std::string value(ToString(config.numa_allocate_strategy));
  for (const auto& [name, is_on] :
       {std::pair(kAcrossCores, options.distribute_cpus_across_cores),
        std::pair(kAlignByUncore, options.prefer_align_cpus_by_uncorecache)}) {
    if (!is_on) continue;
    problems.push_back({"numaAllocateStrategy",
                        value,
                        {ErrorCode::kInvalidArgument,
                         "numaAllocateStrategy: " + value + " cannot be used with option " +
                             std::string(name) + " of cpuManagerPolicyOptions",
                         "remove one of them"}});
  }
}

// Whether pods of any namespace may choose their topology policy, and so the strictest.
bool MayPodsChooseTopology(const KubeletConfig& config) {
  static constexpr PodPolicy kTopology = PodPolicy::kNumaTopologyPolicy;
  return config.pod_policies.contains(kTopology) ||
         std::ranges::any_of(config.namespace_policies, [](const NamespacePolicies& entry) {
           return entry.pod_policies.contains(kTopology);
         });
}

bool HavePodsSingleNumaNodeByDefault(const KubeletConfig& config) {
  return std::ranges::any_of(config.namespace_policies, [](const NamespacePolicies& entry) {
    return entry.defaults.numa_topology == NumaTopologyPolicy::kSingleNumaNode;
  });
}

Result<Done> CheckAlignBySocket(const KubeletConfig& config, const Machine& machine) {
  if (config.topology_manager_policy == TopologyManagerPolicy::kSingleNumaNode) {
    return InvalidOptions(
        "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket "
        "policy option",
        "remove align-by-socket, or set topologyManagerPolicy to restricted or best-effort");
  }
  if (MayPodsChooseTopology(config)) {
    return InvalidOptions(
        "align-by-socket is incompatible with numaTopologyPolicy SingleNUMANode, which pods can "
        "choose",
        "remove align-by-socket, or remove numaTopologyPolicy from podPolicies and "
        "namespacePolicies");
  }
  if (HavePodsSingleNumaNodeByDefault(config)) {
    return InvalidOptions(
        "align-by-socket is incompatible with numaTopologyPolicy SingleNUMANode of the defaults in "
        "namespacePolicies",
        "remove align-by-socket, or write another numaTopologyPolicy into these defaults");
  }
  if (static_cast<int>(machine.sockets().size()) > machine.numa_with_cpus().Count()) {
    return InvalidOptions(
        "Align by socket is not compatible with hardware where number of sockets are more than "
        "number of NUMA",
        "remove align-by-socket: this machine has " + Counted(machine.sockets().size(), "socket") +
            " and " + Counted(machine.numa_with_cpus().Count(), "NUMA node") + " with CPUs");
  }
  return Done{};
}

// The map as Go prints it.
std::string GoMap(const std::map<std::string, std::string>& written) {
  std::string list;
  for (const auto& [name, value] : written) {
    if (!list.empty()) list += ' ';
    list += name + ":" + value;
  }
  return "map[" + list + "]";
}

}  // namespace

std::vector<ConfigProblem> FindOptionProblems(const Machine& machine, const KubeletConfig& config,
                                              PolicyOptions& options) {
  const std::map<std::string, std::string>& written = config.cpu_manager_policy_options;
  std::vector<ConfigProblem> problems;
  if (config.cpu_manager_policy == CpuManagerPolicy::kNone) {
    if (written.empty()) return problems;
    const std::string map = GoMap(written);
    problems.push_back({std::string(kField),
                        map,
                        {ErrorCode::kInvalidArgument,
                         "new none policy error: None policy: received unsupported options=" + map,
                         "remove cpuManagerPolicyOptions or set cpuManagerPolicy to \"static\""}});
    return problems;
  }
  const auto field = [](std::string_view name) {
    return std::string(kField) + "." + std::string(name);
  };
  for (const auto& [name, value] : written) {
    const Result<Done> set = SetOption(options, name, value);
    if (!set.ok()) problems.push_back({field(name), value, set.error()});
  }
  CheckTogether(config, options, problems);
  CheckStrategy(config, options, problems);
  if (options.align_by_socket) {
    const Result<Done> checked = CheckAlignBySocket(config, machine);
    if (!checked.ok()) {
      problems.push_back(
          {field(kAlignBySocket), written.at(std::string(kAlignBySocket)), checked.error()});
    }
  }
  return problems;
}

Result<PolicyOptions> ParsePolicyOptions(const KubeletConfig& config, const Machine& machine) {
  PolicyOptions options;
  const std::vector<ConfigProblem> problems = FindOptionProblems(machine, config, options);
  if (!problems.empty()) return problems.front().error;
  return options;
}

}  // namespace alignd::cpumanager
