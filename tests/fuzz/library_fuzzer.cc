// Any texts get an answer or an error with a remedy, also as those of several arguments. The input:
// one byte that chooses the function, then the texts, separated by zero bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "alignd.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxBytes = size_t{1} << 16;
  if (size == 0 || size > kMaxBytes) return 0;
  std::string texts[3];
  size_t next = 0;
  for (size_t i = 1; i < size; ++i) {
    if (data[i] == 0 && next < 2) {
      ++next;
    } else if (data[i] != 0) {
      texts[next] += static_cast<char>(data[i]);
    }
  }
  char* result = nullptr;
  const int status = data[0] == 's'
                         ? alignd_simulate(texts[0].c_str(), texts[1].c_str(), &result)
                         : alignd_fit(texts[0].c_str(), texts[1].c_str(),
                                      texts[2].empty() ? nullptr : texts[2].c_str(), &result);
  if (status == ALIGND_NO_MEMORY) return 0;
  if (result == nullptr || result[0] != '{') std::abort();
  if (status == ALIGND_ERROR && std::strstr(result, "\"remedy\":\"\"") != nullptr) std::abort();
  alignd_free(result);
  return 0;
}
