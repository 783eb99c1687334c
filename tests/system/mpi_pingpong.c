/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_pingpong.c - the MPI program that test_mpi.py compiles and runs. Each rank prints a hello.
 * Rank 0 exchanges messages with each other rank. Then all ranks exchange data with all ranks. The
 * program compares every received byte; a wrong byte ends the job with status 1.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGEST (1 << 20)
#define ROUNDS  20
#define SHARE   50000 /* bytes from each rank to each other rank */

static const int sizes[] = { 0, 1, 33, 1000, 4096, 4097, 65536, LARGEST };

#define SIZES (sizeof sizes / sizeof sizes[0])

/* Returns the byte at @place of message @number from @rank. */
static uint8_t byte_of(int rank, int number, int place)
{
    uint32_t word = (uint32_t)place * 2654435761u + (uint32_t)number * 40503u + (uint32_t)rank;

    return (uint8_t)(word >> 16);
}

static void fill(uint8_t *at, int length, int rank, int number)
{
    for (int i = 0; i < length; i++)
        at[i] = byte_of(rank, number, i);
}

static void compare(const uint8_t *at, int length, int rank, int number)
{
    for (int i = 0; i < length; i++) {
        if (at[i] == byte_of(rank, number, i))
            continue;
        printf("message %d of rank %d is wrong at %d of %d\n", number, rank, i, length);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void send_to(int peer, uint8_t *memory, int size, int me, int number)
{
    fill(memory, size, me, number);
    MPI_Send(memory, size, MPI_BYTE, peer, number, MPI_COMM_WORLD);
}

static void receive_from(int peer, uint8_t *memory, int size, int number)
{
    MPI_Status status;
    int got;

    fill(memory, size, peer, number + 1);
    MPI_Recv(memory, LARGEST, MPI_BYTE, peer, number, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &got);
    if (got != size) {
        printf("message %d of rank %d has %d octets, not %d\n", number, peer, got, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    compare(memory, size, peer, number);
}

/* Runs one end of the exchange between rank 0 and another rank. */
static void ping_pong(int me, int peer, uint8_t *memory)
{
    int number = 0;

    for (unsigned s = 0; s < SIZES; s++) {
        for (int round = 0; round < ROUNDS; round++, number++) {
            if (me == 0)
                send_to(peer, memory, sizes[s], me, number);
            receive_from(peer, memory, sizes[s], number);
            if (me != 0)
                send_to(peer, memory, sizes[s], me, number);
        }
    }
    if (me == 0)
        printf("ping-pong with rank %d: %d messages each way, every octet right\n", peer, number);
}

/* Exchanges data between all ranks. The number of a message is the rank that it is for. */
static void all_to_all(int me, int ranks)
{
    uint8_t *out = malloc((size_t)ranks * SHARE), *in = calloc((size_t)ranks, SHARE);

    if (out == NULL || in == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int rank = 0; rank < ranks; rank++)
        fill(out + (size_t)rank * SHARE, SHARE, me, rank);
    MPI_Alltoall(out, SHARE, MPI_BYTE, in, SHARE, MPI_BYTE, MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; rank++)
        compare(in + (size_t)rank * SHARE, SHARE, rank, me);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    int me, ranks, one = 1, sum = 0;
    uint8_t *memory = malloc(LARGEST);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (memory == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    printf("hello from rank %d of %d\n", me, ranks);
    if (me != 0)
        ping_pong(me, 0, memory);
    for (int peer = 1; me == 0 && peer < ranks; peer++)
        ping_pong(me, peer, memory);
    all_to_all(me, ranks);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0)
        printf("all to all: %d ranks, every octet right\n", sum);
    MPI_Finalize();
    free(memory);
    return 0;
}
