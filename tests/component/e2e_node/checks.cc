// The matchers of the tables: CPUs, memory nodes, quotas and devices of containers.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <thread>

#include "node_fixture.h"

namespace alignd::node_suites {
namespace {

// Empty, or why the check fails.
std::string FaultOf(const std::function<std::string()>& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::string NodeFixture::CheckAll(const Json& matchers) {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  const auto wait = [deadline](const std::function<std::string()>& check) {
    while (true) {
      std::string fault = FaultOf(check);
      if (fault.empty() || std::chrono::steady_clock::now() >= deadline) return fault;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  };
  for (const Json& matcher : matchers) {
    const std::string fault = wait([&] { return Check(matcher); });
    if (!fault.empty()) return matcher.dump() + " does not hold: " + fault;
  }
  return wait([this] { return CheckOverlaps(); });
}

std::string NodeFixture::CheckOverlaps() {
  std::vector<std::pair<std::string, ContainerFacts>> running;
  for (const auto& [pod_name, pod] : pods_) {
    for (const auto& [container, id] : pod.containers) {
      const std::string name = pod_name + "/" + container;
      const auto facts = node_->Find(PlaceOf(name));
      if (!facts || !facts->runs) continue;
      for (const auto& [other, found] : running) {
        if ((facts->owns_its_cpus || found.owns_its_cpus) && facts->cpus->Intersects(*found.cpus)) {
          return other + " on " + found.cpus->ToString() + ", " + name + " on " +
                 facts->cpus->ToString();
        }
      }
      running.emplace_back(name, *facts);
    }
  }
  return "";
}

std::string NodeFixture::Check(const Json& matcher) {
  if (matcher.contains("of")) return CheckContainer(matcher);
  if (matcher.contains("pod")) return CheckPod(matcher);
  if (matcher.contains("listed")) return CheckListed(matcher);
  if (matcher.contains("get")) return CheckGet(matcher);
  if (matcher.contains("allocatable")) return CheckAllocatable(matcher);
  if (matcher.contains("metric")) return CheckMetric(matcher);
  if (matcher.contains("memory-state")) return CheckMemoryState(matcher);
  if (matcher.contains("throttled")) return CheckThrottled(matcher);
  if (matcher.contains("asked")) {
    const std::string uid = matcher["asked"].get<std::string>() + "-uid";
    const std::vector<std::string> asked = api_->asked();
    return std::ranges::find(asked, uid) != asked.end() ? "" : "the Pods API was not asked";
  }
  if (matcher.contains("requests")) {
    const size_t count = node_->Simulated().Requests(matcher["requests"].get<std::string>()).size();
    return Differs("requests", static_cast<int>(count), matcher["count"]);
  }
  if (matcher.contains("allocations")) {
    const auto plugin = plugins_.find(matcher["allocations"].get<std::string>());
    if (plugin == plugins_.end()) return "no such plugin";
    return Differs("allocations", static_cast<int>(plugin->second->allocations().size()),
                   matcher["count"]);
  }
  return "no such matcher";
}

// --- One container ------------------------------------------------------------------------------

std::string NodeFixture::CheckContainer(const Json& matcher) {
  const std::optional<CpuSet> cpus = ContainerOf(matcher["of"]).cpus;
  for (const auto& [key, value] : matcher.items()) {
    if (key == "of" || key == "period") continue;
    const std::optional<std::string> fault = CheckCpus(key, value, cpus.value_or(CpuSet()), Cpus());
    if (fault && !cpus) return key + ": it does not run";
    const std::string found = fault ? *fault : CheckResources(matcher, key);
    if (!found.empty()) return key + ": " + found;
  }
  return "";
}

std::string NodeFixture::CheckResources(const Json& matcher, const std::string& key) {
  const std::string name = matcher["of"];
  const Json& value = matcher[key];
  const ContainerFacts container = ContainerOf(name);
  if (key == "quota") return CheckQuota(container.quota, value.get<std::string>(), matcher);
  if (key == "memory-nodes") {
    return Differs("nodes", container.memory_nodes, value.get<std::string>());
  }
  if (key == "state") return container.runs == (value == "running") ? "" : "it is not so";
  if (key == "cdi") {
    std::string names;
    const auto simulated = node_->Simulated().FindContainer(PlaceOf(name).id);
    for (const auto& device : simulated->config.cdi_devices()) names += device.name() + " ";
    return names.find(value.get<std::string>()) != std::string::npos ? "" : "CDI " + names;
  }
  if (key == "hugepages") return container.hugepages == value ? "" : container.hugepages.dump();
  if (key == "devices") {
    const std::string devices = DevicesOf(name);
    return Differs("devices", static_cast<int>(std::ranges::count(devices, ' ')), value);
  }
  if (key == "same-devices") return Differs("devices", DevicesOf(name), DevicesOf(value));
  if (key == "other-devices") {
    return DevicesOf(name) != DevicesOf(value) ? "" : "both have " + DevicesOf(name);
  }
  if (key == "same-as") {
    const auto before = remembered_.find(value.get<std::string>());
    if (before == remembered_.end()) return "nothing is remembered";
    return Differs("it has", FactsOf(name).Text(), before->second.Text());
  }
  return "no such matcher";
}

std::string NodeFixture::CheckQuota(const std::string& found, const std::string& quota,
                                    const Json& matcher) const {
  if (!matcher.contains("period")) {
    return Differs("quota", found.substr(0, found.find(' ')), quota);
  }
  return Differs("quota", found, quota + " " + std::to_string(matcher["period"].get<int>()));
}

// --- A whole pod --------------------------------------------------------------------------------

std::string NodeFixture::CheckPod(const Json& matcher) {
  const RunningPod& pod = PodOf(matcher["pod"]);
  CpuSet cpus;
  for (const auto& [name, id] : pod.containers) {
    const auto container = node_->Find({pod.config.linux().cgroup_parent(), id});
    if (container && container->runs) cpus |= *container->cpus;
  }
  for (const auto& [key, value] : matcher.items()) {
    std::string fault;
    if (key == "cpus") fault = Differs("CPUs of all containers", cpus.Count(), value);
    if (key == "numa-count") fault = Differs("nodes", machine_->NumaOf(cpus).Count(), value);
    if (key == "quota") {
      fault = CheckQuota(node_->QuotaOf(pod.config.linux().cgroup_parent()),
                         value.get<std::string>(), matcher);
    }
    if (!fault.empty()) return fault;
  }
  return "";
}

// --- Facts --------------------------------------------------------------------------------------

NodeFixture::RunningPod& NodeFixture::PodOf(const std::string& name) {
  const auto pod = pods_.find(name);
  if (pod == pods_.end()) throw std::runtime_error("no pod " + name);
  return pod->second;
}

ContainerPlace NodeFixture::PlaceOf(const std::string& name) {
  const size_t slash = name.find('/');
  const RunningPod& pod = PodOf(name.substr(0, slash));
  const auto id = pod.containers.find(name.substr(slash + 1));
  if (slash == std::string::npos || id == pod.containers.end()) {
    throw std::runtime_error("no container " + name);
  }
  return {pod.config.linux().cgroup_parent(), id->second};
}

ContainerFacts NodeFixture::ContainerOf(const std::string& name) {
  const auto container = node_->Find(PlaceOf(name));
  if (!container) throw std::runtime_error(name + " is not in the runtime");
  return *container;
}

CpuSet NodeFixture::CpusOfContainer(const std::string& name) {
  const std::optional<CpuSet> cpus = ContainerOf(name).cpus;
  if (!cpus) throw std::runtime_error(name + " does not run");
  return *cpus;
}

CpuView NodeFixture::Cpus() {
  return {*machine_, [this](const std::string& word) {
            if (word == "reserved")
              return *CpuSet::Parse(config_.at("reservedSystemCPUs").get<std::string>());
            return CpusOfContainer(word);
          }};
}

NodeFixture::Facts NodeFixture::FactsOf(const std::string& name) {
  return {CpusOfContainer(name).ToString(), ContainerOf(name).memory_nodes, DevicesOf(name)};
}

}  // namespace alignd::node_suites
