// Work on all CPUs at once.
#pragma once

#include <cstddef>
#include <functional>

namespace alignd::cli {

// A placement::ForEach with a thread for each CPU; with little work, with this thread only.
void ForEachOnAllCpus(size_t count, const std::function<void(size_t)>& work);

}  // namespace alignd::cli
