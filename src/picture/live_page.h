// The live page of the daemon: the picture, conditions, and pending pods.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "alignd/control/v1/control.pb.h"
#include "alignd/machine/machine.h"
#include "host/sysfs_parts.h"
#include "sync/mutex.h"

namespace alignd::picture {

// The page for a picture and the report that it was made of: HTML without anything from elsewhere.
// It names kScriptName and kStyleName, which are served beside it.
std::string RenderPage(const std::string& svg, const control::v1::GetStatusResponse& status);

inline constexpr char kScriptName[] = "live.js";
inline constexpr char kStyleName[] = "live.css";
extern const char kScript[];  // renews the page every 5 s while it is visible
extern const char kStyle[];

// Rows of each table; what is beyond is counted.
inline constexpr int kMaxRows = 100;

// Where the facts come from. The functions are thread-safe and wait for no decision.
struct PageSources {
  Machine machine;
  std::function<host::MachineParts()> parts{};
  std::function<control::v1::GetStatusResponse()> status{};  // with list_devices
};

struct PageTimes {
  std::chrono::milliseconds reuse{1'000};       // between two computations
  std::chrono::seconds reuse_parts{60};         // between two readings of PageSources::parts
  std::chrono::milliseconds first_within{500};  // how long a caller waits for the first texts
};

// Thread-safe. One caller at a time computes, at most once in PageTimes::reuse; the others get the
// texts before, so that a slow computation takes one of the threads of the server and no more.
class LivePage {
 public:
  struct Texts {
    std::string svg;
    std::string html;
  };

  explicit LivePage(PageSources sources, PageTimes times = {});
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  // Null: another thread computes the first texts, and was not ready in PageTimes::first_within.
  std::shared_ptr<const Texts> Newest();

 private:
  using Clock = std::chrono::steady_clock;

  // Ends the computation of this thread, also if it throws.
  class Turn {
   public:
    explicit Turn(LivePage& page) : page_(page) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

   private:
    LivePage& page_;
  };

  const PageSources sources_;
  const PageTimes times_;
  Mutex mutex_;
  CondVar changed_;
  bool computing_ GUARDED_BY(mutex_) = false;
  host::MachineParts parts_ GUARDED_BY(mutex_);
  Clock::time_point parts_until_ GUARDED_BY(mutex_);
  std::shared_ptr<const Texts> texts_ GUARDED_BY(mutex_);
  Clock::time_point texts_until_ GUARDED_BY(mutex_);
};

}  // namespace alignd::picture
