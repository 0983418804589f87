// Lists and watches, with answers that are given.
#include "extender/object_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_reader.h"

namespace alignd::extender {
namespace {

using namespace std::chrono_literals;

// Notes each call.
class NotingSink final : public ObjectSink {
 public:
  void Set(ObjectKind kind, const std::string& key, const std::string& json) override {
    Note("set " + std::string(ToString(kind)) + " " + key);
    last = json;
  }
  void Remove(ObjectKind, const std::string& key, const std::string& uid) override {
    Note("remove " + key + (uid.empty() ? "" : " " + uid));
  }
  void Listed(ObjectKind, const std::set<std::string>& keys,
              std::chrono::steady_clock::time_point) override {
    Note("listed " + std::to_string(keys.size()));
  }
  void Current(ObjectKind, std::chrono::steady_clock::time_point) override { Note("current"); }
  void Failed(ObjectKind, const std::optional<Error>& error) override {
    Note(error ? "failed: " + error->Text() : "resolved");
  }
  std::vector<std::string> Take() { return std::exchange(notes_, {}); }

  std::string last;

 private:
  void Note(std::string note) { notes_.push_back(std::move(note)); }
  std::vector<std::string> notes_;
};

class ObjectWatchTest : public ::testing::Test {
 protected:
  std::chrono::milliseconds Step(GivenAnswer answer) {
    answers_->Add(std::move(answer));
    return watch_.Step();
  }
  void List() {
    Step({.parts = {R"({"metadata":{"resourceVersion":"5"},"items":[]})"}});
    sink_.Take();
  }
  std::string LastPath() const { return answers_->paths().back(); }

  const std::shared_ptr<GivenAnswers> answers_ = std::make_shared<GivenAnswers>();
  NotingSink sink_;
  ObjectWatch watch_{
      ObjectKind::kPod,
      {.watch = 30s, .watch_after_failure = 5s},
      [this]() -> Result<std::unique_ptr<apiserver::ApiReader>> {
        return std::unique_ptr<apiserver::ApiReader>(std::make_unique<FakeReader>(answers_));
      },
      sink_};
};

using Notes = std::vector<std::string>;

TEST_F(ObjectWatchTest, ListsInPagesAndWatchesFromThere) {
  answers_->Add({.parts = {R"({"metadata":{"resourceVersion":"5","continue":"a/b="},"items":[)",
                           R"({"metadata":{"name":"a","namespace":"ns","managedFields":[]},)",
                           R"("status":{"phase":"Running","podIP":"1"}}]})"}});
  EXPECT_EQ(Step({.parts = {R"({"metadata":{"resourceVersion":"5"},"items":[{"metadata":)"
                            R"({"name":"b","namespace":"ns"}}]})"}}),
            0ms);
  EXPECT_EQ(sink_.Take(), (Notes{"set pods ns/a", "set pods ns/b", "listed 2"}));
  EXPECT_EQ(answers_->paths()[0],
            "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2C"
            "status.phase%21%3DFailed&limit=500");
  EXPECT_TRUE(LastPath().ends_with("&limit=500&continue=a%2Fb%3D")) << LastPath();
  // Events come in any parts.
  Step({.parts = {R"({"type":"ADDED","object":{"metadata":{"name":"c","name)",
                  R"(space":"ns","resourceVersion":"7"},"status":{"phase":"Running","x":1}}})"
                  "\n{\"type\":\"DELETED\",",
                  R"("object":{"metadata":{"name":"a","namespace":"ns","resourceVersion":"8"}}})"
                  "\n"
                  R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"20"}}})"
                  "\n"}});
  EXPECT_EQ(sink_.Take(), (Notes{"set pods ns/c", "remove ns/a", "current"}));
  EXPECT_EQ(sink_.last,
            R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"c","namespace":"ns"},)"
            R"("status":{"phase":"Running"}})");
  EXPECT_TRUE(
      LastPath().ends_with("&watch=1&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion=5"))
      << LastPath();
  Step({});
  EXPECT_TRUE(LastPath().ends_with("resourceVersion=20")) << LastPath();
}

// A proxy may end it so.
TEST_F(ObjectWatchTest, AWatchThatEndsWithinAnEventHasFailed) {
  List();
  Step({.parts = {R"({"type":"BOOKMARK","obj)"}});
  const Notes notes = sink_.Take();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("the watch has ended within an event"), std::string::npos) << notes[0];
}

TEST_F(ObjectWatchTest, ListsAgainWhenTheVersionHasExpired) {
  for (const bool in_stream : {true, false}) {
    List();
    if (in_stream) {
      Step({.parts = {R"({"type":"ERROR","object":{"code":410,"message":"old"}})"
                      "\n"}});
    } else {
      Step({.status = 410, .parts = {R"({"message":"old"})"}});
    }
    EXPECT_EQ(sink_.Take(), Notes());
    List();
    EXPECT_TRUE(LastPath().ends_with("limit=500")) << LastPath();
    Step({.status = 410});  // the next list is due
    sink_.Take();
  }
}

TEST_F(ObjectWatchTest, AFailurePausesLongerEachTimeAndGoesOnFromTheVersion) {
  List();
  EXPECT_EQ(Step({.parts = {R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}})"
                            "\n{\"type\""},
                  .breaks = true}),
            1s);
  EXPECT_EQ(Step({.status = 500, .parts = {R"({"message":"etcd"})"}}), 2s);
  EXPECT_EQ(Step({.status = 429, .retry_after = 7s}), 7s);
  EXPECT_EQ(sink_.Take(), (Notes{"failed: pods: the connection broke off; try again",
                                 "failed: pods: watch: the API server answers 500: etcd; see why "
                                 "the API server is busy; the call can be repeated",
                                 "failed: pods: watch: the API server answers 429; see why the API "
                                 "server is busy; the call can be repeated"}));
  Step({});
  EXPECT_TRUE(LastPath().ends_with("timeoutSeconds=5&resourceVersion=9")) << LastPath();
  EXPECT_EQ(sink_.Take(), (Notes{"current", "resolved"}));
  EXPECT_EQ(Step({.status = 403}), 1s);
  EXPECT_NE(sink_.Take().at(0).find("allow the credential to list and watch pods"),
            std::string::npos);
}

// What is missing is not known: everything is listed again.
TEST_F(ObjectWatchTest, AnEventThatCannotBeReadIsAFailure) {
  for (const std::string line :
       {R"(nonsense)", R"({"type":"ADDED"})",
        R"({"type":"MOVED","object":{"metadata":)"
        R"({"name":"a","resourceVersion":"6"}}})",
        R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})",
        R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"6"}}})",
        R"({"type":"ERROR","object":{"code":500,"message":"broken"}})"}) {
    List();
    EXPECT_GE(Step({.parts = {line + "\n"}}), 1s) << line;
    const Notes notes = sink_.Take();
    EXPECT_TRUE(notes.back().starts_with("failed: pods: watch: ")) << notes.back();
  }
  List();
  EXPECT_TRUE(LastPath().ends_with("limit=500")) << LastPath();
}

TEST_F(ObjectWatchTest, AListThatCannotBeReadIsAFailure) {
  for (const std::string body :
       {"", "[]", "{}", R"({"metadata":{"resourceVersion":"5"},"items":[{}]})",
        R"({"metadata":{"resourceVersion":"5"}})",
        R"({"metadata":{"resourceVersion":"5"},"items":{}})",
        R"({"metadata":{"resourceVersion":"5","remainingItemCount":1},"items":[]})"}) {
    EXPECT_GE(Step({.parts = {body}}), 1s) << body;
    EXPECT_TRUE(sink_.Take().back().starts_with("failed: pods: "));
  }
}

// Objects that the API server accepts must not make the list fail.
TEST(ListedObjects, OfAPageThatIsTooLargeFewerAreAskedFor) {
  const auto answers = std::make_shared<GivenAnswers>();
  const auto page = [](const std::string& name, const std::string& next) {
    return R"({"metadata":{"resourceVersion":"5")" + next + R"(},"items":[{"metadata":{"name":")" +
           name + R"("}}]})";
  };
  const auto list = [&](std::string& keys) {
    FakeReader reader(answers);
    std::string version;
    return apiserver::ListObjects(
        reader, ObjectKind::kNode, {.page = 20, .access = "", .max_page_bytes = 100},
        [&keys](const std::string& key, const std::string&) -> Result<Done> {
          keys += key;
          return Done{};
        },
        version);
  };
  const std::string large(101, ' ');
  answers->Add({.parts = {page("a", R"(,"continue":"x")")}});
  answers->Add({.parts = {large}});
  answers->Add({.parts = {page("b", R"(,"continue":"y")")}});
  answers->Add({.parts = {page("c", "")}});
  std::string keys;
  EXPECT_FALSE(list(keys));
  EXPECT_EQ(keys, "abc");
  EXPECT_EQ(answers->paths(),
            (Notes{"/api/v1/nodes?limit=20", "/api/v1/nodes?limit=20&continue=x",
                   "/api/v1/nodes?limit=2&continue=x", "/api/v1/nodes?limit=2&continue=y"}));
  for (int i = 0; i < 3; ++i) answers->Add({.parts = {large.substr(0, 60), large.substr(0, 60)}});
  const auto failure = list(keys);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->error.message, "nodes: an object of the list has more than 100 bytes");
  EXPECT_EQ(answers->paths().back(), "/api/v1/nodes?limit=1");
}

TEST_F(ObjectWatchTest, ListsAgainWhenItIsAsked) {
  List();
  watch_.ListAgain();
  List();
  EXPECT_TRUE(LastPath().ends_with("limit=500")) << LastPath();
  Step({.parts = {}});
  EXPECT_NE(LastPath().find("watch=1"), std::string::npos) << LastPath();
}

// As a reader whose connection is closed meanwhile.
TEST(ObjectWatchOfABusyReader, AWatchThatEndsForAListIsNoFailure) {
  NotingSink sink;
  const auto answers = std::make_shared<GivenAnswers>();
  ObjectWatch* running = nullptr;
  int connections = 0;
  ObjectWatch watch(
      ObjectKind::kPod, {},
      [&]() -> Result<std::unique_ptr<apiserver::ApiReader>> {
        if (++connections == 2) running->ListAgain();
        return std::unique_ptr<apiserver::ApiReader>(std::make_unique<FakeReader>(answers));
      },
      sink);
  running = &watch;
  answers->Add({.parts = {R"({"metadata":{"resourceVersion":"5"},"items":[]})"}});
  EXPECT_EQ(watch.Step(), 0ms);
  EXPECT_EQ(watch.Step(), 0ms);  // the watch
  answers->Add({.parts = {R"({"metadata":{"resourceVersion":"6"},"items":[]})"}});
  EXPECT_EQ(watch.Step(), 0ms);
  EXPECT_EQ(sink.Take(), (Notes{"listed 0", "listed 0"}));
}

TEST_F(ObjectWatchTest, NothingIsReadAfterStop) {
  watch_.Stop();
  List();
  EXPECT_TRUE(answers_->paths().empty());
}

}  // namespace
}  // namespace alignd::extender
