#include "moving/steps.h"

#include <ostream>

namespace alignd::moving {

void PrintSteps(const std::vector<Step>& steps, std::ostream& out) {
  int number = 0;
  for (const Step& step : steps) out << "  " << ++number << ". " << step.what << '\n';
}

Result<Done> RunSteps(const std::vector<Step>& steps, std::ostream& out) {
  for (size_t i = 0; i < steps.size(); ++i) {
    out << "step " << i + 1 << " of " << steps.size() << ": " << steps[i].what << '\n'
        << std::flush;
    const Result<Done> ran = steps[i].run();
    if (ran.ok()) continue;
    Error error = ran.error().In("step " + std::to_string(i + 1) + " (" + steps[i].what + ")");
    out << "failed: " << ran.error().message << '\n';
    std::string left;
    for (size_t undone = i + 1; undone-- > 0;) {
      const Step& step = steps[undone];
      if (!step.undo) continue;
      const Result<Done> back = step.undo();
      out << (back.ok() ? "undone: " : "could not be undone: ") << step.undo_what << '\n';
      if (!back.ok()) left += "; " + step.undo_what + " failed: " + back.error().Text();
    }
    error.message += left.empty() ? "; all steps were undone, and everything is as before"
                                  : "; the steps were undone, but " + left.substr(2);
    if (error.remedy.empty()) error.remedy = "remove the cause, then repeat the handover";
    return error;
  }
  return Done{};
}

}  // namespace alignd::moving
