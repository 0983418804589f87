// The names of stages and outcomes.
#include "alignd/placement/planned_node.h"

namespace alignd::placement {

std::string_view ToString(Stage stage) {
  switch (stage) {
    case Stage::kValidation:
      return "validation";
    case Stage::kScheduler:
      return "scheduler";
    case Stage::kKubelet:
      return "kubelet";
  }
  return "";
}

std::string_view ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFits:
      return "fits";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kUndecided:
      return "undecided";
  }
  return "";
}

}  // namespace alignd::placement
