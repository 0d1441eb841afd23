// Everything Trireme installs, in one include.
//
// A program that wants shorter compiles includes what it uses; the folder's name says
// which part of the runtime a header belongs to. Ranks and collectives alone:
// <trireme/rendezvous/world.h> and <trireme/collectives/communicator.h>.
// `tests/tidy/tidy.py --fix-umbrella` rewrites the list below.
#pragma once

#include <trireme/base/check.h>
#include <trireme/base/data_type.h>
#include <trireme/base/float_types.h>
#include <trireme/base/hash.h>
#include <trireme/base/partition.h>
#include <trireme/base/philox.h>
#include <trireme/base/status.h>
#include <trireme/base/units.h>
#include <trireme/base/wire.h>
#include <trireme/platform/clock.h>
#include <trireme/platform/environment.h>
#include <trireme/telemetry/log.h>
#include <trireme/topology/discover.h>
#include <trireme/topology/format.h>
#include <trireme/topology/job.h>
#include <trireme/topology/nccl_xml.h>
#include <trireme/topology/network.h>
#include <trireme/topology/roce_gid.h>
#include <trireme/topology/route.h>
#include <trireme/topology/topology.h>
#include <trireme/device/device.h>
#include <trireme/device/thread_pool.h>
#include <trireme/rendezvous/world.h>
#include <trireme/memory/arena.h>
#include <trireme/memory/shared_heap.h>
#include <trireme/tensor/shard_spec.h>
#include <trireme/tensor/tensor.h>
#include <trireme/kernels/cross_entropy.h>
#include <trireme/kernels/elementwise.h>
#include <trireme/kernels/kernel_choice.h>
#include <trireme/kernels/matmul.h>
#include <trireme/kernels/reduce.h>
#include <trireme/kernels/transformer.h>
#include <trireme/collectives/backend.h>
#include <trireme/collectives/communicator.h>
#include <trireme/collectives/group.h>
#include <trireme/collectives/reduction.h>
#include <trireme/parallel/byte_corpus.h>
#include <trireme/parallel/containers.h>
#include <trireme/parallel/gradient_buckets.h>
#include <trireme/parallel/layers.h>
#include <trireme/parallel/learning_rate.h>
#include <trireme/parallel/loss_head.h>
#include <trireme/parallel/mesh.h>
#include <trireme/parallel/model.h>
#include <trireme/parallel/module.h>
#include <trireme/parallel/parameters.h>
#include <trireme/parallel/training_step.h>
#include <trireme/checkpoint/checkpointer.h>
#include <trireme/checkpoint/state.h>
