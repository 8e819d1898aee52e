/* SPDX-License-Identifier: MIT */
/*
 * 01-put - the shortest program that sends a file to another node: cc 01-put.c -lfmove && ./a.out
 * FILE NODE STORE PATH
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <fmove.h>

int main(int argc, char **argv)
{
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	struct fmove_name to;
	struct fmove *c;
	int fd, ret;

	if (argc != 5) {
		fprintf(stderr, "usage: %s FILE NODE STORE PATH\n", argv[0]);
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	to = (struct fmove_name){ .node = argv[2], .store = argv[3], .path = argv[4] };
	ret = fmove_connect(NULL, &c, &err);
	if (ret == 0) {
		ret = fmove_put(c, fd, &to, NULL, &result, &err);
		fmove_close(c);
	}
	close(fd);
	if (ret < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return err.exit;
	}
	printf("%" PRIu64 " bytes, %.1f MB/s over %s, CRC32C %08" PRIx32 "%s\n", result.bytes,
	       1000 * result.gb_per_s, result.transport, result.crc32c,
	       result.is_durable ? ", on disk" : "");
	return 0;
}
