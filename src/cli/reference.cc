#include "cli/reference.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <sstream>

namespace alignd::cli {
namespace {

// "TEXT:{text,json}" -> {"text", "json"}.
std::vector<std::string> ChoicesIn(const std::string& type) {
  const size_t begin = type.find('{');
  const size_t end = type.find('}');
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos || end < begin) return choices;
  std::istringstream words(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

FlagReference FlagOf(const CLI::Option& option) {
  FlagReference flag;
  flag.name = "--" + option.get_lnames().front();
  if (!option.get_snames().empty()) flag.letter = "-" + option.get_snames().front();
  flag.what = option.get_description();
  if (option.get_expected_max() > 0 && option.get_type_size_max() > 0) {
    const std::string type = option.get_type_name();
    flag.choices = ChoicesIn(type);
    flag.value = type.substr(0, type.find_first_of(": "));
    if (flag.value.empty()) flag.value = "VALUE";
    flag.standard = option.get_default_str();
  }
  return flag;
}

void Collect(const CLI::App& app, const std::vector<std::string>& path,
             std::vector<CommandReference>& commands) {
  CommandReference command{.path = path,
                           .what = app.get_description(),
                           .arguments = {},
                           .footer = app.get_footer(),
                           .flags = {},
                           .below = {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      std::string type = option->get_type_name();
      if (type.empty()) type = "VALUE";
      const bool is_list = option->get_expected_max() > 1;
      const std::string name = type + (is_list ? "..." : "");
      command.arguments += " " + (option->get_required() ? name : "[" + name + "]");
    } else if (!option->get_lnames().empty()) {
      command.flags.push_back(FlagOf(*option));
    }
  }
  const auto below = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* next : below) command.below.push_back(next->get_name());
  commands.push_back(std::move(command));
  for (const CLI::App* next : below) {
    std::vector<std::string> longer = path;
    longer.push_back(next->get_name());
    Collect(*next, longer, commands);
  }
}

// Text in a manual page: no macro, no escape.
std::string Roff(const std::string& text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_start = c == '\n';
  }
  return out;
}

std::string JoinedWords(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

void AppendFlags(const CommandReference& command, std::string& out) {
  for (const FlagReference& flag : command.flags) {
    out += ".TP\n.B " + (flag.letter.empty() ? "" : Roff(flag.letter) + ", ") + Roff(flag.name);
    if (!flag.value.empty()) out += "\\fR \\fI" + Roff(flag.value) + "\\fR";
    out += "\n" + Roff(flag.what) + ".\n";
    if (!flag.choices.empty()) out += "One of: " + Roff(JoinedWords(flag.choices, ", ")) + ".\n";
    if (!flag.standard.empty()) out += "Default: " + Roff(flag.standard) + ".\n";
  }
}

// The lines after "Examples:", which begin with blanks.
std::string ExamplesIn(const std::string& footer) {
  std::istringstream lines(footer);
  std::string examples;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) examples += line.substr(2) + "\n";
  }
  return examples;
}

}  // namespace

std::vector<CommandReference> ReferenceOf(const CLI::App& program) {
  std::vector<CommandReference> commands;
  Collect(program, {}, commands);
  return commands;
}

std::string ManualPage(const std::vector<CommandReference>& commands, const ManualText& text) {
  std::string title = text.name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const bool has_commands = commands.size() > 1;
  std::string out =
      ".TH " + title + " " + std::to_string(text.section) + " \"\" \"alignd " +
      ALIGND_VERSION "\"\n.SH NAME\n" + text.name + " \\- " + Roff(text.what) +
      "\n.SH SYNOPSIS\n.B " + text.name + "\n" +
      (has_commands ? "\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n" : "[\\fIOPTION\\fR...]\n") +
      ".SH OPTIONS\n";
  AppendFlags(commands.front(), out);
  if (has_commands) out += ".SH COMMANDS\n";
  std::string examples = ExamplesIn(commands.front().footer);
  for (size_t i = 1; i < commands.size(); ++i) {
    const CommandReference& command = commands[i];
    if (command.below.empty()) {
      out += ".SS " + text.name + " " + JoinedWords(command.path, " ") + Roff(command.arguments) +
             "\n" + Roff(command.what) + ".\n";
      AppendFlags(command, out);
    }
    examples += ExamplesIn(command.footer);
  }
  if (!examples.empty()) out += ".SH EXAMPLES\n.nf\n" + Roff(examples) + ".fi\n";
  out += ".SH EXIT STATUS\n" + Roff(text.exit_status) + "\n";
  if (!text.files.empty())
    out += ".SH FILES\n.nf\n" + Roff(JoinedWords(text.files, "\n")) + "\n.fi\n";
  if (!text.see_also.empty()) out += ".SH SEE ALSO\n" + JoinedWords(text.see_also, ",\n") + "\n";
  return out;
}

std::string ConfigManual(const std::vector<ExampleField>& fields) {
  std::string out = ".TH ALIGND\\-CONFIG 5 \"\" \"alignd " ALIGND_VERSION
                    "\"\n.SH NAME\nalignd\\-config \\- the configuration file of alignd\n"
                    ".SH SYNOPSIS\n/etc/alignd/kubelet\\-config.yaml\n.SH DESCRIPTION\n";
  out += Roff(
      "A KubeletConfiguration (kubelet.config.k8s.io/v1beta1) in YAML or JSON, named by the flag "
      "--config of alignd. alignd can read the file that the kubelet of the node reads. It uses "
      "the fields below, ignores other fields of KubeletConfiguration, and refuses a field that "
      "KubeletConfiguration does not have. The file is read when alignd starts.\n");
  out += ".PP\n" + Roff(
                       "`alignctl config default` prints a commented file with all defaults. "
                       "`alignctl config check FILE` checks a file. `alignctl config show` prints "
                       "with which settings alignd runs.\n");
  out += ".SH FIELDS\n";
  for (const ExampleField& field : fields) {
    out += ".TP\n.B " + Roff(field.name) + "\n";
    bool in_list = false;  // of the lines that begin with blanks
    for (const std::string& line : field.comment) {
      const bool is_item = line.starts_with("  ");
      if (is_item != in_list) out += is_item ? ".nf\n" : ".fi\n";
      in_list = is_item;
      out += Roff(line) + "\n";
    }
    out += in_list ? ".fi\n" : ".br\n";
    out += "Default: " + Roff(field.standard) + ".\n";
  }
  out += ".SH EXAMPLES\n.nf\n" +
         Roff(
             "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
             "cpuManagerPolicy: static\nreservedSystemCPUs: \"0,32\"\n"
             "topologyManagerPolicy: single-numa-node\n") +
         ".fi\n.SH FILES\n" + Roff("/etc/alignd/kubelet-config.yaml\n") +
         ".SH SEE ALSO\nalignd(8),\nalignctl(1)\n";
  return out;
}

}  // namespace alignd::cli
