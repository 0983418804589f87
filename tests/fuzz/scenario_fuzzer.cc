// Any text is an error with a place or a scenario. A scenario runs to its end, and its state is
// valid after every step.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alignd/scenario/report.h"
#include "alignd/scenario/scenario.h"
#include "alignd/scenario/simulation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto scenario = alignd::scenario::ParseScenario(text);
  if (!scenario.ok()) {
    if (scenario.error().message.empty()) std::abort();
    return 0;
  }
  // More steps would test the same, only slower.
  constexpr size_t kManyNodes = 8;
  if (scenario->node.machine.numa().size() > kManyNodes) return 0;
  auto simulation = alignd::scenario::Simulation::Start(scenario->node, scenario->config);
  if (!simulation.ok()) return 0;
  for (const alignd::scenario::Step& step : scenario->steps) {
    const auto result = simulation->Run(step);
    if (alignd::scenario::ResultToJson(*simulation, step, result).empty()) std::abort();
    if (!simulation->state().BrokenInvariants(simulation->node()).empty()) std::abort();
  }
  return 0;
}
