#include "alignd/noderesourcetopology/koordinator.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/noderesourcetopology/pod_cpus.h"

namespace alignd::noderesourcetopology {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Names and UIDs come from outside.
std::string TextOf(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

// The number of each CPU's group, counted from 0, by CPU number. Koordlet has these numbers from
// lscpu; the ids of the kernel need not fit into the 16 bits that the scheduler has for a core.
std::map<int, size_t> NumbersOf(const std::vector<CpuGroup>& groups) {
  std::map<int, size_t> numbers;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const int cpu : groups[i].cpus) numbers[cpu] = i;
  }
  return numbers;
}

std::string PolicyText(const admission::Node& node) {
  const KubeletConfig& config = node.config;
  OrderedJson policy = {{"policy", ToString(config.cpu_manager_policy)}};
  if (!config.cpu_manager_policy_options.empty()) {
    policy["options"] = config.cpu_manager_policy_options;
  }
  if (node.cpu && !node.cpu->reserved.empty()) {
    policy["reservedCPUs"] = node.cpu->reserved.ToString();
  }
  return TextOf(policy);
}

// Without CPUs that are offline: lscpu gives neither core nor socket of them.
std::string TopologyText(const Machine& machine, const CpuSet& offline) {
  const std::map<int, size_t> cores = NumbersOf(machine.cores());
  const std::map<int, size_t> sockets = NumbersOf(machine.sockets());
  OrderedJson topology = OrderedJson::object();
  for (const Cpu& row : machine.cpu_rows()) {
    if (offline.Contains(row.cpu)) continue;
    topology["detail"].push_back({{"id", row.cpu},
                                  {"core", cores.at(row.cpu)},
                                  {"socket", sockets.at(row.cpu)},
                                  {"node", row.numa}});
  }
  return TextOf(topology);
}

// "null" without pods, as koordlet writes it.
std::string AllocsText(const admission::NodeState& state, const KnownPods& pods) {
  OrderedJson allocs;
  for (const auto& [uid, cpus] : CpusOfPods(state.cpu)) {
    const auto known = pods.find(uid);
    if (cpus.empty() || (known != pods.end() && known->second.decided == cpus)) continue;
    OrderedJson alloc = OrderedJson::object();
    if (known != pods.end() && !known->second.name.empty()) {
      alloc = {{"namespace", known->second.name_space}, {"name", known->second.name}};
    }
    alloc["uid"] = uid;
    alloc["cpuset"] = cpus.ToString();
    // The scheduler reads no others.
    alloc["managedByKubelet"] = true;
    allocs.push_back(std::move(alloc));
  }
  return TextOf(allocs);
}

// Reserved CPUs are in the pool: containers without exclusive CPUs run on them too.
std::string PoolsText(const admission::Node& node, const admission::NodeState& state) {
  const Machine& machine = node.machine;
  const std::map<int, size_t> sockets = NumbersOf(machine.sockets());
  const CpuSet pool = (node.cpu ? state.cpu.default_set : machine.cpus()) - state.cpu.offline;
  std::map<std::pair<size_t, int>, CpuSet> pools;  // by socket and NUMA node
  for (int position = 0; position < machine.numa_count(); ++position) {
    const CpuSet cpus = machine.CpusInNuma(position) & pool;
    if (!cpus.empty()) pools[{sockets.at(cpus.First()), machine.NumaId(position)}] = cpus;
  }
  OrderedJson list;
  for (const auto& [place, cpus] : pools) {
    list.push_back({{"socket", place.first}, {"node", place.second}, {"cpuset", cpus.ToString()}});
  }
  return TextOf(list);
}

}  // namespace

Result<Annotations> KoordinatorAnnotations(const admission::Node& node,
                                           const admission::NodeState& state,
                                           const KnownPods& pods) {
  Annotations annotations = {
      {kCpuManagerPolicyAnnotation, PolicyText(node)},
      {kCpuTopologyAnnotation, TopologyText(node.machine, state.cpu.offline)},
      {kPodCpuAllocsAnnotation, AllocsText(state, pods)},
      {kCpuSharedPoolsAnnotation, PoolsText(node, state)}};
  size_t bytes = 0;
  for (const auto& [name, value] : annotations) bytes += name.size() + value.size();
  constexpr size_t kMaxBytes = kMaxAnnotationBytes - kOtherAnnotationBytes;
  if (bytes <= kMaxBytes) return annotations;
  return Error{
      ErrorCode::kInvalidArgument,
      "Koordinator's annotations of " + std::to_string(node.machine.cpus().Count()) +
          " CPUs would have " + std::to_string(bytes) + " bytes, and " + std::to_string(kMaxBytes) +
          " are possible: the API server takes 262144 of all annotations of an object",
      "leave --koordinator-annotations out; Koordinator's own exporter has the same limit"};
}

}  // namespace alignd::noderesourcetopology
