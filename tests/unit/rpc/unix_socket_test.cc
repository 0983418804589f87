#include "rpc/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "edge/fake_tree.h"
#include "edge/unix_socket.h"

namespace alignd::rpc {
namespace {

TEST(SocketPath, ReadsEverySpelling) {
  for (const char* endpoint : {"unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock"}) {
    EXPECT_EQ(SocketPath(endpoint).value(), "/run/x.sock") << endpoint;
  }
}

TEST(SocketPath, RefusesWhatIsNoUnixSocket) {
  for (const char* endpoint :
       {"", "unix:", "unix://", "run/x.sock", "unix:x.sock", "tcp://localhost:1", "localhost:80"}) {
    const Result<std::string> path = SocketPath(endpoint);
    ASSERT_FALSE(path.ok()) << endpoint;
    EXPECT_EQ(path.error().message,
              "\"" + std::string(endpoint) + "\": not a unix:///path or an absolute path");
  }
}

TEST(SocketPath, RefusesPathsThatAreTooLong) {
  EXPECT_TRUE(SocketPath("/" + std::string(106, 'x')).ok());
  const std::string long_path = "/" + std::string(107, 'x');
  EXPECT_EQ(SocketPath(long_path).error().message,
            "\"" + long_path + "\": the path has 108 bytes; a socket's has at most 107");
}

class OpenListeningTest : public ::testing::Test {
 protected:
  const testing::FakeTree tree_;
};

TEST_F(OpenListeningTest, MakesTheDirectoryAndSetsTheMode) {
  const auto path = tree_.root() / "made/for it/x%20.sock";
  const auto socket = OpenListening(path.string());
  ASSERT_TRUE(socket.ok()) << socket.error().message;
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_TRUE(S_ISSOCK(status.st_mode));
  EXPECT_EQ(status.st_mode & 0777, 0660u);
  EXPECT_GE(testing::ConnectUnix(path).fd(), 0);
}

TEST_F(OpenListeningTest, LeavesALiveSocketAlone) {
  const auto path = tree_.root() / "x.sock";
  const auto first = OpenListening(path.string());
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto second = OpenListening(path.string());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(second.error().message,
            "listen on " + path.string() + ": another process answers on it");
  EXPECT_TRUE(IsServed(path.string()));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(OpenListeningTest, ReplacesAStaleSocket) {
  const auto path = tree_.root() / "x.sock";
  testing::BindUnix(path);  // closed at once
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_FALSE(IsServed(path.string()));
  EXPECT_FALSE(IsServed(path.string() + ".missing"));
  EXPECT_FALSE(IsServed("/" + std::string(200, 'x')));
  const auto socket = OpenListening(path.string());
  ASSERT_TRUE(socket.ok()) << socket.error().message;
  EXPECT_TRUE(IsServed(path.string()));
}

TEST(IsServed, AFullQueueIsServed) {
  const testing::FakeTree tree;
  const std::string path = (tree.root() / "full.sock").string();
  const host::Descriptor server = testing::ListenUnix(path, 0);
  const host::Descriptor waiting = testing::ConnectUnix(path);
  ASSERT_GE(waiting.fd(), 0);
  EXPECT_TRUE(IsServed(path));
}

TEST_F(OpenListeningTest, NeverRemovesAFile) {
  tree_.Write({"x.sock", "precious"});
  const auto socket = OpenListening((tree_.root() / "x.sock").string());
  ASSERT_FALSE(socket.ok());
  EXPECT_EQ(socket.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(tree_.root() / "x.sock"));
}

TEST_F(OpenListeningTest, NamesTheDirectoryThatCannotBeMade) {
  tree_.Write({"file", ""});
  const auto socket = OpenListening((tree_.root() / "file/x.sock").string());
  ASSERT_FALSE(socket.ok());
  EXPECT_EQ(socket.error().code, ErrorCode::kIo);
  EXPECT_NE(socket.error().message.find((tree_.root() / "file").string()), std::string::npos);
}

}  // namespace
}  // namespace alignd::rpc
