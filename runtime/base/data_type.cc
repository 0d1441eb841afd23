#include <trireme/base/data_type.h>

#include <array>
#include <string>

namespace trireme {
namespace {

struct TypeName {
  std::string_view name;
  DataType type;
};

// Our own name of each type comes first; the others are accepted spellings.
constexpr std::array kTypeNames = {TypeName{"f64", DataType::f64},         TypeName{"f32", DataType::f32},
                                   TypeName{"f16", DataType::f16},         TypeName{"bf16", DataType::bf16},
                                   TypeName{"f8_e4m3", DataType::f8_e4m3}, TypeName{"f8_e5m2", DataType::f8_e5m2},
                                   TypeName{"i8", DataType::i8},           TypeName{"u8", DataType::u8},
                                   TypeName{"i32", DataType::i32},         TypeName{"u32", DataType::u32},
                                   TypeName{"i64", DataType::i64},         TypeName{"u64", DataType::u64},
                                   TypeName{"bool", DataType::boolean},    TypeName{"double", DataType::f64},
                                   TypeName{"float64", DataType::f64},     TypeName{"float", DataType::f32},
                                   TypeName{"float32", DataType::f32},     TypeName{"half", DataType::f16},
                                   TypeName{"float16", DataType::f16},     TypeName{"bfloat16", DataType::bf16},
                                   TypeName{"fp8e4m3", DataType::f8_e4m3}, TypeName{"f8e4m3", DataType::f8_e4m3},
                                   TypeName{"fp8e5m2", DataType::f8_e5m2}, TypeName{"f8e5m2", DataType::f8_e5m2},
                                   TypeName{"int8", DataType::i8},         TypeName{"uint8", DataType::u8},
                                   TypeName{"int32", DataType::i32},       TypeName{"uint32", DataType::u32},
                                   TypeName{"int64", DataType::i64},       TypeName{"uint64", DataType::u64},
                                   TypeName{"int", DataType::i32},         TypeName{"char", DataType::i8}};

struct OpName {
  std::string_view name;
  ReduceOp op;
};

constexpr std::array kOpNames = {OpName{"sum", ReduceOp::sum},        OpName{"prod", ReduceOp::product},
                                 OpName{"min", ReduceOp::min},        OpName{"max", ReduceOp::max},
                                 OpName{"avg", ReduceOp::average},    OpName{"product", ReduceOp::product},
                                 OpName{"average", ReduceOp::average}};

template <typename Table>
std::string all_names(const Table& table) {
  std::string names;
  for (const auto& entry : table) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace

std::string_view to_string(DataType type) {
  return kTypeNames[static_cast<std::size_t>(type)].name;
}
std::string_view to_string(ReduceOp op) {
  return kOpNames[static_cast<std::size_t>(op)].name;
}

Result<DataType> parse_data_type(std::string_view name) {
  for (const TypeName& entry : kTypeNames) {
    if (entry.name == name) return entry.type;
  }
  return invalid_argument("unknown data type '" + std::string(name) + "'; use one of: " + all_names(kTypeNames));
}

Result<ReduceOp> parse_reduce_op(std::string_view name) {
  for (const OpName& entry : kOpNames) {
    if (entry.name == name) return entry.op;
  }
  return invalid_argument("unknown reduction '" + std::string(name) + "'; use one of: " + all_names(kOpNames));
}

}  // namespace trireme
