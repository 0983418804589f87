#include "proxy/pieces.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "host/descriptor.h"

namespace alignd::proxy {
namespace {

struct Pair {
  host::Descriptor writer;
  host::Descriptor reader;
};

Pair Connected() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {host::Descriptor(ends[0]), host::Descriptor(ends[1])};
}

// The bytes that are in the socket.
std::string ReadAll(const Pair& pair) {
  std::string all;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t size = recv(pair.reader.fd(), part.data(), part.size(), 0);
    if (size <= 0) return all;
    all.append(part.data(), static_cast<size_t>(size));
  }
}

TEST(Pieces, ArriveInOrderWithAllSizes) {
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
    if (i % 4 == 1) {
      SharedBuffer buffer(new uint8_t[bytes.size() + 1]);
      std::ranges::copy(bytes, buffer.get());
      first.Append({buffer, {reinterpret_cast<const char*>(buffer.get()), bytes.size()}});
    } else if (i % 4 == 2) {
      first.AppendOwned(bytes);
    } else {
      first.Append(bytes);
    }
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

TEST(Pieces, AreFramesOfTheirOwnUnlessShort) {
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

TEST(Pieces, KeepABufferForLongBytesOnly) {
  const Pair pair = Connected();
  ReadBuffers buffers;
  const SharedBuffer buffer = buffers.Take();
  const auto first = [&](size_t bytes) {
    return SharedBytes{buffer, {reinterpret_cast<const char*>(buffer.get()), bytes}};
  };
  std::fill_n(buffer.get(), ReadBuffers::kSize, 'x');
  const long alone = buffer.use_count();
  Pieces pieces;
  pieces.Append(first(100));
  EXPECT_EQ(buffer.use_count(), alone);
  pieces.Append(first(ReadBuffers::kSize / 2));
  EXPECT_EQ(buffer.use_count(), alone + 1);
  Pieces sent;
  sent.AppendFrom(pieces, 100 + ReadBuffers::kSize / 4);  // half of the long one
  EXPECT_EQ(buffer.use_count(), alone + 2);
  sent.AppendFrom(pieces, ReadBuffers::kSize / 4);
  ASSERT_EQ(sent.SendTo(pair.writer.fd()), Pieces::Sent::kAll);
  EXPECT_EQ(buffer.use_count(), alone);
  EXPECT_EQ(ReadAll(pair), std::string(100 + ReadBuffers::kSize / 2, 'x'));
}

TEST(ReadBuffers, AreReusedWhenNoBytesOfThemAreInUse) {
  ReadBuffers buffers;
  SharedBuffer first = buffers.Take();
  const uint8_t* const memory = first.get();
  const SharedBuffer second = buffers.Take();
  EXPECT_NE(second.get(), memory);
  first.reset();
  EXPECT_EQ(buffers.Take().get(), memory);
}

TEST(ReadBuffers, MayBeMoreThanAreKept) {
  ReadBuffers buffers;
  std::vector<SharedBuffer> taken;
  for (int i = 0; i < 100; ++i) {
    taken.push_back(buffers.Take());
    taken.back()[ReadBuffers::kSize - 1] = static_cast<uint8_t>(i);
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(taken[static_cast<size_t>(i)][ReadBuffers::kSize - 1], i);
}

TEST(Pieces, KeepTheRestWhenTheSocketIsFull) {
  const Pair pair = Connected();
  Pieces pieces;
  pieces.Append(std::string(8 << 20, 'x'));
  ASSERT_EQ(pieces.SendTo(pair.writer.fd()), Pieces::Sent::kSome);
  const size_t unsent = pieces.size();
  EXPECT_EQ(ReadAll(pair).size(), (size_t{8} << 20) - unsent);
}

TEST(Pieces, ReportThatThePeerHasGone) {
  Pair pair = Connected();
  pair.reader = host::Descriptor();
  Pieces pieces;
  pieces.Append("lost");
  EXPECT_EQ(pieces.SendTo(pair.writer.fd()), Pieces::Sent::kBroken);
}

}  // namespace
}  // namespace alignd::proxy
