// Containers of the shared pool that stay on one NUMA node, with their memory, and pods with
// exclusive CPUs beside them, come and go on random machines; all of it against a ledger that adds
// up slowly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/adoption.h"
#include "alignd/admission/pod_level.h"
#include "alignd/admission/resize.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/noderesourcetopology/zones.h"
#include "core/crowded_node.h"
#include "core/device_states.h"
#include "core/pod_builder.h"
#include "core/random_machine.h"

namespace alignd::admission {
namespace {

struct BoundContainer {
  int numa = 0;
  int64_t millis = 0;
  ContainerKind kind = ContainerKind::kApp;
};

// What runs, as the decisions said where it is.
struct Ledger {
  std::map<std::string, std::map<std::string, BoundContainer>> bound;  // by pod and container
  std::map<std::string, CpuSet> exclusive;                             // by pod
  // By pod and container: the NUMA nodes, and bytes.
  std::map<std::string, std::map<std::string, std::pair<std::vector<int>, uint64_t>>> memory;

  void Erase(const std::string& uid) {
    bound.erase(uid);
    exclusive.erase(uid);
    memory.erase(uid);
  }

  // Bytes of the NUMA node, of which `all` can be assigned; nullopt: it is in a group.
  std::optional<uint64_t> FreeMemoryOn(int numa, uint64_t all) const {
    for (const auto& [uid, containers] : memory) {
      for (const auto& [name, place] : containers) {
        const auto& [nodes, bytes] = place;
        if (std::ranges::find(nodes, numa) == nodes.end()) continue;
        if (nodes.size() > 1) return std::nullopt;
        all -= bytes;
      }
    }
    return all;
  }

  // One pod on one NUMA node: each container that runs at the same time, moment by moment.
  static int64_t PeakOf(const std::map<std::string, BoundContainer>& pod, int numa) {
    int64_t running = 0;
    int64_t sidecars = 0;
    for (const auto& [name, one] : pod) {
      if (one.numa != numa || one.kind == ContainerKind::kInit) continue;
      running += one.millis;
      if (one.kind == ContainerKind::kSidecar) sidecars += one.millis;
    }
    int64_t peak = running;
    for (const auto& [name, one] : pod) {
      if (one.numa != numa || one.kind != ContainerKind::kInit) continue;
      peak = std::max(peak, one.millis + sidecars);
    }
    return peak;
  }

  // Whole CPUs that must stay shared on the NUMA node.
  int64_t NeededOn(int numa) const {
    int64_t millis = 0;
    bool any = false;
    for (const auto& [uid, pod] : bound) {
      millis += PeakOf(pod, numa);
      for (const auto& [name, one] : pod) any = any || one.numa == numa;
    }
    int64_t cpus = 0;
    while (cpus * 1000 < millis) ++cpus;
    return any ? std::max<int64_t>(cpus, 1) : 0;
  }

  CpuSet TakenCpus() const {
    CpuSet taken;
    for (const auto& [uid, cpus] : exclusive) taken |= cpus;
    return taken;
  }
};

class SharedNodeProperty : public testing::Test {
 protected:
  void Draw() {
    machine_ = WithRandomMemory(RandomMachine(random_), random_);
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = std::to_string(machine_->cpus().First());
    config.pod_policies = {PodPolicy::kSharedNumaNode, PodPolicy::kCpuBindPolicy,
                           PodPolicy::kCpuExclusivePolicy, PodPolicy::kQosClass};
    config.topology_manager_policy = random_.OneOf<TopologyManagerPolicy>(
        {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort,
         TopologyManagerPolicy::kRestricted, TopologyManagerPolicy::kSingleNumaNode,
         TopologyManagerPolicy::kBestAttainable});
    config.topology_manager_scope =
        random_.OnceIn(2) ? TopologyManagerScope::kPod : TopologyManagerScope::kContainer;
    if (random_.OnceIn(2)) AssignMemory(config);
    const std::string option = random_.OneOf<std::string>(
        {"", "", "full-pcpus-only", "distribute-cpus-across-numa", "strict-cpu-reservation"});
    if (!option.empty()) config.cpu_manager_policy_options[option] = "true";
    Result<Node> node = Node::Make(*machine_, config);
    ASSERT_TRUE(node.ok()) << node.error().Text();
    node_ = *std::move(node);
    state_ = NodeState::Initial(*node_);
    ledger_ = {};
    sharing_ = {};
  }

  void AssignMemory(KubeletConfig& config) const {
    config.memory_manager_policy = MemoryManagerPolicy::kStatic;
    config.eviction_hard_memory = "";
    config.system_reserved = Amounts({{"memory", "512Mi"}});
    config.reserved_memory = {
        {.numa_node = machine_->NumaId(0), .limits = Amounts({{"memory", "512Mi"}})}};
  }

  uint64_t AllocatableOn(int numa) const {
    return memorymanager::InitialState(*machine_, *node_->memory)
        .machine.at(numa)
        .tables.at("memory")
        .allocatable;
  }

  bool HasMemoryFor(const Ledger& ledger, const Container& container, int numa) const {
    const Quantity* const bytes = Find(container.resources.requests, "memory");
    if (!node_->memory || bytes == nullptr || bytes->IsZero()) return true;  // it asks for none
    const std::optional<uint64_t> free = ledger.FreeMemoryOn(numa, AllocatableOn(numa));
    return free && static_cast<uint64_t>(bytes->Value()) <= *free;
  }

  bool IsPlain() const { return node_->config.cpu_manager_policy_options.empty(); }

  // The CPUs of the NUMA node that no pod has exclusively and that are not reserved.
  int64_t LeftOn(int position) const {
    return ((machine_->CpusInNuma(position) - node_->cpu->reserved) - ledger_.TakenCpus()).Count();
  }

  Quantity RandomMillis() {
    const int millis = random_.OneOf<int>({0, 1, 250, 999, 1000, 1001, 2500, 4000});
    return *Quantity::Parse(std::to_string(millis) + "m");
  }

  Pod RandomSharing(const std::string& uid) {
    Pod pod = MakePod(uid, {});
    pod.stated_qos = QosClass::kBurstable;
    pod.policies.shared_on_one_node = true;
    if (random_.OnceIn(3)) {  // its whole numbers of CPUs would be exclusive otherwise
      pod.stated_qos = QosClass::kGuaranteed;
      ReadSharingLabel(kQosClassLabel, "LS", pod.policies.sharing);
    }
    for (int i = random_.OnceIn(2) ? 1 : random_.Number(2, 4); i > 0; --i) {
      const ContainerKind kind =
          random_.OneOf<ContainerKind>({ContainerKind::kApp, ContainerKind::kApp,
                                        ContainerKind::kInit, ContainerKind::kSidecar});
      Container container = MakeContainer(kind, "c" + std::to_string(i), {});
      container.resources.requests["cpu"] = RandomMillis();
      // What others reuse of the memory of init containers is tested elsewhere.
      if (kind != ContainerKind::kInit && random_.OnceIn(2)) {
        const int least = pod.stated_qos == QosClass::kGuaranteed ? 1 : 0;
        container.resources.requests["memory"] = Quantity(int64_t{random_.Number(least, 6)} << 30);
      }
      pod.containers.push_back(container);
    }
    return pod;
  }

  Pod RandomExclusive(const std::string& uid) {
    Pod pod = AppPod(uid, {{"cpu", std::to_string(random_.Number(1, 6))},
                           {"memory", random_.OneOf<std::string>({"1Mi", "1Gi", "3Gi"})}});
    if (random_.OnceIn(4)) pod.policies.required_bind = CpuBindPolicy::kFullPcpus;
    if (random_.OnceIn(4)) pod.policies.exclusive = CpuExclusivePolicy::kPcpuLevel;
    if (random_.OnceIn(6)) {  // Guaranteed, with exclusive and shared containers
      pod.containers.push_back(App("log", {{"cpu", "1500m"}, {"memory", "1Mi"}}));
      pod.policies.shared_on_one_node = random_.OnceIn(2);
    }
    return pod;
  }

  // Whether the ledger has a NUMA node for the only container of the pod.
  bool HasNodeFor(const Pod& pod) const {
    const int64_t millis = pod.containers[0].resources.requests.at("cpu").MilliValue();
    for (int position = 0; position < machine_->numa_count(); ++position) {
      Ledger with = ledger_;
      with.bound[pod.uid]["c"] = {machine_->NumaId(position), millis, pod.containers[0].kind};
      if (with.NeededOn(machine_->NumaId(position)) <= LeftOn(position) &&
          HasMemoryFor(ledger_, pod.containers[0], machine_->NumaId(position))) {
        return true;
      }
    }
    return false;
  }

  // How many CPUs the ledger has for an exclusive pod: in all, and on one NUMA node at most.
  std::pair<int64_t, int64_t> FreeForExclusive() const {
    int64_t all = 0;
    int64_t most = 0;
    for (int position = 0; position < machine_->numa_count(); ++position) {
      const int64_t here =
          std::max<int64_t>(0, LeftOn(position) - ledger_.NeededOn(machine_->NumaId(position)));
      all += here;
      most = std::max(most, here);
    }
    return {all, most};
  }

  void ExpectRightAnswer(const Pod& pod, const Admission& admission) {
    if (pod.containers.size() != 1) return;
    const TopologyManagerPolicy kind = node_->topology.kind();
    if (pod.policies.shared_on_one_node) {
      EXPECT_EQ(admission.admitted(), HasNodeFor(pod)) << Where(pod);
      ++seen_[admission.admitted() ? "shared admitted" : "shared refused"];
      if (RequestsMemory(*node_, pod, pod.containers[0])) {
        ++seen_[admission.admitted() ? "memory admitted" : "memory refused"];
      }
      return;
    }
    if (node_->memory || !IsPlain() || pod.policies != PodPolicies()) return;
    const int64_t count = pod.containers[0].resources.requests.at("cpu").Value();
    const auto [all, most] = FreeForExclusive();
    const bool any =
        kind == TopologyManagerPolicy::kNone || kind == TopologyManagerPolicy::kBestEffort;
    if (!any && kind != TopologyManagerPolicy::kSingleNumaNode) return;
    EXPECT_EQ(admission.admitted(), count <= (any ? all : most)) << Where(pod);
    ++seen_[admission.admitted() ? "exclusive admitted" : "exclusive refused"];
  }

  // Enters the pod as the decision says where it is.
  void Enter(const Pod& pod, const Admission& admission) {
    for (const Container& container : pod.containers) {
      const Assignment& assignment = admission.assignments.at(container.name);
      if (!assignment.exclusive.empty()) {
        ledger_.exclusive[pod.uid] |= assignment.exclusive;
      } else if (pod.policies.shared_on_one_node) {
        ASSERT_TRUE(assignment.share) << Where(pod);
        ledger_.bound[pod.uid][container.name] = {
            assignment.share->numa_id, container.resources.requests.at("cpu").MilliValue(),
            container.kind};
      }
      const Quantity* const bytes = Find(container.resources.requests, "memory");
      if (bytes != nullptr && RequestsMemory(*node_, pod, container)) {
        ledger_.memory[pod.uid][container.name] = {assignment.memory_nodes, bytes->Value()};
      }
      if (!assignment.memory_nodes.empty() && assignment.share) {
        EXPECT_EQ(assignment.memory_nodes, std::vector<int>{assignment.share->numa_id})
            << Where(pod);
      }
    }
  }

  void ExpectSound(const std::string& after) const {
    ASSERT_TRUE(state_.BrokenInvariants(*node_).empty()) << after;
    const CpuSet taken = ledger_.TakenCpus();
    for (const auto& [uid, pod] : ledger_.bound) {
      for (const auto& [name, one] : pod) {
        const Assignment now = AssignmentOf(*node_, state_, {uid, name});
        const CpuSet here =
            machine_->CpusInNuma(static_cast<int>(*machine_->NumaPosition(one.numa)));
        EXPECT_FALSE(now.cpuset.empty()) << after;
        EXPECT_TRUE(here.Contains(now.cpuset)) << after << ": " << uid << " has moved";
        EXPECT_FALSE(now.cpuset.Intersects(taken)) << after;
      }
    }
    const auto zones = noderesourcetopology::Zones(*node_, state_);
    for (int position = 0; position < machine_->numa_count(); ++position) {
      const int64_t needed = ledger_.NeededOn(machine_->NumaId(position));
      EXPECT_LE(needed, LeftOn(position)) << after << ": too few CPUs back what is requested";
      const auto available =
          static_cast<int64_t>(zones[static_cast<size_t>(position)].resources.at("cpu").available);
      if (node_->cpu->options.full_pcpus_only) {  // whole cores are held back
        EXPECT_LE(available, LeftOn(position) - needed) << after;
      } else {
        EXPECT_EQ(available, LeftOn(position) - needed) << after;
      }
      if (!node_->memory) continue;
      const int numa = machine_->NumaId(position);
      const std::optional<uint64_t> free = ledger_.FreeMemoryOn(numa, AllocatableOn(numa));
      if (!free) continue;  // how much of a group is on each of its NUMA nodes is free to choose
      EXPECT_EQ(zones[static_cast<size_t>(position)].resources.at("memory").available, *free)
          << after;
    }
  }

  // alignd restarts: the files lack what the marks have.
  void RestartFromMarks() {
    NodeState reloaded = state_;
    reloaded.cpu.shares = {};
    std::vector<MarkedContainer> running;
    for (const auto& [uid, pod] : ledger_.bound) {
      for (const auto& [name, one] : pod) {
        const ContainerKey key{uid, name};
        memorymanager::ReleaseContainer(key, reloaded.memory);
        running.push_back(
            {.id = uid + name, .key = key, .pod = uid, .mark = MarkOf(state_, key, one.kind)});
      }
    }
    const Adoption adoption = Adopt(*node_, reloaded, {}, running);
    EXPECT_EQ(adoption.next.cpu, state_.cpu);
    EXPECT_EQ(adoption.next.memory.machine, state_.memory.machine);
    EXPECT_TRUE(adoption.unknown.empty());
    EXPECT_EQ(adoption.adopted.size(), state_.cpu.shares.size());
    state_ = adoption.next;
  }

  void Resize(const std::string& uid) {
    const ContainerKey key{uid, "app"};
    const CpuSet* const cpus = state_.cpu.Find(key);
    if (cpus == nullptr) return;
    const ResizeDecision decision =
        admission::Resize(*node_, state_, key, cpus->Count() + random_.Number(-1, 2));
    if (!decision.admitted()) return;
    ledger_.exclusive[uid] -= decision.before;
    ledger_.exclusive[uid] |= decision.after;
    state_ = decision.next;
    ++seen_["resized"];
  }

  // A container is created again and requests something else. It stays on its NUMA node if the
  // ledger without its former request has that there; otherwise nothing changes.
  void Renew(Pod& pod) {
    const auto number =
        static_cast<size_t>(random_.Number(0, static_cast<int>(pod.containers.size()) - 1));
    Pod asking = pod;
    Container& container = asking.containers[number];
    container.resources.requests["cpu"] = RandomMillis();
    const bool keeps_memory = container.kind == ContainerKind::kInit || random_.OnceIn(2);
    if (!keeps_memory) {
      const int least = pod.stated_qos == QosClass::kGuaranteed ? 1 : 0;
      container.resources.requests["memory"] = Quantity(int64_t{random_.Number(least, 6)} << 30);
    }
    const BoundContainer was = ledger_.bound.at(pod.uid).at(container.name);
    Ledger with = ledger_;
    with.bound[pod.uid][container.name].millis = container.resources.requests["cpu"].MilliValue();
    bool fits =
        with.NeededOn(was.numa) <= LeftOn(static_cast<int>(*machine_->NumaPosition(was.numa)));
    if (!keeps_memory && node_->memory) {
      with.memory[pod.uid].erase(container.name);
      fits = fits && HasMemoryFor(with, container, was.numa);
      const int64_t bytes = container.resources.requests["memory"].Value();
      if (bytes > 0)
        with.memory[pod.uid][container.name] = {{was.numa}, static_cast<uint64_t>(bytes)};
    }
    const Pod here = OnThisNode(*node_, asking);
    const RenewedShare renewed =
        RenewShare(*node_, state_, here, here.containers[number], keeps_memory);
    EXPECT_EQ(renewed.lacks.empty(), fits) << renewed.lacks << " " << Where(asking);
    ++seen_[fits ? "renewed" : "not renewed"];
    if (!renewed.lacks.empty()) {
      EXPECT_EQ(renewed.next, state_);
      return;
    }
    state_ = renewed.next;
    ledger_ = with;
    pod = asking;
  }

  std::string Where(const Pod& pod) const {
    std::string text = Describe(*machine_) + " policy " +
                       std::string(ToString(node_->topology.kind())) + " taken " +
                       ledger_.TakenCpus().ToString();
    for (const auto& [uid, of_pod] : ledger_.bound) {
      for (const auto& [name, one] : of_pod) {
        text += " " + uid + "/" + name + ":" + std::to_string(one.millis) + "@" +
                std::to_string(one.numa);
      }
    }
    return text + " pod " + DescribeOf(pod);
  }

  static std::string DescribeOf(const Pod& pod) {
    std::string text = pod.uid;
    for (const Container& container : pod.containers) {
      text += " " + container.resources.requests.at("cpu").ToString();
      const Quantity* const bytes = Find(container.resources.requests, "memory");
      if (bytes != nullptr) text += "+" + bytes->ToString();
    }
    return text;
  }

  Random random_;
  std::optional<Machine> machine_;
  std::optional<Node> node_;
  NodeState state_;
  Ledger ledger_;
  std::map<std::string, Pod> sharing_;  // that run, by UID
  std::map<std::string, int> seen_;
};

TEST_F(SharedNodeProperty, WhatIsRequestedOfANodeIsAlwaysBackedThere) {
  const int runs = Iterations(400);
  for (int run = 0; run < runs; ++run) {
    Draw();
    if (HasFailure()) return;
    for (int step = 0; step < 25; ++step) {
      const std::string uid = "p" + std::to_string(random_.Number(0, 9));
      const bool runs_already = ledger_.bound.contains(uid) || ledger_.exclusive.contains(uid);
      if (runs_already && random_.OnceIn(3) && ledger_.exclusive.contains(uid)) {
        Resize(uid);
      } else if (runs_already && random_.OnceIn(2) && sharing_.contains(uid)) {
        Renew(sharing_.at(uid));
      } else if (runs_already) {
        sharing_.erase(uid);
        ReleasePod(uid, state_);
        ledger_.Erase(uid);
      } else {
        const Pod pod = random_.OnceIn(2) ? RandomSharing(uid) : RandomExclusive(uid);
        Admission admission = Admit(*node_, state_, pod, devicemanager::NoPreference);
        ExpectRightAnswer(pod, admission);
        if (admission.admitted()) {
          Enter(pod, admission);
          state_ = std::move(admission.next);
          if (!pod.policies.shared_on_one_node) continue;
          if (!ledger_.exclusive.contains(uid)) sharing_[uid] = pod;
          // The kubelet's retry gets the same.
          const Admission again = Admit(*node_, state_, pod, devicemanager::NoPreference);
          EXPECT_EQ(again.next.cpu.shares, state_.cpu.shares) << Where(pod);
        }
      }
      if (random_.OnceIn(8)) RestartFromMarks();
      ExpectSound("run " + std::to_string(run) + " step " + std::to_string(step));
      if (HasFailure()) return;
    }
  }
  for (const char* what :
       {"shared admitted", "shared refused", "memory admitted", "memory refused",
        "exclusive admitted", "exclusive refused", "resized", "renewed", "not renewed"}) {
    EXPECT_GT(seen_[what], runs / 16) << what;
  }
  for (const auto& [what, count] : seen_) RecordProperty(what, count);
}

}  // namespace
}  // namespace alignd::admission
