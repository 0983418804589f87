// Pods for tests: MakePod("p", {Init("warm", {{"memory", "1Gi"}}), App("app", {{"cpu", "2"}})}).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/pod/pod.h"

namespace alignd {

// The quantities of a list that is known to be well-formed.
inline ResourceList Amounts(const std::map<std::string, std::string>& texts) {
  ResourceList amounts;
  for (const auto& [resource, text] : texts) {
    const Result<Quantity> amount = Quantity::Parse(text);
    if (!amount.ok()) {
      std::fprintf(stderr, "Amounts: %s\n", amount.error().message.c_str());
      std::abort();
    }
    amounts[resource] = *amount;
  }
  return amounts;
}

// A container whose requests are its limits.
inline Container MakeContainer(ContainerKind kind, std::string name,
                               const std::map<std::string, std::string>& amounts) {
  return {.name = std::move(name),
          .kind = kind,
          .resources = {.requests = Amounts(amounts), .limits = Amounts(amounts)}};
}

inline Container App(std::string name, const std::map<std::string, std::string>& amounts) {
  return MakeContainer(ContainerKind::kApp, std::move(name), amounts);
}
inline Container Init(std::string name, const std::map<std::string, std::string>& amounts) {
  return MakeContainer(ContainerKind::kInit, std::move(name), amounts);
}
inline Container Sidecar(std::string name, const std::map<std::string, std::string>& amounts) {
  return MakeContainer(ContainerKind::kSidecar, std::move(name), amounts);
}

// A pod named like its UID, in the namespace "default".
inline Pod MakePod(const std::string& uid, std::vector<Container> containers) {
  Pod pod;
  pod.uid = uid;
  pod.name = uid;
  pod.name_space = "default";
  pod.containers = std::move(containers);
  return pod;
}

// The same with one container `app`.
inline Pod AppPod(const std::string& uid, const std::map<std::string, std::string>& amounts) {
  return MakePod(uid, {App("app", amounts)});
}

// As MakePod, with stated QoS class Guaranteed, for any requests of its containers.
inline Pod GuaranteedPod(const std::string& uid, std::vector<Container> containers) {
  Pod pod = MakePod(uid, std::move(containers));
  pod.stated_qos = QosClass::kGuaranteed;
  return pod;
}

}  // namespace alignd
