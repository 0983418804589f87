// Requests whose answer waits for a device plugin.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"
#include "allocation/kubelet_allocation.h"
#include "allocation/outcome.h"
#include "allocation/plugin_needs.h"

namespace alignd::allocation {

// A request, and who gets the answer.
struct Caller {
  AdmissionRequest request;
  std::function<void(Outcome)> done;
  std::optional<KubeletAllocation::Learned> learned = {};
};

// The kubelet counts an answer as a failed start: after 10, 20, 40 s and more it tries again. So a
// request waits here for as long as its caller does, and goes on when the plugin has registered.
// One request for each container; one thread at a time.
class HeldRequests {
 public:
  using Clock = std::chrono::steady_clock;

  // More than the pods of a node. Each request has up to rpc::kMaxMessageBytes.
  static constexpr size_t kMaxHeld = 256;

  // Takes the caller if it may wait and there is room. An earlier caller for the same container is
  // answered: a kubelet has one call for each container.
  bool Hold(Caller& caller, const PluginWait& wait);

  // Answers the callers whose time is over or who have gone, and returns those that need not wait
  // any more. `is_awaited`: whether the resource's plugin is still to be waited for.
  std::vector<Caller> Take(const std::function<bool(const std::string& resource)>& is_awaited);

  // Answers all callers, each also with what it waited for; or those of one pod.
  void Answer(const Error& why);
  void AnswerPod(const std::string& pod_uid, const Error& why);

  // When Take must be called again at the latest; nullopt: no request is held.
  std::optional<Clock::time_point> NextCheck() const;

 private:
  // Whether a plugin is awaited may change without an announcement: its time is over, or it has
  // registered as before.
  static constexpr std::chrono::milliseconds kCheckPeriod{500};

  struct Held {
    Caller caller;
    PluginWait wait;
  };

  std::map<ContainerKey, Held> held_;
};

}  // namespace alignd::allocation
