#include "picture/picture.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "picture/palette.h"

namespace alignd::picture {
namespace {

namespace v1 = control::v1;

// A list that is not valid is no CPU. ControlClient has checked it, and the daemon has made it.
CpuSet Cpus(const std::string& list) {
  Result<CpuSet> cpus = CpuSet::Parse(list);
  return cpus.ok() ? *std::move(cpus) : CpuSet();
}

bool IsOf(const v1::GetStatusResponse& status, const Machine& machine) {
  if (status.numa_size() != machine.numa_count()) return false;
  for (int position = 0; position < machine.numa_count(); ++position) {
    const v1::NumaNode& node = status.numa(position);
    if (node.id() != machine.NumaId(position) ||
        Cpus(node.all_cpus()) != machine.CpusInNuma(position)) {
      return false;
    }
  }
  return true;
}

// 0: "A", 25: "Z", 26: "AA".
std::string KeyOf(size_t index) {
  std::string key;
  for (++index; index > 0; index = (index - 1) / 26) {
    key.insert(key.begin(), static_cast<char>('A' + (index - 1) % 26));
  }
  return key;
}

// FNV-1a: a container mostly keeps its colour while others come and go, in every process.
size_t Hash(const std::string& text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  }
  return static_cast<size_t>(hash >> 8);
}

struct Named {
  Owner owner;
  std::string uid;
  const v1::ContainerAssignment* assignment = nullptr;
};

std::vector<Named> NamedOwners(const v1::GetStatusResponse& status) {
  std::vector<Named> all;
  for (const v1::ContainerAssignment& assignment : status.containers()) {
    Named named{.owner = {.pod = assignment.pod().empty() ? assignment.pod_uid() : assignment.pod(),
                          .container = assignment.container(),
                          .cpus = Cpus(assignment.exclusive_cpus()) | Cpus(assignment.pod_cpus())},
                .uid = assignment.pod_uid(),
                .assignment = &assignment};
    for (const v1::AssignedDevices& devices : assignment.devices()) {
      if (devices.devices_size() == 0) continue;
      named.owner.devices[devices.resource()] += static_cast<size_t>(devices.devices_size());
    }
    if (!named.owner.cpus.empty() || !named.owner.devices.empty()) all.push_back(std::move(named));
  }
  std::ranges::sort(all, {}, [](const Named& named) {
    const Owner& owner = named.owner;
    return std::tuple(owner.cpus.empty(), owner.cpus.First(), owner.pod, owner.container,
                      named.uid);
  });
  std::set<size_t> used;
  size_t before = kOwnerColours.size();
  for (size_t i = 0; i < all.size(); ++i) {
    Owner& owner = all[i].owner;
    owner.key = KeyOf(i);
    owner.colour = Hash(all[i].uid + "/" + owner.container) % kOwnerColours.size();
    // Colours repeat when all are used, but not for neighbours.
    while (used.size() < kOwnerColours.size() ? used.contains(owner.colour)
                                              : owner.colour == before) {
      owner.colour = (owner.colour + 1) % kOwnerColours.size();
    }
    used.insert(owner.colour);
    before = owner.colour;
  }
  return all;
}

using DeviceKey = std::pair<std::string, std::string>;  // resource, id

void AddDevices(const v1::GetStatusResponse& status, const std::vector<Named>& named,
                Owners& owners) {
  std::map<DeviceKey, PluginDevice> devices;
  const auto add = [&devices](const std::string& resource,
                              const v1::Device& device) -> PluginDevice& {
    const auto [entry, is_new] = devices.try_emplace({resource, device.id()});
    if (is_new) {
      entry->second = {.resource = resource,
                       .id = device.id(),
                       .numa = {device.numa().begin(), device.numa().end()},
                       .problem = device.problem()};
    }
    return entry->second;
  };
  for (const v1::DeviceResource& resource : status.devices()) {
    for (const v1::Device& device : resource.all()) add(resource.name(), device);
  }
  for (size_t i = 0; i < named.size(); ++i) {
    for (const v1::AssignedDevices& assigned : named[i].assignment->devices()) {
      for (const v1::Device& device : assigned.devices()) {
        PluginDevice& entry = add(assigned.resource(), device);
        if (!entry.owner) entry.owner = i;
      }
    }
  }
  for (auto& [key, device] : devices) owners.devices.push_back(std::move(device));
  for (const v1::DeviceResource& resource : status.devices()) {
    for (const v1::DevicesLeftOut& left_out : resource.left_out()) {
      owners.left_out.push_back(
          {.resource = resource.name(),
           .numa = left_out.has_numa() ? std::optional<int>(left_out.numa()) : std::nullopt,
           .devices = left_out.devices(),
           .free = left_out.free()});
    }
  }
}

Owners OwnersOf(const v1::GetStatusResponse& status) {
  Owners owners{.node = status.node(),
                .version = status.version(),
                .time_unix_ms = status.time_unix_ms(),
                .has_cpus = status.policies().cpu_manager() != "none"};
  for (const v1::NumaNode& node : status.numa()) {
    owners.reserved |= Cpus(node.reserved_cpus());
    owners.free |= Cpus(node.free_cpus());
    owners.exclusive |= Cpus(node.exclusive_cpus());
    const auto memory = node.memory().find("memory");
    if (memory != node.memory().end()) owners.memory[node.id()] = memory->second;
  }
  const std::vector<Named> named = NamedOwners(status);
  AddDevices(status, named, owners);
  for (const Named& one : named) owners.containers.push_back(one.owner);
  return owners;
}

}  // namespace

const Owner* Owners::OwnerOf(int cpu) const {
  for (const Owner& owner : containers) {
    if (owner.cpus.Contains(cpu)) return &owner;
  }
  return nullptr;
}

Picture MakePicture(Machine machine, host::MachineParts parts,
                    const v1::GetStatusResponse& status) {
  Picture picture{.machine = std::move(machine), .parts = std::move(parts), .owners = std::nullopt};
  if (IsOf(status, picture.machine)) {
    picture.owners = OwnersOf(status);
  } else {
    picture.note =
        "alignd manages other CPUs or NUMA nodes than this machine has: owners are left out";
  }
  return picture;
}

}  // namespace alignd::picture
