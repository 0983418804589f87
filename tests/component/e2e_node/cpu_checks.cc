#include "cpu_checks.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>

namespace alignd::node_suites {
namespace {

std::set<int> CachesOf(const CpuSet& cpus, const Machine& machine) {
  std::set<int> caches;
  for (const int cpu : cpus) caches.insert(machine.Row(cpu).uncore);
  return caches;
}

// How many CPUs of the same cores are missing.
int SurplusSiblings(const CpuSet& cpus, const Machine& machine) {
  CpuSet all;
  for (const CpuGroup& core : machine.cores()) {
    if (core.cpus.Intersects(cpus)) all |= core.cpus;
  }
  return all.Count() - cpus.Count();
}

// Whether the CPUs lie on two NUMA nodes that are as near as any two.
bool AreNearest(const CpuSet& cpus, const Machine& machine) {
  int nearest = Machine::kMaxDistance;
  for (int from = 0; from < machine.numa_count(); ++from) {
    for (int to = 0; to < from; ++to) nearest = std::min(nearest, machine.Distance(from, to));
  }
  const std::vector<int> ids = machine.NumaIds(machine.NumaOf(cpus));
  if (ids.size() != 2) throw std::runtime_error("not on two nodes: CPUs " + cpus.ToString());
  return machine.Distance(*machine.NumaPosition(ids[0]), *machine.NumaPosition(ids[1])) == nearest;
}

bool HasOnEachNode(const CpuSet& cpus, int count, const Machine& machine) {
  for (int node = 0; node < machine.numa_count(); ++node) {
    if (cpus.CountCommon(machine.CpusInNuma(node)) != count) return false;
  }
  return true;
}

// nullopt: not a comparison of two sets.
std::optional<bool> Compare(const std::string& key, const Json& value, const CpuSet& cpus,
                            const CpuView& view) {
  const auto other = [&] { return Evaluate(value.get<std::string>(), view); };
  if (key == "within") return other().Contains(cpus);
  if (key == "equal") return other() == cpus;
  if (key == "disjoint") return !other().Intersects(cpus);
  if (key == "overlaps") return other().Intersects(cpus);
  if (key == "contains") return cpus.Contains(other());
  if (key != "no-cache-of") return std::nullopt;
  const std::set<int> own = CachesOf(cpus, view.machine);
  const std::set<int> others = CachesOf(other(), view.machine);
  return std::ranges::none_of(own, [&](int id) { return others.contains(id); });
}

}  // namespace

CpuSet Evaluate(const std::string& expression, const CpuView& view) {
  const auto value = [&view](const std::string& word) {
    if (word == "online") return view.machine.cpus();
    if (word == "reserved" || word.find('/') != std::string::npos) return view.named(word);
    const Result<CpuSet> cpus = CpuSet::Parse(word);
    if (!cpus.ok() || cpus->empty()) throw std::runtime_error(word + " is no set of CPUs");
    return *cpus;
  };
  std::istringstream words(expression);
  std::string word;
  words >> word;
  CpuSet cpus = value(word);
  for (std::string sign; words >> sign >> word;) {
    if (sign != "-" && sign != "+") throw std::runtime_error(sign + " is neither + nor -");
    cpus = sign == "-" ? cpus - value(word) : cpus | value(word);
  }
  return cpus;
}

std::optional<std::string> CheckCpus(const std::string& key, const Json& value, const CpuSet& cpus,
                                     const CpuView& view) {
  const Machine& machine = view.machine;
  std::optional<bool> holds = Compare(key, value, cpus, view);
  if (key == "cpus") holds = cpus.Count() == value.get<int>();
  if (key == "surplus-siblings") holds = SurplusSiblings(cpus, machine) <= value.get<int>();
  if (key == "whole-cores") {
    holds = (cpus.Count() % machine.cpus_per_core() == 0) == value.get<bool>();
  }
  if (key == "one-cache") holds = (CachesOf(cpus, machine).size() == 1) == value.get<bool>();
  if (key == "numa-count") holds = machine.NumaOf(cpus).Count() == value.get<int>();
  if (key == "on-nodes") {
    holds = machine.NumaIds(machine.NumaOf(cpus)) == value.get<std::vector<int>>();
  }
  if (key == "per-node") holds = HasOnEachNode(cpus, value.get<int>(), machine);
  if (key == "distance") holds = AreNearest(cpus, machine) == (value == "nearest");
  if (!holds) return std::nullopt;
  return *holds ? "" : "CPUs " + cpus.ToString() + ", wanted " + value.dump();
}

std::string Differs(const std::string& what, const std::string& found, const std::string& wanted) {
  return found == wanted ? "" : what + ": " + found + ", not " + wanted;
}

std::string Differs(const std::string& what, int found, const Json& wanted) {
  return Differs(what, std::to_string(found), std::to_string(wanted.get<int>()));
}

}  // namespace alignd::node_suites
