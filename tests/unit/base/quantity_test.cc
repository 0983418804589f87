#include "alignd/base/quantity.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace alignd {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

Quantity Parsed(std::string_view text) {
  const Result<Quantity> quantity = Quantity::Parse(text);
  EXPECT_TRUE(quantity.ok()) << quantity.error().message;
  return quantity.ok() ? *quantity : Quantity();
}

struct ReadCase {
  std::string text;
  int64_t value;
  int64_t millis;
  std::string canonical;
};

class QuantityRead : public testing::TestWithParam<ReadCase> {};

TEST_P(QuantityRead, GivesValueMillisAndCanonicalForm) {
  const Quantity quantity = Parsed(GetParam().text);
  EXPECT_EQ(quantity.Value(), GetParam().value);
  EXPECT_EQ(quantity.MilliValue(), GetParam().millis);
  EXPECT_EQ(quantity.ToString(), GetParam().canonical);
  EXPECT_EQ(Parsed(quantity.ToString()), quantity);
}

INSTANTIATE_TEST_SUITE_P(
    Decimal, QuantityRead,
    testing::Values(
        ReadCase{"0", 0, 0, "0"}, ReadCase{"-0", 0, 0, "0"}, ReadCase{"0.0", 0, 0, "0"},
        ReadCase{"2", 2, 2000, "2"}, ReadCase{"+2", 2, 2000, "2"}, ReadCase{"002", 2, 2000, "2"},
        ReadCase{"2.0", 2, 2000, "2"}, ReadCase{"2000m", 2, 2000, "2"},
        ReadCase{"2.", 2, 2000, "2"}, ReadCase{".5", 1, 500, "500m"},
        ReadCase{"1500m", 2, 1500, "1500m"}, ReadCase{"1.5", 2, 1500, "1500m"},
        ReadCase{"-1.5", -2, -1500, "-1500m"}, ReadCase{"-1500m", -2, -1500, "-1500m"},
        ReadCase{"1n", 1, 1, "1n"}, ReadCase{"-1n", -1, -1, "-1n"}, ReadCase{"1u", 1, 1, "1u"},
        ReadCase{"0.1n", 1, 1, "1n"}, ReadCase{"-0.1n", -1, -1, "-1n"},
        ReadCase{"0.0000000001", 1, 1, "1n"}, ReadCase{"1.0000000001", 2, 1001, "1000000001n"},
        ReadCase{"1000", 1000, 1'000'000, "1k"}, ReadCase{"1500", 1500, 1'500'000, "1500"},
        ReadCase{"407M", 407'000'000, 407'000'000'000, "407M"},
        ReadCase{"742544320", 742'544'320, 742'544'320'000, "742544320"},
        ReadCase{"1.5G", 1'500'000'000, 1'500'000'000'000, "1500M"},
        ReadCase{"3T", 3'000'000'000'000, 3'000'000'000'000'000, "3T"},
        ReadCase{"3P", 3'000'000'000'000'000, 3'000'000'000'000'000'000, "3P"},
        ReadCase{"9E", 9'000'000'000'000'000'000, kMax, "9E"}, ReadCase{"10E", kMax, kMax, "10E"},
        ReadCase{"-10E", kMin, kMin, "-10E"}, ReadCase{"1000E", kMax, kMax, "1000E"},
        ReadCase{"9223372036854775807", kMax, kMax, "9223372036854775807"},
        ReadCase{"9223372036854775808", kMax, kMax, "9223372036854775808"}));

INSTANTIATE_TEST_SUITE_P(
    Exponent, QuantityRead,
    testing::Values(ReadCase{"1e3", 1000, 1'000'000, "1e3"},
                    ReadCase{"1E3", 1000, 1'000'000, "1e3"},
                    ReadCase{"1e+3", 1000, 1'000'000, "1e3"}, ReadCase{"12e1", 120, 120'000, "120"},
                    ReadCase{"1.5e3", 1500, 1'500'000, "1500"}, ReadCase{"1e-3", 1, 1, "1e-3"},
                    ReadCase{"1e-30", 1, 1, "1e-9"}, ReadCase{"1e-9999999", 1, 1, "1e-9"},
                    ReadCase{"1e21", kMax, kMax, "1e21"}, ReadCase{"0e999999999999", 0, 0, "0"}));

INSTANTIATE_TEST_SUITE_P(
    Binary, QuantityRead,
    testing::Values(
        ReadCase{"1Ki", 1024, 1'024'000, "1Ki"},
        ReadCase{"100Mi", 104'857'600, 104'857'600'000, "100Mi"},
        ReadCase{"1024Ki", 1'048'576, 1'048'576'000, "1Mi"},
        ReadCase{"284445Ki", 291'271'680, 291'271'680'000, "284445Ki"},
        ReadCase{"1.5Gi", 1'610'612'736, 1'610'612'736'000, "1536Mi"},
        // Below 1024 and with a fraction the decimal family is used, so that nothing is rounded.
        ReadCase{"0.5Ki", 512, 512'000, "512"}, ReadCase{"1.1Ki", 1127, 1'126'400, "1126400m"},
        ReadCase{"0.0001Ki", 1, 103, "102400u"}, ReadCase{"-1Ki", -1024, -1'024'000, "-1Ki"},
        ReadCase{"-1.5Ki", -1536, -1'536'000, "-1536"},
        ReadCase{"0.0000000000000000001Ei", 1, 116, "115292151n"},
        ReadCase{"7Ei", 8'070'450'532'247'928'832, kMax, "7Ei"},
        ReadCase{"8Ei", kMax, kMax, "9223372036854775807"},
        ReadCase{"-8Ei", -kMax, kMin, "-9223372036854775807"},
        ReadCase{"99999999999999999999Ki", kMax, kMax, "9223372036854775807"}));

INSTANTIATE_TEST_SUITE_P(NoDigitsIsZeroAsInKubernetes, QuantityRead,
                         testing::Values(ReadCase{"+", 0, 0, "0"}, ReadCase{".", 0, 0, "0"},
                                         ReadCase{"m", 0, 0, "0"}, ReadCase{"Mi", 0, 0, "0"}));

TEST(Quantity, RefusesWhatIsNotAQuantity) {
  const std::vector<std::string> texts = {"",      " ",
                                          "1 ",    " 1",
                                          "1,5",   "1.5.5",
                                          "--1",   "1-",
                                          "0x10",  "1K",
                                          "1mi",   "1i",
                                          "1KiB",  "1Mib",
                                          "1kk",   "1e",
                                          "1e-",   "1e+-3",
                                          "1e3Ki", "1e99999999999999999999",
                                          "abc",   "1\n",
                                          "NaN",   "Inf",
                                          "5%",    std::string("1\0", 2)};
  for (const std::string& text : texts) {
    const Result<Quantity> quantity = Quantity::Parse(text);
    ASSERT_FALSE(quantity.ok()) << text << " was read as " << quantity->ToString();
    EXPECT_EQ(quantity.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(quantity.error().message.find('"' + text + "\": not a quantity"), 0U);
  }
}

TEST(Quantity, ShowsOnlyTheStartOfALongText) {
  EXPECT_LT(Quantity::Parse(std::string(1'000'000, 'x')).error().message.size(), 200U);
}

TEST(Quantity, ReadsAMillionDigits) {
  const std::string digits(1'000'000, '9');
  EXPECT_EQ(Parsed(digits).Value(), kMax);
  EXPECT_EQ(Parsed("0." + digits).Value(), 1);
  EXPECT_EQ(Parsed("0." + digits + "Ei").ToString(), "1Ei");
}

TEST(Quantity, WholeNumbersPrintInTheirForm) {
  EXPECT_EQ(Quantity(2048).ToString(), "2048");
  EXPECT_EQ(Quantity(2048, Quantity::Format::kBinarySi).ToString(), "2Ki");
  EXPECT_EQ(Quantity(1000, Quantity::Format::kDecimalExponent).ToString(), "1e3");
  EXPECT_EQ(Quantity(kMin).Value(), kMin);
}

TEST(Quantity, SumsTakeTheFormOfTheFirstThatIsNotZero) {
  EXPECT_EQ((Quantity() + Parsed("284445Ki") + Parsed("64Mi")).ToString(), "349981Ki");
  EXPECT_EQ((Quantity() + Parsed("407M") + Parsed("320Mi")).ToString(), "742544320");
  EXPECT_EQ((Parsed("1Ki") + Parsed("1k")).ToString(), "2024");
  EXPECT_EQ((Parsed("1Ki") - Parsed("1Ki") + Parsed("2k")).ToString(), "2k");
  EXPECT_EQ((Quantity() - Parsed("1Ki")).ToString(), "-1Ki");
  EXPECT_EQ((Parsed("500m") + Parsed("500m")).ToString(), "1");
}

TEST(Quantity, SumsStopAtTheEndOfTheRange) {
  Quantity largest = Parsed("1e40");
  largest += largest;
  EXPECT_EQ(largest, Parsed("1e50"));
  Quantity smallest = Parsed("-1e40");
  smallest += smallest;
  EXPECT_EQ(smallest, Parsed("-1e50"));
  EXPECT_TRUE((largest + smallest).IsZero());
}

TEST(Quantity, ComparesByValueNotByForm) {
  EXPECT_EQ(Parsed("1Ki"), Parsed("1024"));
  EXPECT_EQ(Parsed("1e3"), Parsed("1k"));
  EXPECT_LT(Parsed("1999m"), Parsed("2"));
  EXPECT_GT(Parsed("1Mi"), Parsed("1M"));
  EXPECT_LT(Parsed("-2"), Parsed("-1"));
  EXPECT_EQ(Parsed("-2").Sign(), -1);
  EXPECT_EQ(Parsed("1n").Sign(), 1);
  EXPECT_EQ(Quantity().Sign(), 0);
}

}  // namespace
}  // namespace alignd
