#include "alignd/noderesourcetopology/pod_fingerprint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace alignd::noderesourcetopology {
namespace {

// The five primes of the specification.
constexpr std::array<uint64_t, 5> kPrimes = {0x9E3779B185EBCA87U, 0xC2B2AE3D27D4EB4FU,
                                             0x165667B19E3779F9U, 0x85EBCA77C2B2AE63U,
                                             0x27D4EB2F165667C5U};

// The first `bytes` bytes as a number, the lowest first, which are removed from the text.
uint64_t TakeNumber(std::string_view& text, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = bytes; i-- > 0;) number = (number << 8) | static_cast<unsigned char>(text[i]);
  text.remove_prefix(bytes);
  return number;
}

uint64_t Round(uint64_t accumulator, uint64_t lane) {
  return std::rotl(accumulator + lane * kPrimes[1], 31) * kPrimes[0];
}

// Consumes the whole stripes of 32 bytes.
uint64_t OfStripes(std::string_view& text, uint64_t seed) {
  std::array<uint64_t, 4> lanes = {seed + kPrimes[0] + kPrimes[1], seed + kPrimes[1], seed,
                                   seed - kPrimes[0]};
  while (text.size() >= 32) {
    for (uint64_t& lane : lanes) lane = Round(lane, TakeNumber(text, 8));
  }
  uint64_t hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                  std::rotl(lanes[3], 18);
  for (const uint64_t lane : lanes) hash = (hash ^ Round(0, lane)) * kPrimes[0] + kPrimes[3];
  return hash;
}

}  // namespace

uint64_t Xxh64(std::string_view text, uint64_t seed) {
  const size_t size = text.size();
  uint64_t hash = (size >= 32 ? OfStripes(text, seed) : seed + kPrimes[4]) + size;
  while (text.size() >= 8) {
    hash ^= Round(0, TakeNumber(text, 8));
    hash = std::rotl(hash, 27) * kPrimes[0] + kPrimes[3];
  }
  if (text.size() >= 4) {
    hash ^= TakeNumber(text, 4) * kPrimes[0];
    hash = std::rotl(hash, 23) * kPrimes[1] + kPrimes[2];
  }
  while (!text.empty()) {
    hash ^= TakeNumber(text, 1) * kPrimes[4];
    hash = std::rotl(hash, 11) * kPrimes[0];
  }
  hash = (hash ^ (hash >> 33)) * kPrimes[1];
  hash = (hash ^ (hash >> 29)) * kPrimes[2];
  return hash ^ (hash >> 32);
}

namespace {

// `name`: of each pod.
std::string FingerprintOf(const std::vector<PodIdentity>& pods, std::string PodIdentity::*name) {
  std::vector<uint64_t> hashes;
  for (const PodIdentity& pod : pods) hashes.push_back(Xxh64(pod.*name, Xxh64(pod.name_space)));
  std::ranges::sort(hashes);
  std::string bytes;
  for (const uint64_t hash : hashes) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes += static_cast<char>(static_cast<unsigned char>(hash >> shift));
    }
  }
  std::string text = "pfp0v001";
  const uint64_t sum = Xxh64(bytes);
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(sum >> shift) & 0xF];
  return text;
}

}  // namespace

std::string PodFingerprint(const std::vector<PodIdentity>& pods) {
  return FingerprintOf(pods, &PodIdentity::name);
}

std::optional<std::string> UidFingerprint(const std::vector<PodIdentity>& pods) {
  if (!std::ranges::none_of(pods, &std::string::empty, &PodIdentity::uid)) return std::nullopt;
  return FingerprintOf(pods, &PodIdentity::uid);
}

}  // namespace alignd::noderesourcetopology
