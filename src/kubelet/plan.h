// The changes of files that let the kubelet use alignd, and those that undo them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "kubelet/file_view.h"
#include "kubelet/setup.h"

namespace alignd::kubelet {

// A file that is changed. A value.
struct Change {
  enum class Kind { kFile, kField, kVariable };

  std::string path;
  std::optional<std::string> before;  // nullopt: there was no such file
  std::optional<std::string> after;   // nullopt: the file is removed
  // What of it alignd sets: the whole file, the field containerRuntimeEndpoint, or the flag
  // --container-runtime-endpoint in `variable`.
  Kind kind = Kind::kFile;
  std::string variable{};
  std::optional<std::string> old_endpoint{};  // of the field or the flag; nullopt: it had none

  friend bool operator==(const Change&, const Change&) = default;
};

// alignd's own drop-in: it starts the kubelet after alignd, and has the flag if no other file can
// have it.
std::string DropInOf(const std::string& unit_name);

// What sets the kubelet's endpoint to `endpoint`. The deciding source is changed:
//   a flag               KUBELET_EXTRA_ARGS in its environment file, where the unit has it behind
//                        the flag; else the variable that has the flag; else ExecStart= in the
//                        drop-in
//   a configuration file its field, and that of kubeadm's instance-config.yaml
//   nothing              the field in --config; without --config, as for a flag
// The result is checked: with the changes, the kubelet's endpoint is `endpoint`.
// Errors: kInvalidArgument, with what to do by hand.
Result<std::vector<Change>> PlanAttach(FileView files, const Setup& setup,
                                       const std::string& endpoint);

// What restores the files that `done` has changed. A file that was changed since then keeps its
// other changes. Errors: kInvalidArgument: that is not possible.
Result<std::vector<Change>> PlanDetach(const FileView& files, const std::vector<Change>& done,
                                       const std::string& endpoint);

// `text`, to which a file was changed since `done`, with what the field or the flag had before
// instead of `endpoint`. nullopt: `text` does not have `endpoint` there. Errors: as WithEndpoint.
Result<std::optional<std::string>> Undone(const Change& done, const std::string& text,
                                          const std::string& endpoint);

// The change as a diff in the unified format.
std::string Diff(const Change& change);

// `text` (YAML or JSON) with another containerRuntimeEndpoint; nullopt: without it. All the rest
// stays. Errors: kInvalidArgument: the text is written in a way that alignd cannot change.
Result<std::string> WithEndpoint(const std::string& text, const std::optional<std::string>& value);

// The same for another field with a text as its value. A value over several lines can be removed.
Result<std::string> WithField(const std::string& text, const std::string& field,
                              const std::optional<std::string>& value);

// The containerRuntimeEndpoint of such a text; nullopt: it has none.
std::optional<std::string> EndpointIn(const std::string& text);

}  // namespace alignd::kubelet
