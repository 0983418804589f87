// The forms in which the log is written.
#pragma once

#include <spdlog/sinks/sink.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "host/journal.h"

namespace alignd::daemon {

enum class LogFormat { kText, kJson, kJournal };

// `text`, `json` or `journal`; `auto`: the journal if standard output is connected to it, else
// text.
LogFormat ChooseLogFormat(std::string_view name, int standard_output, const char* journal_stream);

// Writes to standard output, or to the journal that listens on `journal`. If that fails, a line
// goes to standard output as text.
std::shared_ptr<spdlog::sinks::sink> MakeLogSink(
    LogFormat format, const std::filesystem::path& journal = host::Journal::kSocket);

// One line: time in UTC, level, message. No text of another program can be a line of its own, or
// control a terminal.
std::unique_ptr<spdlog::formatter> TextFormatter();

// One line: a JSON object.
std::unique_ptr<spdlog::formatter> JsonFormatter();

}  // namespace alignd::daemon
