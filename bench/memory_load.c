/* SPDX-License-Identifier: MIT */
/*
 * memory_load - a put from memory over one connection to the local daemon, for measuring.
 *
 *   memory_load SOCKET NODE STORE PATH BYTES DAEMON buffer|plain
 *
 * buffer: from pages that the daemon maps, which are made, filled and put from once (a small part)
 * before the clock starts. plain: from other memory, as it is put without a buffer of one's own.
 * DAEMON is the process of the local daemon. Prints seconds, GB/s, the CPU seconds of this process,
 * and how many MiB the put took beside the bytes themselves, in this process and in the daemon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/clock.h"
#include "client/lib/fmove.h"

#define WARM_BYTES (1u << 20)

static const struct fmove_options opts = {
	.struct_size = sizeof(opts), .may_replace = true, .durability = FMOVE_MEMORY};
static struct fmove *conn;
static struct fmove_name name;

static void die(const char *what)
{
	fprintf(stderr, "memory_load: %s\n", what);
	exit(1);
}

/* KiB of that key of the process. */
static long status_of(const char *pid, const char *key)
{
	char path[64], line[256];
	long kib = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
	f = fopen(path, "re");
	while (f && kib < 0 && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtol(line + strlen(key), NULL, 10);
	if (!f || kib < 0)
		die("no such process");
	(void)fclose(f);
	return kib;
}

/* What a process has of its own: not the pages of a buffer, but the tables that map them. */
static long own_of(const char *pid)
{
	return status_of(pid, "RssAnon:") + status_of(pid, "VmPTE:");
}

static void fill(char *at, size_t bytes)
{
	for (size_t i = 0; i + sizeof(long) <= bytes; i += sizeof(long)) {
		long number = (long)(i * 0x9e3779b97f4a7c15ul);

		memcpy(at + i, &number, sizeof(number));
	}
}

static void put(struct fmove_buffer *b, const char *plain, size_t bytes)
{
	const struct fmove_part part = {b, 0, bytes};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	int ret = b ? fmove_put_buffer(conn, &part, &name, &opts, &result, &err)
		    : fmove_put_memory(conn, plain, bytes, &name, &opts, &result, &err);

	if (ret < 0)
		die(err.text);
}

int main(int argc, char **argv)
{
	struct fmove_buffer *b = NULL;
	double start, cpu, seconds;
	struct fmove_error err;
	long daemon, peak;
	char *plain;
	size_t bytes;

	if (argc != 8) {
		fprintf(stderr, "usage: memory_load SOCKET NODE STORE PATH BYTES DAEMON "
				"buffer|plain\n");
		return 2;
	}
	name = (struct fmove_name){argv[2], argv[3], argv[4]};
	bytes = strtoull(argv[5], NULL, 0);
	if (fmove_connect(argv[1], &conn, &err) < 0)
		die(err.text);
	daemon = own_of(argv[6]);
	if (strcmp(argv[7], "buffer") == 0 && fmove_buffer_alloc(conn, bytes, &b, &err) < 0)
		die(err.text);
	plain = b ? fmove_buffer_memory(b) : malloc(bytes);
	if (!plain)
		die("no memory");
	fill(plain, bytes);
	put(b, plain, WARM_BYTES < bytes ? WARM_BYTES : bytes);
	peak = status_of("self", "VmRSS:");
	start = now(CLOCK_MONOTONIC);
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	put(b, plain, bytes);
	seconds = now(CLOCK_MONOTONIC) - start;
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	peak = status_of("self", "VmHWM:") - peak + own_of(argv[6]) - daemon;
	printf("%.6f %.4f %.3f %.1f\n", seconds, (double)bytes / seconds / 1e9, cpu,
	       (double)peak / 1024);
	fmove_buffer_free(b);
	fmove_close(conn);
	return 0;
}
