// What log lines have of an answer of the API server.
#pragma once

#include <cstddef>
#include <string>

#include "apiserver/api_client.h"

namespace alignd::events {

// The status, and the beginning of the API server's text.
inline std::string Shown(const apiserver::ApiAnswer& answer) {
  constexpr size_t kShownBytes = 512;
  return "status " + std::to_string(answer.status) + ": " + answer.body.substr(0, kShownBytes);
}

}  // namespace alignd::events
