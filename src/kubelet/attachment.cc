#include "kubelet/attachment.h"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace alignd::kubelet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kKinds[] = {"file", "field", "variable"};

json OrNull(const std::optional<std::string>& text) { return text ? json(*text) : json(); }

std::optional<std::string> TextOrNull(const json& object, const char* key) {
  const json& value = object.at(key);
  if (value.is_null()) return std::nullopt;
  return value.get<std::string>();
}

std::string ToJson(const Record& record) {
  json changes = json::array();
  for (const Change& change : record.changes) {
    changes.push_back({{"path", change.path},
                       {"before", OrNull(change.before)},
                       {"after", OrNull(change.after)},
                       {"kind", kKinds[static_cast<size_t>(change.kind)]},
                       {"variable", change.variable},
                       {"oldEndpoint", OrNull(change.old_endpoint)}});
  }
  const json record_json = {{"version", 1},
                            {"complete", record.complete},
                            {"endpoint", record.endpoint},
                            {"runtime", record.runtime},
                            {"changes", changes}};
  return record_json.dump(2) + "\n";  // throws for a text that is not UTF-8
}

Record FromJson(const json& text) {
  if (text.at("version") != 1) throw json::other_error::create(501, "another version", &text);
  Record record{.complete = text.at("complete").get<bool>(),
                .endpoint = text.at("endpoint").get<std::string>(),
                .runtime = text.at("runtime").get<std::string>(),
                .changes = {}};
  for (const json& entry : text.at("changes")) {
    const auto* const kind = std::ranges::find(kKinds, entry.at("kind").get<std::string>());
    if (kind == std::end(kKinds)) throw json::other_error::create(501, "unknown kind", &entry);
    record.changes.push_back({.path = entry.at("path").get<std::string>(),
                              .before = TextOrNull(entry, "before"),
                              .after = TextOrNull(entry, "after"),
                              .kind = static_cast<Change::Kind>(kind - std::begin(kKinds)),
                              .variable = entry.at("variable").get<std::string>(),
                              .old_endpoint = TextOrNull(entry, "oldEndpoint")});
  }
  return record;
}

// With the mode and owner of the file that is there, else readable for all.
Result<Done> Write(const FileView& files, const std::string& path, const std::string& text,
                   host::FileCalls& calls) {
  const fs::path file = files.OnThisMachine(path);
  host::FileOwner owner{.mode = 0644, .ids = std::nullopt};
  struct stat status {};
  if (stat(file.c_str(), &status) == 0) {
    owner = {.mode = status.st_mode & 07777, .ids = {{status.st_uid, status.st_gid}}};
  }
  if (Result<Done> made = host::MakeDirectory(file.parent_path(), calls); !made.ok()) return made;
  return host::ReplaceFile(file, text, owner, calls);
}

Result<Done> Remove(const FileView& files, const std::string& path, host::FileCalls& calls) {
  return host::RemoveFile(files.OnThisMachine(path), calls);
}

Result<Done> WriteRecord(const FileView& files, const Record& record, host::FileCalls& calls) {
  const fs::path file = files.OnThisMachine(kRecordFile);
  if (Result<Done> made = host::MakeDirectory(file.parent_path(), calls); !made.ok()) return made;
  const Result<std::string> text = RecordText(record);
  if (!text.ok()) return text.error();
  return host::ReplaceFile(file, *text, calls);
}

Result<Done> RestoreRecord(const FileView& files, const std::optional<Record>& before,
                           host::FileCalls& calls) {
  return before ? WriteRecord(files, *before, calls) : Remove(files, kRecordFile, calls);
}

// The copy of /etc/default/kubelet is etc-default-kubelet.
Result<Done> Copy(const FileView& files, const Change& change, host::FileCalls& calls) {
  if (!change.before) return Done{};
  std::string name = change.path.substr(1);
  std::ranges::replace(name, '/', '-');
  const fs::path copy = files.OnThisMachine(std::string(kRecordDirectory) + "/before/" + name);
  if (Result<Done> made = host::MakeDirectory(copy.parent_path(), calls); !made.ok()) return made;
  return host::ReplaceFile(copy, *change.before, calls);
}

Result<Done> WriteChange(const FileView& files, const std::string& path,
                         const std::optional<std::string>& text, host::FileCalls& calls) {
  return text ? Write(files, path, *text, calls) : Remove(files, path, calls);
}

// A file that an earlier attach has changed is restored to what it was before that, with the
// changes that others have made since.
Result<Done> Continue(const Record& before, Record& record) {
  // Not the record's, if the kubelet was given another endpoint since then.
  if (IsSameEndpoint(record.runtime, before.endpoint)) record.runtime = before.runtime;
  for (const Change& old : before.changes) {
    const auto again = std::ranges::find(record.changes, old.path, &Change::path);
    if (again == record.changes.end()) {
      record.changes.push_back(old);
    } else if (again->before == old.after) {
      again->before = old.before;
      again->old_endpoint = old.old_endpoint;
    } else if (again->before) {
      const auto undone = Undone(old, *again->before, before.endpoint);
      if (!undone.ok()) return undone.error();
      if (!*undone) continue;
      again->before = *undone;
      again->old_endpoint = old.old_endpoint;
    }
  }
  return Done{};
}

// All of them, or none: if one cannot be written, those before it are restored. The error says so
// if that fails, too.
Result<Done> WriteAll(const FileView& files, const std::vector<Change>& changes,
                      host::FileCalls& calls) {
  for (size_t i = 0; i < changes.size(); ++i) {
    const Result<Done> written = WriteChange(files, changes[i].path, changes[i].after, calls);
    if (written.ok()) continue;
    Error error = written.error();
    for (size_t j = i + 1; j-- > 0;) {
      const Result<Done> back = WriteChange(files, changes[j].path, changes[j].before, calls);
      if (back.ok()) continue;
      error.message +=
          "; and " + changes[j].path + " could not be restored: " + back.error().message;
      error.remedy += "; then run `alignctl kubelet detach`";
    }
    return error;
  }
  return Done{};
}

}  // namespace

Result<std::string> RecordText(const Record& record) {
  try {
    return ToJson(record);
  } catch (const json::exception& fault) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string("a file of the kubelet is not UTF-8: ") + fault.what(),
                 "make the change by hand: see docs/installing.md"};
  }
}

Result<std::optional<Record>> ReadRecord(const FileView& files) {
  const Result<std::optional<std::string>> text = files.Read(kRecordFile);
  if (!text.ok()) return text.error();
  if (!*text) return std::optional<Record>();
  try {
    return std::optional(FromJson(json::parse(**text)));
  } catch (const json::exception& fault) {
    return Error{ErrorCode::kCorrupt, std::string(kRecordFile) + ": " + fault.what(),
                 "restore the files from their copies in " + std::string(kRecordDirectory) +
                     "/before by hand, and remove the record"};
  }
}

Result<Done> Attach(const FileView& files, const std::optional<Record>& before, Record record,
                    host::FileCalls& calls) {
  const std::vector<Change> changes = record.changes;
  for (const Change& change : changes) {
    if (Result<Done> copied = Copy(files, change, calls); !copied.ok()) return copied;
  }
  if (before) {
    if (Result<Done> continued = Continue(*before, record); !continued.ok()) return continued;
  }
  record.complete = false;
  if (Result<Done> noted = WriteRecord(files, record, calls); !noted.ok()) return noted;
  if (const Result<Done> written = WriteAll(files, changes, calls); !written.ok()) {
    const Result<Done> back = RestoreRecord(files, before, calls);
    if (back.ok()) return written;
    return Error{written.error().code, written.error().message + "; and " + back.error().message,
                 written.error().remedy};
  }
  record.complete = true;
  const Result<Done> completed = WriteRecord(files, record, calls);
  if (completed.ok()) return completed;
  return Error{completed.error().code,
               "the files are changed, but not the record: " + completed.error().message,
               completed.error().remedy + "; then run `alignctl kubelet attach` again"};
}

Result<Done> Detach(const FileView& files, Record record, const std::vector<Change>& undo,
                    host::FileCalls& calls) {
  const Record before = record;
  record.complete = false;
  if (Result<Done> noted = WriteRecord(files, record, calls); !noted.ok()) return noted;
  if (const Result<Done> written = WriteAll(files, undo, calls); !written.ok()) {
    const Result<Done> back = RestoreRecord(files, before, calls);
    if (back.ok()) return written;
    return Error{written.error().code, written.error().message + "; and " + back.error().message,
                 written.error().remedy};
  }
  const Result<Done> removed = Remove(files, kRecordFile, calls);
  if (removed.ok()) return removed;
  return Error{removed.error().code,
               "the files are restored, but the record is still there: " + removed.error().message,
               removed.error().remedy + "; then run `alignctl kubelet detach` again"};
}

}  // namespace alignd::kubelet
