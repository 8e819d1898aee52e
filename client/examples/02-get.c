/* SPDX-License-Identifier: MIT */
/*
 * 02-get - receive a file into one that is not there yet, and show how far it is: ./02-get NODE
 * STORE PATH FILE
 *
 * The file has its own name from the start here. A program whose files are read by others gives it
 * another name, and renames it after fmove_get() said 0.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <fmove.h>

static void progress(void *ctx, const struct fmove_progress *p)
{
	(void)ctx;
	fprintf(stderr, "%s: %" PRIu64 " bytes\n", p->state, p->bytes);
}

int main(int argc, char **argv)
{
	struct fmove_options options = {
		.struct_size = sizeof(options), .progress_ms = 500, .progress = progress};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	struct fmove_name from;
	struct fmove *c;
	int fd, ret;

	if (argc != 5) {
		fprintf(stderr, "usage: %s NODE STORE PATH FILE\n", argv[0]);
		return 2;
	}
	fd = open(argv[4], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		perror(argv[4]);
		return 1;
	}
	from = (struct fmove_name){ .node = argv[1], .store = argv[2], .path = argv[3] };
	ret = fmove_connect(NULL, &c, &err);
	if (ret == 0) {
		ret = fmove_get(c, fd, &from, &options, &result, &err);
		fmove_close(c);
	}
	close(fd);
	if (ret < 0) {
		unlink(argv[4]);
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return err.exit;
	}
	printf("%" PRIu64 " bytes, %.1f MB/s over %s, CRC32C %08" PRIx32 "\n", result.bytes,
	       1000 * result.gb_per_s, result.transport, result.crc32c);
	return 0;
}
