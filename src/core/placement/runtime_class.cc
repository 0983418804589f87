#include "core/placement/runtime_class.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/placement/faults.h"
#include "core/placement/pod_reader.h"
#include "core/placement/pod_validation.h"
#include "core/placement/resource_validation.h"

namespace alignd::placement {
namespace {

using json::View;

constexpr auto kTop = std::to_array<std::string_view>(
    {"apiVersion", "handler", "kind", "metadata", "overhead", "scheduling"});
constexpr auto kOverhead = std::to_array<std::string_view>({"podFixed"});

// Of an object that the API server has, perhaps a newer one.
bool HasUid(const View& object) {
  Faults ignored;
  const auto metadata = ObjectIn(object, "metadata", ignored);
  return metadata && HasValue(*metadata, "uid");
}

}  // namespace

Result<Done> ReadRuntimeClass(const View& object, Manifests& manifests) {
  Faults faults(HasUid(object));
  CheckFields(object, kTop, faults);
  CheckMetadata(object, /*is_template=*/false, faults);
  const auto metadata = ObjectIn(object, "metadata", faults);
  const std::string name = metadata ? StringIn(*metadata, "name", faults).value_or("") : "";
  const auto overhead = ObjectIn(object, "overhead", faults);
  if (overhead) CheckFields(*overhead, kOverhead, faults);
  const auto fixed = overhead ? ObjectIn(*overhead, "podFixed", faults) : std::nullopt;
  RuntimeClass read;
  if (fixed) read.overhead = CheckAmounts(*fixed, faults);
  read.handler = StringIn(object, "handler", faults).value_or("");
  read.has_scheduling = HasValue(object, "scheduling");
  if (read.handler.empty()) faults.Required("handler");
  if (!faults.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "RuntimeClass " + name + ": " + faults.texts().front(), ""};
  }
  const auto [known, is_new] = manifests.runtime_classes.try_emplace(name, read);
  if (!is_new && known->second != read) {
    return Error{ErrorCode::kInvalidArgument, "two RuntimeClasses are named " + name,
                 "give each RuntimeClass once"};
  }
  return Done{};
}

}  // namespace alignd::placement
