/* SPDX-License-Identifier: MIT */
/*
 * read_ranges - reads ranges of n2:s/f into memory and compares them with FILE, which has the same
 * bytes: read_ranges FILE. For get_range.sh. Prints what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/lib/fmove.h"

#define COUNT 5000

static const struct fmove_name name = {"n2", "s", "f"};
static const unsigned char *file;
static size_t size;
static int failures;

static void wrong(const char *what, const struct fmove_error *err)
{
	printf("%s%s%s\n", what, err ? ": " : "", err ? err->text : "");
	failures++;
}

/* Ranges of every length; the first four are longer together than what is fetched at once. */
static void make(struct fmove_range *ranges, void **to)
{
	for (size_t i = 0; i < COUNT; i++) {
		ranges[i].length = i < 4 ? size : (size_t)rand() % 3000 * (i % 7 > 0);
		ranges[i].offset = (uint64_t)rand() % (size - ranges[i].length + 1);
		to[i] = malloc(ranges[i].length + 1);	/* of length 0, too */
		if (!to[i])
			abort();
		memset(to[i], 0xee, ranges[i].length + 1);
	}
}

static void compare(const struct fmove_range *ranges, void *const *to)
{
	for (size_t i = 0; i < COUNT; i++) {
		const unsigned char *at = to[i];

		if (memcmp(at, file + ranges[i].offset, ranges[i].length) != 0)
			wrong("a range is not what is in the file", NULL);
		if (at[ranges[i].length] != 0xee)
			wrong("written behind a range", NULL);
		free(to[i]);
	}
}

/* What was said last, and whether it ever went back. */
struct heard {
	uint64_t bytes;
	uint64_t size;
	bool went_back;
};

static void progress(void *ctx, const struct fmove_progress *p)
{
	struct heard *h = ctx;

	h->went_back |= p->bytes < h->bytes;
	h->bytes = p->bytes;
	h->size = p->size;
}

static void read_many(struct fmove *c)
{
	static struct fmove_range ranges[COUNT];
	static void *to[COUNT];
	struct heard heard = {0};
	struct fmove_options opts = {
		.struct_size = sizeof(opts), .progress_ms = 1, .progress = progress, .ctx = &heard};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	uint64_t bytes = 0;

	make(ranges, to);
	if (fmove_read_ranges(c, &name, ranges, to, COUNT, &opts, &result, &err) < 0)
		wrong("read", &err);
	for (size_t i = 0; i < COUNT; i++)
		bytes += ranges[i].length;
	if (failures == 0 && (result.bytes != bytes || !result.is_checked || !result.version[0]))
		wrong("the result is another", NULL);
	if (heard.bytes == 0 || heard.bytes > bytes || heard.size != bytes || heard.went_back)
		wrong("progress is not that of all of them", NULL);
	compare(ranges, to);
}

static void refused(struct fmove *c, const struct fmove_range *range, size_t count, int code)
{
	unsigned char byte[16];
	void *const to[] = {byte};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	int ret = fmove_read_ranges(c, &name, range, to, count, NULL, &result, &err);

	if (ret != code || err.code != code || !err.text[0])
		wrong("a range that cannot be had", &err);
}

static void read_badly(struct fmove *c)
{
	const struct fmove_range past = {size, 1}, open_end = {0, FMOVE_TO_END},
				 huge = {UINT64_MAX, 1}, behind = {size + 1, 0}, one = {0, 1};
	struct fmove_range many[FMOVE_RANGES_MAX + 1] = {{0, 0}};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	FILE *f = tmpfile();

	refused(c, &past, 1, -EINVAL);
	refused(c, &behind, 1, -EINVAL);
	refused(c, &open_end, 1, -EINVAL);
	refused(c, &huge, 1, -EINVAL);
	refused(c, &one, 0, -EINVAL);
	if (!f || fmove_get_ranges(c, fileno(f), &name, many, FMOVE_RANGES_MAX + 1, NULL, &result,
				   &err) != -E2BIG)
		wrong("too many ranges for a file", &err);
	if (f && fmove_get_ranges(c, -1, &name, many, 1, NULL, &result, &err) != -EBADF)
		wrong("no descriptor", &err);
	if (f)
		(void)fclose(f);
}

int main(int argc, char **argv)
{
	struct fmove_error err;
	struct stat st;
	struct fmove *c;
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0 || fstat(fd, &st) < 0 || fmove_connect(NULL, &c, &err) < 0)
		return 2;
	size = (size_t)st.st_size;
	file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		return 2;
	read_many(c);
	read_badly(c);
	fmove_close(c);
	return failures > 0;
}
