// The JSON form of a topology, version 1 (docs/formats/topology.md).
#include <trireme/topology/topology.h>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kFormat = "trireme-topology/1";

// The enumerator whose name is `name`, searched over all values of the enumeration.
template <typename Enum>
Result<Enum> parse_name(const Json& object, const char* field, int count) {
  const auto name = object.at(field).get<std::string>();
  std::string known;
  for (int value = 0; value < count; ++value) {
    const auto candidate = static_cast<Enum>(value);
    if (to_string(candidate) == name) return candidate;
    known += (known.empty() ? "" : ", ") + std::string(to_string(candidate));
  }
  return invalid_argument("topology: unknown " + std::string(field) + " '" + name + "'; expected one of " + known);
}

Result<Vertex> parse_vertex(const Json& object) {
  Vertex vertex;
  vertex.id = object.at("id").get<int>();
  vertex.parent = object.at("parent").get<int>();
  TRIREME_ASSIGN_OR_RETURN(vertex.kind, parse_name<VertexKind>(object, "kind", kVertexKindCount));
  vertex.name = object.at("name").get<std::string>();
  vertex.os_index = object.value("os_index", -1);
  vertex.memory_bytes = object.value("memory_bytes", std::uint64_t{0});
  vertex.detail = object.value("detail", std::string());
  return vertex;
}

Result<Link> parse_link(const Json& object) {
  Link link;
  link.a = object.at("a").get<int>();
  link.b = object.at("b").get<int>();
  TRIREME_ASSIGN_OR_RETURN(link.kind, parse_name<LinkKind>(object, "kind", kLinkKindCount));
  link.bytes_per_second = object.value("bytes_per_second", 0.0);
  link.latency_us = object.value("latency_us", 0.0);
  TRIREME_ASSIGN_OR_RETURN(link.source, parse_name<FigureSource>(object, "source", 4));
  link.lanes = object.value("lanes", 1);
  link.one_way = object.value("one_way", false);
  link.detail = object.value("detail", std::string());
  return link;
}

Result<DescribedNetwork> parse_network(const Json& object) {
  DescribedNetwork network;
  network.ranks_per_host = object.at("ranks_per_host").get<int>();
  network.message_us = object.value("message_us", 0.0);
  network.work_bytes_per_second = object.value("work_bytes_per_second", 0.0);
  for (const Json& item : object.at("levels")) {
    NetworkLevel level;
    level.name = item.at("name").get<std::string>();
    TRIREME_ASSIGN_OR_RETURN(level.kind, parse_name<LinkKind>(item, "kind", kLinkKindCount));
    level.reaches = item.value("reaches", 0);
    level.rails = item.value("rails", 1);
    level.shared_by = item.value("shared_by", 1);
    level.bytes_per_second = item.at("bytes_per_second").get<double>();
    level.latency_us = item.value("latency_us", 0.0);
    level.block_bytes_per_second = item.value("block_bytes_per_second", 0.0);
    network.levels.push_back(std::move(level));
  }
  return network;
}

Result<Topology> parse_document(const Json& document) {
  const auto format = document.at("format").get<std::string>();
  if (format != kFormat) {
    return invalid_argument("topology: format is '" + format + "'; this version reads '" + std::string(kFormat) + "'");
  }
  Topology topology;
  for (const Json& object : document.at("vertices")) {
    TRIREME_ASSIGN_OR_RETURN(Vertex vertex, parse_vertex(object));
    topology.vertices.push_back(std::move(vertex));
  }
  for (const Json& object : document.at("links")) {
    TRIREME_ASSIGN_OR_RETURN(const Link link, parse_link(object));
    topology.links.push_back(link);
  }
  if (document.contains("network")) {
    TRIREME_ASSIGN_OR_RETURN(topology.network, parse_network(document.at("network")));
  }
  TRIREME_RETURN_IF_ERROR(topology.check());
  return topology;
}

Json link_to_json(const Link& link) {
  Json object = {{"a", link.a},
                 {"b", link.b},
                 {"kind", to_string(link.kind)},
                 {"bytes_per_second", link.bytes_per_second},
                 {"latency_us", link.latency_us},
                 {"source", to_string(link.source)}};
  if (link.lanes != 1) object["lanes"] = link.lanes;
  if (link.one_way) object["one_way"] = true;
  if (!link.detail.empty()) object["detail"] = link.detail;
  return object;
}

Json network_to_json(const DescribedNetwork& network) {
  Json object = {{"ranks_per_host", network.ranks_per_host},
                 {"message_us", network.message_us},
                 {"work_bytes_per_second", network.work_bytes_per_second},
                 {"levels", Json::array()}};
  for (const NetworkLevel& level : network.levels) {
    Json item = {{"name", level.name},
                 {"kind", to_string(level.kind)},
                 {"reaches", level.reaches},
                 {"rails", level.rails},
                 {"shared_by", level.shared_by},
                 {"bytes_per_second", level.bytes_per_second},
                 {"latency_us", level.latency_us}};
    if (level.block_bytes_per_second > 0) item["block_bytes_per_second"] = level.block_bytes_per_second;
    object["levels"].push_back(std::move(item));
  }
  return object;
}

}  // namespace

std::string topology_to_json(const Topology& topology) {
  Json document = {{"format", kFormat}, {"vertices", Json::array()}, {"links", Json::array()}};
  for (const Vertex& vertex : topology.vertices) {
    Json object = {
        {"id", vertex.id}, {"parent", vertex.parent}, {"kind", to_string(vertex.kind)}, {"name", vertex.name}};
    if (vertex.os_index >= 0) object["os_index"] = vertex.os_index;
    if (vertex.memory_bytes > 0) object["memory_bytes"] = vertex.memory_bytes;
    if (!vertex.detail.empty()) object["detail"] = vertex.detail;
    document["vertices"].push_back(std::move(object));
  }
  for (const Link& link : topology.links) document["links"].push_back(link_to_json(link));
  if (topology.network) document["network"] = network_to_json(*topology.network);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Topology> topology_from_json(std::string_view text) {
  try {
    return parse_document(Json::parse(text));
  } catch (const Json::exception& error) {
    return invalid_argument(std::string("topology: not the JSON this version reads: ") + error.what());
  }
}

}  // namespace trireme
