#include "daemon/change_undo.h"

#include <sys/stat.h>

#include <string_view>

#include "daemon/framed_text.h"
#include "host/durable_file.h"
#include "host/file.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader = "alignd config change 1\n";
constexpr std::string_view kAbsent = "-";

}  // namespace

Result<Done> ReplaceKeepingOwner(const fs::path& path, const std::string& text) {
  return ReplaceWithOwnerOf(path, path, text);
}

Result<Done> ReplaceWithOwnerOf(const fs::path& model, const fs::path& path,
                                const std::string& text) {
  host::FileOwner owner;
  struct stat status {};
  if (stat(model.c_str(), &status) == 0) {
    owner.mode = status.st_mode & 07777U;
    owner.ids = std::pair(status.st_uid, status.st_gid);
  }
  return host::ReplaceFile(path, text, owner);
}

Result<ChangeUndo> ChangeUndo::Begin(const fs::path& state_dir, const std::vector<fs::path>& files,
                                     std::string config) {
  Texts texts;
  for (const fs::path& path : files) {
    Result<std::string> text = host::ReadFile(path);
    if (!text.ok() && text.error().code != ErrorCode::kNotFound) return text.error();
    texts.emplace_back(path,
                       text.ok() ? std::optional<std::string>(*std::move(text)) : std::nullopt);
  }
  return BeginWith(state_dir, std::move(texts), std::move(config));
}

Result<ChangeUndo> ChangeUndo::BeginWith(const fs::path& state_dir, Texts texts,
                                         std::string config) {
  ChangeUndo undo(state_dir / kFileName);
  undo.config_ = std::move(config);
  for (auto& [path, text] : texts) undo.files_.push_back({fs::absolute(path), std::move(text)});
  if (Result<Done> made = host::ReplaceFile(undo.record_, undo.Text()); !made.ok()) {
    return made.error();
  }
  return undo;
}

std::string ChangeUndo::Text() const {
  std::string record =
      std::string(kHeader) + Framed(config_) + Framed(std::to_string(files_.size()));
  for (const File& file : files_) {
    record += Framed(file.path.string());
    record += file.text ? "+" + Framed(*file.text) : std::string(kAbsent) + "\n";
  }
  return record;
}

Result<std::optional<ChangeUndo>> ChangeUndo::Find(const fs::path& state_dir) {
  ChangeUndo undo(state_dir / kFileName);
  if (Result<Done> clean = host::RemoveTemporary(undo.record_); !clean.ok()) return clean.error();
  const Result<std::string> text = host::ReadFile(undo.record_);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return std::optional<ChangeUndo>();
  if (!text.ok()) return text.error();
  const Error damaged{ErrorCode::kCorrupt, undo.record_.string() + " is damaged",
                      "a change of the configuration was interrupted; restore the configuration "
                      "and all state files from one backup, or move the state files away: alignd "
                      "rebuilds them; then remove " +
                          undo.record_.string()};
  std::string_view rest = *text;
  if (!rest.starts_with(kHeader)) return damaged;
  rest.remove_prefix(kHeader.size());
  std::optional<std::string> config = TakeFramed(rest);
  const std::optional<std::string> count = TakeFramed(rest);
  if (!config || !count) return damaged;
  undo.config_ = *std::move(config);
  while (!rest.empty()) {
    std::optional<std::string> path = TakeFramed(rest);
    if (!path || rest.empty()) return damaged;
    File& file = undo.files_.emplace_back();
    file.path = *std::move(path);
    const char kind = rest.front();
    rest.remove_prefix(1);
    if (kind == '+') {
      file.text = TakeFramed(rest);
      if (!file.text) return damaged;
    } else if (kind == kAbsent.front() && rest.starts_with('\n')) {
      rest.remove_prefix(1);
    } else {
      return damaged;
    }
  }
  if (std::to_string(undo.files_.size()) != *count) return damaged;
  return std::optional<ChangeUndo>(std::move(undo));
}

Result<Done> ChangeUndo::Commit() const { return host::RemoveFile(record_); }

Result<Done> ChangeUndo::Restore() const {
  for (const File& file : files_) {
    // A file that cannot be written was not changed either.
    const Result<std::string> now = host::ReadFile(file.path);
    if (file.text && now.ok() && *now == *file.text) continue;
    const Result<Done> restored =
        file.text ? ReplaceKeepingOwner(file.path, *file.text) : host::RemoveFile(file.path);
    if (!restored.ok()) return restored;
  }
  return Done{};
}

Result<Done> ChangeUndo::Undo() const {
  const Result<Done> restored = RestoreAgain();
  return restored.ok() ? host::RemoveFile(record_) : restored;
}

Result<Done> ChangeUndo::UndoFiles() const {
  if (Result<Done> restored = RestoreAgain(); !restored.ok()) return restored;
  ChangeUndo rest(record_);
  rest.config_ = config_;
  return rest.Keep();
}

Result<Done> ChangeUndo::RestoreAgain() const {
  const Result<Done> kept = Keep();
  return kept.ok() ? Restore() : kept;
}

Result<Done> ChangeUndo::Keep() const {
  const std::string text = Text();
  // A full disk does not matter then.
  if (const Result<std::string> now = host::ReadFile(record_); now.ok() && *now == text) {
    return Done{};
  }
  return host::ReplaceFile(record_, text);
}

}  // namespace alignd::daemon
