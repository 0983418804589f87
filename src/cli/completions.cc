// Completions for the shells.
#include <string>

#include "cli/reference.h"

namespace alignd::cli {
namespace {

std::string Words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The key of a command in the generated scripts: " checkpoint verify"; empty for the program.
std::string KeyOf(const std::vector<std::string>& path) {
  std::string key;
  for (const std::string& word : path) key += " " + word;
  return key;
}

// In single quotes of a shell. `colons`: zsh splits at a colon.
std::string Quoted(const std::string& text, bool colons = false) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == ':' && colons) {
      out += "\\:";
    } else if (c == '\n') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string ShellName(std::string_view program) {
  std::string name(program);
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

// Shell lines that set `path` to the key of the command in the words `words`. The same for bash and
// zsh.
std::string FindPath(const std::vector<CommandReference>& commands, const std::string& words) {
  std::string out = "  local path= word\n";
  std::string keys;
  for (const CommandReference& command : commands) {
    if (command.path.empty()) continue;
    std::vector<std::string> parent = command.path;
    parent.pop_back();
    keys += (keys.empty() ? "" : "|") + ("'" + KeyOf(parent) + " " + command.path.back()) + "'";
  }
  if (keys.empty()) return out;
  return out + "  for word in " + words + "; do\n    case \"$path $word\" in " + keys +
         ") path=\"$path $word\" ;; esac\n  done\n";
}

// Patterns of "$path $previous" for a flag.
std::string PatternsOf(const CommandReference& command, const FlagReference& flag) {
  const std::string key = KeyOf(command.path) + " ";
  std::string patterns = "'" + key + flag.name + "'";
  if (!flag.letter.empty()) patterns += "|'" + key + flag.letter + "'";
  return patterns;
}

}  // namespace

std::string BashCompletion(std::string_view program,
                           const std::vector<CommandReference>& commands) {
  const std::string name = ShellName(program);
  std::string out = "# bash completion for " + std::string(program) + "\n_" + name + "() {\n";
  out += "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} all=\n";
  out += FindPath(commands, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"");
  out += "  COMPREPLY=()\n  case \"$path $prev\" in\n";
  for (const CommandReference& command : commands) {
    for (const FlagReference& flag : command.flags) {
      if (flag.value.empty()) continue;
      out += "    " + PatternsOf(command, flag) + ")\n      ";
      out += flag.choices.empty()
                 ? "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")"
                 : "mapfile -t COMPREPLY < <(compgen -W '" + Words(flag.choices) + "' -- \"$cur\")";
      out += "\n      return ;;\n";
    }
  }
  out += "  esac\n  case \"$path\" in\n";
  for (const CommandReference& command : commands) {
    std::string all = Words(command.below);
    for (const FlagReference& flag : command.flags) {
      all += (all.empty() ? "" : " ") + flag.name;
      if (!flag.letter.empty()) all += " " + flag.letter;
    }
    out += "    '" + KeyOf(command.path) + "') all='" + all + "' ;;\n";
  }
  return out +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$all\" -- \"$cur\")\n"
         "  [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
         "}\ncomplete -o filenames -F _" +
         name + " " + std::string(program) + "\n";
}

std::string ZshCompletion(std::string_view program, const std::vector<CommandReference>& commands) {
  const std::string name = ShellName(program);
  std::string out = "#compdef " + std::string(program) + "\n_" + name + "() {\n  local -a all\n";
  // In zsh, `path` is PATH: the local one must have another name.
  std::string find = FindPath(commands, "${words[2,CURRENT-1]}");
  for (size_t at = 0; (at = find.find("path", at)) != std::string::npos; at += 7) {
    find.replace(at, 4, "command");
  }
  out += find + "  case \"$command ${words[CURRENT-1]}\" in\n";
  for (const CommandReference& command : commands) {
    for (const FlagReference& flag : command.flags) {
      if (flag.value.empty()) continue;
      out += "    " + PatternsOf(command, flag) + ") " +
             (flag.choices.empty() ? "_files" : "compadd -- " + Words(flag.choices)) +
             "; return ;;\n";
    }
  }
  out += "  esac\n  case \"$command\" in\n";
  for (const CommandReference& command : commands) {
    out += "    '" + KeyOf(command.path) + "') all=(";
    for (const std::string& below : command.below) {
      std::string what;
      for (const CommandReference& other : commands) {
        if (other.path.size() == command.path.size() + 1 && other.path.back() == below) {
          what = other.what;
        }
      }
      out += "\n      " + Quoted(below + ":" + what);
    }
    for (const FlagReference& flag : command.flags) {
      out += "\n      " + Quoted(flag.name) + "':'" + Quoted(flag.what, true);
      if (!flag.letter.empty()) {
        out += "\n      " + Quoted(flag.letter) + "':'" + Quoted(flag.what, true);
      }
    }
    out += ") ;;\n";
  }
  return out + "  esac\n  _describe " + std::string(program) + " all || _files\n}\n_" + name +
         " \"$@\"\n";
}

std::string FishCompletion(std::string_view program,
                           const std::vector<CommandReference>& commands) {
  std::string out = "# fish completion for " + std::string(program) + "\n";
  for (const CommandReference& command : commands) {
    std::string condition;
    for (const std::string& word : command.path) {
      condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
    }
    const bool has_commands = !command.below.empty();
    if (has_commands) {
      condition += (condition.empty() ? "" : "; and ") +
                   ("not __fish_seen_subcommand_from " + Words(command.below));
    }
    const std::string begin = "complete -c " + std::string(program) +
                              (condition.empty() ? "" : " -n " + Quoted(condition));
    for (const std::string& below : command.below) {
      std::string what;
      for (const CommandReference& other : commands) {
        if (other.path.size() == command.path.size() + 1 && other.path.back() == below) {
          what = other.what;
        }
      }
      out += begin + " -f -a " + below + " -d " + Quoted(what) + "\n";
    }
    for (const FlagReference& flag : command.flags) {
      out += begin + " -l " + flag.name.substr(2);
      if (!flag.letter.empty()) out += " -s " + flag.letter.substr(1);
      if (!flag.value.empty()) out += " -r";
      if (!flag.choices.empty()) out += " -f -a " + Quoted(Words(flag.choices));
      out += " -d " + Quoted(flag.what) + "\n";
    }
  }
  return out;
}

}  // namespace alignd::cli
