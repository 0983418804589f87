// The live page in a real browser: it renews itself under its content policy, and every text of a
// picture is inside its box with the browser's fonts.
#include "picture/live_page.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "core/machine_builder.h"
#include "edge/fake_tree.h"
#include "edge/http_client.h"
#include "host/subprocess.h"
#include "metrics/http_server.h"
#include "picture/svg.h"

namespace alignd::metrics {
namespace {

// What the browser has made of the page at `address` after `virtual_ms` of its own time. Empty: it
// is not installed.
std::string DomOf(const std::string& address, int virtual_ms) {
  const testing::FakeTree profile;
  const Result<host::ProcessResult> run = host::RunProcess(
      {"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
       "--no-first-run", "--user-data-dir=" + profile.root().string(),
       "--virtual-time-budget=" + std::to_string(virtual_ms), "--dump-dom", address},
      std::chrono::minutes(3));
  if (!run.ok() && run.error().code == ErrorCode::kNotFound) return "";
  EXPECT_TRUE(run.ok()) << run.error().Text();
  return run.ok() ? run->output : "failed";
}

constexpr char kNoBrowser[] = "chromium is not installed (Debian: chromium)";

control::v1::GetStatusResponse FourCpus() {
  control::v1::GetStatusResponse status;
  status.set_node("worker-17");
  status.mutable_policies()->set_cpu_manager("static");
  control::v1::NumaNode& node = *status.add_numa();
  node.set_all_cpus("0-3");
  node.set_free_cpus("2-3");
  node.set_exclusive_cpus("1");
  node.set_reserved_cpus("0");
  control::v1::ContainerAssignment& container = *status.add_containers();
  container.set_pod("default/WWWWWWWW-mmmmmmmm-iiiiiiii-a-name-that-is-too-long-for-its-box");
  container.set_container("ＡＢＣ漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字");
  container.set_exclusive_cpus("1");
  return status;
}

TEST(LivePageInABrowser, RenewsItself) {
  std::atomic<uint64_t> asked = 0;
  HttpPages pages = {
      {"/",
       [&asked] {
         control::v1::GetStatusResponse status = FourCpus();
         status.set_generation(++asked);
         const picture::Picture picture =
             picture::MakePicture(MakeMachine("socket:1 numa:1 core:4 thread:1"), {}, status);
         return HttpAnswer{.text = picture::RenderPage(picture::RenderSvg(picture), status),
                           .content_type = "text/html; charset=utf-8"};
       }},
      {"/live.js",
       [] { return HttpAnswer{.text = picture::kScript, .content_type = "text/javascript"}; }},
      {"/live.css",
       [] { return HttpAnswer{.text = picture::kStyle, .content_type = "text/css"}; }}};
  const auto server = HttpServer::Start({.ip = "127.0.0.1"}, std::move(pages), {});
  ASSERT_NE(server->port(), 0);
  const std::string dom = DomOf("http://127.0.0.1:" + std::to_string(server->port()) + "/", 12'000);
  if (dom.empty()) GTEST_SKIP() << kNoBrowser;
  EXPECT_GE(asked, 2U) << dom;
  // The renewed page, not the first one; and the picture is in it as SVG.
  EXPECT_EQ(dom.find("generation 1,"), std::string::npos) << dom;
  EXPECT_NE(dom.find("id=\"cpu-3\""), std::string::npos) << dom;
  EXPECT_NE(dom.find("<p id=\"stale\" hidden=\"\">"), std::string::npos) << dom;
}

TEST(LivePageInABrowser, TextsAreInsideTheirBoxes) {
  const picture::Picture picture =
      picture::MakePicture(MakeMachine("socket:1 numa:1 core:4 thread:1"), {}, FourCpus());
  const testing::FakeTree tree;
  tree.Write({"page.html", "<!DOCTYPE html><meta charset=\"utf-8\"><body>" +
                               picture::RenderSvg(picture) +
                               R"(<p id="result"></p><script>
    const bad = [];
    let texts = 0;
    for (const text of document.querySelectorAll('svg text')) {
      ++texts;
      const box = text.getBBox();
      let group = text.parentNode;
      while (group.querySelector && !group.querySelector(':scope > rect')) group = group.parentNode;
      const around = group.querySelector(':scope > rect').getBBox();
      if (box.x < around.x || box.x + box.width > around.x + around.width ||
          box.y < around.y || box.y + box.height > around.y + around.height) {
        bad.push(text.textContent);
      }
    }
    document.getElementById('result').textContent =
        bad.length ? 'outside: ' + bad.join('; ') : 'all ' + (texts > 15) + ' inside';
  </script>)"});
  const std::string dom = DomOf("file://" + (tree.root() / "page.html").string(), 1'000);
  if (dom.empty()) GTEST_SKIP() << kNoBrowser;
  EXPECT_NE(dom.find("<p id=\"result\">all true inside</p>"), std::string::npos) << dom;
}

}  // namespace
}  // namespace alignd::metrics
