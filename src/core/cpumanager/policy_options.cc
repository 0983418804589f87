#include "alignd/cpumanager/policy_options.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

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

Error InvalidOptions(std::string message) {
  return {ErrorCode::kInvalidArgument, "new static policy error: " + std::move(message)};
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

Result<Done> SetOption(PolicyOptions& options, std::string_view name, std::string_view value) {
  for (const auto& [known, member] : kOptions) {
    if (known != name) continue;
    const std::optional<bool> on = ParseGoBool(value);
    if (!on) {
      return InvalidOptions("bad value for option " + Quoted(name) +
                            ": strconv.ParseBool: parsing " + Quoted(value) + ": invalid syntax");
    }
    options.*member = *on;
    return Done{};
  }
  return InvalidOptions("unknown CPU Manager Policy option: " + Quoted(name));
}

Result<Done> CheckTogether(const PolicyOptions& options) {
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
    return InvalidOptions("static policy options " + std::string(first) + " and " +
                          std::string(second) + " can not be used at the same time");
  }
  return Done{};
}

Result<Done> CheckAlignBySocket(TopologyManagerPolicy topology_policy, const Machine& machine) {
  if (topology_policy == TopologyManagerPolicy::kSingleNumaNode) {
    return InvalidOptions(
        "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket "
        "policy option");
  }
  if (static_cast<int>(machine.sockets().size()) > machine.numa_with_cpus().Count()) {
    return InvalidOptions(
        "Align by socket is not compatible with hardware where number of sockets are more than "
        "number of NUMA");
  }
  return Done{};
}

// With policy none no option is allowed.
Result<PolicyOptions> CheckNone(const std::map<std::string, std::string>& written) {
  if (written.empty()) return PolicyOptions{};
  std::string list;
  for (const auto& [name, value] : written) {
    if (!list.empty()) list += ' ';
    list += name + ":" + value;
  }
  return Error{
      ErrorCode::kInvalidArgument,
      "new none policy error: None policy: received unsupported options=map[" + list + "]"};
}

}  // namespace

Result<PolicyOptions> ParsePolicyOptions(const KubeletConfig& config, const Machine& machine) {
  const std::map<std::string, std::string>& written = config.cpu_manager_policy_options;
  if (config.cpu_manager_policy == CpuManagerPolicy::kNone) return CheckNone(written);
  PolicyOptions options;
  for (const auto& [name, value] : written) {
    const Result<Done> set = SetOption(options, name, value);
    if (!set.ok()) return set.error();
  }
  if (const Result<Done> checked = CheckTogether(options); !checked.ok()) return checked.error();
  if (options.align_by_socket) {
    const Result<Done> checked = CheckAlignBySocket(config.topology_manager_policy, machine);
    if (!checked.ok()) return checked.error();
  }
  return options;
}

}  // namespace alignd::cpumanager
