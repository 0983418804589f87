// The matchers of the tables: CPUs, memory nodes, quotas and devices of containers.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <thread>

#include "node_fixture.h"

namespace alignd::node_suites {
namespace {

namespace v1 = runtime::v1;

// "max", or microseconds.
std::string QuotaText(int64_t quota) { return quota > 0 ? std::to_string(quota) : "max"; }

}  // namespace

std::string NodeFixture::CheckAll(const Json& matchers) {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  for (const Json& matcher : matchers) {
    std::string fault;
    while (true) {
      try {
        fault = Check(matcher);
      } catch (const std::exception& error) {
        fault = error.what();
      }
      if (fault.empty() || std::chrono::steady_clock::now() >= deadline) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!fault.empty()) return matcher.dump() + " does not hold: " + fault;
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
    const size_t count = runtime_->Requests(matcher["requests"].get<std::string>()).size();
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
  const CpuSet cpus = CpusOfContainer(matcher["of"]);
  for (const auto& [key, value] : matcher.items()) {
    if (key == "of" || key == "period") continue;
    const std::optional<std::string> fault = CheckCpus(key, value, cpus, Cpus());
    const std::string found = fault ? *fault : CheckResources(matcher, key);
    if (!found.empty()) return key + ": " + found;
  }
  return "";
}

std::string NodeFixture::CheckResources(const Json& matcher, const std::string& key) {
  const std::string name = matcher["of"];
  const Json& value = matcher[key];
  const simulator::SimulatedContainer container = ContainerOf(name);
  const v1::LinuxContainerResources& resources = container.resources;
  if (key == "quota") {
    return CheckQuota(
        QuotaText(resources.cpu_quota()) + " " + std::to_string(resources.cpu_period()),
        value.get<std::string>(), matcher);
  }
  if (key == "memory-nodes") {
    return Differs("nodes", resources.cpuset_mems(), value.get<std::string>());
  }
  if (key == "state") {
    const bool runs = container.state == v1::CONTAINER_RUNNING;
    return runs == (value == "running") ? "" : "it is not so";
  }
  if (key == "cdi") {
    std::string names;
    for (const auto& device : container.config.cdi_devices()) names += device.name() + " ";
    return names.find(value.get<std::string>()) != std::string::npos ? "" : "CDI " + names;
  }
  if (key == "hugepages") {
    Json limits = Json::object();
    for (const auto& limit : resources.hugepage_limits()) limits[limit.page_size()] = limit.limit();
    return limits == value ? "" : limits.dump();
  }
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
    const auto container = runtime_->FindContainer(id);
    if (!container || container->state != v1::CONTAINER_RUNNING) continue;
    cpus |= CpusOfContainer(pod.manifest.pod.name + "/" + name);
  }
  for (const auto& [key, value] : matcher.items()) {
    std::string fault;
    if (key == "cpus") fault = Differs("CPUs of all containers", cpus.Count(), value);
    if (key == "numa-count") fault = Differs("nodes", machine_->NumaOf(cpus).Count(), value);
    if (key == "quota") {
      fault = CheckQuota(cgroups_->QuotaOf(pod.config.linux().cgroup_parent()),
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

simulator::SimulatedContainer NodeFixture::ContainerOf(const std::string& name) {
  const size_t slash = name.find('/');
  const RunningPod& pod = PodOf(name.substr(0, slash));
  const auto id = pod.containers.find(name.substr(slash + 1));
  if (slash == std::string::npos || id == pod.containers.end()) {
    throw std::runtime_error("no container " + name);
  }
  const auto container = runtime_->FindContainer(id->second);
  if (!container) throw std::runtime_error(name + " is not in the runtime");
  return *container;
}

// Without a cpuset a container runs on all CPUs.
CpuSet NodeFixture::CpusOfContainer(const std::string& name) {
  const std::string list = ContainerOf(name).resources.cpuset_cpus();
  return list.empty() ? machine_->cpus() : *CpuSet::Parse(list);
}

CpuView NodeFixture::Cpus() {
  return {*machine_, [this](const std::string& word) {
            if (word == "reserved")
              return *CpuSet::Parse(config_.at("reservedSystemCPUs").get<std::string>());
            return CpusOfContainer(word);
          }};
}

NodeFixture::Facts NodeFixture::FactsOf(const std::string& name) {
  return {CpusOfContainer(name).ToString(), ContainerOf(name).resources.cpuset_mems(),
          DevicesOf(name)};
}

}  // namespace alignd::node_suites
