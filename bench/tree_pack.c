/* SPDX-License-Identifier: MIT */
/*
 * tree_pack - the source end of a tree alone: walk a directory and make packs of it, which nobody
 * takes.
 *
 *   tree_pack DIRECTORY [CHUNK_BYTES [THREADS [offer]]]
 *
 * Prints seconds, CPU seconds, files, bytes and packs. Large files are found, and not read.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "mover/tree/pack.h"
#include "mover/tree/tree.h"

#define THREADS_MAX 64

static struct fm_tree *tree;
static size_t chunk = 1u << 20;
static atomic_ullong next_seq, bytes;

static void die(const struct fm_err *err)
{
	fprintf(stderr, "tree_pack: %s\n", err->text);
	exit(1);
}

static void drop_larges(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct fm_tree_large large;

	pthread_mutex_lock(&lock);
	while (tree->ops->next_large(tree, &large) > 0)
		close(large.fd);
	pthread_mutex_unlock(&lock);
}

/* The far end has made it; of what it was offered it wants nothing. */
static void answer(uint64_t seq, const uint8_t *pack, size_t len)
{
	static const uint8_t none[FM_TREE_OFFERS_MAX / 8];
	struct fm_pack_reader r;
	struct fm_err err;

	if (fm_pack_open(&r, pack, len) == 0 && (r.flags & FM_PACK_OFFER) != 0 &&
	    tree->ops->need(tree, seq, none, r.count, &err) < 0)
		die(&err);
	tree->ops->acked(tree, seq);
}

static void *fill_packs(void *arg)
{
	uint8_t *buf = aligned_alloc(4096, chunk);
	struct fm_err err;
	int64_t n;

	(void)arg;
	for (uint64_t seq = next_seq++;;) {
		n = tree->ops->fill(tree, seq, buf, chunk, &err);
		if (n == -EAGAIN) {
			drop_larges();
			continue;
		}
		if (n <= 0)
			break;
		answer(seq, buf, (size_t)n);
		bytes += (unsigned long long)n;
		seq = next_seq++;
	}
	if (n < 0)
		die(&err);
	free(buf);
	return NULL;
}

static double seconds_of(const struct timeval *tv)
{
	return (double)tv->tv_sec + (double)tv->tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 4;
	struct fm_tree_source_opts opts = {.is_offering =
						   argc > 4 && strcmp(argv[4], "offer") == 0};
	pthread_t ids[THREADS_MAX];
	struct fm_tree_count count;
	struct timespec from, to;
	struct rusage used;
	struct fm_err err;

	if (argc > 2)
		chunk = strtoul(argv[2], NULL, 10);
	if (argc < 2 || chunk % 4096 != 0 || chunk == 0 || threads == 0 || threads > THREADS_MAX) {
		fprintf(stderr, "usage: tree_pack DIRECTORY [CHUNK_BYTES [THREADS [offer]]]\n");
		return 2;
	}
	opts.root = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (opts.root < 0) {
		perror(argv[1]);
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &from);
	if (fm_tree_source_new(&opts, &tree, &err) < 0)
		die(&err);
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, fill_packs, NULL) != 0)
			abort();
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &to);
	drop_larges();
	tree->ops->count(tree, &count);
	tree->ops->close(tree);
	getrusage(RUSAGE_SELF, &used);
	printf("%.3f s, CPU %.3f s, %llu files, %llu bytes in packs, %llu numbers\n",
	       (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9,
	       seconds_of(&used.ru_utime) + seconds_of(&used.ru_stime),
	       (unsigned long long)count.files, bytes, next_seq);
	return 0;
}
