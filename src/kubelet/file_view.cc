#include "kubelet/file_view.h"

#include <sys/stat.h>

#include <algorithm>
#include <list>
#include <system_error>
#include <utility>

#include "host/file.h"

namespace alignd::kubelet {

namespace fs = std::filesystem;

fs::path FileView::OnThisMachine(const std::string& path) const {
  return root_ / fs::path(Resolve(path)).relative_path();
}

std::string FileView::Resolve(const std::string& path) const {
  constexpr int kMaxLinks = 40;  // as the kernel
  const fs::path normal = fs::path(path).lexically_normal().relative_path();
  std::list<fs::path> parts(normal.begin(), normal.end());
  fs::path resolved = "/";
  for (int links = 0; !parts.empty();) {
    const fs::path part = parts.front();
    parts.pop_front();
    if (part == "..") {
      resolved = resolved.parent_path();
      continue;
    }
    if (part.empty() || part == ".") continue;
    std::error_code fault;
    const fs::path target = fs::read_symlink(root_ / (resolved / part).relative_path(), fault);
    if (fault || ++links > kMaxLinks) {
      resolved /= part;
      continue;
    }
    if (target.is_absolute()) resolved = "/";
    const fs::path rest = target.relative_path();
    parts.insert(parts.begin(), rest.begin(), rest.end());
  }
  return resolved.string();
}

Result<std::optional<std::string>> FileView::Read(const std::string& path) const {
  if (const auto changed = changes_.find(Resolve(path)); changed != changes_.end()) {
    return std::optional(changed->second);
  }
  Result<std::string> text = host::ReadFile(OnThisMachine(path));
  if (text.ok()) return std::optional(*std::move(text));
  if (text.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return text.error();
}

std::vector<std::string> FileView::List(const std::string& path) const {
  Result<std::vector<std::string>> names = host::ListDirectory(OnThisMachine(path));
  return names.ok() ? *std::move(names) : std::vector<std::string>();
}

bool FileView::Exists(const std::string& path) const {
  std::error_code fault;
  return fs::exists(OnThisMachine(path), fault);
}

bool FileView::IsDirectory(const std::string& path) const {
  const fs::path normal(path);
  std::error_code fault;
  const fs::path here = OnThisMachine(normal.parent_path().string()) / normal.filename();
  return fs::is_directory(fs::symlink_status(here, fault));
}

std::optional<std::chrono::milliseconds> FileView::ModifiedAt(const std::string& path) const {
  struct stat status {};
  if (stat(OnThisMachine(path).c_str(), &status) != 0) return std::nullopt;
  return std::chrono::seconds(status.st_mtim.tv_sec) +
         std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::nanoseconds(status.st_mtim.tv_nsec));
}

std::vector<std::string> FileView::Changed() const {
  std::vector<std::string> paths;
  for (const auto& [path, text] : changes_) paths.push_back(path);
  return paths;
}

}  // namespace alignd::kubelet
