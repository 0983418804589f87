#include "core/placement/object_fields.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "alignd/noderesourcetopology/object.h"
#include "core/pod/resource_list.h"

namespace alignd::placement {
namespace {

using json::View;
using noderesourcetopology::Amount;
using noderesourcetopology::Zone;

// A whole amount of at least 0.
Result<uint64_t> ReadAmount(const View& holder, std::string_view key) {
  const Result<View> member = holder.Require(key);
  if (!member.ok()) return member.error();
  const Result<Quantity> amount = ReadQuantity(*member);
  if (!amount.ok()) return amount.error();
  if (amount->Sign() < 0 || Quantity(amount->Value()) != *amount) {
    return member->IsNot("a whole number of at least 0");
  }
  return static_cast<uint64_t>(amount->Value());
}

}  // namespace

Error BadObject(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

Error BadField(const TopologyObject& object, const std::string& what, std::string remedy) {
  return BadObject("NodeResourceTopology " + object.name + ": " + what, std::move(remedy));
}

Error BadZone(const TopologyObject& object, int numa_id, const std::string& what) {
  return BadField(object, "zone " + noderesourcetopology::ZoneName(numa_id) + what, kPublish);
}

std::optional<int64_t> NumaIdOf(std::string_view zone) {
  constexpr std::string_view kPrefix = "node-";
  if (!zone.starts_with(kPrefix)) return std::nullopt;
  zone.remove_prefix(kPrefix.size());
  int64_t id = 0;
  const auto [end, error] = std::from_chars(zone.data(), zone.data() + zone.size(), id);
  if (error != std::errc{} || end != zone.data() + zone.size() || id > INT32_MAX || id < -1) {
    return std::nullopt;
  }
  return id;
}

bool HasZone(const TopologyObject& object, int64_t numa_id) {
  return std::ranges::find(object.zones, numa_id, &Zone::numa_id) != object.zones.end();
}

Result<Amount> ReadAmounts(const View& holder) {
  const Result<uint64_t> capacity = ReadAmount(holder, "capacity");
  if (!capacity.ok()) return capacity.error();
  const Result<uint64_t> allocatable = ReadAmount(holder, "allocatable");
  if (!allocatable.ok()) return allocatable.error();
  const Result<uint64_t> available = ReadAmount(holder, "available");
  if (!available.ok()) return available.error();
  if (*allocatable > *capacity) {
    return holder.Wrong("allocatable " + std::to_string(*allocatable) + " is more than capacity " +
                        std::to_string(*capacity));
  }
  if (*available > *allocatable) {
    return holder.Wrong("available " + std::to_string(*available) + " is more than allocatable " +
                        std::to_string(*allocatable));
  }
  return Amount{*capacity, *allocatable, *available};
}

Amount AmountIn(const Zone& zone, const std::string& resource) {
  const auto found = zone.resources.find(resource);
  return found == zone.resources.end() ? Amount{} : found->second;
}

const std::string* AttributeOf(const std::map<std::string, std::string>& attributes,
                               const std::string& name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? nullptr : &found->second;
}

std::optional<uint64_t> CpusIn(const std::map<std::string, std::string>& attributes,
                               const char* name) {
  const std::string* const text = AttributeOf(attributes, name);
  if (text == nullptr) return std::nullopt;
  const Result<Quantity> amount = Quantity::Parse(*text);
  if (!amount.ok() || amount->Sign() < 0 || *amount > Quantity(kMaxCpus)) return std::nullopt;
  if (*amount != Quantity(amount->Value())) return std::nullopt;
  return static_cast<uint64_t>(amount->Value());
}

std::string TextAt(const nlohmann::json& object, const char* member) {
  const auto text = object.find(member);
  return text != object.end() && text->is_string() ? text->get<std::string>() : std::string();
}

std::string TextAt(const nlohmann::json& object, const char* first, const char* second) {
  const auto inner = object.find(first);
  if (inner == object.end() || !inner->is_object()) return {};
  return TextAt(*inner, second);
}

Result<nlohmann::json> JsonAttribute(const TopologyObject& object, const char* name) {
  const std::string* const text = AttributeOf(object.attributes, name);
  if (text == nullptr) return nlohmann::json();
  Result<nlohmann::json> parsed = json::Parse(*text);
  if (parsed.ok()) return parsed;
  return BadField(object, "attribute " + std::string(name) + ": " + parsed.error().message,
                  kWriteWithAlignd);
}

}  // namespace alignd::placement
