// The content of the state directory, read without alignd.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"

namespace alignd::cli {

// One file of the state directory.
struct StateFile {
  // kUnreadable: nothing is known about its content.
  enum class State { kOk, kAbsent, kUnreadable, kDamaged };

  std::string name;  // "cpu_manager_state"
  std::string path;
  State state = State::kAbsent;
  std::string what;    // a summary, or what is wrong
  std::string remedy;  // of a file that is damaged or cannot be read
};

// What the files say of a container.
struct SavedContainer {
  std::string cpus;                          // exclusive ones, as a list; empty: none
  std::string original_cpus;                 // of a resized container: when it was created
  std::string share;                         // "NUMA node 0, 500m"; empty: none
  std::vector<memorymanager::Block> memory;  // pinned
  std::map<std::string, devicemanager::DevicesPerNuma> devices;  // by resource
  std::map<std::string, checkpoint::Binding> kubelet_ids;        // by resource
};

// A value.
struct StateContent {
  std::vector<StateFile> files;
  std::string default_set;  // the shared pool
  std::map<ContainerKey, SavedContainer> containers;
  std::map<std::string, std::string> pods;  // namespace/name by UID, as far as it is known

  bool Has(StateFile::State state) const;
};

// Each file is read once. alignd replaces files as a whole, but one after the other: while it runs,
// they can differ by the change that is being saved.
// `is_alignds`: the directories are those of the alignd of this node, which rebuilds damaged files
// when it starts; remedies say so.
StateContent ReadState(const std::filesystem::path& state_dir,
                       const std::filesystem::path& device_plugin_dir, bool is_alignds);

}  // namespace alignd::cli
