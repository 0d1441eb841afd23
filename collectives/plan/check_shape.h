// The static part of check_plan: as many programs as ranks, layouts that fit the request,
// loops and rounds that lie within their lists.
#pragma once

#include <trireme/base/status.h>

#include "collectives/plan/api/plan.h"

namespace trireme::plan {

// Errors: invalid_argument naming the program.
Status check_shape(const Plan& plan);

}  // namespace trireme::plan
