// The dashboard for Grafana: its metrics and labels exist, its queries are PromQL, and it has the
// structure that Grafana reads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "documents.h"
#include "edge/fake_tree.h"

namespace alignd::docs {
namespace {

using Json = nlohmann::json;

Json DashboardJson() {
  return Json::parse(ReadText(Root() / "config/monitoring/alignd-dashboard.json"));
}

struct KnownMetric {
  std::string type;
  std::set<std::string> labels;  // besides those of the scraper
};

// The tables of docs/monitoring.md, whose names and types another test compares with the program.
std::map<std::string, KnownMetric> MetricsOfTheManual() {
  static const std::regex row(R"(^\| `((?:alignd|kubelet)_[a-z_]+)` \| ([a-z]+) \| (.*) \|$)");
  static const std::regex code(R"(`([a-z_]+)`)");
  std::map<std::string, KnownMetric> metrics;
  for (const std::string& line : Prose(Root() / "docs/monitoring.md")) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    KnownMetric& metric = metrics[match[1]];
    metric.type = match[2];
    const std::string what = match[3];
    for (std::sregex_iterator word(what.begin(), what.end(), code), end; word != end; ++word) {
      metric.labels.insert((*word)[1]);
    }
  }
  return metrics;
}

struct Query {
  std::string panel;
  std::string expr;
  std::string legend;
};

std::vector<Query> QueriesOf(const Json& dashboard) {
  std::vector<Query> queries;
  for (const Json& panel : dashboard.at("panels")) {
    if (panel.at("type") == "row") continue;
    for (const Json& target : panel.at("targets")) {
      queries.push_back(
          {panel.at("title"), target.at("expr"), target.at("legendFormat").get<std::string>()});
    }
  }
  return queries;
}

std::set<std::string> WordsOf(const std::string& text, const std::regex& word) {
  std::set<std::string> words;
  for (std::sregex_iterator match(text.begin(), text.end(), word), end; match != end; ++match) {
    words.insert((*match)[1]);
  }
  return words;
}

std::string WhatIsWrong(const Query& query, const std::map<std::string, KnownMetric>& known) {
  static const std::regex name(R"(\b((?:alignd|kubelet)_[a-z_]+)\b)");
  static const std::regex matcher(R"([{,] *([a-z_]+) *(?:=|!))");
  static const std::regex grouping(R"(\bby \(([^)]*)\))");
  static const std::regex word(R"(([a-z_]+))");
  static const std::regex shown(R"(\{\{([a-z_]+)\}\})");
  std::set<std::string> allowed = {"job", "instance"};
  size_t metrics = 0;
  for (std::string metric : WordsOf(query.expr, name)) {
    ++metrics;
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      if (known.contains(metric) || !metric.ends_with(suffix)) continue;
      const std::string histogram = metric.substr(0, metric.size() - suffix.size());
      const auto found = known.find(histogram);
      if (found == known.end() || found->second.type != "histogram") continue;
      metric = histogram;
      if (suffix == "_bucket") allowed.insert("le");
    }
    const auto found = known.find(metric);
    if (found == known.end()) return "there is no metric " + metric;
    allowed.insert(found->second.labels.begin(), found->second.labels.end());
  }
  if (metrics == 0 && query.expr.find("up{") != 0) return "no metric in " + query.expr;
  std::set<std::string> used = WordsOf(query.expr, matcher);
  used.merge(WordsOf(query.legend, shown));
  for (const std::string& list : WordsOf(query.expr, grouping)) used.merge(WordsOf(list, word));
  for (const std::string& label : used) {
    if (!allowed.contains(label)) return query.panel + ": no label " + label + ": " + query.expr;
  }
  return "";
}

TEST(Dashboard, UsesMetricsAndLabelsThatExist) {
  const std::map<std::string, KnownMetric> known = MetricsOfTheManual();
  const std::vector<Query> queries = QueriesOf(DashboardJson());
  EXPECT_GT(queries.size(), 30u);
  for (const Query& query : queries) EXPECT_EQ(WhatIsWrong(query, known), "");
  // The check can fail.
  EXPECT_NE(WhatIsWrong({"", "alignd_none", ""}, known), "");
  EXPECT_NE(WhatIsWrong({"", "alignd_queue_length_bucket", ""}, known), "");
  EXPECT_NE(WhatIsWrong({"", "alignd_queue_length{method=\"x\"}", ""}, known), "");
  EXPECT_NE(WhatIsWrong({"", "sum by (pod) (alignd_queue_length)", ""}, known), "");
  EXPECT_NE(WhatIsWrong({"", "alignd_queue_length", "{{resource}}"}, known), "");
  EXPECT_EQ(WhatIsWrong({"", "alignd_queue_length{job=\"a\", queue=\"io\"}", ""}, known), "");
}

std::string Replaced(std::string text, const std::map<std::string, std::string>& by) {
  for (const auto& [from, to] : by) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

// As recording rules, with the variables of Grafana replaced.
bool PromtoolAccepts(const std::vector<Query>& queries) {
  Json rules = Json::array();
  for (const Query& query : queries) {
    rules.push_back({{"record", "a:b" + std::to_string(rules.size())},
                     {"expr", Replaced(query.expr, {{"$__rate_interval", "5m"},
                                                    {"$job", "alignd"},
                                                    {"$instance", ".*"}})}});
  }
  const Json file = {{"groups", {{{"name", "dashboard"}, {"rules", rules}}}}};
  const testing::FakeTree tree{{"rules.yaml", file.dump()}};
  const std::string path = tree.root() / "rules.yaml";
  return std::system(("promtool check rules '" + path + "' >/dev/null 2>&1").c_str()) == 0;
}

TEST(Dashboard, HasQueriesThatPromtoolAccepts) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian: prometheus)";
  }
  EXPECT_TRUE(PromtoolAccepts(QueriesOf(DashboardJson())));
  EXPECT_FALSE(PromtoolAccepts({{"", "sum(rate(alignd_calls_total[)", ""}}));
}

// What Grafana needs to show it; docs/monitoring.md says against which schema it was validated.
TEST(Dashboard, HasTheStructureThatGrafanaReads) {
  const Json dashboard = DashboardJson();
  for (const char* const key : {"uid", "title", "schemaVersion", "panels", "templating", "time"}) {
    EXPECT_TRUE(dashboard.contains(key)) << key;
  }
  EXPECT_FALSE(dashboard.contains("id"));  // of one Grafana's database
  std::set<std::string> variables;
  for (const Json& variable : dashboard.at("templating").at("list")) {
    variables.insert(variable.at("name"));
    EXPECT_TRUE(variable.at("type") == "query" || variable.at("type") == "datasource");
  }
  EXPECT_EQ(variables, (std::set<std::string>{"datasource", "instance", "job"}));
  std::set<int> ids;
  std::map<std::pair<int, int>, std::string> cells;
  for (const Json& panel : dashboard.at("panels")) {
    const std::string title = panel.at("title");
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << title << ": the id is not unique";
    const Json& place = panel.at("gridPos");
    EXPECT_LE(place.at("x").get<int>() + place.at("w").get<int>(), 24) << title;
    for (int x = 0; x < place.at("w").get<int>(); ++x) {
      for (int y = 0; y < place.at("h").get<int>(); ++y) {
        const std::pair<int, int> cell = {place.at("x").get<int>() + x,
                                          place.at("y").get<int>() + y};
        EXPECT_TRUE(cells.emplace(cell, title).second) << title << " lies on " << cells[cell];
      }
    }
    if (panel.at("type") == "row") continue;
    EXPECT_FALSE(panel.at("description").get<std::string>().empty()) << title;
    std::set<std::string> letters;
    for (const Json& target : panel.at("targets")) {
      EXPECT_TRUE(letters.insert(target.at("refId")).second) << title;
      EXPECT_EQ(target.at("datasource").at("uid"), "${datasource}") << title;
      const std::string expr = target.at("expr");
      EXPECT_NE(expr.find(R"(job=~"$job", instance=~"$instance")"), std::string::npos) << title;
    }
  }
}

}  // namespace
}  // namespace alignd::docs
