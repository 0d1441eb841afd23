/* What all_reduce_perf times, by MPI_Allreduce (f32 sum, in place and out of place):
   mpi_all_reduce SMALLEST LARGEST FACTOR ITERATIONS WARM_UPS REWRITE PIN
   Prints "bytes in_place microseconds" lines. With REWRITE 1 the inputs are written and the outputs
   read before each iteration, and times are medians; else they are means of all iterations. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static volatile float sink;

static void refresh(float* in, const float* out, long count) {
  float sum = 0;
  for (long i = 0; i < count; ++i) sum += out[i];
  sink = sum;
  for (long i = 0; i < count; ++i) in[i] = (float)(i & 1023);
}

static void pass(float* in, float* out, long count) {
  MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double measure(float* in, float* out, long count, int iterations, int warm_ups, int rewrite, int ranks) {
  double* times = malloc((size_t)iterations * sizeof *times);
  int timed = rewrite ? iterations : 1;
  for (int i = 0; i < warm_ups; ++i) pass(in, out, count);
  if (!rewrite) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) pass(in, out, count);
    times[0] = (MPI_Wtime() - begun) / iterations;
  }
  for (int i = 0; rewrite && i < iterations; ++i) {
    refresh(in, out, count);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    pass(in, out, count);
    times[i] = MPI_Wtime() - begun;
  }
  MPI_Allreduce(MPI_IN_PLACE, times, timed, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  qsort(times, (size_t)timed, sizeof *times, by_value);
  const double median = times[timed / 2] / ranks * 1e6;
  free(times);
  return median;
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 8) MPI_Abort(MPI_COMM_WORLD, 2);
  const long largest = atol(argv[2]);
  if (atoi(argv[7])) {
    cpu_set_t allowed, mine;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&mine);
    int wanted = rank % CPU_COUNT(&allowed), cpu = -1;
    while (wanted >= 0) wanted -= CPU_ISSET(++cpu, &allowed) ? 1 : 0;
    CPU_SET(cpu, &mine);
    sched_setaffinity(0, sizeof mine, &mine);
  }
  float* in = aligned_alloc(4096, (size_t)(largest + 4095) / 4096 * 4096);
  float* out = aligned_alloc(4096, (size_t)(largest + 4095) / 4096 * 4096);
  for (long i = 0; i < largest / 4; ++i) in[i] = out[i] = 1;
  for (long bytes = atol(argv[1]); bytes <= largest; bytes *= atol(argv[3])) {
    for (int in_place = 0; in_place < 2; ++in_place) {
      const double us = measure(in, in_place ? in : out, bytes / 4, atoi(argv[4]), atoi(argv[5]), atoi(argv[6]), ranks);
      if (rank == 0) printf("%ld %d %.3f\n", bytes, in_place, us);
      for (long i = 0; i < bytes / 4; ++i) in[i] = 1; /* Sums in place grow without bound. */
    }
  }
  MPI_Finalize();
  return 0;
}
