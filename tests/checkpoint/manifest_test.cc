#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/assembly.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_table.h"

namespace trireme {
namespace {

Manifest sample() {
  Manifest manifest;
  manifest.job_id = "job \"quoted\"";
  manifest.generation = UINT64_MAX;
  manifest.wall_ms = 1'800'000'000'000;
  manifest.metadata = {120, 3, 77, 42, UINT64_MAX, {{"a", "\u00e4"}, {"", ""}}};
  manifest.files = {{"shard-00000.bin", 5'000'128}, {"shard-00001.bin", 24}};
  SavedPart big{{0, 1'250'000}, 0, 128, {1, UINT64_MAX}};
  SavedPart small{{1'250'000, 1'250'006}, 1, 0, {3}};
  manifest.items = {{"a", DataType::f32, {2, 625'003}, {big, small}}, {"b", DataType::u8, {0}, {}}};
  return manifest;
}

TEST(Manifest, RoundTrips) {
  const Manifest manifest = sample();
  const std::string text = manifest_to_json(manifest).value();
  const auto parsed = parse_manifest(text);
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->job_id, manifest.job_id);
  EXPECT_EQ(parsed->generation, manifest.generation);
  EXPECT_EQ(parsed->metadata.step, 120);
  EXPECT_EQ(parsed->metadata.epoch, 3);
  EXPECT_EQ(parsed->metadata.data_position, 77U);
  EXPECT_EQ(parsed->metadata.random_counter, UINT64_MAX);
  EXPECT_EQ(parsed->metadata.values, manifest.metadata.values);
  EXPECT_EQ(parsed->files, manifest.files);
  EXPECT_EQ(parsed->items, manifest.items);
  EXPECT_EQ(total_bytes(*parsed), 5'000'152U);
  EXPECT_EQ(find_item(*parsed, "b")->name, "b");
  EXPECT_EQ(find_item(*parsed, "c"), nullptr);
}

TEST(Manifest, EveryFlippedByteIsSeenOrHarmless) {
  const std::string text = manifest_to_json(sample()).value();
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    const auto parsed = parse_manifest(damaged);
    EXPECT_TRUE(!parsed.is_ok() || manifest_to_json(*parsed).value() == text) << "at byte " << i;
  }
  for (std::size_t length = 0; length + 1 < text.size(); length += 7) {
    EXPECT_FALSE(parse_manifest(std::string_view(text).substr(0, length)).is_ok());
  }
}

TEST(Manifest, ImpossibleOnesAreRefusedThoughTheirChecksumIsRight) {
  const auto refused = [](const std::function<void(Manifest&)>& change) {
    Manifest manifest = sample();
    change(manifest);
    return !parse_manifest(manifest_to_json(manifest).value()).is_ok();
  };
  EXPECT_FALSE(refused([](Manifest&) {}));
  EXPECT_TRUE(refused([](Manifest& m) { m.items[0].parts[0].file = 2; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.items[0].parts[0].offset = 129; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.items[0].parts[0].offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.items[0].parts[0].checksums.pop_back(); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.items[0].parts.pop_back(); }));
  EXPECT_TRUE(refused([](Manifest& m) { std::swap(m.items[0].parts[0], m.items[0].parts[1]); }));
  EXPECT_TRUE(refused([](Manifest& m) { std::swap(m.items[0], m.items[1]); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.items[0].shape = {-2, -625'003}; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.files[0].name = "../etc/passwd"; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.files[1].bytes = 23; }));
}

TEST(Manifest, ANewerFormatIsSaidToBeSo) {
  auto value = nlohmann::json::parse(manifest_to_json(sample()).value());
  value["format"] = "trireme-checkpoint/2";
  EXPECT_EQ(parse_manifest(value.dump()).status().code(), StatusCode::unsupported);
}

TEST(Manifest, TextMustBeUtf8) {
  Manifest manifest = sample();
  manifest.metadata.values["x"] = "\xff";
  EXPECT_EQ(manifest_to_json(manifest).status().code(), StatusCode::invalid_argument);
}

ShardTable table_of(Range range) {
  ShardTable table;
  table.step = 5;
  table.file = "f";
  table.file_bytes = 1000;
  table.entries.push_back({"item", DataType::u8, {10}, range, 64, {9}});
  return table;
}

TEST(ShardTable, RoundTripsAndRefusesAnythingElse) {
  const std::string bytes = encode_table(table_of({2, 7}));
  const auto table = decode_table(bytes);
  ASSERT_TRUE(table.is_ok());
  EXPECT_EQ(table->step, 5);
  EXPECT_EQ(table->entries[0].range, (Range{2, 7}));
  EXPECT_EQ(table->entries[0].shape, (Shape{10}));
  EXPECT_EQ(table->entries[0].checksums, std::vector<std::uint64_t>{9});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode_table(std::string_view(bytes).substr(0, length)).is_ok());
  }
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)decode_table(damaged);  // May be read as something else; must not crash.
  }
  ShardTable failed;
  failed.status = resource_exhausted("full");
  EXPECT_EQ(decode_table(encode_table(failed))->status.code(), StatusCode::resource_exhausted);
  EXPECT_TRUE(decode_status(encode_status(Status::ok())).is_ok());
  EXPECT_EQ(decode_status("").code(), StatusCode::data_loss);
}

TEST(Assembly, ProvesThatEveryElementIsThereOnce) {
  const auto whole = assemble_manifest({table_of({0, 4}), table_of({4, 10})});
  ASSERT_TRUE(whole.is_ok());
  EXPECT_EQ(whole->files.size(), 2U);
  EXPECT_EQ(whole->items[0].parts.size(), 2U);
  const Status gap = assemble_manifest({table_of({0, 4}), table_of({5, 10})}).status();
  EXPECT_EQ(gap.code(), StatusCode::data_loss);
  EXPECT_NE(gap.message().find("'item'"), std::string::npos);
  EXPECT_NE(gap.message().find("[4, 5)"), std::string::npos);
  EXPECT_EQ(assemble_manifest({table_of({0, 10}), table_of({0, 10})}).status().code(), StatusCode::data_loss);
}

TEST(Assembly, RanksMustAgree) {
  ShardTable other = table_of({4, 10});
  other.step = 6;
  const Status step = assemble_manifest({table_of({0, 4}), other}).status();
  EXPECT_EQ(step.code(), StatusCode::mismatch);
  EXPECT_NE(step.message().find("step 6"), std::string::npos);
  other = table_of({4, 10});
  other.metadata_hash = 1;
  EXPECT_EQ(assemble_manifest({table_of({0, 4}), other}).status().code(), StatusCode::mismatch);
  other = table_of({4, 10});
  other.entries[0].type = DataType::i8;
  const Status type = assemble_manifest({table_of({0, 4}), other}).status();
  EXPECT_EQ(type.code(), StatusCode::mismatch);
  EXPECT_NE(type.message().find("u8 [10] on rank 0 and i8 [10] on rank 1"), std::string::npos) << type.to_string();
  other = ShardTable{};
  other.status = resource_exhausted("disk full");
  const Status failed = assemble_manifest({table_of({0, 4}), other}).status();
  EXPECT_EQ(failed.to_string(), "resource_exhausted: rank 1: disk full");
}

}  // namespace
}  // namespace trireme
