// What is reported to the cluster about a pod: the Events that `kubectl describe pod` shows.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alignd/control/v1/control.pb.h"

namespace alignd::events {

// A value.
struct PodEvent {
  std::string pod_namespace = {};
  std::string pod_name = {};
  std::string pod_uid = {};
  std::string container = {};  // empty: the pod as a whole
  bool is_warning = false;
  std::string reason = {};
  std::string message = {};
  int64_t first_unix_ms = 0;
  int64_t last_unix_ms = 0;
  uint64_t times = 1;
  // How long an Event with this message is not repeated. nullopt: it is never repeated.
  std::optional<std::chrono::seconds> repeated_after = {};

  // The name of the Event object: the same for the same pod, container and reason, so that a
  // repetition changes the object and adds none. A DNS subdomain of at most 253 characters.
  std::string ObjectName() const;

  // The object (core/v1) in JSON. `node`: the Node that reports. The message has at most 1024
  // bytes.
  std::string Object(const std::string& node) const;

  // The change (a JSON merge patch) that a repetition makes to the object. `count`: with those
  // before.
  std::string Repetition(uint64_t count) const;
};

// What the report says about pods, oldest first: pods that wait, are refused or fail (the reason of
// a refusal is the kubelet's), the conditions that are about a pod, and each container with an
// assignment (reason Assigned). What has no name and namespace of a pod is left out: it cannot be
// the object of an Event. There is one for each ObjectName: of several, the last one.
std::vector<PodEvent> EventsOf(const control::v1::GetStatusResponse& report);

}  // namespace alignd::events
