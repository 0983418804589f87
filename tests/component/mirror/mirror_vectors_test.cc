// The blog's scenarios with GPUs, as unannotated pods through a kubelet that allocates devices:
// placed as the real kubelet placed them.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/vector_files.h"
#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

using nlohmann::json;
using Ids = std::set<std::string>;

std::vector<json> ScenariosWithDevices(const std::string& file) {
  std::map<std::string, json> by_name;  // the small selection is part of the whole
  for (const std::filesystem::path& path : VectorFiles(file)) {
    std::ifstream lines(path);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) continue;
      json scenario = json::parse(line);
      if (line.find(std::string("\"") + kGpu + "\":\"") == std::string::npos) continue;
      by_name.emplace(scenario.at("name").get<std::string>(), std::move(scenario));
    }
  }
  std::vector<json> scenarios;
  for (auto& [name, scenario] : by_name) scenarios.push_back(std::move(scenario));
  return scenarios;
}

struct Ask {
  std::string uid;
  int cpus = 0;
  int gpus = 0;
};

// All pods of these scenarios have one container, and limits that are its requests.
Ask AskOf(const json& pod) {
  const json& limits = pod.at("spec").at("containers").at(0).at("resources").at("limits");
  const auto count = [&](const char* resource) {
    return limits.contains(resource) ? std::stoi(limits.at(resource).get<std::string>()) : 0;
  };
  return {pod.at("metadata").at("uid").get<std::string>(), count("cpu"), count(kGpu)};
}

// Where a container is: its exclusive CPUs, and how many GPUs it has on each NUMA node.
struct Place {
  bool admitted = false;
  std::string cpus;
  std::map<std::string, int> gpus;
  bool by_chance = false;

  friend bool operator==(const Place& a, const Place& b) {
    return a.admitted == b.admitted && a.cpus == b.cpus &&
           (a.by_chance || b.by_chance || a.gpus == b.gpus);
  }
};

void PrintTo(const Place& place, std::ostream* out) {
  *out << (place.admitted ? "CPUs " + place.cpus : "refused");
  for (const auto& [node, count] : place.gpus) *out << ", " << count << " GPUs of node " << node;
}

Place Expected(const json& step) {
  Place place;
  place.admitted = step.at("admitted").get<bool>();
  if (!place.admitted) return place;
  const json& app = step.at("containers").at("app");
  place.cpus = app.value("cpuset", "");
  if (app.contains("devices")) {
    place.gpus = app.at("devices").at(kGpu).get<std::map<std::string, int>>();
  }
  // Where the kubelet decides by chance, nothing is recorded.
  place.by_chance = !app.contains("devices");
  return place;
}

class MirrorVectors : public MirrorTest {
 protected:
  Options DaemonOptions() const override {
    Options options = MirrorTest::DaemonOptions();
    options.compatibility = compatibility_;
    return options;
  }

  // A pod that is refused is gone, as it is in the recorded scenarios.
  Place Admit(const Ask& ask) {
    if (ask.gpus > 0 && !kubelet_->Admit({ask.uid, "app"}, {{kGpu, ask.gpus}}).ok()) return {};
    const v1::PodSandboxConfig pod = ask.cpus > 0 ? PodConfig(ask.uid) : BurstablePod(ask.uid);
    v1::ContainerConfig container = ask.cpus > 0 ? Pinned(ask.cpus) : Shared();
    const Created created = CreateIn(Run(pod), pod, container);
    created_[ask.uid] = created;
    if (!created.status.ok()) {
      EXPECT_EQ(created.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION)
          << created.status.error_message();
      Remove(ask.uid);
      return {};
    }
    Place place{true, "", {}, false};
    if (ask.cpus > 0) place.cpus = created.seen.linux().resources().cpuset_cpus();
    for (const std::string& gpu : GpusOf(created.seen))
      ++place.gpus[gpu == kGpuOfNode0 ? "0" : "1"];
    return place;
  }
  void Remove(const std::string& uid) {
    const auto created = created_.find(uid);
    if (created == created_.end()) return;  // refused
    RemovePod(uid, created->second.sandbox);
    created_.erase(created);
  }
  void RemoveAll() {
    while (!created_.empty()) Remove(std::string(created_.begin()->first));
    ASSERT_TRUE(Eventually([&] { return State() == empty_; }));
  }

  // How many NUMA nodes the container's CPUs and GPUs lie on.
  static size_t Spread(const Place& place) {
    std::set<int> nodes = NumaOf(place.cpus);
    for (const auto& [node, count] : place.gpus) nodes.insert(std::stoi(node));
    return nodes.size();
  }

  void RunScenario(const json& scenario) {
    // Once a container has another device than in the recording, the node's state is another one.
    bool as_recorded = true;
    const json& steps = scenario.at("steps");
    const std::string policy = scenario.at("config").value("topologyManagerPolicy", "none");
    for (size_t i = 0; i < steps.size(); ++i) {
      SCOPED_TRACE("step " + std::to_string(i));
      const std::string operation = steps[i].at("op").get<std::string>();
      if (operation == "removePod") Remove(steps[i].at("podUID").get<std::string>());
      if (operation == "start") {
        const auto pod = created_.find(steps[i].at("podUID").get<std::string>());
        if (pod != created_.end()) {
          const grpc::Status started = StartContainer(pod->second.id);
          EXPECT_TRUE(started.ok()) << started.error_message();
        }
      }
      if (operation != "admit") continue;
      const Ask ask = AskOf(steps[i].at("pod"));
      const Place expected = Expected(scenario.at("expect")[i]);
      const Place place = Admit(ask);
      if (mode_ == mirror::BindingMode::kDeferred || place == expected) {
        EXPECT_EQ(place, expected);
        ++same_;
        continue;
      }
      // Preferred: the allocated device is assigned if that is no worse.
      ++other_;
      if (as_recorded) {
        EXPECT_EQ(place.admitted, expected.admitted);
        EXPECT_LE(Spread(place), Spread(expected));
      }
      if (place.admitted && policy == "single-numa-node") {
        EXPECT_EQ(Spread(place), 1U);
      }
      if (place.admitted && Spread(place) <= Spread(expected)) {
        EXPECT_EQ(GpusOf(created_.at(ask.uid).seen), kubelet_->IdsOf({ask.uid, "app"}, kGpu));
      }
      as_recorded = false;
    }
  }

  void RunAll(const std::string& file, mirror::BindingMode mode) {
    mode_ = mode;
    std::map<std::string, std::vector<json>> by_config;
    for (json& scenario : ScenariosWithDevices(file)) {
      by_config[scenario.at("config").dump()].push_back(std::move(scenario));
    }
    ASSERT_FALSE(by_config.empty());
    StartRuntime();
    for (const auto& [config, scenarios] : by_config) {
      json whole = json::parse(config);
      whole["apiVersion"] = "kubelet.config.k8s.io/v1beta1";
      whole["kind"] = "KubeletConfiguration";
      StartDaemon(whole.dump());
      empty_ = State();
      StartGpus();
      StartKubeletOnceOffered();
      ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
      for (const json& scenario : scenarios) {
        SCOPED_TRACE(scenario.at("name").get<std::string>() + " " + config);
        RunScenario(scenario);
        RemoveAll();
        if (HasFailure()) return;
      }
      kubelet_.reset();
      gpus_.reset();
      StopDaemon();
      std::filesystem::remove_all(StateDir());
    }
    RecordProperty("placed_as_recorded", same_);
    RecordProperty("placed_otherwise", other_);
    std::cout << same_ << " pods as recorded, " << other_ << " otherwise\n";
  }

  std::optional<Compatibility> compatibility_ =
      Compatibility::k1_36;  // as the vectors' state files
  std::string empty_;        // the CPU state without any pod
  std::map<std::string, Created> created_;
  int same_ = 0;
  int other_ = 0;
};

TEST_F(MirrorVectors, BlogDeferred) { RunAll("blog.jsonl", mirror::BindingMode::kDeferred); }

TEST_F(MirrorVectors, BlogPreferred) { RunAll("blog.jsonl", mirror::BindingMode::kPreferred); }

TEST_F(MirrorVectors, BlogOfKubelet120Deferred) {
  compatibility_ = Compatibility::k1_20;
  RunAll("blog-1.20.jsonl", mirror::BindingMode::kDeferred);
}

TEST_F(MirrorVectors, BlogOfKubelet120Preferred) {
  compatibility_ = Compatibility::k1_20;
  RunAll("blog-1.20.jsonl", mirror::BindingMode::kPreferred);
}

}  // namespace
}  // namespace alignd::daemon
