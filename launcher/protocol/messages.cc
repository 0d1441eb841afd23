#include "launcher/protocol/messages.h"

#include <trireme/base/wire.h>

namespace trireme {
namespace {

// Each message lists its fields once; an archive either writes or reads them.
struct Writer {
  WireWriter wire;
  void field(bool value) { wire.u8(value ? 1 : 0); }
  void field(StdinMode value) { wire.u8(static_cast<std::uint8_t>(value)); }
  void field(int value) { wire.i64(value); }
  void field(std::uint32_t value) { wire.u32(value); }
  void field(std::int64_t value) { wire.i64(value); }
  void field(const std::string& value) { wire.bytes(value); }
  template <typename T>
  void field(const std::vector<T>& values) {
    wire.u32(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) field(value);
  }
  template <typename... T>
  void operator()(const T&... values) {
    (field(values), ...);
  }
};

struct Reader {
  WireReader wire;
  void field(bool& value) { value = wire.u8() != 0; }
  void field(StdinMode& value) { value = static_cast<StdinMode>(wire.u8()); }
  void field(int& value) { value = static_cast<int>(wire.i64()); }
  void field(std::uint32_t& value) { value = wire.u32(); }
  void field(std::int64_t& value) { value = wire.i64(); }
  void field(std::string& value) { value = wire.string(); }
  template <typename T>
  void field(std::vector<T>& values) {
    const std::uint32_t count = wire.u32();
    values.clear();
    // A corrupt count ends the loop at the end of the input, not in memory.
    for (std::uint32_t i = 0; i < count && !wire.failed(); ++i) field(values.emplace_back());
  }
  template <typename... T>
  void operator()(T&... values) {
    (field(values), ...);
  }
};

template <typename A, typename J>
void job_fields(A& archive, J& job) {
  archive(job.job_id, job.program, job.arguments, job.environment, job.working_directory, job.host, job.world_size,
          job.node_rank, job.ranks, job.store_address, job.secret, job.stdin_mode, job.stdin_rank, job.tag_output,
          job.output_directory);
}

// M is const when writing. The cast-free `is` keeps one list for both directions.
template <typename M, typename T>
constexpr bool is = std::is_same_v<std::remove_const_t<M>, T>;

template <typename A, typename M>
void fields(A& archive, M& m) {
  if constexpr (is<M, message::Configure>) {
    archive(m.version);
    job_fields(archive, m.job);
  } else if constexpr (is<M, message::StartAttempt>) {
    archive(m.epoch, m.attempt);
  } else if constexpr (is<M, message::SignalRanks> || is<M, message::SignalLeftovers>) {
    archive(m.epoch, m.signal);
  } else if constexpr (is<M, message::KillAll> || is<M, message::CollectRecordings>) {
    archive(m.epoch);
  } else if constexpr (is<M, message::Quiet>) {
    archive(m.epoch, m.lost_files);
  } else if constexpr (is<M, message::Notice>) {
    archive(m.text);
  } else if constexpr (is<M, message::OutputClosed>) {
    archive(m.reason);
  } else if constexpr (is<M, message::Recordings>) {
    archive(m.epoch, m.views);
  } else if constexpr (is<M, message::RankStarted>) {
    archive(m.epoch, m.rank, m.pid);
  } else if constexpr (is<M, message::StartFailed>) {
    archive(m.epoch, m.rank, m.is_cause, m.message);
  } else if constexpr (is<M, message::RankExited>) {
    archive(m.epoch, m.rank, m.exit.signaled, m.exit.code, m.exit.signal, m.exit.core_dumped, m.last_lines);
  } else {
    static_assert(is<M, message::Shutdown>, "a message without a list of fields");
  }
}

template <std::size_t I = 0>
Result<Message> decode_kind(std::size_t kind, std::string_view payload) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (kind != I) return decode_kind<I + 1>(kind, payload);
    std::variant_alternative_t<I, Message> message;
    Reader reader{WireReader(payload)};
    fields(reader, message);
    if (!reader.wire.finished()) return data_loss("a launcher message of kind " + std::to_string(kind) + " is garbled");
    return Message(std::move(message));
  } else {
    return data_loss("a launcher message has the unknown kind " + std::to_string(kind) +
                     ": coordinator and shim are of different versions");
  }
}

}  // namespace

std::string encode(const Message& message) {
  Writer writer;
  writer.wire.u8(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& m) { fields(writer, m); }, message);
  return writer.wire.take();
}

Result<Message> decode(std::string_view bytes) {
  if (bytes.empty()) return data_loss("an empty launcher message");
  return decode_kind(static_cast<unsigned char>(bytes[0]), bytes.substr(1));
}

}  // namespace trireme
