// Decisions survive a restart of alignd, whatever has become of their file.
#include "control/decision_history.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "alignd/checkpoint/go_checksum.h"
#include "control_fixture.h"
#include "edge/allocation_outcome.h"
#include "edge/faulty_file.h"
#include "edge/odd_files.h"

namespace alignd::control {
namespace {

using namespace alignd::testing;
namespace fs = std::filesystem;

std::string ContentOf(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool SoonHolds(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::shared_ptr<const v1::PodDecision> KeptDecision(const std::string& uid, bool plain,
                                                    size_t bytes = 10) {
  v1::PodDecision decision;
  decision.set_pod_uid(uid);
  decision.set_outcome(plain ? "admitted" : "refused");
  decision.set_message(std::string(bytes, 'm'));
  return std::make_shared<const v1::PodDecision>(std::move(decision));
}

std::vector<std::string> UidsOf(const KeptDecisions& decisions) {
  std::vector<std::string> uids;
  for (const auto& decision : decisions) uids.push_back(decision->pod_uid());
  return uids;
}

// What `alignctl why-not` says about the pod.
Error WhyNotOf(const std::string& socket, const std::string& pod) {
  v1::WhyNotRequest request;
  request.set_pod(pod);
  const Result<v1::WhyNotResponse> answer = ControlClient(socket).WhyNot(request);
  if (answer.ok()) ADD_FAILURE() << "it is known: " << pod;
  return answer.ok() ? Error{} : answer.error();
}

// The file of these bytes, with a checksum that matches.
std::string Sealed(const std::string& body) {
  return "alignd-decisions 1 " + std::to_string(checkpoint::Fnv1a32(body)) + " " +
         std::to_string(body.size()) + "\n" + body;
}

class DecisionHistoryTest : public ControlTest {
 protected:
  // As a restart of alignd: the allocation manager and its log are new, too.
  void RestartWith(DecisionHistory::Settings settings = {}) {
    server.reset();
    if (history) history->Stop();
    world.Down();
    history.reset();
    world.Up();
    history.emplace(file(), world.node, settings, disk);
    history->Follow(*world.manager);
    auto started = ControlServer::Start(services_.loop(), socket(),
                                        {.facts = {},
                                         .node = world.node,
                                         .allocation = *world.manager,
                                         .conditions = conditions_,
                                         .names = [] { return PodNames(); },
                                         .history = &*history});
    ASSERT_TRUE(started.ok()) << started.error().Text();
    server = *std::move(started);
  }
  ~DecisionHistoryTest() override {
    server.reset();
    if (history) history->Stop();
  }
  fs::path file() const { return world.tree.root() / "decisions"; }
  fs::path damaged() const { return world.tree.root() / "decisions.damaged"; }

  FaultyFile disk;  // used by the history's thread alone
  std::optional<DecisionHistory> history;
};

TEST_F(DecisionHistoryTest, SurvivesARestart) {
  RestartWith();
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("fits", 2))));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("too-large", 99))));
  const std::vector<v1::PodDecision> before = Explain("");
  ASSERT_EQ(before.size(), 2u);
  RestartWith();
  const std::vector<v1::PodDecision> after = Explain("");
  ASSERT_EQ(after.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(after[i].SerializeAsString(), before[i].SerializeAsString());
  }
  EXPECT_GT(after[1].containers(0).candidates_size(), 0);
  EXPECT_EQ(fs::status(file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(fs::exists(damaged()));
  // The status shows it as refused: why-not must not say that it was not.
  EXPECT_NE(WhyNotOf(socket(), "too-large").message.find("before alignd was started again"),
            std::string::npos);
  EXPECT_NE(WhyNotOf(socket(), "fits").message.find("was refused in the last 15 minutes"),
            std::string::npos);

  // The new ones come first, and the limit counts both.
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("large-too", 77))));
  ASSERT_EQ(Explain("").size(), 3u);
  EXPECT_EQ(Explain("")[0].pod_uid(), "large-too");
  EXPECT_EQ(Explain("", 2).size(), 2u);
  ASSERT_EQ(Explain("default/fits").size(), 1u);
  EXPECT_EQ(Explain("default/fits")[0].pod_uid(), "fits");
  RestartWith();
  EXPECT_EQ(Explain("").size(), 3u);
}

TEST_F(DecisionHistoryTest, IsOnTheDiskSoonAfterADecision) {
  RestartWith({.delay = std::chrono::milliseconds(20)});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("too-large", 99))));
  EXPECT_TRUE(SoonHolds([&] { return ContentOf(file()).find("too-large") != std::string::npos; }));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("another", 99))));
  EXPECT_TRUE(SoonHolds([&] { return ContentOf(file()).find("another") != std::string::npos; }));
}

TEST_F(DecisionHistoryTest, DelaysNoDecisionWhileTheDiskHangs) {
  RestartWith({.delay = std::chrono::milliseconds(1)});
  disk.Hold();
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("first", 99))));
  disk.AwaitHeld();
  for (int i = 0; i < 50; ++i) {
    ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod" + std::to_string(i), 99))));
  }
  EXPECT_EQ(Explain("pod49").size(), 1u);
  disk.LetGo();
  EXPECT_TRUE(SoonHolds([&] { return ContentOf(file()).find("pod49") != std::string::npos; }));
}

TEST_F(DecisionHistoryTest, RepeatsAWriteThatFailed) {
  disk.FailAt(4, ENOSPC);  // after the temporary of the start: unlink, open, write, then the sync
  RestartWith({.delay = std::chrono::milliseconds(1), .retry = std::chrono::milliseconds(10)});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("too-large", 99))));
  EXPECT_TRUE(SoonHolds([&] { return ContentOf(file()).find("too-large") != std::string::npos; }));
  history->Stop();
  EXPECT_TRUE(disk.failed());
}

// The kubelet repeats a refused pod for as long as it exists.
TEST_F(DecisionHistoryTest, WritesRepeatedAnswersSeldom) {
  RestartWith({.delay = std::chrono::milliseconds(1), .repeats = std::chrono::hours(1)});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("too-large", 99))));
  ASSERT_TRUE(SoonHolds([&] { return ContentOf(file()).find("too-large") != std::string::npos; }));
  for (int i = 0; i < 20; ++i) {
    ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("too-large", 99))));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::vector<v1::PodDecision> shown = Explain("too-large");
  server.reset();
  history->Stop();
  EXPECT_EQ(std::ranges::count(disk.log(), "rename"), 2);  // the first answer, and the stop
  RestartWith({.delay = std::chrono::milliseconds(1), .repeats = std::chrono::milliseconds(20)});
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].times(), 21u);
  EXPECT_EQ(Explain("too-large")[0].SerializeAsString(), shown[0].SerializeAsString());

  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("another", 99))));
  ASSERT_TRUE(SoonHolds([&] { return ContentOf(file()).find("another") != std::string::npos; }));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("another", 99))));
  EXPECT_TRUE(SoonHolds([&] {
    const Result<KeptDecisions> saved = ParseDecisions(ContentOf(file()));
    return saved.ok() && saved->front()->times() == 2;
  }));
}

TEST_F(DecisionHistoryTest, LeavesFreeSpaceToTheStateFiles) {
  disk.SetFree(size_t{8} << 20);
  RestartWith({.delay = std::chrono::milliseconds(1), .retry = std::chrono::milliseconds(10)});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("first", 99))));
  history->Stop();
  EXPECT_FALSE(fs::exists(file()));
  RestartWith({.delay = std::chrono::milliseconds(1), .retry = std::chrono::milliseconds(10)});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("second", 99))));
  EXPECT_TRUE(SoonHolds([&] {
    return Status().decisions_not_saved().find("too little free space") != std::string::npos;
  }));
  disk.SetFree(size_t{9} << 20);
  EXPECT_TRUE(SoonHolds([&] { return ContentOf(file()).find("second") != std::string::npos; }));
  EXPECT_TRUE(SoonHolds([&] { return Status().decisions_not_saved().empty(); }));
}

// The kubelet repeats a pod after some minutes: until then, the status has what was decided before.
TEST_F(DecisionHistoryTest, ShowsPodsThatWereRefusedBeforeARestart) {
  RestartWith();
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("runs", 1))));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("refused", 99))));
  RestartWith();
  const v1::GetStatusResponse status = Status();
  ASSERT_EQ(status.pending_size(), 1);
  EXPECT_EQ(status.pending(0).pod(), "default/refused");
  EXPECT_EQ(status.pending(0).state(), "refused");
  EXPECT_TRUE(status.pending(0).message().starts_with("before alignd was started again: "));
  // A new answer replaces it.
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("refused", 1))));
  EXPECT_EQ(Status().pending_size(), 0);
}

TEST_F(DecisionHistoryTest, PutsADamagedFileAside) {
  RestartWith();
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("too-large", 99))));
  server.reset();
  history->Stop();
  const std::string sound = ContentOf(file());
  const std::string halves[] = {sound.substr(0, sound.size() / 2), "", "garbage\n",
                                std::string(kMaxHistoryBytes + 1, 'x'), Sealed("\xff\xff\xff")};
  for (const std::string& text : halves) {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << text;
    RestartWith();
    EXPECT_TRUE(Explain("").empty());
    EXPECT_FALSE(fs::exists(file()));
    EXPECT_EQ(ContentOf(damaged()), text);
  }
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("later", 99))));
  RestartWith();
  EXPECT_EQ(Explain("").size(), 1u);
}

// Neither a FIFO nor a directory, a link or a socket ends or delays a start.
TEST_F(DecisionHistoryTest, PutsAsideWhatIsNoFile) {
  for (const OddFile kind : OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    fs::remove_all(damaged());
    MakeOddFile(kind, file());
    RestartWith();
    ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 99))));
    EXPECT_EQ(Explain("").size(), 1u);
    RestartWith();
    EXPECT_EQ(Explain("").size(), 1u);
    server.reset();
    history->Stop();
    fs::remove_all(file());
  }
}

TEST(SavedDecisions, KeepTheirLimits) {
  KeptDecisions decisions;
  for (int i = 0; i < 300; ++i) decisions.push_back(KeptDecision(std::to_string(i), i % 2 == 0));
  const Result<KeptDecisions> many = ParseDecisions(FormatDecisions(decisions));
  ASSERT_TRUE(many.ok()) << many.error().Text();
  EXPECT_EQ(many->size(), allocation::DecisionLog::kCapacity);
  const std::vector<std::string> uids = UidsOf(*many);
  EXPECT_EQ(uids.front(), "0");
  EXPECT_EQ(uids.back(), "299");  // the oldest plain one is dropped first
  EXPECT_EQ(std::ranges::count(uids, "298"), 0);

  const std::string small = FormatDecisions(decisions, 1000);
  EXPECT_LE(small.size(), 1000u);
  ASSERT_TRUE(ParseDecisions(small).ok());
  EXPECT_EQ(UidsOf(*ParseDecisions(small)).front(), "1");  // no plain one is left
  const std::string none = FormatDecisions({KeptDecision("large", false, 2000)}, 1000);
  EXPECT_EQ(ParseDecisions(none)->size(), 0u);
}

TEST(SavedDecisions, AreRefusedWhenTheyAreTooMany) {
  v1::ExplainResponse message;
  for (size_t i = 0; i <= allocation::DecisionLog::kCapacity; ++i) message.add_decisions();
  EXPECT_FALSE(ParseDecisions(Sealed(message.SerializeAsString())).ok());
  message.clear_decisions();
  v1::ContainerDecision& container = *message.add_decisions()->add_containers();
  for (int i = 0; i < 900'000; ++i) container.add_hints();  // two bytes each, and 80 in memory
  EXPECT_FALSE(ParseDecisions(Sealed(message.SerializeAsString())).ok());
}

// Each damaged byte is noticed; with a checksum that matches, it is read or refused.
TEST(SavedDecisions, SurviveMutations) {
  KeptDecisions decisions;
  for (int i = 0; i < 4; ++i) decisions.push_back(KeptDecision("pod" + std::to_string(i), i == 1));
  const std::string text = FormatDecisions(decisions);
  ASSERT_TRUE(ParseDecisions(text).ok());
  for (size_t i = 0; i < text.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      std::string other = text;
      other[i] = static_cast<char>(other[i] ^ (1 << bit));
      EXPECT_FALSE(ParseDecisions(other).ok()) << i;
    }
    EXPECT_FALSE(ParseDecisions(text.substr(0, i)).ok()) << i;
  }
  const google::protobuf::LogSilencer no_complaints;
  std::mt19937 random(7);
  const std::string body = text.substr(text.find('\n') + 1);
  size_t read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string other = body;
    for (int changes = 0; changes < 3; ++changes) {
      other[random() % other.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) other.resize(random() % other.size());
    const Result<KeptDecisions> parsed = ParseDecisions(Sealed(other));
    read += parsed.ok();
    EXPECT_TRUE(!parsed.ok() || ParseDecisions(FormatDecisions(*parsed)).ok());
  }
  EXPECT_GT(read, 100u);
  EXPECT_LT(read, 2900u);
}

}  // namespace
}  // namespace alignd::control
