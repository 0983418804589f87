// Writes lines to the journal of systemd, with fields.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "host/descriptor.h"

namespace alignd::host {

// Speaks the journal's own protocol to its socket: one datagram for each line. It is the protocol
// of sd_journal_sendv, whose socket has a fixed path, so that it could not be tested without root.
// One thread at a time.
// Source: systemd, docs/JOURNAL_NATIVE_PROTOCOL.md.
class Journal {
 public:
  static constexpr char kSocket[] = "/run/systemd/journal/socket";
  // Of each value; the rest is cut. So a line fits into a datagram.
  static constexpr size_t kMaxValue = size_t{32} * 1024;

  using Fields = std::vector<std::pair<std::string, std::string>>;

  explicit Journal(std::filesystem::path socket = kSocket) : path_(std::move(socket)) {}

  // The names are those of the journal: capitals, digits and _. Waits while the journal's queue is
  // full. Errors: kUnavailable, if no journal listens.
  Result<Done> Send(const Fields& fields);

 private:
  const std::filesystem::path path_;
  Descriptor socket_;
};

// Whether the descriptor (standard output) is connected to the journal, as systemd says in
// JOURNAL_STREAM ("device:inode"); `stream` is its value, null if it is not set.
bool IsJournal(int fd, const char* stream);

}  // namespace alignd::host
