// Accessors for the allocation manager's answers, and for states.
#pragma once

#include <string>
#include <variant>

#include "allocation/allocation_manager.h"

namespace alignd::testing {

using allocation::Allocated;
using allocation::Outcome;

inline const Allocated* AllocatedOf(const Outcome& outcome) {
  return std::get_if<Allocated>(&outcome);
}

inline std::string TextOf(const Outcome& outcome) {
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    return refusal->reason + ": " + refusal->message;
  }
  if (const auto* error = std::get_if<Error>(&outcome)) return "error: " + error->Text();
  return "allocated";
}

inline bool IsError(const Outcome& outcome, ErrorCode code) {
  const Error* error = std::get_if<Error>(&outcome);
  return error != nullptr && error->code == code;
}

// The part of a state that the files contain.
inline admission::NodeState Persistent(admission::NodeState state) {
  state.affinities.clear();
  state.cpu.reusable.clear();
  const auto resources = state.devices.resources;
  for (const auto& [name, resource] : resources) state.devices.resources[name] = {};
  return state;
}

}  // namespace alignd::testing
