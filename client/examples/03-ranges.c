/* SPDX-License-Identifier: MIT */
/*
 * 03-ranges - read two parts of a file into memory, and print their checksum: ./03-ranges NODE
 * STORE PATH
 *
 * Ranges may overlap and have any order. There may be any number; each has its own memory.
 */
#include <inttypes.h>
#include <stdio.h>

#include <fmove.h>

int main(int argc, char **argv)
{
	static const struct fmove_range ranges[] = {{.offset = 0, .length = 8},
						    {.offset = 4000, .length = 100}};
	unsigned char head[8], part[100];
	void *const to[] = {head, part};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	struct fmove_name from;
	struct fmove *c;
	int ret;

	if (argc != 4) {
		fprintf(stderr, "usage: %s NODE STORE PATH\n", argv[0]);
		return 2;
	}
	from = (struct fmove_name){.node = argv[1], .store = argv[2], .path = argv[3]};
	ret = fmove_connect(NULL, &c, &err);
	if (ret == 0) {
		ret = fmove_read_ranges(c, &from, ranges, to, 2, NULL, &result, &err);
		fmove_close(c);
	}
	if (ret < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return err.exit;
	}
	printf("%" PRIu64 " bytes of version %s, CRC32C %08" PRIx32 "; the first is %02x\n",
	       result.bytes, result.version, result.crc32c, head[0]);
	return 0;
}
