#include "moving/steps.h"

#include <ostream>

namespace alignd::moving {

void PrintSteps(const std::vector<Step>& steps, std::ostream& out) {
  int number = 0;
  for (const Step& step : steps) out << "  " << ++number << ". " << step.what << '\n';
}

namespace {

// Undoes the steps before `end`, the last one first. Returns what is not as before; empty: nothing.
std::string UndoSteps(const std::vector<Step>& steps, size_t end, std::ostream& out) {
  std::string left;
  const auto add = [&left](const std::string& text) { left += (left.empty() ? "" : "; ") + text; };
  bool has_files = true;
  while (end-- > 0) {
    const Step& step = steps[end];
    if (!step.undo) continue;
    if (step.needs_files && !has_files) {
      out << "not undone: " << step.undo_what << '\n';
      add("not done: " + step.undo_what + ", because its files are not restored");
      continue;
    }
    const Result<Done> back = step.undo();
    out << (back.ok() ? "undone: " : "could not be undone: ") << step.undo_what << '\n';
    if (!back.ok()) {
      add(step.undo_what + " failed: " + back.error().Text());
      if (step.restores_files) has_files = false;
    } else if (step.undo_remark) {
      if (const std::string remark = step.undo_remark(); !remark.empty()) add(remark);
    }
    out << std::flush;
  }
  return left;
}

}  // namespace

Result<Done> RunSteps(const std::vector<Step>& steps, std::ostream& out) {
  for (size_t i = 0; i < steps.size(); ++i) {
    out << "step " << i + 1 << " of " << steps.size() << ": " << steps[i].what << '\n'
        << std::flush;
    const Result<Done> ran = steps[i].run();
    if (ran.ok()) continue;
    Error error = ran.error().In("step " + std::to_string(i + 1) + " (" + steps[i].what + ")");
    out << "failed: " << ran.error().message << '\n';
    const std::string left = UndoSteps(steps, i + 1, out);
    error.message += left.empty() ? "; all steps were undone, and everything is as before"
                                  : "; the steps were undone, but " + left;
    if (error.remedy.empty()) error.remedy = "remove the cause, then repeat the handover";
    return error;
  }
  return Done{};
}

}  // namespace alignd::moving
