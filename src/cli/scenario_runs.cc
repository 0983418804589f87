#include "cli/scenario_runs.h"

#include <ostream>
#include <string_view>

#include "alignd/scenario/report.h"
#include "alignd/scenario/scenario.h"
#include "cli/program.h"
#include "host/file.h"

namespace alignd::cli {
namespace {

std::vector<ScenarioText> SplitLines(const std::string& name, std::string_view text) {
  std::vector<ScenarioText> lines;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    ++number;
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      lines.push_back({name + ":" + std::to_string(number), std::string(line)});
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::vector<ScenarioText> SplitScenarios(const std::string& name, const std::string& text) {
  std::vector<ScenarioText> lines = SplitLines(name, text);
  // If the first line is a whole object, each line is one; otherwise the text is one object.
  if (lines.size() > 1 && scenario::IsJson(lines.front().text)) return lines;
  if (lines.empty()) return {};
  return {{name, text}};
}

Result<int> RunScenarios(const std::vector<ScenarioText>& scenarios, std::ostream& out) {
  for (const ScenarioText& text : scenarios) {
    const Result<scenario::Scenario> parsed = scenario::ParseScenario(text.text);
    if (!parsed.ok()) return host::ContentError(parsed.error(), text.place);
    for (const std::string& result : scenario::RunToJson(*parsed)) out << result << '\n';
  }
  return kSuccess;
}

Result<int> CheckScenarios(const std::vector<ScenarioText>& scenarios, std::ostream& out) {
  int passed = 0;
  int failed = 0;
  for (const ScenarioText& text : scenarios) {
    const Result<scenario::Check> check = scenario::CheckText(text.text);
    if (check.ok() && check->passed) {
      ++passed;
      continue;
    }
    ++failed;
    out << text.place << ": ";
    if (check.ok()) {
      out << check->name << ": " << check->difference << '\n';
    } else {
      out << check.error().Text() << '\n';
    }
  }
  out << passed << " passed, " << failed << " failed\n";
  return failed == 0 ? kSuccess : kFailure;
}

}  // namespace alignd::cli
