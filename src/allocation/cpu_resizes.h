// Which in-place resizes of exclusive CPUs are done: the option --resize-exclusive-cpus.
#pragma once

#include <string_view>

namespace alignd::allocation {

enum class CpuResizes {
  kNone,       // "false": a container keeps the exclusive CPUs that it has
  kCountOnly,  // "count-only": to another whole number
  kAll,        // "true": also from exclusive CPUs to shared ones, and back
};

constexpr std::string_view ToString(CpuResizes resizes) {
  switch (resizes) {
    case CpuResizes::kNone:
      return "false";
    case CpuResizes::kCountOnly:
      return "count-only";
    case CpuResizes::kAll:
      return "true";
  }
  return "";
}

}  // namespace alignd::allocation
