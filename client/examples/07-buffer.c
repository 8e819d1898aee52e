/* SPDX-License-Identifier: MIT */
/*
 * 07-buffer - put from memory that the daemon maps, twice, and receive it again: ./07-buffer NODE
 * STORE PATH
 *
 * What is kept in a buffer from one checkpoint to the next goes out without a copy.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <fmove.h>

#define BYTES 1000000u

/* The first half has what is put, the second half gets what comes. */
static int run(struct fmove *c, const struct fmove_name *name, struct fmove_error *err)
{
	struct fmove_options opts = {.struct_size = sizeof(opts), .may_replace = true};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_buffer *b;
	struct fmove_part half;
	char *at;
	int ret = fmove_buffer_alloc(c, 2 * BYTES, &b, err);

	if (ret < 0)
		return ret;
	at = fmove_buffer_memory(b);
	half = (struct fmove_part){.buffer = b, .length = BYTES};
	for (int step = 1; step <= 2 && ret == 0; step++) {
		memset(at, step, BYTES);
		ret = fmove_put_buffer(c, &half, name, &opts, &result, err);
	}
	half.offset = BYTES;
	if (ret == 0)
		ret = fmove_get_buffer(c, &half, name, NULL, &result, err);
	if (ret == 0)
		printf("%" PRIu64 " bytes came back, the first is %d\n", result.bytes, at[BYTES]);
	fmove_buffer_free(b);
	return ret;
}

int main(int argc, char **argv)
{
	struct fmove_name name;
	struct fmove_error err;
	struct fmove *c;
	int ret;

	if (argc != 4) {
		fprintf(stderr, "usage: %s NODE STORE PATH\n", argv[0]);
		return 2;
	}
	name = (struct fmove_name){.node = argv[1], .store = argv[2], .path = argv[3]};
	ret = fmove_connect(NULL, &c, &err);
	if (ret == 0) {
		ret = run(c, &name, &err);
		fmove_close(c);
	}
	if (ret < 0)
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
	return ret < 0 ? err.exit : 0;
}
