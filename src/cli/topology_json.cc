#include "cli/topology_json.h"

#include <nlohmann/json.hpp>

#include "alignd/machine/node_json.h"
#include "cli/output.h"
#include "picture/words.h"

namespace alignd::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson OfCache(const host::SharedCache& cache) {
  OrderedJson json = {{"level", cache.level}, {"type", cache.type}};
  if (cache.bytes > 0) json["bytes"] = cache.bytes;
  json["cpus"] = cache.cpus.ToString();
  return json;
}

OrderedJson OfPciDevice(const host::PciDevice& device) {
  OrderedJson json = {{"address", device.address},
                      {"kind", picture::KindName(device.kind)},
                      {"id", device.id},
                      {"driver", device.driver},
                      {"names", device.names},
                      {"numa", nullptr},
                      {"virtual_functions", device.virtual_functions}};
  if (device.numa) json["numa"] = *device.numa;
  return json;
}

OrderedJson OfOwner(const picture::Owner& owner) {
  return {{"key", owner.key},
          {"pod", owner.pod},
          {"container", owner.container},
          {"cpus", owner.cpus.ToString()},
          {"devices", owner.devices}};
}

OrderedJson OfDevice(const picture::Owners& owners, const picture::PluginDevice& device) {
  OrderedJson json = {{"resource", device.resource},
                      {"id", device.id},
                      {"numa", device.numa},
                      {"owner", nullptr},
                      {"problem", device.problem}};
  if (device.owner) json["owner"] = owners.containers[*device.owner].key;
  return json;
}

OrderedJson OfLeftOut(const picture::DevicesLeftOut& left_out) {
  OrderedJson json = {{"resource", left_out.resource},
                      {"numa", nullptr},
                      {"devices", left_out.devices},
                      {"free", left_out.free}};
  if (left_out.numa) json["numa"] = *left_out.numa;
  return json;
}

OrderedJson OfOwners(const picture::Owners& owners) {
  OrderedJson json = {{"time", IsoTime(owners.time_unix_ms)},
                      {"node", owners.node},
                      {"version", owners.version},
                      {"cpus_are_managed", owners.has_cpus},
                      {"reserved", owners.reserved.ToString()},
                      {"free", owners.free.ToString()},
                      {"exclusive", owners.exclusive.ToString()},
                      {"containers", OrderedJson::array()},
                      {"devices", OrderedJson::array()}};
  for (const picture::Owner& owner : owners.containers) {
    json["containers"].push_back(OfOwner(owner));
  }
  for (const picture::PluginDevice& device : owners.devices) {
    json["devices"].push_back(OfDevice(owners, device));
  }
  for (const picture::DevicesLeftOut& left_out : owners.left_out) {
    json["devices_left_out"].push_back(OfLeftOut(left_out));
  }
  return json;
}

}  // namespace

std::string TopologyJson(const picture::Picture& picture,
                         const std::map<std::string, scenario::DeviceList>& devices) {
  OrderedJson more = OrderedJson::object();
  for (const auto& [resource, list] : devices) {
    for (const auto& [id, device] : list) {
      more["devices"][resource].push_back({{"id", id}, {"numa", device.numa}});
    }
  }
  for (const host::SharedCache& cache : picture.parts.caches) {
    more["caches"].push_back(OfCache(cache));
  }
  for (const host::PciDevice& device : picture.parts.pci) {
    more["pci_devices"].push_back(OfPciDevice(device));
  }
  if (picture.parts.pci_left_out > 0) more["pci_devices_left_out"] = picture.parts.pci_left_out;
  if (picture.owners) more["owners"] = OfOwners(*picture.owners);
  if (!picture.note.empty()) more["note"] = picture.note;
  std::string json = MachineToNodeJson(picture.machine);
  if (more.empty()) return json;
  json.back() = ',';
  // Names of files can have bytes that are not UTF-8.
  return json + more.dump(-1, ' ', false, OrderedJson::error_handler_t::replace).substr(1);
}

}  // namespace alignd::cli
