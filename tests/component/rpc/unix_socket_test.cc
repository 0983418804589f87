#include "rpc/unix_socket.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
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

class ListenTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<grpc::Server>> ListenOn(const std::filesystem::path& path) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    return Listen(path.string(), builder);
  }

  const testing::FakeTree tree_;
  grpc::CallbackGenericService service_;
};

TEST_F(ListenTest, MakesTheDirectoryAndSetsTheMode) {
  const auto path = tree_.root() / "made/for it/x%20.sock";
  const auto server = ListenOn(path);
  ASSERT_TRUE(server.ok()) << server.error().message;
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_TRUE(S_ISSOCK(status.st_mode));
  EXPECT_EQ(status.st_mode & 0777, 0660u);
}

TEST_F(ListenTest, LeavesALiveSocketAlone) {
  const auto path = tree_.root() / "x.sock";
  const auto first = ListenOn(path);
  ASSERT_TRUE(first.ok()) << first.error().message;
  grpc::CallbackGenericService other;
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&other);
  const auto second = Listen(path.string(), builder);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(second.error().message,
            "listen on " + path.string() + ": another process answers on it");
  EXPECT_TRUE(IsServed(path.string()));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(ListenTest, ReplacesAStaleSocket) {
  const auto path = tree_.root() / "x.sock";
  testing::BindUnix(path);  // closed at once
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_FALSE(IsServed(path.string()));
  EXPECT_FALSE(IsServed(path.string() + ".missing"));
  EXPECT_FALSE(IsServed("/" + std::string(200, 'x')));
  const auto server = ListenOn(path);
  EXPECT_TRUE(server.ok()) << server.error().message;
}

TEST(IsServed, AFullQueueIsServed) {
  const testing::FakeTree tree;
  const std::string path = (tree.root() / "full.sock").string();
  const host::Descriptor server = testing::ListenUnix(path, 0);
  const host::Descriptor waiting = testing::ConnectUnix(path);
  ASSERT_GE(waiting.fd(), 0);
  EXPECT_TRUE(IsServed(path));
}

TEST_F(ListenTest, NeverRemovesAFile) {
  tree_.Write({"x.sock", "precious"});
  const auto server = ListenOn(tree_.root() / "x.sock");
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(tree_.root() / "x.sock"));
}

TEST_F(ListenTest, NamesTheDirectoryThatCannotBeMade) {
  tree_.Write({"file", ""});
  const auto server = ListenOn(tree_.root() / "file/x.sock");
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace alignd::rpc
