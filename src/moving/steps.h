// Steps that are done in order, and undone in reverse order if one fails.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::moving {

struct Step {
  std::string what;  // "stop kubelet.service"
  std::function<Result<Done>()> run;
  // Leads back to what was before `run`, whether run has succeeded, failed half way or was undone
  // before; null: there is nothing to undo.
  std::string undo_what = {};  // "start kubelet.service"
  std::function<Result<Done>()> undo = nullptr;
  // The undo restores files that programs read when they start.
  bool restores_files = false;
  // The undo starts a program that reads these files: it is left out if they were not restored.
  bool needs_files = false;
  // After the undo has succeeded: what the operator must still do; empty: nothing.
  std::function<std::string()> undo_remark = nullptr;
};

// Numbered, one line each.
void PrintSteps(const std::vector<Step>& steps, std::ostream& out);

// Runs the steps and says so. If one fails, it and those before it are undone, the last one first;
// an undo that fails does not keep the others from being run, but no program is started with files
// that were not restored.
// Errors: that of the step, which says what was undone and what could not be.
Result<Done> RunSteps(const std::vector<Step>& steps, std::ostream& out);

}  // namespace alignd::moving
