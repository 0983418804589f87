#include "http2/pieces.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <random>
#include <string>
#include <utility>

#include "rpc/descriptor.h"

namespace alignd::http2 {
namespace {

struct Pair {
  rpc::Descriptor writer;
  rpc::Descriptor reader;
};

Pair Connected() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {rpc::Descriptor(ends[0]), rpc::Descriptor(ends[1])};
}

// What lies in the socket.
std::string ReadAll(const Pair& pair) {
  std::string all;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t size = recv(pair.reader.fd(), part.data(), part.size(), 0);
    if (size <= 0) return all;
    all.append(part.data(), static_cast<size_t>(size));
  }
}

TEST(Pieces, ArriveInOrderWhateverTheirSizes) {
  std::mt19937_64 random(7);
  const Pair pair = Connected();
  Pieces first;
  Pieces second;
  std::string expected;
  std::string received;
  size_t moved = 0;
  for (int i = 0; i < 3000; ++i) {
    const size_t most = i % 7 == 0 ? 100'000 : i % 3 == 0 ? 5000 : 20;
    const std::string bytes(random() % most, static_cast<char>('a' + i % 26));
    first.Append(bytes);
    expected += bytes;
    const size_t part = first.empty() ? 0 : random() % first.size() + random() % 2;
    second.AppendFrom(first, part);
    moved += part;
    ASSERT_EQ(first.size(), expected.size() - moved);
    ASSERT_EQ(first.FirstSize() == 0, first.empty());
    const Pieces::Sent sent = second.SendTo(pair.writer.fd());
    ASSERT_NE(sent, Pieces::Sent::kBroken);
    ASSERT_EQ(sent == Pieces::Sent::kAll, second.empty());
    if (i % 2 == 0) received += ReadAll(pair);
  }
  second.AppendFrom(first, first.size());
  while (second.SendTo(pair.writer.fd()) == Pieces::Sent::kSome) received += ReadAll(pair);
  received += ReadAll(pair);
  EXPECT_TRUE(second.empty());
  EXPECT_TRUE(received == expected);
}

TEST(Pieces, AreFramesOfTheirOwnUnlessTheyAreShort) {
  Pieces from;
  from.Append(std::string(16 << 10, 'x'));
  from.Append(std::string(100, 'y'));
  from.Append(std::string(100, 'z'));
  EXPECT_EQ(from.FirstSize(), size_t{16} << 10);
  Pieces to;
  to.Append("header");
  to.AppendFrom(from, 16 << 10);
  EXPECT_EQ(to.size(), (size_t{16} << 10) + 6);
  EXPECT_EQ(to.FirstSize(), 6u);
  EXPECT_EQ(from.FirstSize(), 200u);
}

TEST(Pieces, SaysThatTheSocketIsFullAndKeepsTheRest) {
  const Pair pair = Connected();
  Pieces pieces;
  pieces.Append(std::string(8 << 20, 'x'));
  ASSERT_EQ(pieces.SendTo(pair.writer.fd()), Pieces::Sent::kSome);
  const size_t left = pieces.size();
  EXPECT_EQ(ReadAll(pair).size(), (size_t{8} << 20) - left);
}

TEST(Pieces, SaysThatThePeerHasGone) {
  Pair pair = Connected();
  pair.reader = rpc::Descriptor();
  Pieces pieces;
  pieces.Append("lost");
  EXPECT_EQ(pieces.SendTo(pair.writer.fd()), Pieces::Sent::kBroken);
}

}  // namespace
}  // namespace alignd::http2
