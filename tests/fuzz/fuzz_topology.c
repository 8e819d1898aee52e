/* SPDX-License-Identifier: MIT */
/*
 * fuzz_topology - any bytes as a document of a topology that somebody sent.
 *
 * What was accepted is the same when written and read again, and every drawing takes it.
 * links: fm_cli
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/topology/topology.h"
#include "mover/base/err.h"

#define WRITTEN_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_written(const struct fm_topology *t)
{
	static char first[WRITTEN_MAX], second[WRITTEN_MAX];
	struct fm_topology *again;
	struct fm_err err;
	int len = fm_topology_write(t, first, sizeof(first));

	check(len > 0 && (size_t)len == strlen(first));
	if ((size_t)len > FM_TOPOLOGY_BYTES_MAX)
		return; /* what was short is longer with every key */
	check(fm_topology_parse(first, (size_t)len, &again, &err) == 0);
	check(fm_topology_write(again, second, sizeof(second)) == len &&
	      memcmp(first, second, (size_t)len) == 0);
	free(again);
}

static void check_drawn(const struct fm_topology *t)
{
	static void (*const draw[])(const struct fm_topology *t, FILE *out) = {
		fm_topology_draw, fm_topology_dot, fm_topology_nccl
	};

	for (size_t i = 0; i < sizeof(draw) / sizeof(draw[0]); i++) {
		char *text = NULL;
		size_t len = 0;
		FILE *out = open_memstream(&text, &len);

		check(out != NULL);
		draw[i](t, out);
		check(fclose(out) == 0);
		free(text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_topology *t;
	struct fm_err err;

	if (fm_topology_parse((const char *)data, size, &t, &err) < 0)
		return 0;
	check_written(t);
	check_drawn(t);
	free(t);
	return 0;
}
