// Scenarios as text in, results as text out, and the comparison with what was expected.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/scenario/scenario.h"
#include "alignd/scenario/simulation.h"

namespace alignd::scenario {

// One JSON object (no newline) per step; a scenario that does not start gives one object with
// `error`.
std::vector<std::string> RunToJson(const Scenario& scenario);

// The result of one step as a JSON object.
std::string ResultToJson(const Simulation& simulation, const Step& step, const StepResult& result);

struct Check {
  std::string name;
  bool passed = false;
  std::string difference;  // readable: step, path, expected, got
};

// Runs the scenario and compares with its `expect` or `error`: every key of these must be in the
// result and equal; further keys of a result are ignored. A state file with its verdict
// (`{"kind": ..., "text": ..., "valid": ...}`) is verified and compared likewise.
// Errors: kInvalidArgument if the text is neither.
Result<Check> CheckText(std::string_view json);

// Whether the text is one whole JSON value.
bool IsJson(std::string_view text);

}  // namespace alignd::scenario
