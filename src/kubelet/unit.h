// A systemd service as its unit files and drop-ins define it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "kubelet/file_view.h"

namespace alignd::kubelet {

// What starts the process of a service. A value.
struct Unit {
  struct Variable {
    std::string value;
    std::string file;                  // that sets it
    bool in_environment_file = false;  // false: Environment= of a unit file
  };
  struct Word {
    std::string text;
    std::string variable;  // from which it comes; empty: it stands in ExecStart=
  };

  std::vector<std::string> files;  // the unit file and its drop-ins, in the order of reading
  std::string exec_start;          // as written
  std::string exec_start_file;
  std::vector<std::string> environment_files;  // in the order of reading; also missing ones
  std::map<std::string, Variable> variables;

  // The command line, with the variables in place.
  std::vector<Word> CommandLine() const;
};

// The service `name` ("kubelet.service") as systemd reads it: the first unit file of systemd's
// directories, then the drop-ins in the order of their names. Environment files override
// Environment=, whatever their order is. nullopt: there is no such unit, or it is masked.
// Not honoured: specifiers (%i), patterns in EnvironmentFile=, units of generators.
// Source: systemd, man 5 systemd.unit and systemd.exec.
Result<std::optional<Unit>> LoadUnit(const FileView& files, const std::string& name);

}  // namespace alignd::kubelet
