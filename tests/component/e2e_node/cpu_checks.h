// Matchers about the CPUs of a container: how many, which, and where they lie.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/machine/machine.h"
#include "case_table.h"

namespace alignd::node_suites {

// What a set of CPUs is compared with.
struct CpuView {
  const Machine& machine;
  // "reserved", or the CPUs of a container, "pod/container". May throw.
  std::function<CpuSet(const std::string& name)> named;
};

// "online", a CPU list or a name, joined by " + " and " - " from left to right.
// Throws std::runtime_error for anything else.
CpuSet Evaluate(const std::string& expression, const CpuView& view);

// Empty, or why it does not hold of these CPUs. nullopt: the matcher `key` is not about CPUs.
std::optional<std::string> CheckCpus(const std::string& key, const Json& value, const CpuSet& cpus,
                                     const CpuView& view);

// Empty if both are equal.
std::string Differs(const std::string& what, const std::string& found, const std::string& wanted);
std::string Differs(const std::string& what, int found, const Json& wanted);

}  // namespace alignd::node_suites
