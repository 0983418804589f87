#include "cli/refusal_text.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <ostream>
#include <string_view>

namespace alignd::cli {
namespace {

// How a part begins (admission/explanation.h, allocation/holders.h, allocation/wait_texts.h).
struct Mark {
  std::string_view text;
  std::string_view label;
  bool is_list = false;   // with kBetweenEntries, which in other parts is punctuation
  bool is_shown = false;  // apart from the end of the sentence before
};
constexpr std::string_view kToDo = "what to do";
constexpr std::array<Mark, 9> kMarks = {{
    {". Requested: ", "requested", true},
    {". Cause: ", "cause"},
    {". Free: ", "free", true},
    {". What would help: ", "what would help", true},
    {". Still assigned: ", "still assigned", true},
    {". Wait until this pod ends", kToDo, false, true},
    {". Wait until these pods end", kToDo, false, true},
    {". A pod that is ending releases", kToDo, false, true},
    {". Waits: ", "waits"},
}};

constexpr std::string_view kBetweenEntries = "; ";

std::vector<std::string> EntriesOf(std::string_view text) {
  std::vector<std::string> entries;
  for (size_t end = text.find(kBetweenEntries); end != std::string_view::npos;
       end = text.find(kBetweenEntries)) {
    entries.emplace_back(text.substr(0, end));
    text.remove_prefix(end + kBetweenEntries.size());
  }
  entries.emplace_back(text);
  return entries;
}

}  // namespace

std::vector<RefusalPart> PartsOfRefusal(const std::string& message) {
  std::map<size_t, const Mark*> marks;  // by position
  for (const Mark& mark : kMarks) {
    // The kubelet's own text, with which a message begins, can have such a word, too.
    const size_t at = message.rfind(mark.text);
    if (at != std::string::npos) marks.emplace(at, &mark);
  }
  const size_t end_of_first = marks.empty() ? message.size() : marks.begin()->first;
  std::vector<RefusalPart> parts = {{"", {message.substr(0, end_of_first)}}};
  for (auto mark = marks.begin(); mark != marks.end(); ++mark) {
    constexpr size_t kEndOfSentence = 2;
    const size_t begin =
        mark->first + (mark->second->is_shown ? kEndOfSentence : mark->second->text.size());
    const size_t end = std::next(mark) == marks.end() ? message.size() : std::next(mark)->first;
    const std::string text = message.substr(begin, end - begin);
    parts.push_back({std::string(mark->second->label),
                     mark->second->is_list ? EntriesOf(text) : std::vector<std::string>{text}});
  }
  return parts;
}

bool HasPart(const std::vector<RefusalPart>& parts, std::string_view label) {
  return std::ranges::find(parts, label, &RefusalPart::label) != parts.end();
}

void PrintPart(const RefusalPart& part, const std::string& indent, std::ostream& out) {
  out << indent << part.label << (part.label.empty() ? "" : ":");
  if (part.entries.size() == 1) {
    out << (part.label.empty() ? "" : " ") << part.entries.front() << '\n';
    return;
  }
  out << '\n';
  for (const std::string& entry : part.entries) out << indent << "  " << entry << '\n';
}

void PrintRefusal(const std::string& reason, const std::string& message, const std::string& indent,
                  std::ostream& out) {
  std::vector<RefusalPart> parts = PartsOfRefusal(message);
  if (!reason.empty()) parts.front().entries.front().insert(0, reason + ": ");
  for (const RefusalPart& part : parts) PrintPart(part, indent, out);
}

}  // namespace alignd::cli
