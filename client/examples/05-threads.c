/* SPDX-License-Identifier: MIT */
/*
 * 05-threads - all threads of a program share one handle: ./05-threads NODE STORE PATH COUNT reads
 * the first eight bytes of a file in so many threads, and compares them.
 *
 * There may be more threads than the daemon gives connections. They wait for each other.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fmove.h>

struct reader {
	pthread_t thread;
	struct fmove *c; /* the same for all */
	const struct fmove_name *name;
	unsigned char bytes[8];
	struct fmove_error err;
	int ret;
};

static void *run(void *arg)
{
	static const struct fmove_range head = {.offset = 0, .length = 8};
	struct reader *r = arg;
	void *const to[] = {r->bytes};
	struct fmove_result result = {.struct_size = sizeof(result)};

	r->ret = fmove_read_ranges(r->c, r->name, &head, to, 1, NULL, &result, &r->err);
	return NULL;
}

static int check(const struct reader *r, const struct reader *first)
{
	if (r->ret < 0)
		fprintf(stderr, "%s\n", r->err.text);
	else if (memcmp(r->bytes, first->bytes, sizeof(r->bytes)) != 0)
		fprintf(stderr, "the file was changed\n");
	else
		return 0;
	return 1;
}

int main(int argc, char **argv)
{
	unsigned count = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0, started = 0;
	struct reader *readers = calloc(count + 1, sizeof(*readers));
	struct fmove_name name;
	struct fmove_error err;
	struct fmove *c;
	int ret = 0;

	if (count == 0 || !readers) {
		fprintf(stderr, "usage: %s NODE STORE PATH COUNT\n", argv[0]);
		return 2;
	}
	name = (struct fmove_name){.node = argv[1], .store = argv[2], .path = argv[3]};
	if (fmove_connect(NULL, &c, &err) < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return err.exit;
	}
	for (; started < count; started++) {
		readers[started].c = c;
		readers[started].name = &name;
		if (pthread_create(&readers[started].thread, NULL, run, &readers[started]) != 0)
			break;
	}
	for (unsigned i = 0; i < started; i++) {
		pthread_join(readers[i].thread, NULL);
		ret |= check(&readers[i], &readers[0]);
	}
	fmove_close(c);
	free(readers);
	printf("%u threads\n", started);
	return started < count ? 1 : ret;
}
