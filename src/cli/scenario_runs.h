// Scenario texts from files or a stream: run, or checked against what they expect.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::cli {

// One scenario text and where it was found ("FILE" or "FILE:LINE").
struct ScenarioText {
  std::string place;
  std::string text;
};

// The scenarios in a text: one JSON object over any number of lines, or one object a line.
std::vector<ScenarioText> SplitScenarios(const std::string& name, const std::string& text);

// Prints one result object per step, one a line. Errors: the first text that is no scenario.
Result<int> RunScenarios(const std::vector<ScenarioText>& scenarios, std::ostream& out);

// Compares with what each text expects, prints the first difference of each that fails and, last,
// "N passed, M failed". Exit status 1 if any failed; a text that is no scenario fails.
Result<int> CheckScenarios(const std::vector<ScenarioText>& scenarios, std::ostream& out);

}  // namespace alignd::cli
