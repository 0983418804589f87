#include "simulator/grpc_socket.h"

#include <grpcpp/generic/async_generic_service.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>

#include "edge/fake_tree.h"

namespace alignd::simulator {
namespace {

class GrpcSocketTest : public ::testing::Test {
 protected:
  const testing::FakeTree tree_;
  grpc::CallbackGenericService service_;
};

TEST_F(GrpcSocketTest, ConnectsAtAPathWithOddCharacters) {
  const std::string path = (tree_.root() / "made/for it/x%20.sock").string();
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service_);
  const auto server = Listen(path, builder);
  ASSERT_TRUE(server.ok()) << server.error().message;
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
  const auto channel = Dial(path);
  ASSERT_TRUE(channel.ok()) << channel.error().message;
  EXPECT_TRUE(
      (*channel)->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
}

TEST_F(GrpcSocketTest, LeavesALiveSocketAlone) {
  const std::string path = (tree_.root() / "x.sock").string();
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service_);
  const auto first = Listen(path, builder);
  ASSERT_TRUE(first.ok()) << first.error().message;
  grpc::CallbackGenericService other;
  grpc::ServerBuilder second_builder;
  second_builder.RegisterCallbackGenericService(&other);
  const auto second = Listen(path, second_builder);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message, "listen on " + path + ": another process answers on it");
}

}  // namespace
}  // namespace alignd::simulator
