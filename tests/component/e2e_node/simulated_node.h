// Does the steps of a row with the decision core alone: no daemon, no runtime.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "alignd/scenario/simulation.h"
#include "case_table.h"
#include "cpu_checks.h"

namespace alignd::node_suites {

class SimulatedNode {
 public:
  // Empty, or which step was not done or which matcher does not hold.
  std::string RunSteps(const Case& row, const Machine& machine);

 private:
  std::string DoStep(const Json& step);
  std::string RunPod(const Pod& pod);
  std::string Check(const Json& matcher);
  std::string CheckContainer(const Json& matcher);
  std::string CheckMemory(const Json& matcher) const;

  // Throws std::runtime_error without such a container.
  admission::Assignment AssignmentOf(const std::string& name) const;  // "pod/container"
  std::string FactsOf(const std::string& name) const;
  static std::string MemoryNodes(const admission::Assignment& assignment);

  std::optional<scenario::Simulation> simulation_;
  Json config_;
  std::map<std::string, Pod> pods_;  // by name
  std::map<std::string, std::string> remembered_;
};

}  // namespace alignd::node_suites
