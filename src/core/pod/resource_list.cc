#include "core/pod/resource_list.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace alignd {
namespace {

std::string_view TrimSpace(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

Result<Quantity> ReadQuantity(const json::View& view) {
  // Go writes null for a quantity that is not set.
  if (view.value().is_null()) return Quantity();
  if (!view.value().is_string() && !view.value().is_number()) return view.IsNot("a quantity");
  const std::string text =
      view.value().is_string() ? view.value().get_ref<const std::string&>() : view.value().dump();
  const Result<Quantity> quantity = Quantity::Parse(TrimSpace(text));
  if (!quantity.ok()) return quantity.error().In(view.path());
  if (quantity->Sign() < 0) return view.IsNot("a quantity of at least 0");
  return quantity;
}

Result<ResourceList> ReadResourceList(const json::View& view) {
  const Result<std::vector<std::pair<std::string, json::View>>> members = view.Members();
  if (!members.ok()) return members.error();
  ResourceList list;
  for (const auto& [name, member] : *members) {
    const Result<Quantity> quantity = ReadQuantity(member);
    if (!quantity.ok()) return quantity.error();
    list.emplace(name, *quantity);
  }
  return list;
}

Result<ResourceList> ReadResourceList(const json::View& view, std::string_view member) {
  const Result<std::optional<json::View>> list = view.Find(member);
  if (!list.ok()) return list.error();
  return *list ? ReadResourceList(**list) : ResourceList();
}

}  // namespace alignd
