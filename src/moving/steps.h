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
};

// Numbered, one line each.
void PrintSteps(const std::vector<Step>& steps, std::ostream& out);

// Runs the steps and says so. If one fails, it and those before it are undone, the last one first;
// an undo that fails does not keep the others from being run.
// Errors: that of the step, which says what was undone and what could not be.
Result<Done> RunSteps(const std::vector<Step>& steps, std::ostream& out);

}  // namespace alignd::moving
