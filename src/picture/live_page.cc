#include "picture/live_page.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "control/health.h"
#include "host/utc_time.h"
#include "picture/box.h"
#include "picture/picture.h"
#include "picture/svg.h"

namespace alignd::picture {
namespace {

namespace v1 = control::v1;

constexpr size_t kMaxCellBytes = 1000;

std::string UtcOf(int64_t unix_ms) {
  const auto since_1970 = std::chrono::milliseconds(unix_ms);
  return "<time>" + host::UtcTime(std::chrono::system_clock::time_point(since_1970)) + "</time>";
}

// A text of another program, not longer than a cell should be.
std::string Cell(std::string_view text) { return EscapeMarkup(Shortened(text, kMaxCellBytes)); }

std::string Row(const std::vector<std::string>& cells, std::string_view tag = "td") {
  std::string row = "<tr>";
  for (const std::string& cell : cells) {
    row.append("<").append(tag).append(">").append(cell).append("</").append(tag).append(">");
  }
  return row + "</tr>\n";
}

// `cells_of`: of one entry, escaped.
template <typename Entries, typename CellsOf>
std::string Table(const std::string& caption, const std::vector<std::string>& heads,
                  const std::string& if_empty, const Entries& entries, CellsOf cells_of) {
  std::string text = "<h2>" + caption + " (" + std::to_string(entries.size()) + ")</h2>\n";
  if (entries.empty()) return text + "<p>" + if_empty + "</p>\n";
  text += "<table>\n<thead>" + Row(heads, "th") + "</thead>\n<tbody>\n";
  int rows = 0;
  for (const auto& entry : entries) {
    if (rows++ == kMaxRows) break;
    text += Row(cells_of(entry));
  }
  text += "</tbody>\n</table>\n";
  if (rows > kMaxRows) {
    text += "<p>and " + std::to_string(entries.size() - kMaxRows) +
            " more: <code>alignctl status -o wide</code></p>\n";
  }
  return text;
}

std::vector<std::string> CellsOfCondition(const v1::Condition& condition) {
  std::string subject = condition.pod().empty() ? condition.pod_uid() : condition.pod();
  if (!condition.container().empty()) subject += " " + condition.container();
  if (subject.empty()) subject = condition.container_id();
  return {EscapeMarkup(condition.type()),
          UtcOf(condition.first_unix_ms()),
          UtcOf(condition.last_unix_ms()),
          std::to_string(condition.times()),
          subject.empty() ? "node" : Cell(subject),
          Cell(condition.message()),
          Cell(condition.remedy())};
}

std::vector<std::string> CellsOfPod(const v1::PendingPod& pod) {
  return {Cell(pod.pod().empty() ? pod.pod_uid() : pod.pod()),
          pod.container().empty() ? "all" : Cell(pod.container()),
          EscapeMarkup(pod.state()),
          Cell(pod.reason()),
          UtcOf(pod.first_unix_ms()),
          pod.until_unix_ms() == 0 ? "" : UtcOf(pod.until_unix_ms()),
          Cell(pod.message())};
}

}  // namespace

const char kScript[] = R"('use strict';
(() => {
  const PERIOD = 5000;
  const PATIENCE = 10000;
  const isReading = () => !document.getSelection().isCollapsed;

  const renew = async () => {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), PATIENCE);
    try {
      const answer = await fetch(location.href, {cache: 'no-store', signal: stop.signal});
      if (!answer.ok) throw new Error('status ' + answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const fresh = page.getElementById('live');
      if (!fresh) throw new Error('another page');
      const old = document.getElementById('live');
      const left = document.getElementById('picture').scrollLeft;
      old.replaceWith(document.adoptNode(fresh));
      document.getElementById('picture').scrollLeft = left;
      document.title = page.title;
      document.getElementById('stale').hidden = true;
    } catch (error) {
      document.getElementById('stale').hidden = false;
    } finally {
      clearTimeout(timer);
    }
  };

  const next = async () => {
    if (!document.hidden && !isReading()) await renew();
    setTimeout(next, PERIOD);
  };
  setTimeout(next, PERIOD);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) renew();
  });
})();
)";

const char kStyle[] = R"(:root { color-scheme: light; }
body { margin: 24px; background: #fff; color: #111827; max-width: 120rem;
  font: 14px/1.45 "DejaVu Sans", Helvetica, Arial, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; }
h2 { font-size: 16px; margin: 24px 0 8px; }
p { margin: 4px 0; }
code { font-family: monospace; }
#stale { background: #9f1239; color: #fff; padding: 8px 12px; border-radius: 4px; }
#picture { overflow-x: auto; margin: 24px 0 0 -16px; }
#picture svg { display: block; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 4px 14px 4px 0;
  border-bottom: 1px solid #cbd5e1; overflow-wrap: break-word; max-width: 48rem; }
th { color: #4b5563; font-size: 12px; }
td:first-child { min-width: 14rem; }
time { white-space: nowrap; }
#health { font-weight: bold; }
.healthy { color: #166534; }
.degraded { color: #9f1239; }
)";

namespace {

// "degraded: container refused", as the first line of `alignctl status`.
std::string HealthOf(const v1::GetStatusResponse& status) {
  const std::vector<std::string> problems = control::ProblemsOf(status);
  std::string text = problems.empty() ? "healthy" : "degraded: ";
  for (size_t i = 0; i < problems.size(); ++i) text += (i == 0 ? "" : ", ") + problems[i];
  return std::string("<p id=\"health\" class=\"") + (problems.empty() ? "healthy" : "degraded") +
         "\">" + EscapeMarkup(text) + "</p>\n";
}

}  // namespace

std::string RenderPage(const std::string& svg, const v1::GetStatusResponse& status) {
  const std::string node = EscapeMarkup(status.node().empty() ? "this node" : status.node());
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>alignd on " +
         node + "</title>\n<link rel=\"stylesheet\" href=\"" + kStyleName + "\">\n<script src=\"" +
         kScriptName +
         "\" defer></script>\n"
         // Without scripts, the browser itself renews the page.
         "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n</head>\n<body>\n"
         "<p id=\"stale\" hidden>alignd does not answer. This is its last report.</p>\n"
         "<main id=\"live\">\n<h1>alignd on " +
         node + "</h1>\n" + HealthOf(status) + "<p>Version " + EscapeMarkup(status.version()) +
         ", generation " + std::to_string(status.generation()) + ", up since " +
         UtcOf(status.started_unix_ms()) + ", reported at " + UtcOf(status.time_unix_ms()) +
         ". <a href=\"topology.svg\">Picture "
         "alone</a>, <a href=\"metrics\">metrics</a>.</p>\n" +
         // Above the picture, which can be higher than a screen.
         Table("Pending pods", {"Pod", "Container", "State", "Reason", "Since", "Until", "Message"},
               "No pod waits, and none was refused in the last 15 minutes.", status.pending(),
               CellsOfPod) +
         Table("Conditions",
               {"Type", "Since", "Last seen", "Times", "Subject", "Message", "What to do"},
               "No conditions.", status.conditions(), CellsOfCondition) +
         "<div id=\"picture\">\n" + svg + "</div>\n</main>\n</body>\n</html>\n";
}

LivePage::LivePage(PageSources sources, PageTimes times)
    : sources_(std::move(sources)), times_(times) {}

std::shared_ptr<const LivePage::Texts> LivePage::Newest() {
  std::optional<host::MachineParts> parts;
  {
    const MutexLock lock(mutex_);
    if (texts_ && Clock::now() < texts_until_) return texts_;
    if (computing_) {
      const Clock::time_point deadline = Clock::now() + times_.first_within;
      while (computing_ && !texts_ && changed_.WaitUntil(mutex_, deadline)) {
      }
      return texts_;
    }
    computing_ = true;
    if (Clock::now() < parts_until_) parts = parts_;
  }
  const Turn turn(*this);  // ends after the lock below, which it takes again
  const bool are_read = !parts;
  if (are_read) parts = sources_.parts();
  const Clock::time_point read = Clock::now();
  const v1::GetStatusResponse status = sources_.status();
  Texts texts{.svg = RenderSvg(MakePicture(sources_.machine, *parts, status)), .html = ""};
  texts.html = RenderPage(texts.svg, status);
  const MutexLock lock(mutex_);
  if (are_read) {
    parts_ = *std::move(parts);
    parts_until_ = read + times_.reuse_parts;
  }
  texts_ = std::make_shared<const Texts>(std::move(texts));
  // From its end: a slow machine does not compute without a pause.
  texts_until_ = Clock::now() + times_.reuse;
  return texts_;
}

LivePage::Turn::~Turn() {
  const MutexLock lock(page_.mutex_);
  page_.computing_ = false;
  page_.changed_.NotifyAll();
}

}  // namespace alignd::picture
