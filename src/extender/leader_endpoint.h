// Leads the Service of several replicas to the leader.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "apiserver/kept_call.h"
#include "extender/leader_elector.h"

namespace alignd::extender {

// Writes the address of this replica into an EndpointSlice that exists, as its only endpoint. A
// readiness probe cannot do that: replicas that are never ready end no rolling update. One thread
// at a time.
class LeaderEndpoint {
 public:
  struct Settings {
    std::string name_space;
    std::string slice;
    std::string address;  // IPv4 or IPv6
  };

  LeaderEndpoint(Settings settings, LeaderElector::Connect connect);

  // Repeated by the leader: a former one can have written late. What changes nothing is not stored
  // by the API server.
  Result<Done> Announce();

 private:
  const Settings settings_;
  apiserver::KeptCall<BootClock::time_point> call_;
};

}  // namespace alignd::extender
