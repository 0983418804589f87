// Why a merge of hints came out as it did: every candidate, best first, and what the others lack.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "alignd/topologymanager/hint_merger.h"
#include "alignd/topologymanager/numa_info.h"
#include "alignd/topologymanager/policy.h"

namespace alignd::topologymanager {

// How a set of NUMA nodes is written. NumaMask::ToString writes positions; who has the machine at
// hand writes ids.
using MaskText = std::function<std::string(NumaMask)>;

// A set of NUMA nodes that some combination of hints leads to.
struct Candidate {
  TopologyHint hint;    // always with an affinity
  std::string verdict;  // "best", or why it is not

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct MergeExplanation {
  static constexpr size_t kMaxCandidates = 16;

  std::vector<Candidate> candidates;  // best first; no more than kMaxCandidates
  size_t left_out = 0;                // worse ones that are not listed
  // What else there is to say: why there is no candidate, what the policy did not look at.
  std::vector<std::string> notes;

  friend bool operator==(const MergeExplanation&, const MergeExplanation&) = default;
};

// Explains MergeHints with the same arguments: the first candidate is what it returns. Without a
// candidate, a note says so; and where a search gave up, and there may be a better one. Of more
// common NUMA nodes than tables are made of (MergeLimits) only the best candidate is there, and a
// note.
MergeExplanation ExplainMerge(const NumaInfo& numa, const std::vector<Hints>& lists,
                              const MergeRules& rules, const MaskText& mask_text);

// Explains Policy::Merge of these hints, those of all providers together. Not for policy none.
MergeExplanation ExplainMerge(const Policy& policy, const HintsByResource& hints,
                              const MaskText& mask_text);

}  // namespace alignd::topologymanager
