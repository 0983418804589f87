// Why alignd does not start, or what a start should not go unnoticed with.
#pragma once

#include <filesystem>
#include <string>

#include "alignd/base/result.h"

namespace alignd::daemon {

// A value.
struct StartProblem {
  std::filesystem::path file;  // empty: a flag, or the machine
  std::string field;  // of the file, with its path; or the flag; empty: the file as a whole
  std::string value;  // of the field; empty: it is not set
  Error error;        // with a remedy. The message may name file and field as well

  // Message and remedy, with file, field and value in front as far as the message does not begin
  // with them.
  Error AsError() const;
};

}  // namespace alignd::daemon
