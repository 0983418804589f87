// A Lease of the API server. Source: Kubernetes coordination.k8s.io/v1, types.go.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "alignd/base/result.h"

namespace alignd::extender {

// A value.
struct Lease {
  std::string version;  // resourceVersion: another one with each change
  std::string holder;   // empty: the last one has released it
  std::chrono::seconds duration{0};
  int64_t transitions = 0;
  std::string acquired;  // as it was written
  std::string json;      // all of it
};

// Errors: kCorrupt: no Lease with a name and a resourceVersion, or a field of another type.
Result<Lease> ParseLease(const std::string& text);

// What a replica writes.
struct LeaseTerm {
  std::string holder;
  std::chrono::seconds duration{0};
  int64_t transitions = 0;
  std::string acquired;
  std::string renewed;
};

// The JSON of a Lease of that name.
std::string NewLease(const std::string& name_space, const std::string& name, const LeaseTerm& term);

// The JSON of `lease` with that term; what else it has stays.
std::string ChangedLease(const Lease& lease, const LeaseTerm& term);

// "2026-11-22T12:03:11.123456Z". Source: apimachinery pkg/apis/meta/v1, micro_time.go.
std::string MicroTime(std::chrono::system_clock::time_point time);

// The path of the Leases of a namespace.
std::string LeasesPath(const std::string& name_space);

}  // namespace alignd::extender
