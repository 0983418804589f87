#include "moving/file_switch.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "daemon/change_undo.h"
#include "daemon/moves_file.h"
#include "host/file.h"

namespace alignd::moving {
namespace {

namespace fs = std::filesystem;

Result<std::optional<std::string>> TextOf(const fs::path& path) {
  Result<std::string> text = host::ReadFile(path);
  if (text.ok()) return std::optional(*std::move(text));
  if (text.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return text.error();
}

Result<Done> WriteOne(const FileChange& change, host::FileCalls& calls) {
  if (!change.after) return host::RemoveFile(change.path, calls);
  if (Result<Done> made = host::MakeDirectory(change.path.parent_path(), calls); !made.ok()) {
    return made;
  }
  return host::ReplaceFile(change.path, *change.after, change.owner, calls);
}

Result<Done> RequireText(const fs::path& path, const std::optional<std::string>& text,
                         const std::string& remedy) {
  const Result<std::optional<std::string>> now = TextOf(path);
  if (!now.ok()) return now.error();
  if (*now == text) return Done{};
  return Error{ErrorCode::kInvalidArgument, path.string() + " was changed by another program",
               remedy};
}

Result<Done> KeepCopies(const fs::path& backup, const std::vector<FileChange>& changes,
                        host::FileCalls& calls) {
  if (Result<Done> made = host::MakeDirectory(backup, calls); !made.ok()) return made;
  for (const FileChange& change : changes) {
    if (!change.before) continue;
    // The copy of /var/lib/kubelet/cpu_manager_state is var-lib-kubelet-cpu_manager_state.
    std::string name = fs::absolute(change.path).relative_path().string();
    std::ranges::replace(name, '/', '-');
    const fs::path copy = backup / name;
    if (Result<Done> kept = host::ReplaceFile(copy, *change.before, calls); !kept.ok()) return kept;
  }
  return Done{};
}

Result<Done> WriteAndCheck(const std::vector<FileChange>& changes, host::FileCalls& calls) {
  for (const FileChange& change : changes) {
    if (Result<Done> written = WriteOne(change, calls); !written.ok()) return written;
  }
  for (const FileChange& change : changes) {
    const Result<Done> read =
        RequireText(change.path, change.after, "stop the program that writes it, and repeat this");
    if (!read.ok()) return read;
  }
  return Done{};
}

std::vector<fs::path> PathsOf(const std::vector<FileChange>& changes) {
  std::vector<fs::path> paths;
  for (const FileChange& change : changes) paths.push_back(change.path);
  return paths;
}

}  // namespace

Result<FileChange> ChangeTo(const fs::path& path, std::optional<std::string> after) {
  Result<std::optional<std::string>> before = TextOf(path);
  if (!before.ok()) return before.error();
  FileChange change{path, *std::move(before), std::move(after), {}};
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    change.owner = {.mode = status.st_mode & 07777U, .ids = {{status.st_uid, status.st_gid}}};
  }
  return change;
}

Result<Done> SwitchFiles(const fs::path& state_dir, const fs::path& backup,
                         const std::string& config, const std::vector<FileChange>& changes,
                         host::FileCalls& calls) {
  for (const FileChange& change : changes) {
    const Result<Done> same =
        RequireText(change.path, change.before, "stop the program that writes it, and repeat this");
    if (!same.ok()) return same;
  }
  if (Result<Done> kept = KeepCopies(backup, changes, calls); !kept.ok()) return kept;
  Result<daemon::ChangeUndo> undo = daemon::ChangeUndo::Begin(state_dir, PathsOf(changes), config);
  if (!undo.ok()) return undo.error();
  Result<Done> written = WriteAndCheck(changes, calls);
  if (written.ok()) written = undo->Commit();
  if (written.ok()) return written;
  const Result<Done> undone = undo->Undo();
  if (undone.ok()) return written;
  return Error{written.error().code,
               written.error().message +
                   "; and the former files could not be restored: " + undone.error().message,
               "remove the cause, then repeat this or start alignd: both restore the former files "
               "first; copies are in " +
                   backup.string()};
}

Result<Done> SwitchBack(const fs::path& state_dir, const std::string& config,
                        const std::vector<FileChange>& changes) {
  std::vector<FileChange> back;
  daemon::ChangeUndo::Texts texts;
  for (const FileChange& change : changes) {
    Result<FileChange> restored = ChangeTo(change.path, change.before);
    if (!restored.ok()) return restored.error();
    restored->owner = change.owner;
    if (restored->before == restored->after) continue;
    texts.emplace_back(restored->path, restored->after);
    back.push_back(*std::move(restored));
  }
  if (back.empty()) return Done{};
  // The record has the former texts: after a crash or a failure in between, they are restored.
  const Result<daemon::ChangeUndo> undo =
      daemon::ChangeUndo::BeginWith(state_dir, std::move(texts), config);
  if (!undo.ok()) return undo.error();
  const Result<Done> written = WriteAndCheck(back, host::FileCalls::System());
  return written.ok() ? undo->Commit() : written;
}

Result<Done> RequireNoMoves(const fs::path& state_dir) {
  const auto moves = daemon::MovesFile(state_dir).Read();
  if (!moves.ok()) return moves.error();
  if (moves->empty()) return Done{};
  const std::string record = (state_dir / daemon::MovesFile::kFileName).string();
  return Error{ErrorCode::kUnavailable,
               "alignd moves containers for a change of its configuration, or has ended while it "
               "did (" +
                   record + "): they are assigned their CPUs of before and of after",
               "start alignd, unless it runs: it moves them back; repeat this when that file is "
               "gone"};
}

Result<bool> Recover(const fs::path& state_dir, const std::string& config) {
  // Until `alignctl apply` has written the configuration, after the moves, the record of the change
  // looks like one of a switch.
  if (const Result<Done> none = RequireNoMoves(state_dir); !none.ok()) return none.error();
  const Result<std::optional<daemon::ChangeUndo>> found = daemon::ChangeUndo::Find(state_dir);
  if (!found.ok()) return found.error();
  if (!*found) return false;
  if ((*found)->config() != config) {
    return Error{ErrorCode::kInvalidArgument,
                 "alignd has ended in the middle of a change of its configuration (" +
                     (state_dir / daemon::ChangeUndo::kFileName).string() + ")",
                 "start alignd once, which ends the change, then stop it and repeat this"};
  }
  const Result<Done> undone = (*found)->Undo();
  if (!undone.ok()) return undone.error();
  return true;
}

}  // namespace alignd::moving
