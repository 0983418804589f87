// The explanation of a merge: every candidate, best first, and why the others are not the best.
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

// Writes a set of NUMA nodes. NumaMask::ToString writes positions; callers that know the machine
// write ids.
using MaskText = std::function<std::string(NumaMask)>;

// A set of NUMA nodes that is the result of some combination of hints.
struct Candidate {
  TopologyHint hint;    // always with an affinity
  std::string verdict;  // "best", or why it is not

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct MergeExplanation {
  static constexpr size_t kMaxCandidates = 16;

  std::vector<Candidate> candidates;  // best first; no more than kMaxCandidates
  size_t left_out = 0;                // worse ones that are not listed
  // Further facts: why there is no candidate, which hints the policy ignores.
  std::vector<std::string> notes;

  friend bool operator==(const MergeExplanation&, const MergeExplanation&) = default;
};

// Explains MergeHints with the same arguments: the first candidate is its result. A note says why
// there is no candidate, or that a search ended at its limit. With more common NUMA nodes than
// tables are made of (MergeLimits), there is only the best candidate and a note.
MergeExplanation ExplainMerge(const NumaInfo& numa, const std::vector<Hints>& lists,
                              const MergeRules& rules, const MaskText& mask_text);

// Explains Policy::Merge of these hints, those of all providers together. Not for policy none.
MergeExplanation ExplainMerge(const Policy& policy, const HintsByResource& hints,
                              const MaskText& mask_text);

}  // namespace alignd::topologymanager
