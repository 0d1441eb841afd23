/* The same two measurements as tcp_hosts_rank, by MPI: mpi_pair latency|bandwidth BYTES SECONDS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double ping_pong(int rank, char* data, int bytes, double seconds) {
  size_t count = 0, room = 1 << 20;
  double* rounds = malloc(room * sizeof *rounds);
  const double start = MPI_Wtime();
  int go_on = 1;
  while (go_on && count < room) {
    const double began = MPI_Wtime();
    for (int side = 0; side < 2; ++side) {
      if (rank == side)
        MPI_Send(data, bytes, MPI_CHAR, 1 - side, 0, MPI_COMM_WORLD);
      else
        MPI_Recv(data, bytes, MPI_CHAR, side, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    rounds[count++] = MPI_Wtime() - began;
    if (count % 1000 != 0) continue;
    go_on = MPI_Wtime() - start < seconds;
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  qsort(rounds, count, sizeof *rounds, by_value);
  return rounds[count / 2] * 1e6 / 2;
}

enum { kWindow = 4 };

static double stream(int rank, int bytes, double seconds) {
  char* data[kWindow];
  for (int i = 0; i < kWindow; ++i) data[i] = calloc(1, (size_t)bytes);
  for (double messages = kWindow;;) {
    char byte = 0;
    MPI_Request requests[kWindow];
    for (int i = 0; i < kWindow; ++i) requests[i] = MPI_REQUEST_NULL;
    const double start = MPI_Wtime();
    for (long i = 0; i < (long)messages; ++i) {
      MPI_Request* request = &requests[i % kWindow];
      MPI_Wait(request, MPI_STATUS_IGNORE);
      if (rank == 0)
        MPI_Isend(data[i % kWindow], bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, request);
      else
        MPI_Irecv(data[i % kWindow], bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, request);
    }
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    if (rank == 1)
      MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    else
      MPI_Recv(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double took = MPI_Wtime() - start;
    const double gbit_s = (double)(long)messages * bytes * 8 / took / 1e9;
    double next = took >= seconds ? 0 : messages * seconds / took * 1.1 + 1;
    MPI_Bcast(&next, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (next == 0) return gbit_s;
    messages = next;
  }
}

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const int bytes = atoi(argv[2]);
  char* data = malloc((size_t)bytes + 1);
  memset(data, 'x', (size_t)bytes + 1);
  const double seconds = atof(argv[3]);
  const double result =
      strcmp(argv[1], "latency") == 0 ? ping_pong(rank, data, bytes, seconds) : stream(rank, bytes, seconds);
  if (rank == 0) printf("%.4f\n", result);
  MPI_Finalize();
  return 0;
}
