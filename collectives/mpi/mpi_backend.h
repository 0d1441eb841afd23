// Backend "mpi": the ranks of MPI_COMM_WORLD, over the adapter libtrireme_mpi.so.
//
// The adapter lies in lib/trireme beside this library or program (or in the folder that
// TRIREME_BACKEND_FOLDER names) and is loaded with global symbols, as Open MPI needs for its
// own plug-ins. Ranks must have been started by an MPI launcher, one rank a process, and
// MPI must number them as the World does.
// Reduces f64, f32 and integers with sum, product, min and max; moves every type; up to
// 2^31 - 1 elements a call.
#pragma once

#include "collectives/backend/backend.h"

namespace trireme {

// Errors: unavailable when there is no adapter, no MPI library or no MPI launcher;
// unsupported when ranks are threads; mismatch when MPI and World number ranks differently.
BackendResult make_mpi_backend(const std::shared_ptr<World>& world);

}  // namespace trireme
