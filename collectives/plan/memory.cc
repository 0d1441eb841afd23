#include "collectives/plan/memory.h"

#include <bit>

#include <fmt/core.h>

namespace trireme::plan {

int RankSet::size() const {
  int size = 0;
  for (std::uint64_t word : words_) size += std::popcount(word);
  return size;
}

bool RankSet::intersects(const RankSet& other) const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] & other.words_[i]) return true;
  }
  return false;
}

int RankSet::first() const {
  std::size_t i = 0;
  while (words_[i] == 0) ++i;
  return static_cast<int>(64 * i) + std::countr_zero(words_[i]);
}

int RankSet::last() const {
  std::size_t i = words_.size() - 1;
  while (words_[i] == 0) --i;
  return static_cast<int>(64 * i) + 63 - std::countl_zero(words_[i]);
}

void RankSet::add(const RankSet& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

std::uint64_t leaf_expression(int rank, std::int32_t chunk) {
  return combined_expression(static_cast<std::uint64_t>(rank) + 1, static_cast<std::uint64_t>(chunk) + 1);
}

std::uint64_t combined_expression(std::uint64_t left, std::uint64_t right) {
  std::uint64_t x = left * 0x9e3779b97f4a7c15u + (right ^ 0x632be59bd9b4e019u) * 0xc2b2ae3d27d4eb4fu;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

Memory::Memory(const Request& request, const Program& program, bool in_place)
    : request_(request), program_(program), in_place_(in_place) {
  Value empty;
  empty.contributions = RankSet(request.ranks);
  cells_.assign(static_cast<std::size_t>(program.input.chunks) + static_cast<std::size_t>(program.output.chunks) +
                    static_cast<std::size_t>(program.scratch_slots),
                empty);
  fill_inputs();
}

// Domain chunks are numbered through all ranks' inputs where each rank's is another part
// of the result (gathers, all_to_all), and through one input otherwise.
void Memory::fill_inputs() {
  const Collective collective = request_.collective;
  if (collective == Collective::barrier) return;
  const bool from_root = collective == Collective::broadcast || collective == Collective::scatter;
  if (from_root && program_.rank != request_.root) return;
  const bool own = gathers(collective) || collective == Collective::all_to_all;
  for (std::int32_t i = 0; i < program_.input.chunks; ++i) {
    Value& value = cells_[cell({Buffer::input, fixed(i)}, 0).value()];
    value.readable = true;
    value.chunk = own ? program_.rank * program_.input.chunks + i : i;
    value.contributions.insert(program_.rank);
    value.expression = leaf_expression(program_.rank, value.chunk);
  }
}

Result<std::size_t> Memory::cell(const Reference& reference, std::int32_t iteration, std::int32_t i) const {
  const std::int32_t chunk = reference.chunk.at(iteration) + i;
  const std::int32_t inputs = program_.input.chunks;
  const std::int32_t outputs = program_.output.chunks;
  const std::int32_t limit = reference.buffer == Buffer::input    ? inputs
                             : reference.buffer == Buffer::output ? outputs
                                                                  : program_.scratch_slots;
  if (reference.buffer == Buffer::none || reference.buffer == Buffer::posted || chunk < 0 || chunk >= limit) {
    return invalid_argument(fmt::format("chunk {} of buffer {} does not exist (it has {})", chunk,
                                        static_cast<int>(reference.buffer), limit));
  }
  if (reference.buffer == Buffer::scratch) return static_cast<std::size_t>(inputs + outputs + chunk);
  if (reference.buffer == Buffer::output) return output_cell(chunk);
  return in_place_ ? overlaid_input(chunk) : static_cast<std::size_t>(chunk);
}

// Where chunk `chunk` of the input lies when input and output overlap as the call permits.
std::size_t Memory::overlaid_input(std::int32_t chunk) const {
  const auto separate = static_cast<std::size_t>(chunk);
  const bool at_root = program_.rank == request_.root;
  switch (request_.collective) {
    case Collective::barrier:
    case Collective::all_to_all:  // Has no form in place.
      return separate;
    case Collective::gather:
      if (!at_root) return separate;
      [[fallthrough]];
    case Collective::all_gather:  // The input is part `rank` of the output.
      return output_cell(program_.rank * program_.input.chunks + chunk);
    case Collective::scatter:
      if (!at_root) return separate;
      [[fallthrough]];
    case Collective::reduce_scatter: {  // The output is part `rank` of the input.
      const std::int32_t first = program_.rank * program_.output.chunks;
      return chunk >= first && chunk < first + program_.output.chunks ? output_cell(chunk - first) : separate;
    }
    default:
      return output_cell(chunk);
  }
}

std::size_t Memory::output_cell(std::int32_t i) const {
  return static_cast<std::size_t>(program_.input.chunks + i);
}

std::int64_t Memory::capacity(const Reference& reference, std::int32_t iteration, std::int32_t i) const {
  const std::int32_t chunk = reference.chunk.at(iteration) + i;
  if (reference.buffer == Buffer::input) return program_.input.part(chunk).size();
  if (reference.buffer == Buffer::output) return program_.output.part(chunk).size();
  return program_.scratch_as_partition ? program_.partition.part(chunk).size() : program_.slot_elements;
}

bool Memory::has_output() const {
  if (request_.collective == Collective::barrier) return false;
  const bool to_root = request_.collective == Collective::reduce || request_.collective == Collective::gather;
  return !to_root || program_.rank == request_.root;
}

std::int32_t Memory::output_domain_chunk(std::int32_t i) const {
  if (scatters(request_.collective)) return program_.rank * program_.output.chunks + i;
  if (request_.collective != Collective::all_to_all) return i;
  const std::int32_t part = program_.output.chunks / request_.ranks;  // Chunks of one rank's part.
  return (i / part) * program_.output.chunks + program_.rank * part + i % part;
}

RankSet Memory::required(std::int32_t domain_chunk) const {
  RankSet ranks(request_.ranks);
  if (request_.collective == Collective::broadcast || request_.collective == Collective::scatter) {
    ranks.insert(request_.root);
  } else if (gathers(request_.collective) || request_.collective == Collective::all_to_all) {
    const std::int32_t owner = domain_chunk / program_.input.chunks;
    if (owner < request_.ranks) ranks.insert(owner);
  } else {
    for (int rank = 0; rank < request_.ranks; ++rank) ranks.insert(rank);
  }
  return ranks;
}

Status Memory::check_outputs() const {
  if (!has_output()) return {};
  for (std::int32_t i = 0; i < program_.output.chunks; ++i) {
    const Value& value = cells_[output_cell(i)];
    const std::int32_t domain = output_domain_chunk(i);
    const std::string where = fmt::format("rank {}, output chunk {}", program_.rank, i);
    if (!value.readable) return invalid_argument(where + ": was never written");
    if (value.chunk != domain) {
      return invalid_argument(
          fmt::format("{}: holds chunk {} of the input, expected chunk {}", where, value.chunk, domain));
    }
    const RankSet expected = required(domain);
    if (value.contributions != expected) {
      return invalid_argument(fmt::format("{}: holds contributions of {} ranks, not of the {} expected", where,
                                          value.contributions.size(), expected.size()));
    }
    if (value.finished != reduces(request_.collective)) {
      return invalid_argument(where +
                              (value.finished ? ": was finished though nothing is reduced" : ": was never finished"));
    }
  }
  return {};
}

}  // namespace trireme::plan
