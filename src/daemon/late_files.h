// Files of the state directory that a start can do without: what could not be written is written
// later.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "reconcile/conditions.h"

namespace alignd::daemon {

// One thread at a time.
class LateFiles {
 public:
  // `conditions` outlives this object.
  explicit LateFiles(reconcile::Conditions& conditions) : conditions_(conditions) {}

  // A file that could not be written. Raises StateNotWritable until `save` has succeeded.
  // `effect`: what follows as long as it has not.
  void Add(const std::string& name, const std::string& effect, const Error& failure,
           std::function<Result<Done>()> save) {
    conditions_.FileNotSaved(name, effect, failure);
    files_.push_back({name, effect, std::move(save)});
  }

  void SaveAgain() {
    std::erase_if(files_, [this](const File& file) {
      const Result<Done> saved = file.save();
      if (saved.ok()) {
        conditions_.FileSaved(file.name);
      } else {
        conditions_.FileNotSaved(file.name, file.effect, saved.error());
      }
      return saved.ok();
    });
  }

 private:
  struct File {
    std::string name;
    std::string effect;
    std::function<Result<Done>()> save;
  };

  reconcile::Conditions& conditions_;
  std::vector<File> files_;
};

}  // namespace alignd::daemon
