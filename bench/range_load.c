/* SPDX-License-Identifier: MIT */
/*
 * range_load - reads of ranges into memory over one connection to the local daemon, for measuring.
 *
 *   range_load SOCKET NODE STORE PATH SIZE COUNT BYTES
 *
 * With COUNT > 0 it reads COUNT ranges of BYTES at random offsets of a file of SIZE bytes into
 * memory of their own, by one call. With COUNT 0 it gets the whole file into as much memory. One
 * small read comes before the clock starts, so that session and leases are warm. Prints seconds,
 * GB/s, and the CPU seconds of this process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/clock.h"
#include "client/lib/fmove.h"

static struct fmove *conn;
static struct fmove_name name;

static void die(const char *what)
{
	fprintf(stderr, "range_load: %s\n", what);
	exit(1);
}

static char *memory(size_t bytes)
{
	char *at = malloc(bytes);

	if (!at)
		die("no memory");
	memset(at, 1, bytes);	/* so that its pages are there before the clock starts */
	return at;
}

static uint64_t read_ranges(char *to, uint64_t size, size_t count, uint64_t bytes)
{
	struct fmove_range *ranges = calloc(count, sizeof(*ranges));
	void **at = calloc(count, sizeof(*at));
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;

	if (!ranges || !at)
		die("no memory");
	for (size_t i = 0; i < count; i++) {
		ranges[i].offset = (uint64_t)random() * 4099 % (size - bytes + 1);
		ranges[i].length = bytes;
		at[i] = to + i * bytes;
	}
	if (fmove_read_ranges(conn, &name, ranges, at, count, NULL, &result, &err) < 0)
		die(err.text);
	free(ranges);
	free(at);
	return result.bytes;
}

/* Into a file in memory, and from there to where it is wanted: the same copy as of ranges. */
static uint64_t get_whole(char *to, uint64_t size)
{
	struct fmove_options opts = {.struct_size = sizeof(opts), .durability = FMOVE_MEMORY};
	int fd = memfd_create("range_load", MFD_CLOEXEC);
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	uint64_t got = 0;

	if (fd < 0 || fmove_get(conn, fd, &name, &opts, &result, &err) < 0)
		die(fd < 0 ? "no memory" : err.text);
	while (got < size) {
		ssize_t n = pread(fd, to + got, size - got, (off_t)got);

		if (n <= 0)
			die("cannot read memory");
		got += (uint64_t)n;
	}
	close(fd);
	return got;
}

int main(int argc, char **argv)
{
	double start, cpu, seconds;
	struct fmove_error err;
	uint64_t size, bytes;
	size_t count;
	char *to;

	if (argc != 8) {
		fprintf(stderr,
			"usage: range_load SOCKET NODE STORE PATH SIZE COUNT BYTES\n");
		return 2;
	}
	name = (struct fmove_name){argv[2], argv[3], argv[4]};
	size = strtoull(argv[5], NULL, 0);
	count = strtoull(argv[6], NULL, 0);
	bytes = strtoull(argv[7], NULL, 0);
	if (fmove_connect(argv[1], &conn, &err) < 0)
		die(err.text);
	if (bytes > size)
		die("BYTES is more than SIZE");
	to = memory(count > 0 ? count * bytes : size);
	(void)read_ranges(to, size, 1, bytes);
	start = now(CLOCK_MONOTONIC);
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	bytes = count > 0 ? read_ranges(to, size, count, bytes) : get_whole(to, size);
	seconds = now(CLOCK_MONOTONIC) - start;
	printf("%.6f %.4f %.3f\n", seconds, (double)bytes / seconds / 1e9,
	       now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	fmove_close(conn);
	free(to);
	return 0;
}
