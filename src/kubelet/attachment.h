// Lets the kubelet use alignd, and undoes it. Either all files are changed or none.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "host/durable_file.h"
#include "kubelet/file_view.h"
#include "kubelet/plan.h"

namespace alignd::kubelet {

// What `attach` has done on this node: it lets `detach` restore the files. A value.
struct Record {
  bool complete = true;  // false: attach or detach was interrupted
  std::string endpoint;  // alignd's, which the kubelet was given
  std::string runtime;   // the endpoint that the kubelet used before; Attach takes that of `before`
                         // if the kubelet was on the endpoint of `before`
  std::vector<Change> changes;

  friend bool operator==(const Record&, const Record&) = default;
};

// The directory of the record, and of the copies of the files as they were.
inline constexpr char kRecordDirectory[] = "/var/lib/alignd/kubelet";

inline constexpr char kRecordFile[] = "/var/lib/alignd/kubelet/attachment.json";

// The text of the record's file. Errors: kInvalidArgument: a file of the kubelet is not UTF-8.
Result<std::string> RecordText(const Record& record);

// nullopt: the kubelet was not attached by `alignctl`.
// Errors: files that cannot be read; kCorrupt: the record is damaged.
Result<std::optional<Record>> ReadRecord(const FileView& files);

// Copies each file to the record's directory, writes the record, then the files, each atomically
// and durably, with the mode and owner that it had. `before`: the record so far. If a write fails,
// the files are restored, and the record with them; only if the last write of the record fails, the
// files are changed, and the error says so. After a crash, Detach restores the files.
// Errors: kIo.
Result<Done> Attach(const FileView& files, const std::optional<Record>& before, Record record,
                    host::FileCalls& calls = host::FileCalls::System());

// Writes the changes, which undo those of the record, and removes the record.
Result<Done> Detach(const FileView& files, Record record, const std::vector<Change>& undo,
                    host::FileCalls& calls = host::FileCalls::System());

}  // namespace alignd::kubelet
