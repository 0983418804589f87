// Extended resources that a DRA driver serves, of a pod to which a resize may have added requests.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/pod_builder.h"
#include "cri/extended_resources.h"

namespace alignd::cri {
namespace {

using Names = std::vector<std::string>;

dra::PreparedDevice Requested(const std::string& request) {
  dra::PreparedDevice device = {"example.com", "node", "gpu0", {"example.com/gpu=0"}};
  device.extended_requests = {request};
  return device;
}

// Sorted by name: cpu, m.com/gpu, memory, n.com/nic.
PodSpec ChangedSpec() {
  return {"p",
          {App("app", {{"cpu", "1"}, {"memory", "64Mi"}, {"m.com/gpu", "1"}, {"n.com/nic", "1"}})},
          /*may_have_added=*/true};
}

void Assign(devicemanager::DeviceState& plugins, const std::string& container,
            const std::string& resource) {
  plugins.resources[resource] = {};
  plugins.allocations[{"p", container}][resource].devices = {{0, {"id"}}};
}

TEST(ShiftedRequests, NamesWithSeveralMeaningsAreRefused) {
  // n.com/nic, if cpu and memory were added; else m.com/gpu.
  const auto refused = ServedByDra({}, {Requested("container-0-request-1")}, ChangedSpec());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().message,
            "DRA serves extended resources of container app (container-0-request-1), and it is not "
            "known whether its m.com/gpu or its n.com/nic: its pod may have been changed since it "
            "was scheduled (metadata.generation is not 1), and a resize that adds a cpu or memory "
            "request changes which resource that is");
  EXPECT_EQ(refused.error().remedy,
            "give each container of the pod cpu and memory requests and limits, and no resources "
            "to the pod as a whole; or name what only the scheduler counts in notDevices");
  PodSpec never = ChangedSpec();
  never.may_have_added = false;
  EXPECT_EQ(ServedByDra({}, {Requested("container-0-request-1")}, never).value(),
            Names{"m.com/gpu"});
}

TEST(ShiftedRequests, OfAChangedPodAreKnownIfTheNamesHaveOneMeaning) {
  // Nothing but n.com/nic can be the fourth.
  EXPECT_EQ(ServedByDra({}, {Requested("container-0-request-3")}, ChangedSpec()).value(),
            Names{"n.com/nic"});
  // The container has a plugin's device of the other one.
  devicemanager::DeviceState plugins;
  Assign(plugins, "app", "m.com/gpu");
  EXPECT_EQ(ServedByDra(plugins, {Requested("container-0-request-1")}, ChangedSpec()).value(),
            Names{"n.com/nic"});
  // Only the scheduler counts the other one. Of a pod that was never changed, the name is exact.
  PodSpec counted = ChangedSpec();
  counted.not_devices = {"n.com/nic"};
  EXPECT_EQ(ServedByDra({}, {Requested("container-0-request-1")}, counted).value(),
            Names{"m.com/gpu"});
  counted.may_have_added = false;
  EXPECT_EQ(ServedByDra({}, {Requested("container-0-request-3")}, counted).value(),
            Names{"n.com/nic"});
  // No resource is left that it can be.
  Assign(plugins, "app", "n.com/nic");
  EXPECT_FALSE(ServedByDra(plugins, {Requested("container-0-request-1")}, ChangedSpec()).ok());
}

using Added = std::set<std::string>;

// All sets of extended resources of the container that have these names, whichever of `addable`
// were added: by making the names of every set.
std::set<std::set<std::string>> AllMeanings(const Container& now, size_t number,
                                            const std::set<std::string>& names,
                                            const std::set<std::string>& of_plugins,
                                            const std::vector<Added>& addable) {
  std::set<std::set<std::string>> meanings;
  for (const Added& added : addable) {
    std::vector<std::string> sorted;
    for (const auto& [resource, amount] : now.resources.requests) {
      if (!added.contains(resource)) sorted.push_back(resource);
    }
    for (unsigned bits = 1; bits < 1U << sorted.size(); ++bits) {
      std::set<std::string> resources;
      std::set<std::string> its_names;
      bool is_possible = true;
      for (size_t i = 0; i < sorted.size(); ++i) {
        if ((bits >> i & 1) == 0) continue;
        resources.insert(sorted[i]);
        its_names.insert("container-" + std::to_string(number) + "-request-" + std::to_string(i));
        is_possible = is_possible && sorted[i].find('/') != std::string::npos &&
                      !of_plugins.contains(sorted[i]);
      }
      if (is_possible && its_names == names) meanings.insert(resources);
    }
  }
  return meanings;
}

TEST(ShiftedRequests, OfRandomResizedPodsAreNeverOthersThanTheServedOnes) {
  std::mt19937 random(1515);
  const auto below = [&](int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random);
  };
  const std::vector<std::string> extended = {"a.com/x", "d.com/x", "m.com/x", "z.com/x"};
  const std::vector<Added> addable = {{}, {"cpu"}, {"memory"}, {"cpu", "memory"}};
  int known = 0;
  int shifted = 0;
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    PodSpec spec{"p", {}, /*may_have_added=*/below(4) > 0};
    std::set<std::string> of_dra;
    for (const std::string& resource : extended) {
      if (below(2) == 0) of_dra.insert(resource);
    }
    devicemanager::DeviceState plugins;
    std::set<std::string> truth;
    std::map<size_t, std::set<std::string>> names;
    bool is_shifted = false;
    const bool has_devices = below(2) == 0;  // the pod has run before
    for (size_t number = 0; number < 1 + static_cast<size_t>(below(2)); ++number) {
      const std::string name = "c" + std::to_string(number);
      std::map<std::string, std::string> amounts;
      for (const char* const plain : {"cpu", "ephemeral-storage", "memory"}) {
        if (below(2) == 0) amounts[plain] = "1";
      }
      for (const std::string& resource : extended) {
        if (below(2) == 0) amounts[resource] = "1";
      }
      size_t index = 0;
      for (const auto& [resource, amount] : App(name, amounts).resources.requests) {
        if (of_dra.contains(resource)) {
          truth.insert(resource);
          names[number].insert("container-" + std::to_string(number) + "-request-" +
                               std::to_string(index));
        } else if (resource.find('/') != std::string::npos && has_devices) {
          Assign(plugins, name, resource);
        }
        ++index;
      }
      const Added added = spec.may_have_added ? addable[static_cast<size_t>(below(4))] : Added();
      for (const std::string& plain : added) {
        is_shifted = amounts.emplace(plain, "1").second || is_shifted;
      }
      spec.containers.push_back(App(name, amounts));
    }
    for (const std::string& resource : extended) {
      if (!of_dra.contains(resource) && below(4) == 0) spec.not_devices.insert(resource);
    }
    std::set<std::string> of_plugins = spec.not_devices;
    for (const auto& [key, resources] : plugins.allocations) {
      for (const auto& [resource, allocation] : resources) of_plugins.insert(resource);
    }
    std::vector<dra::PreparedDevice> devices;
    bool is_unique = true;
    for (const auto& [number, its_names] : names) {
      for (const std::string& request : its_names) devices.push_back(Requested(request));
      const auto meanings = AllMeanings(spec.containers[number], number, its_names, of_plugins,
                                        spec.may_have_added ? addable : std::vector<Added>{{}});
      ASSERT_FALSE(meanings.empty()) << round;
      is_unique = is_unique && meanings.size() == 1;
    }
    const auto served = ServedByDra(plugins, devices, spec);
    ASSERT_EQ(served.ok(), is_unique) << round;
    if (!served.ok()) {
      EXPECT_EQ(served.error().code, ErrorCode::kUnavailable);
      ++refused;
      continue;
    }
    EXPECT_EQ(std::set<std::string>(served->begin(), served->end()), truth) << round;
    known += truth.empty() ? 0 : 1;
    shifted += is_shifted && !truth.empty() ? 1 : 0;
  }
  EXPECT_GT(known, 1000);
  EXPECT_GT(shifted, 300);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace alignd::cri
