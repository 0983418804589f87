#include "kubelet/plan.h"

#include <algorithm>
#include <utility>

#include "kubelet/words.h"

namespace alignd::kubelet {
namespace {

constexpr char kExtraArgs[] = "KUBELET_EXTRA_ARGS";

constexpr char kHeader[] =
    "# Made by `alignctl kubelet attach`; `alignctl kubelet detach` removes it.\n"
    "# The kubelet starts its containers through alignd, and never before alignd is ready.\n"
    "[Unit]\nWants=alignd.service\nAfter=alignd.service\n";

Error ByHand(const std::string& why) {
  return {ErrorCode::kInvalidArgument, why,
          "give the kubelet the flag --container-runtime-endpoint by hand: see docs/installing.md"};
}

// Collects changes, and keeps the files as they will be.
class Planner {
 public:
  Planner(FileView& files, const Setup& setup, std::string endpoint)
      : files_(files), setup_(setup), endpoint_(std::move(endpoint)) {}

  Result<Done> SetFlag() {
    const Unit& unit = *setup_.unit;
    const std::vector<Unit::Word> line = unit.CommandLine();
    // The last flag wins: a variable must not stand before the flag that decides now.
    const bool has_extra = unit.exec_start.find(std::string("$") + kExtraArgs) != std::string::npos;
    const bool is_last =
        setup_.source != Setup::Source::kFlag || setup_.variable == kExtraArgs ||
        unit.exec_start.rfind(std::string("$") + kExtraArgs) >
            unit.exec_start.rfind(setup_.variable.empty() ? kEndpointFlag : setup_.variable);
    if (has_extra && is_last) return SetInVariable(kExtraArgs);
    if (setup_.source == Setup::Source::kFlag && !setup_.variable.empty()) {
      return SetInVariable(setup_.variable);
    }
    return WriteDropIn("\n[Service]\nExecStart=\nExecStart=" +
                       WithFlag(unit.exec_start, kEndpointFlag, endpoint_) + "\n");
  }

  // `file`: a configuration file of the kubelet.
  Result<Done> SetField(const std::string& file) {
    const Result<std::optional<std::string>> text = files_.Read(file);
    if (!text.ok()) return text.error();
    const Result<std::string> edited = WithEndpoint(text->value_or(""), endpoint_);
    if (!edited.ok()) return edited.error().In(file);
    return Add({.path = file,
                .before = *text,
                .after = *edited,
                .kind = Change::Kind::kField,
                .old_endpoint = EndpointIn(text->value_or(""))});
  }

  Result<Done> WriteDropIn(const std::string& more) {
    const std::string path = DropInOf(setup_.unit_name);
    const auto planned = std::ranges::find(changes_, path, &Change::path);
    if (planned != changes_.end()) {
      planned->after = kHeader + more;
      files_.Set(path, *planned->after);
      return Done{};
    }
    const Result<std::optional<std::string>> text = files_.Read(path);
    if (!text.ok()) return text.error();
    return Add({.path = path, .before = *text, .after = kHeader + more});
  }

  std::vector<Change> Take() { return std::move(changes_); }

 private:
  Result<Done> Add(Change change) {
    if (change.before == change.after) return Done{};
    files_.Set(change.path, *change.after);
    changes_.push_back(std::move(change));
    return Done{};
  }

  // Where the variable is set now; for a variable that nothing sets, the last environment file of
  // the unit that kubeadm does not write.
  std::string FileOf(const std::string& variable) const {
    const Unit& unit = *setup_.unit;
    const auto known = unit.variables.find(variable);
    if (known != unit.variables.end() && known->second.in_environment_file) {
      return known->second.file;
    }
    for (auto file = unit.environment_files.rbegin(); file != unit.environment_files.rend();
         ++file) {
      if (*file != kKubeadmFlags && file->find('*') == std::string::npos) return *file;
    }
    return "";
  }

  Result<Done> SetInVariable(const std::string& variable) {
    const auto known = setup_.unit->variables.find(variable);
    const std::string old = known == setup_.unit->variables.end() ? "" : known->second.value;
    const std::string value = WithFlag(old, kEndpointFlag, endpoint_);
    const std::string file = FileOf(variable);
    if (file.empty()) {
      return WriteDropIn("\n[Service]\nEnvironment=" + Assignment(variable, value) + "\n");
    }
    const Result<std::optional<std::string>> text = files_.Read(file);
    if (!text.ok()) return text.error();
    return Add({.path = file,
                .before = *text,
                .after = WithVariable(text->value_or(""), variable, value),
                .kind = Change::Kind::kVariable,
                .variable = variable,
                .old_endpoint = LastFlag(SplitWords(old), kEndpointFlag)});
  }

  static std::string Assignment(const std::string& variable, const std::string& value) {
    std::string quoted = "\"" + variable + "=";
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    return quoted + '"';
  }

  FileView& files_;
  const Setup& setup_;
  const std::string endpoint_;
  std::vector<Change> changes_;
};

bool Assigns(const std::string& text, const std::string& variable) {
  const std::vector<EnvironmentLine> lines = ParseEnvironmentFile(text);
  return std::ranges::find(lines, variable, &EnvironmentLine::name) != lines.end();
}

// For a flag: each assignment that has alignd's endpoint. A line that `attach` has added is
// removed.
std::optional<std::string> UndoneVariable(const Change& done, const std::string& text,
                                          const std::string& endpoint) {
  const bool was_assigned = Assigns(done.before.value_or(""), done.variable);
  const std::vector<EnvironmentLine> lines = ParseEnvironmentFile(text);
  std::string undone = text;
  // From the last to the first: the positions of the others stay right.
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->name != done.variable) continue;
    const auto endpoint_now = LastFlag(SplitWords(line->value), kEndpointFlag);
    if (!endpoint_now || !IsSameEndpoint(*endpoint_now, endpoint)) continue;
    const std::string value = WithFlag(line->value, kEndpointFlag, done.old_endpoint);
    if (!value.empty() || was_assigned) {
      undone.replace(line->begin, line->end - line->begin, QuotedValue(value));
      continue;
    }
    const size_t before = undone.rfind('\n', line->begin - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    undone.erase(begin, line->end + 1 - begin);
  }
  if (undone == text) return std::nullopt;
  return undone;
}

}  // namespace

Result<std::optional<std::string>> Undone(const Change& done, const std::string& text,
                                          const std::string& endpoint) {
  if (done.kind == Change::Kind::kFile) return std::optional<std::string>();
  if (done.kind == Change::Kind::kField) {
    const std::optional<std::string> now = EndpointIn(text);
    if (!now || !IsSameEndpoint(*now, endpoint)) return std::optional<std::string>();
    Result<std::string> undone = WithEndpoint(text, done.old_endpoint);
    if (!undone.ok()) return undone.error().In(done.path);
    return std::optional(*std::move(undone));
  }
  return UndoneVariable(done, text, endpoint);
}

namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::string DropInOf(const std::string& unit_name) {
  return "/etc/systemd/system/" + unit_name + ".d/99-alignd.conf";
}

Result<std::vector<Change>> PlanAttach(FileView files, const Setup& setup,
                                       const std::string& endpoint) {
  if (!setup.unit) {
    return Error{ErrorCode::kNotFound, "there is no unit " + setup.unit_name,
                 "install the kubelet first, or give the name of its unit (--unit)"};
  }
  Planner planner(files, setup, endpoint);
  if (Result<Done> made = planner.WriteDropIn(""); !made.ok()) return made.error();
  const bool by_field = setup.source == Setup::Source::kConfigFile ||
                        (setup.source == Setup::Source::kDefault && !setup.config_file.empty());
  if (!by_field) {
    if (Result<Done> set = planner.SetFlag(); !set.ok()) return set.error();
  } else {
    const std::string file = setup.file.empty() ? setup.config_file : setup.file;
    if (Result<Done> set = planner.SetField(file); !set.ok()) return set.error();
    if (files.Exists(kInstanceConfig)) {
      if (Result<Done> set = planner.SetField(kInstanceConfig); !set.ok()) return set.error();
    }
  }
  const Result<Setup> after = FindSetup(files, setup.unit_name);
  if (!after.ok()) return after.error();
  if (!IsSameEndpoint(after->endpoint, endpoint)) {
    return ByHand("with all changes that alignd knows to make, the kubelet would still use " +
                  after->endpoint + " (" + DescribeSource(*after) + ")");
  }
  return planner.Take();
}

Result<std::vector<Change>> PlanDetach(const FileView& files, const std::vector<Change>& done,
                                       const std::string& endpoint) {
  std::vector<Change> undo;
  for (auto change = done.rbegin(); change != done.rend(); ++change) {
    const Result<std::optional<std::string>> now = files.Read(change->path);
    if (!now.ok()) return now.error();
    if (*now == change->before) continue;
    Change restored{.path = change->path, .before = *now, .after = change->before};
    if (*now != change->after && *now) {
      if (change->kind == Change::Kind::kFile) {
        return Error{ErrorCode::kInvalidArgument,
                     change->path + " was changed since `alignctl kubelet attach` made it",
                     "remove this file by hand, then run `alignctl kubelet detach` again"};
      }
      const Result<std::optional<std::string>> undone = Undone(*change, **now, endpoint);
      if (!undone.ok()) return undone.error();
      if (!*undone) continue;
      restored.after = **undone;
    } else if (!*now) {
      continue;  // another program has removed it
    }
    undo.push_back(std::move(restored));
  }
  return undo;
}

std::string Diff(const Change& change) {
  const std::vector<std::string> before = LinesOf(change.before.value_or(""));
  const std::vector<std::string> after = LinesOf(change.after.value_or(""));
  constexpr size_t kContext = 3;
  size_t same = 0;
  while (same < std::min(before.size(), after.size()) && before[same] == after[same]) ++same;
  size_t tail = 0;
  while (tail < std::min(before.size(), after.size()) - same &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) {
    ++tail;
  }
  const size_t begin = same - std::min(same, kContext);
  const size_t more = std::min(tail, kContext);
  const auto range = [&](const std::vector<std::string>& lines) {
    const size_t count = lines.size() - tail + more - begin;
    return std::to_string(count == 0 ? begin : begin + 1) + "," + std::to_string(count);
  };
  std::string text = "--- " + (change.before ? change.path : std::string("/dev/null")) + "\n+++ " +
                     (change.after ? change.path : std::string("/dev/null")) + "\n@@ -" +
                     range(before) + " +" + range(after) + " @@\n";
  const auto add = [&text](char sign, const std::vector<std::string>& lines, size_t from,
                           size_t to) {
    for (size_t i = from; i < to; ++i) text += sign + lines[i] + "\n";
  };
  add(' ', before, begin, same);
  add('-', before, same, before.size() - tail);
  add('+', after, same, after.size() - tail);
  add(' ', before, before.size() - tail, before.size() - tail + more);
  return text;
}

}  // namespace alignd::kubelet
