// Answers calls for the topology object of the node. A call that knows the newest one waits for the
// next.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alignd/control/v1/topology.pb.h"
#include "control/reports.h"
#include "service/unary_server.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::control {

// Keeps the function, and calls it after every change of the assignments, on a thread that must not
// wait.
using Follow = std::function<void(std::function<void()> changed)>;

inline constexpr char kGetTopology[] = "/alignd.control.v1.Topology/Get";

// The object of the request, and its version. Pods whose containers have not been created yet are
// not in its fingerprint: what they are assigned may not be in the state yet.
v1::GetTopologyResponse ReportTopology(const ReportSources& sources,
                                       const v1::GetTopologyRequest& request);

// Waiting calls block no thread.
class TopologyService {
 public:
  static constexpr size_t kMaxWaiting = 16;            // calls; further ones are refused
  static constexpr std::chrono::seconds kMaxWait{60};  // of one call
  // Pods come and go without a change of the assignments; while a call waits, this is how often
  // they are looked at.
  static constexpr std::chrono::milliseconds kBetweenLooks{500};

  // `queue` and the references in `sources` outlive this object. `follow` may be empty: changes are
  // then seen after kBetweenLooks.
  TopologyService(TaskQueue& queue, const ReportSources& sources, const Follow& follow);
  TopologyService(const TopologyService&) = delete;
  TopologyService& operator=(const TopologyService&) = delete;
  // Drops the calls that wait.
  ~TopologyService();

  // For the queue.
  service::Method Method();

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    service::Call call;
    v1::GetTopologyRequest request;
    Clock::time_point until;
  };
  class Changes;

  void Get(service::Call call);
  // Answers the calls whose wait is over. When to look again.
  Clock::time_point Look();

  const ReportSources& sources_;
  std::vector<Waiting> waiting_;  // on the queue only
  RecurringTask look_;
  const std::shared_ptr<Changes> changes_;  // shared with the observer of changes
};

}  // namespace alignd::control
