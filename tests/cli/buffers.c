/* SPDX-License-Identifier: MIT */
/*
 * buffers - puts from memory, and gets into it, to and from n2:s; for buffers.sh, which starts it
 * for each step of its own:
 *
 *   buffers FILE moves		parts of FILE, of every kind of length and place
 *   buffers FILE freed		a buffer that is given back in the midst of a put to "freed"
 *   buffers FILE changed		bytes that change all the time
 *   buffers FILE wait PATH		puts once, says "ready", and again to "again" for each line
 *   buffers FILE share BYTES	takes buffers of so many bytes until no more are given
 *   buffers FILE hold BYTES		takes one, says "ready", and waits
 *   buffers FILE rdma		over RDMA: a put without a copy, of one that is then given back in
 *				the midst of it, of bytes that change; says "ready" while nothing of
 *				it is under way, and waits
 *
 * Prints what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/fmove.h"

#define HELD_MAX 64

static struct fmove *conn;
static const char *file;		/* what FILE has */
static size_t size;
static int failures;

static void wrong(const char *what, const struct fmove_error *err)
{
	printf("%s%s%s\n", what, err ? ": " : "", err ? err->text : "");
	failures++;
}

static struct fmove_name name_of(const char *path)
{
	return (struct fmove_name){"n2", "s", path};
}

static struct fmove_buffer *alloc(size_t bytes)
{
	struct fmove_buffer *b;
	struct fmove_error err;

	if (fmove_buffer_alloc(conn, bytes, &b, &err) == 0)
		return b;
	wrong("alloc", &err);
	exit(1);
}

static struct fmove_buffer *alloc_filled(void)
{
	struct fmove_buffer *b = alloc(size);

	memcpy(fmove_buffer_memory(b), file, size);
	return b;
}

/* ---- moves ---- */

/* direct: bytes that are to come without a copy. */
static void get_back(struct fmove_buffer *b, const char *path, const char *want, size_t len,
		     size_t direct)
{
	const struct fmove_name from = name_of(path);
	const struct fmove_part to = {b, 3, len + 5};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	char *at = fmove_buffer_memory(b);

	memset(at, 0xee, size + 8);
	if (fmove_get_buffer(conn, &to, &from, NULL, &result, &err) < 0)
		wrong("get", &err);
	else if (result.bytes != len || memcmp(at + 3, want, len) != 0)
		wrong("what came is another", NULL);
	else if (result.direct_bytes != direct)
		wrong("what was got was copied on its way, or not as it must be", NULL);
	if (at[2] != (char)0xee || at[3 + len] != (char)0xee)
		wrong("written beside its place", NULL);
}

static void move(struct fmove_buffer *from, struct fmove_buffer *to, size_t offset, size_t len)
{
	const struct fmove_part part = {from, offset, len};
	const struct fmove_options opts = {.struct_size = sizeof(opts), .may_replace = true};
	const struct fmove_name name = name_of("moved");
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;

	if (fmove_put_buffer(conn, &part, &name, &opts, &result, &err) < 0)
		wrong("put", &err);
	else if (result.bytes != len || !result.is_checked)
		wrong("the result of a put is another", NULL);
	else if (result.direct_bytes != len)
		wrong("what was put was copied on its way", NULL);
	get_back(to, "moved", file + offset, len, len);
}

static void move_memory(size_t len)
{
	const struct fmove_options opts = {.struct_size = sizeof(opts), .may_replace = true};
	const struct fmove_name name = name_of("memory");
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	char *to = malloc(len + 1), want[96];

	if (!to)
		abort();
	memset(to, 0xee, len + 1);
	if (fmove_put_memory(conn, file, len, &name, &opts, &result, &err) < 0)
		wrong("put memory", &err);
	if (fmove_get_memory(conn, to, len, &name, NULL, &result, &err) < 0)
		wrong("get memory", &err);
	if (memcmp(to, file, len) != 0 || to[len] != (char)0xee)
		wrong("memory that came is another", NULL);
	(void)snprintf(want, sizeof(want), "the file has %zu bytes, and there is room for %zu", len,
		       len - 1);
	if (len > 1 &&
	    (fmove_get_memory(conn, to, len - 1, &name, NULL, &result, &err) != -EFBIG ||
	     !strstr(err.text, want)))
		wrong("too little memory", &err);
	if (len > 0 && fmove_get_memory(conn, to, 0, &name, NULL, &result, &err) != -EFBIG)
		wrong("no memory", &err);
	free(to);
}

static void refused(const struct fmove_part *part, bool is_put, int code)
{
	const struct fmove_name name = name_of(is_put ? "refused" : "moved");
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	int ret = is_put ? fmove_put_buffer(conn, part, &name, NULL, &result, &err)
			 : fmove_get_buffer(conn, part, &name, NULL, &result, &err);

	if (ret != code || err.code != code || !err.text[0])
		wrong("a part that cannot be had", &err);
}

/* "moved" has all of FILE. */
static void too_large(const struct fmove_part *part)
{
	const struct fmove_name name = name_of("moved");
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	char want[96];

	(void)snprintf(want, sizeof(want), "the file has %zu bytes, the part of the buffer %zu",
		       size, part->length);
	if (fmove_get_buffer(conn, part, &name, NULL, &result, &err) != -EFBIG ||
	    !strstr(err.text, want))
		wrong("a file too large for its part", &err);
}

static void moves(void)
{
	struct fmove_buffer *from = alloc_filled(), *to = alloc(size + 8);
	const size_t lens[] = {0, 1, 4095, 4096, 65537, 1 << 20, 3000001};
	const struct fmove_part past = {from, size + 100000, 1};
	const struct fmove_part long_one = {from, 5, 2 * size}, small = {to, 0, 100};
	struct fmove_buffer *none;
	struct fmove_error err;

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		for (size_t offset = 0; offset < 9000; offset += 4095)
			move(from, to, offset, lens[i]);
	move(from, to, 0, size);
	if (fmove_buffer_alloc(conn, 0, &none, &err) != -EINVAL ||
	    fmove_buffer_alloc(conn, SIZE_MAX, &none, &err) != -ENOMEM)
		wrong("a buffer that cannot be", &err);
	refused(&past, true, -EINVAL);
	refused(&long_one, true, -EINVAL);
	refused(&long_one, false, -EINVAL);
	too_large(&small);
	fmove_buffer_free(from);
	fmove_buffer_free(to);
	move_memory(0);
	move_memory(7);
	move_memory(size);
}

/* ---- what a caller does meanwhile ---- */

struct putting {
	pthread_t thread;
	struct fmove_part part;
	const char *path;
	uint64_t rate;
	atomic_bool is_over;
	int ret;
	struct fmove_result result;
	struct fmove_error err;
	struct fmove *conn;
};

static atomic_bool is_copying;

static void progress(void *ctx, const struct fmove_progress *p)
{
	(void)ctx;
	if (p->bytes > 0)
		atomic_store(&is_copying, true);
}

static void *put(void *ctx)
{
	struct putting *p = ctx;
	const struct fmove_options opts = {.struct_size = sizeof(opts),
					   .rate_bytes = p->rate,
					   .progress_ms = 20,
					   .progress = progress,
					   .may_replace = true};
	const struct fmove_name name = name_of(p->path);

	p->result.struct_size = sizeof(p->result);
	p->ret = fmove_put_buffer(p->conn, &p->part, &name, &opts, &p->result, &p->err);
	atomic_store(&p->is_over, true);
	return NULL;
}

static void begin(struct putting *p, struct fmove_buffer *b, const char *path, uint64_t rate)
{
	*p = (struct putting){.part = {b, 0, size}, .path = path, .rate = rate};
	atomic_store(&is_copying, false);
	if (fmove_connect(NULL, &p->conn, &p->err) < 0 ||
	    pthread_create(&p->thread, NULL, put, p) != 0)
		abort();
}

static void end(struct putting *p)
{
	pthread_join(p->thread, NULL);
	fmove_close(p->conn);
}

/* Gives it back in the midst of its put. */
static void put_and_free(struct putting *p, struct fmove_buffer *b)
{
	begin(p, b, "freed", size / 2);
	while (!atomic_load(&is_copying) && !atomic_load(&p->is_over))
		usleep(10000);
	fmove_buffer_free(b);
	end(p);
	if (p->ret < 0)
		wrong("put of a buffer that is given back", &p->err);
}

static void freed(void)
{
	struct putting p;

	put_and_free(&p, alloc_filled());
}

/* Puts it until nothing was copied: the first time it is, while the daemon registers it. */
static void put_until_direct(struct fmove_buffer *b, const char *path)
{
	const struct fmove_part part = {b, 0, size};
	const struct fmove_options opts = {.struct_size = sizeof(opts),
					   .transport = FMOVE_RDMA,
					   .may_replace = true};
	const struct fmove_name name = name_of(path);
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;

	for (unsigned i = 0; i < 10000; i++) {
		if (fmove_put_buffer(conn, &part, &name, &opts, &result, &err) < 0) {
			wrong("put over RDMA", &err);
			return;
		}
		if (result.bytes != size || !result.is_checked ||
		    strcmp(result.transport, "rdma") != 0)
			wrong("the result of a put over RDMA is another", NULL);
		if (result.direct_bytes == size)
			return;
		usleep(20000);
	}
	wrong("each put over RDMA was copied", NULL);
}

/* Its chunks change between their CRC and the wire; who does that gets what he deserves, and no
 * more. */
static void changed(bool is_rdma)
{
	struct fmove_buffer *b = alloc_filled();
	char *at = fmove_buffer_memory(b);
	unsigned corrupt = 0;

	if (is_rdma)
		put_until_direct(b, "changed");
	for (unsigned i = 0; i < 200 && corrupt == 0; i++) {
		struct putting p;
		unsigned n = i;

		begin(&p, b, "changed", 0);
		while (!atomic_load(&p.is_over))
			for (size_t k = 0; k < size; k += 4096)
				at[k] = (char)n++;
		end(&p);
		if (p.ret < 0 && p.ret != -EBADMSG && p.ret != -ESTALE)
			wrong("put of bytes that change", &p.err);
		corrupt += p.ret < 0 || p.result.corrupt_chunks > 0;
	}
	if (corrupt == 0)
		wrong("nobody noticed that bytes change", NULL);
	memcpy(at, file, size);
	fmove_buffer_free(b);
}

/* ---- what buffers.sh does meanwhile ---- */

static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* ---- over RDMA, for the lab ---- */

static void over_rdma(void)
{
	struct fmove_buffer *b = alloc_filled(), *to = alloc(size + 8);
	struct putting p;
	char line[16];

	put_until_direct(b, "direct");
	get_back(to, "direct", file, size, 0);
	fmove_buffer_free(to);
	say_ready();
	(void)!fgets(line, sizeof(line), stdin);
	put_and_free(&p, b);
	if (p.ret >= 0 && p.result.direct_bytes != size)
		wrong("what was given back was copied", NULL);
	changed(true);
}

static void put_once(struct fmove_buffer *b, const char *path)
{
	const struct fmove_part part = {b, 0, size};
	const struct fmove_options opts = {
		.struct_size = sizeof(opts), .may_replace = true, .retry_ms = 60000};
	const struct fmove_name name = name_of(path);
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;

	if (fmove_put_buffer(conn, &part, &name, &opts, &result, &err) < 0)
		wrong("put", &err);
}

static void wait_and_put(const char *path)
{
	struct fmove_buffer *b = alloc_filled(), *to = alloc(size + 8);
	char line[16];

	put_once(b, path);
	say_ready();
	while (fgets(line, sizeof(line), stdin)) {
		put_once(b, "again");
		get_back(to, "again", file, size, 0);	/* another daemon cannot map it */
		say_ready();
	}
	fmove_buffer_free(b);
	fmove_buffer_free(to);
}

static void share(size_t bytes)
{
	struct fmove_buffer *held[HELD_MAX];
	struct fmove_error err = {.code = 0};
	unsigned count = 0;

	while (count < HELD_MAX && fmove_buffer_alloc(conn, bytes, &held[count], &err) == 0)
		count++;
	if (count == 0 || count == HELD_MAX || err.code != -EBUSY || !err.is_full ||
	    !strstr(err.text, "memory.buffers"))
		wrong("the limit", &err);
	move_memory(size);	/* as a file */
	printf("%u\n", count);
	while (count > 0)
		fmove_buffer_free(held[--count]);
}

static void hold(size_t bytes)
{
	struct fmove_buffer *b = alloc(bytes);
	char line[16];

	say_ready();
	(void)!fgets(line, sizeof(line), stdin);
	fmove_buffer_free(b);
}

int main(int argc, char **argv)
{
	const char *step = argc > 2 ? argv[2] : "", *what = argc > 3 ? argv[3] : "0";
	struct fmove_error err;
	struct stat st;
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0 || fstat(fd, &st) < 0 || fmove_connect(NULL, &conn, &err) < 0)
		return 2;
	size = (size_t)st.st_size;
	file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		return 2;
	if (strcmp(step, "moves") == 0)
		moves();
	else if (strcmp(step, "freed") == 0)
		freed();
	else if (strcmp(step, "changed") == 0)
		changed(false);
	else if (strcmp(step, "wait") == 0)
		wait_and_put(what);
	else if (strcmp(step, "share") == 0)
		share(strtoull(what, NULL, 0));
	else if (strcmp(step, "rdma") == 0)
		over_rdma();
	else if (strcmp(step, "hold") == 0)
		hold(strtoull(what, NULL, 0));
	else
		return 2;
	fmove_close(conn);
	return failures > 0;
}
