// Feeds the extender with the nodes of a cluster, from its API server.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "alignd/placement/fleet.h"
#include "extender/cluster_view.h"
#include "extender/extender.h"
#include "extender/object_watch.h"

namespace alignd::extender {

// A thread follows each kind of object, and one gives what has changed to the extender. Calls are
// answered with an error until all kinds have been listed, and when it has not been known for
// `stale_after` that nothing was missed.
class ClusterFeed {
 public:
  struct Settings {
    std::string config = {};  // of objects without alignd's attributes, in JSON; empty: none
    std::chrono::milliseconds stale_after{180'000};
    // Changes in this time are one.
    std::chrono::milliseconds coalesced{50};
    ObjectWatch::Settings watch = {};
    placement::ForEach for_each = placement::ForEachInTurn;
  };

  // Begins. `extender` outlives it.
  ClusterFeed(Settings settings, const ObjectWatch::Connect& connect, Extender& extender);
  ClusterFeed(const ClusterFeed&) = delete;
  ClusterFeed& operator=(const ClusterFeed&) = delete;
  // Ends the threads: at once, or when an attempt to connect is over.
  ~ClusterFeed();

  // Has all objects listed again, and does not wait for it. Thread-safe.
  void ListAgain();

  // What the extender was given is what the API server had then, or newer. Thread-safe.
  std::chrono::steady_clock::time_point AsOf() const;

  // For /metrics. Thread-safe.
  std::string MetricsPage() const;

 private:
  class State;
  const std::unique_ptr<State> state_;
};

}  // namespace alignd::extender
