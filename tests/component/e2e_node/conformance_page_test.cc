// docs/conformance.md says what the tables say, and the tables name differences that exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "case_table.h"

namespace alignd::node_suites {
namespace {

namespace fs = std::filesystem;

// A case of upstream: suite, file, place in the file.
using Upstream = std::tuple<std::string, std::string, int>;

std::vector<std::string> LinesOf(const char* file) {
  std::ifstream in(fs::path(ALIGND_SOURCE_DIR) / file);
  EXPECT_TRUE(in) << file;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The rows of the first table below a heading, without its head.
std::vector<std::string> TableBelow(const std::vector<std::string>& lines,
                                    const std::string& heading) {
  std::vector<std::string> rows;
  auto line = std::ranges::find(lines, heading);
  while (line != lines.end() && !line->starts_with("| ")) ++line;
  for (; line != lines.end() && line->starts_with("| "); ++line) rows.push_back(*line);
  if (rows.size() >= 2) rows.erase(rows.begin(), rows.begin() + 2);
  return rows;
}

class ConformancePage : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::vector<Case>> cases = ReadCases(TableDirectory());
    ASSERT_TRUE(cases.ok()) << cases.error().Text();
    cases_ = *std::move(cases);
    for (const Case& row : cases_) {
      verdicts_.try_emplace(UpstreamOf(row), row.verdict);
    }
  }

  static Upstream UpstreamOf(const Case& row) { return {row.suite, row.file, row.number}; }
  int Count(const std::string& suite, Verdict verdict) const {
    return static_cast<int>(std::ranges::count_if(verdicts_, [&](const auto& entry) {
      return std::get<0>(entry.first) == suite && entry.second == verdict;
    }));
  }
  // "| suite | cases | reason |", in the order of the suites and the tables.
  std::vector<std::string> Reasons(Verdict verdict, bool with_difference) const {
    std::vector<std::string> lines;
    for (const std::string_view suite : kSuites) {
      std::vector<std::pair<std::string, std::string>> reasons;
      std::map<std::string, std::set<Upstream>> cases;
      for (const Case& row : cases_) {
        if (row.suite != suite || row.verdict != verdict) continue;
        if (!cases.contains(row.reason)) reasons.emplace_back(row.reason, row.difference);
        cases[row.reason].insert(UpstreamOf(row));
      }
      for (const auto& [reason, difference] : reasons) {
        lines.push_back("| " + std::string(suite) + " | " + std::to_string(cases[reason].size()) +
                        " | " + reason + " |" + (with_difference ? " " + difference + " |" : ""));
      }
    }
    return lines;
  }

  std::vector<Case> cases_;
  std::map<Upstream, Verdict> verdicts_;
};

TEST_F(ConformancePage, HasTheNumbersOfTheTables) {
  std::vector<std::string> expected;
  int sums[4] = {};
  const auto add = [&](const std::string& name, const int(&numbers)[4]) {
    std::string line = "| " + name + " |";
    for (const int number : numbers) line += " " + std::to_string(number) + " |";
    expected.push_back(line);
  };
  for (const std::string_view suite : kSuites) {
    const std::string name(suite);
    const int run = Count(name, Verdict::kRun);
    const int cannot = Count(name, Verdict::kCannotApply);
    const int weak = Count(name, Verdict::kWeakness);
    const int numbers[4] = {run + cannot + weak, run, cannot, weak};
    for (int i = 0; i < 4; ++i) sums[i] += numbers[i];
    add(name, numbers);
  }
  add("All", sums);
  EXPECT_EQ(TableBelow(LinesOf("docs/conformance.md"), "## Results"), expected);
}

TEST_F(ConformancePage, HasTheReasonsOfTheTables) {
  const std::vector<std::string> page = LinesOf("docs/conformance.md");
  EXPECT_EQ(TableBelow(page, "## What cannot apply"), Reasons(Verdict::kCannotApply, false));
  EXPECT_EQ(TableBelow(page, "## What asserts a weakness of the kubelet"),
            Reasons(Verdict::kWeakness, true));
}

// Rows with steps, as a case may have several.
TEST_F(ConformancePage, HasTheRowsThatRunOnARealRuntime) {
  std::vector<std::string> expected;
  std::vector<std::string> reasons;
  int sums[4] = {};
  const auto add = [&](const std::string& name, const int(&numbers)[4]) {
    std::string line = "| " + name + " |";
    for (const int number : numbers) line += " " + std::to_string(number) + " |";
    expected.push_back(line);
  };
  for (const std::string_view suite : kSuites) {
    int numbers[4] = {};
    std::vector<std::string> order;
    std::map<std::string, int> why;
    for (const Case& row : cases_) {
      if (row.suite != suite || row.steps.empty()) continue;
      const std::string reason = NeedsSimulation(row);
      if (!reason.empty() && why[reason]++ == 0) order.push_back(reason);
      numbers[0] += 1;
      numbers[1] += reason.empty() ? 1 : 0;
      numbers[2] += row.ci ? 1 : 0;
      numbers[3] += reason.empty() ? 0 : 1;
    }
    for (int i = 0; i < 4; ++i) sums[i] += numbers[i];
    add(std::string(suite), numbers);
    for (const std::string& reason : order) {
      reasons.push_back("| " + std::string(suite) + " | " + std::to_string(why[reason]) + " | " +
                        reason + " |");
    }
  }
  add("All", sums);
  const std::vector<std::string> page = LinesOf("docs/conformance.md");
  EXPECT_EQ(TableBelow(page, "## On a real runtime"), expected);
  EXPECT_EQ(TableBelow(page, "### Only with the simulated runtime"), reasons);
}

TEST_F(ConformancePage, EveryDifferenceIsDocumented) {
  const std::vector<std::string> lines = LinesOf("docs/differences.md");
  for (const Case& row : cases_) {
    if (row.verdict != Verdict::kWeakness) continue;
    const std::string begin = "| " + row.difference + " |";
    EXPECT_TRUE(
        std::ranges::any_of(lines, [&](const auto& line) { return line.starts_with(begin); }))
        << row.id << ": no row " << row.difference;
  }
}

// The places of the cases in each file have no gaps, and the rows of one case agree.
TEST_F(ConformancePage, NoCaseIsMissing) {
  std::map<std::string, std::set<int>> places;
  for (const Case& row : cases_) {
    places[row.file].insert(row.number);
    EXPECT_EQ(row.verdict, verdicts_.at(UpstreamOf(row))) << row.id;
  }
  for (const auto& [file, numbers] : places) {
    EXPECT_EQ(*numbers.begin(), 1) << file;
    EXPECT_EQ(*numbers.rbegin(), static_cast<int>(numbers.size())) << file;
  }
  EXPECT_EQ(verdicts_.size(), 189U);
}

}  // namespace
}  // namespace alignd::node_suites
