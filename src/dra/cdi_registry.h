// The CDI specifications of this machine.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "dra/cdi_spec.h"

namespace alignd::dra {

// A value: the files as they were when they were read.
class CdiRegistry {
 public:
  // Reads the files *.json and *.yaml of these directories. A file of a later directory overrides
  // those of earlier ones. A directory that does not exist has none. A file that cannot be read is
  // an error only for the names that no other file has. May block.
  // Source: github.com/cncf-tags/container-device-interface, pkg/cdi/spec-dirs.go, cache.go.
  static CdiRegistry Read(const std::vector<std::filesystem::path>& directories);

  // The edits for the device vendor.com/class=name, with those of its kind. Errors: kUnavailable if
  // no file, or more than one of the same directory, describes it. The text has what is wrong with
  // up to two unreadable files.
  Result<CdiEdits> Find(const std::string& name) const;

 private:
  struct Entry {
    CdiEdits edits;
    size_t directory = 0;
    std::vector<std::filesystem::path> files;  // of that directory; more than one: a conflict
  };

  void Add(const CdiSpec& spec, size_t directory, const std::filesystem::path& file);

  std::map<std::string, Entry> devices_;  // by CDI name
  std::vector<std::string> faults_;       // of files and directories, with their paths
};

}  // namespace alignd::dra
