/* SPDX-License-Identifier: MIT */
/*
 * Channels: a tree behind one is the same tree, whoever answers at the other end. links: fm_tree
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/tree/channel.h"
#include "mover/tree/channel_io.h"
#include "mover/tree/channel_msg.h"
#include "mover/tree/pack.h"
#include "mover/tree/tree.h"
#include "tests/fm_test.h"

#define THREADS 4
#define BUF (256u << 10)

static char dir[64];

static void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	CU_ASSERT_EQUAL(system(line), 0);
}

static void dir_begin(void)
{
	snprintf(dir, sizeof(dir), "/tmp/fm-channel.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

static void dir_end(void)
{
	shell("chmod -R u+rwx %s; rm -rf %s", dir, dir);
}

static unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- both ends of a channel in this process ---- */

struct both {
	struct fm_tree *real;
	struct fm_channel *channel;
	struct fm_tree *remote;
	int memory;			/* the remote's */
	int (*poll)(struct pollfd *fds, nfds_t count, int timeout_ms);
};

/* The descriptors as they would come out of a message: copies. */
static int both_connect(struct both *b, struct fm_err *err)
{
	unsigned count;
	const int *fds;
	int copies[1 + FM_CHANNEL_SOCKETS_MAX];
	int ret;

	ret = fm_channel_new(b->real, &b->channel, err);
	if (ret < 0)
		return ret;
	fds = fm_channel_to_pass(b->channel, &count);
	for (unsigned i = 0; i < count; i++)
		copies[i] = dup(fds[i]);
	fm_channel_passed(b->channel);
	b->memory = copies[0];
	return fm_tree_remote_new(
		&(struct fm_tree_remote_opts){b->real->is_source, copies, count, b->poll, NULL},
		&b->remote, err);
}

static void both_source(struct both *b, const char *path, const struct fm_tree_begin *how)
{
	struct fm_tree_source_opts o = { .root = open(path, O_RDONLY | O_DIRECTORY) };
	struct fm_err err = { 0 };

	*b = (struct both){ 0 };
	CU_ASSERT_EQUAL_FATAL(fm_tree_source_new(&o, &b->real, &err), 0);
	CU_ASSERT_EQUAL_FATAL(both_connect(b, &err), 0);
	CU_ASSERT_EQUAL(b->remote->ops->begin(b->remote, how, &err), 0);
}

static void both_sink(struct both *b, const char *name, bool may_replace, bool is_update)
{
	struct fm_tree_sink_opts o = { .parent = open(dir, O_RDONLY | O_DIRECTORY),
				       .name = name,
				       .path = name,
				       .may_replace = may_replace,
				       .is_update = is_update };
	struct fm_tree_begin how = { .source = { .node = "n1", .dev = 1, .ino = 2 } };
	struct fm_err err = { 0 };

	*b = (struct both){ 0 };
	CU_ASSERT_EQUAL_FATAL(fm_tree_sink_new(&o, &b->real, &err), 0);
	CU_ASSERT_EQUAL_FATAL(both_connect(b, &err), 0);
	CU_ASSERT_EQUAL(b->remote->ops->begin(b->remote, &how, &err), 0);
	CU_ASSERT_EQUAL(b->remote->is_partial, b->real->is_partial);
}

/* Whether it was published. */
static bool both_end(struct both *b)
{
	bool is;

	if (b->remote)
		b->remote->ops->close(b->remote);
	is = fm_channel_free(b->channel).is_published;
	if (b->real)
		b->real->ops->close(b->real);
	return is;
}

/* ---- an engine, in short ---- */

struct moving {
	struct fm_tree *from;
	struct fm_tree *to;
	atomic_uint_fast64_t seq;
	atomic_uint larges;
	atomic_int failed;
};

static void move_large(struct moving *m, const struct fm_tree_large *l)
{
	struct fm_have have = { .crc = 0 };
	struct fm_err err = { 0 };
	static _Thread_local char buf[1 << 20];
	int fd = -1, ret;

	ret = m->to->ops->create_large(m->to, l, &fd, &have, &err);
	for (uint64_t at = 0; ret == 0 && at < l->size;) {
		ssize_t n = pread(l->fd, buf, sizeof(buf), (off_t)at);
		struct fm_journal_entry e = {.path = l->path,
					     .path_len = strlen(l->path),
					     .size = l->size,
					     .mtime_ns = l->mtime_ns,
					     .identity = fm_identity_hash(&l->id),
					     .offset = at,
					     .len = (uint64_t)n};

		ret = n > 0 && pwrite(fd, buf, (size_t)n, (off_t)at) == n ? 0 : -EIO;
		if (ret == 0)
			ret = m->to->ops->wrote_large(m->to, &e, &err);
		at += (uint64_t)n;
	}
	if (ret == 0 && ftruncate(fd, (off_t)l->size) < 0)
		ret = -errno;
	if (ret == 0)
		ret = m->to->ops->seal_large(m->to, l, fd, NULL, &err);
	if (ret < 0) {
		printf("large %s: %s\n", l->path, err.text);
		atomic_store(&m->failed, ret);
	}
	fm_have_free(&have);
	if (fd >= 0)
		close(fd);
	close(l->fd);
	atomic_fetch_add(&m->larges, 1);
}

static void move_larges(struct moving *m)
{
	struct fm_tree_large l;

	while (m->from->ops->next_large(m->from, &l) > 0)
		move_large(m, &l);
}

static int move_pack(struct moving *m, uint64_t seq, void *buf, size_t len, struct fm_err *err)
{
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
	size_t count;
	int ret = m->to->ops->apply(m->to, buf, len, bits, &count, err);

	if (ret < 0)
		return ret;
	m->from->ops->acked(m->from, seq);
	return count > 0 ? m->from->ops->need(m->from, seq, bits, count, err) : 0;
}

static void *move_some(void *arg)
{
	struct moving *m = arg;
	void *buf = aligned_alloc(4096, BUF);
	uint64_t seq = atomic_fetch_add(&m->seq, 1);
	struct fm_err err = { 0 };
	int64_t ret;

	while (atomic_load(&m->failed) == 0) {
		ret = m->from->ops->fill(m->from, seq, buf, BUF, &err);
		move_larges(m);
		if (ret == -EAGAIN) {
			usleep(1000);
			continue;
		}
		if (ret > 0)
			ret = move_pack(m, seq, buf, (size_t)ret, &err);
		else if (ret == 0)
			break;
		if (ret < 0) {
			printf("pack: %s\n", err.text);
			atomic_store(&m->failed, (int)ret);
		}
		seq = atomic_fetch_add(&m->seq, 1);
	}
	free(buf);
	return NULL;
}

static int move(struct fm_tree *from, struct fm_tree *to, struct moving *m)
{
	pthread_t threads[THREADS];

	*m = (struct moving){ .from = from, .to = to };
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, move_some, m);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	move_larges(m);
	return atomic_load(&m->failed);
}

/* ---- a tree through two channels ---- */

static void make_tree(void)
{
	shell("mkdir -p %s/a/d/e %s/a/empty && cd %s/a && for i in $(seq 300); do echo $i > d/f$i; "
	      "done && : > zero && "
	      "ln -s ../nowhere d/link && ln d/f1 hard && chmod 640 d/f2 && chmod 711 d/e && touch "
	      "-d @1.123456789 d/f3 d/e",
	      dir, dir, dir);
	/* more large ones than may wait anywhere */
	shell("cd %s/a && for i in $(seq 30); do yes $i | head -c 4300000 > d/e/large$i; done && "
	      "truncate -s 100000 holes && printf x | dd of=holes bs=1 seek=50000 conv=notrunc "
	      "status=none",
	      dir);
}

static void compare(const char *name)
{
	shell("cd %s/a && find . -printf '%%p %%y %%m %%s %%T@ %%l %%n\\n' | sed 's/\\(.* d "
	      "[0-7]*\\) [0-9]* /\\1 /' | sort > ../list.a && cd ../%s && "
	      "find . -printf '%%p %%y %%m %%s %%T@ %%l %%n\\n"
	      "' | sed 's/\\(.* d [0-7]*\\) [0-9]* /\\1 /' | sort > ../list.b && diff ../list.a "
	      "../list.b && diff -r --no-dereference ../a .",
	      dir, name);
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* Copy a to name, both behind channels; offers are asked for if is_update. */
static void copy(const char *name, bool is_update, struct fm_tree_count *made)
{
	struct fm_err err = { 0 };
	struct fm_tree_count found;
	struct both a, b;
	struct moving m;

	both_source(&a, path_of("a"), &(struct fm_tree_begin){ .is_offering = is_update });
	both_sink(&b, name, is_update, is_update);
	CU_ASSERT_EQUAL(move(a.remote, b.remote, &m), 0);
	CU_ASSERT_EQUAL(b.remote->ops->log(b.remote, &err), 0);
	CU_ASSERT_EQUAL(b.remote->ops->prepare(b.remote, false, &err), 0);
	CU_ASSERT_EQUAL(b.remote->ops->publish(b.remote, false, &err), 0);
	CU_ASSERT_STRING_EQUAL(err.text, "");
	a.remote->ops->count(a.remote, &found);
	b.remote->ops->count(b.remote, made);
	CU_ASSERT_EQUAL(found.files, made->files);
	CU_ASSERT_EQUAL(atomic_load(&m.larges), is_update ? 0 : 31);
	CU_ASSERT_FALSE(both_end(&a));
	CU_ASSERT_TRUE(both_end(&b));
}

static void test_tree(void)
{
	unsigned fds = open_fds();
	struct fm_tree_count made;

	dir_begin();
	make_tree();
	copy("b", false, &made);
	CU_ASSERT_EQUAL(made.files, 332);
	CU_ASSERT_EQUAL(made.dirs, 3);
	CU_ASSERT_EQUAL(made.links, 1);
	CU_ASSERT_EQUAL(made.hard_links, 1);
	compare("b");
	copy("b", true, &made);
	CU_ASSERT_EQUAL(made.reused_files, made.files);
	compare("b");
	dir_end();
	CU_ASSERT_EQUAL(open_fds(), fds);
}

/* What the real tree says is what is heard: a special file by its name. */
static void test_error_of_the_tree(void)
{
	struct fm_err err = { 0 };
	struct both a, b;
	struct moving m;

	dir_begin();
	shell("mkdir %s/a && mkfifo %s/a/pipe", dir, dir);
	both_source(&a, path_of("a"), &(struct fm_tree_begin){ 0 });
	both_sink(&b, "b", false, false);
	CU_ASSERT_NOT_EQUAL(move(a.remote, b.remote, &m), 0);
	CU_ASSERT_TRUE(a.remote->ops->fill(a.remote, 9, (char[BUF]){ 0 }, BUF, &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "pipe"));
	(void)both_end(&a);
	CU_ASSERT_FALSE(both_end(&b));
	dir_end();
}

static const char *heard(struct both *b, const char *note)
{
	struct fm_err err = { 0 };

	b->real->note = note;
	CU_ASSERT_EQUAL(b->remote->ops->log(b->remote, &err), 0);
	return b->remote->note;
}

/* Goal: what the real tree has to say grows while it is made, and all of it is heard; who reads
 * what was heard is not disturbed. */
static void test_notes(void)
{
	char text[32];
	const char *first, *more;
	struct both b;

	dir_begin();
	both_sink(&b, "b", false, false);
	first = heard(&b, "first");
	more = heard(&b, "more; first");
	CU_ASSERT_STRING_EQUAL(more, "more; first");
	CU_ASSERT_STRING_EQUAL(heard(&b, "more; first"), "more; first");
	for (unsigned i = 0; i < 30; i++) {
		(void)snprintf(text, sizeof(text), "%u", i);
		(void)heard(&b, text);
	}
	CU_ASSERT_STRING_EQUAL(first, "first");
	CU_ASSERT_STRING_EQUAL(more, "more; first");
	b.real->note = NULL;
	(void)both_end(&b);
	dir_end();
}

static void test_stop(void)
{
	struct fm_err err = { 0 };
	struct both a;

	dir_begin();
	shell("mkdir %s/a", dir);
	both_source(&a, path_of("a"), &(struct fm_tree_begin){ 0 });
	a.remote->ops->stop(a.remote);
	CU_ASSERT_EQUAL(a.remote->ops->fill(a.remote, 0, (char[BUF]){ 0 }, BUF, &err), -ECANCELED);
	(void)both_end(&a);
	/* The caller goes first. */
	both_source(&a, path_of("a"), &(struct fm_tree_begin){ 0 });
	CU_ASSERT_TRUE(fm_channel_free(a.channel).is_begun);
	a.channel = NULL;
	CU_ASSERT_EQUAL(a.remote->ops->fill(a.remote, 0, (char[BUF]){ 0 }, BUF, &err), -EPIPE);
	CU_ASSERT_STRING_EQUAL(err.text, "its client went away");
	CU_ASSERT_EQUAL(a.remote->ops->fill(a.remote, 1, (char[BUF]){ 0 }, BUF, &err), -EPIPE);
	(void)both_end(&a);
	dir_end();
}

/* ---- a caller that is up to no good ---- */

struct liar {
	int sockets[FM_CHANNEL_SOCKETS_MIN];
	int memory;
	struct fm_tree *remote;
	pthread_t thread;
	/* Change the answer to what was asked; NULL: never answer. */
	void (*lie)(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
		    struct fm_channel_fds *fds);
	void (*spoil)(uint8_t *buf, size_t *len);	/* the bytes of it; NULL: not */
	int (*poll)(struct pollfd *fds, nfds_t count, int timeout_ms);
};

static void *liar_run(void *arg)
{
	struct liar *liar = arg;
	uint8_t in[FM_CHANNEL_ASK_MAX], out[FM_CHANNEL_ANSWER_MAX + 8];
	struct fm_channel_ask ask;
	struct fm_channel_fds passed, fds = { .count = 0 };
	struct fm_channel_answer a = { .ret = 0, .text = "", .note = "", .serial = 1 };
	size_t len;
	int n;

	n = fm_channel_receive(liar->sockets[0], in, sizeof(in), &passed);
	if (n <= 0 || !liar->lie)
		return NULL;
	CU_ASSERT_EQUAL(fm_channel_get_ask(in, (size_t)n, &ask), 0);
	a.op = ask.op;
	a.tag = ask.tag;
	liar->lie(&ask, &a, &fds);
	len = fm_channel_put_answer(&a, out);
	if (liar->spoil)
		liar->spoil(out, &len);
	(void)fm_channel_send(liar->sockets[0], out, len, &fds);	/* may be ended already */
	fm_channel_close_fds(&fds);
	fm_have_free(&a.have);
	return NULL;
}

static void liar_begin(struct liar *liar, bool is_source)
{
	struct fm_err err = { 0 };
	int fds[1 + FM_CHANNEL_SOCKETS_MIN], pair[2];

	fds[0] = memfd_create("liar", MFD_CLOEXEC);
	liar->memory = dup(fds[0]);
	CU_ASSERT_EQUAL(ftruncate(fds[0], FM_CHANNEL_SOCKETS_MIN * FM_CHANNEL_PACK_MAX), 0);
	for (unsigned i = 0; i < FM_CHANNEL_SOCKETS_MIN; i++) {
		CU_ASSERT_EQUAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		liar->sockets[i] = pair[0];
		fds[1 + i] = pair[1];
	}
	CU_ASSERT_EQUAL_FATAL(
		fm_tree_remote_new(&(struct fm_tree_remote_opts){is_source, fds,
								 1 + FM_CHANNEL_SOCKETS_MIN,
								 liar->poll, NULL},
				   &liar->remote, &err),
		0);
	pthread_create(&liar->thread, NULL, liar_run, liar);
}

static void liar_end(struct liar *liar)
{
	liar->remote->ops->close(liar->remote);
	pthread_join(liar->thread, NULL);
	for (unsigned i = 0; i < FM_CHANNEL_SOCKETS_MIN; i++)
		close(liar->sockets[i]);
	close(liar->memory);
}

static void lie_nothing(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			struct fm_channel_fds *fds)
{
	(void)ask, (void)a, (void)fds;
}

static void lie_tag(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
		    struct fm_channel_fds *fds)
{
	(void)ask, (void)fds;
	a->tag++;
}

static void lie_op(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
		   struct fm_channel_fds *fds)
{
	(void)ask, (void)fds;
	a->op = a->op == FM_CHANNEL_FILL ? FM_CHANNEL_LOG : FM_CHANNEL_FILL;
}

static void lie_too_long(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			 struct fm_channel_fds *fds)
{
	(void)fds;
	a->ret = ask->len + 8;
}

static void lie_too_large(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			  struct fm_channel_fds *fds)
{
	(void)ask, (void)fds;
	a->ret = INT64_MAX;
}

static void lie_descriptor(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			   struct fm_channel_fds *fds)
{
	(void)ask, (void)a;
	fds->at[fds->count++] = open("/dev/null", O_RDWR);
}

static struct fm_tree_large one_large;

static void lie_large(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
		      struct fm_channel_fds *fds)
{
	(void)ask, (void)fds;
	one_large = (struct fm_tree_large){ .path = "x", .size = 1 };
	a->larges = &one_large;
	a->larges_count = 1;
}

static void lie_large_pipe(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			   struct fm_channel_fds *fds)
{
	int pair[2];

	lie_large(ask, a, fds);
	CU_ASSERT_EQUAL(pipe(pair), 0);
	close(pair[1]);
	fds->at[fds->count++] = pair[0];
}

static void lie_large_of_kernel(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
				struct fm_channel_fds *fds)
{
	lie_large(ask, a, fds);
	fds->at[fds->count++] = open("/proc/self/maps", O_RDONLY);
}

static void lie_large_path(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			   struct fm_channel_fds *fds)
{
	lie_large(ask, a, fds);
	snprintf(one_large.path, sizeof(one_large.path), "../x");
	fds->at[fds->count++] = open("/proc/self/exe", O_RDONLY);
}

static void lie_size(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
		     struct fm_channel_fds *fds)
{
	lie_large(ask, a, fds);
	one_large.size = UINT64_MAX;
	fds->at[fds->count++] = open("/proc/self/exe", O_RDONLY);
}

static void spoil_version(uint8_t *buf, size_t *len)
{
	(void)len;
	buf[4]++;
}

static void spoil_longer(uint8_t *buf, size_t *len)
{
	buf[(*len)++] = 0;
}

static void spoil_short(uint8_t *buf, size_t *len)
{
	(void)buf;
	*len = 15;
}

static void spoil_flags(uint8_t *buf, size_t *len)
{
	(void)len;
	buf[25] = 0xff;
}

static void test_lies_of_a_source(void)
{
	static const struct {
		void (*lie)(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			    struct fm_channel_fds *fds);
		void (*spoil)(uint8_t *buf, size_t *len);
		int code;
	} lies[] = {
		{ lie_tag, NULL, -EPROTO },
		{ lie_op, NULL, -EPROTO },
		{ lie_too_long, NULL, -EPROTO },
		{ lie_too_large, NULL, -EPROTO },
		{ lie_descriptor, NULL, -EPROTO },
		{ lie_large, NULL, -EPROTO },
		{ lie_large_pipe, NULL, -EPROTO },
		{ lie_large_of_kernel, NULL, -EINVAL },
		{ lie_large_path, NULL, -EPROTO },
		{ lie_size, NULL, -EPROTO },
		{ lie_nothing, spoil_version, -EPROTONOSUPPORT },
		{ lie_nothing, spoil_longer, -EPROTO },
		{ lie_nothing, spoil_short, -EPROTO },
		{ lie_nothing, spoil_flags, -EPROTO },
	};
	unsigned fds = open_fds();
	static uint8_t buf[4096];

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct liar liar = { .lie = lies[i].lie, .spoil = lies[i].spoil };
		struct fm_tree_large l;
		struct fm_err err = { 0 };

		liar_begin(&liar, true);
		CU_ASSERT_EQUAL(liar.remote->ops->fill(liar.remote, 0, buf, sizeof(buf), &err),
				lies[i].code);
		CU_ASSERT_NOT_EQUAL(err.text[0], '\0');
		/* It is the last that is heard of it. */
		CU_ASSERT_EQUAL(liar.remote->ops->fill(liar.remote, 0, buf, sizeof(buf), &err),
				lies[i].code);
		CU_ASSERT_EQUAL(liar.remote->ops->next_large(liar.remote, &l), 0);
		liar_end(&liar);
	}
	CU_ASSERT_EQUAL(open_fds(), fds);
}

static void lie_bits(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
		     struct fm_channel_fds *fds)
{
	(void)ask, (void)fds;
	a->need.count = 3;
	a->need.bits[0] = 0xff;
}

static void test_lies_of_a_sink(void)
{
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
	struct liar liar = { .lie = lie_bits };
	struct fm_err err = { 0 };
	size_t count;

	liar_begin(&liar, false);
	CU_ASSERT_EQUAL(liar.remote->ops->apply(liar.remote, "pack", 4, bits, &count, &err),
			-EPROTO);
	CU_ASSERT_EQUAL(count, 0);
	liar_end(&liar);
}

static void lie_have(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
		     struct fm_channel_fds *fds)
{
	char path[] = "/tmp/fm-channel-have.XXXXXX";

	a->have.pieces = fm_budget_alloc(sizeof(*a->have.pieces));
	a->have.pieces[0] = (struct fm_written){.len = ask->large.mode == 1   ? 4097
						       : ask->large.mode == 2 ? 20000
									      : 4096};
	a->have.count = 1;
	if (ask->large.mode == 3 || ask->large.mode == 4) {
		fds->at[fds->count++] = ask->large.mode == 3
						? open("/proc/self/exe", O_RDONLY)
						: open("/proc/self/oom_score_adj", O_RDWR);
		return;
	}
	fds->at[fds->count++] = mkstemp(path);
	unlink(path);
}

static void test_lies_about_what_is_there(void)
{
	unsigned fds = open_fds();

	for (unsigned mode = 0; mode < 5; mode++) {	/* which of them */
		struct fm_tree_large how = { .path = "x", .size = 10000, .mode = mode };
		struct liar liar = { .lie = lie_have };
		struct fm_have have = { .crc = 0 };
		struct fm_err err = { 0 };
		int fd = -1;

		liar_begin(&liar, false);
		CU_ASSERT_EQUAL(liar.remote->ops->create_large(liar.remote, &how, &fd, &have, &err),
				mode == 0   ? 0
				: mode == 4 ? -EINVAL
					    : -EPROTO);
		CU_ASSERT_EQUAL(fm_ranges_bytes(&have.ranges), mode == 0 ? 4096 : 0);
		if (fd >= 0)
			close(fd);
		fm_have_free(&have);
		liar_end(&liar);
	}
	CU_ASSERT_EQUAL(open_fds(), fds);
}

static void lie_truncate(const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			 struct fm_channel_fds *fds)
{
	(void)fds;
	a->ret = ask->len;
}

/* The memory that was promised is not there (any more): an error, and no signal. */
static void test_memory_that_vanishes(void)
{
	struct liar liar = { .lie = lie_truncate };
	static uint8_t buf[4096];
	struct fm_err err = { 0 };

	liar_begin(&liar, true);
	CU_ASSERT_EQUAL(ftruncate(liar.memory, 0), 0);
	CU_ASSERT_EQUAL(liar.remote->ops->fill(liar.remote, 0, buf, sizeof(buf), &err), -EPROTO);
	liar_end(&liar);
}

/* A call that a thread of its own waits for. */
struct asked {
	struct fm_tree *remote;
	pthread_t thread;
	int64_t ret;
};

static void *ask_fill(void *arg)
{
	struct asked *a = arg;
	uint8_t buf[4096];
	struct fm_err err = { 0 };

	a->ret = a->remote->ops->fill(a->remote, 0, buf, sizeof(buf), &err);
	return NULL;
}

static void *ask_publish(void *arg)
{
	struct asked *a = arg;
	struct fm_err err = { 0 };

	a->ret = a->remote->ops->publish(a->remote, false, &err);
	return NULL;
}

/* stop() ends the wait for one that does not answer, whatever else was asked behind it. */
static void test_silence(void)
{
	struct liar liar = { .lie = NULL };
	struct asked filled;
	uint8_t buf[8] = { 0 };
	struct fm_err err = { 0 };
	struct fm_tree_count count;
	struct fm_tree_large l;

	liar_begin(&liar, true);
	filled = (struct asked){ .remote = liar.remote };
	pthread_create(&filled.thread, NULL, ask_fill, &filled);
	pthread_join(liar.thread, NULL);	/* it was asked */
	liar.remote->ops->stop(liar.remote);
	pthread_join(filled.thread, NULL);
	CU_ASSERT_EQUAL(filled.ret, -ECANCELED);
	/* quick ones do not wait at all */
	liar.remote->ops->acked(liar.remote, 7);
	CU_ASSERT_EQUAL(liar.remote->ops->need(liar.remote, 7, buf, 8, &err), 0);
	CU_ASSERT_EQUAL(liar.remote->ops->need(liar.remote, 7, buf, 0, &err), -EPROTO);
	liar.remote->ops->count(liar.remote, &count);
	CU_ASSERT_EQUAL(liar.remote->ops->next_large(liar.remote, &l), 0);
	/* for liar_end(): it hears the end */
	pthread_create(&liar.thread, NULL, liar_run, &liar);
	liar_end(&liar);
}

/* ---- a caller that is slow, and one that stands still ---- */

struct slow {
	struct fm_tree tree;
	sem_t is_asked;
	sem_t may_answer;
};

static int64_t slow_fill(struct fm_tree *t, uint64_t seq, void *buf, size_t len, struct fm_err *err)
{
	struct slow *slow = fm_container_of(t, struct slow, tree);

	(void)seq, (void)buf, (void)len, (void)err;
	sem_post(&slow->is_asked);
	sem_wait(&slow->may_answer);
	return 0;
}

static int slow_next_large(struct fm_tree *t, struct fm_tree_large *out)
{
	(void)t, (void)out;
	return 0;
}

static void slow_count(struct fm_tree *t, struct fm_tree_count *out)
{
	(void)t;
	*out = (struct fm_tree_count){ 0 };
}

static void slow_nothing(struct fm_tree *t)
{
	(void)t;
}

static const struct fm_tree_ops slow_ops = {.fill = slow_fill,
					    .next_large = slow_next_large,
					    .count = slow_count,
					    .stop = slow_nothing,
					    .close = slow_nothing};

/* ---- time between two looks at a pulse: none where nothing can happen in it ---- */

static struct {
	int memory;
	atomic_uint looks;
	/* so many looks that without the pulse it would have been given up */
	sem_t is_counted;
} alive;

static uint64_t alive_pulse(void)
{
	uint64_t n = 0;

	CU_ASSERT_EQUAL(pread(alive.memory, &n, sizeof(n), FM_CHANNEL_PULSE_AT),
			(ssize_t)sizeof(n));
	return n;
}

/* All looks but one miss the pulse; before that one it is waited for, as long as it takes. */
static int poll_alive(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	uint64_t before = alive_pulse();
	unsigned look = atomic_fetch_add(&alive.looks, 1) + 1;
	int n = poll(fds, count, 0);

	CU_ASSERT_EQUAL(timeout_ms, FM_CHANNEL_PULSE_MS);
	while (n == 0 && look % FM_CHANNEL_PULSES_MISSED == 0 && alive_pulse() == before)
		n = poll(fds, count, 10);
	if (look == FM_CHANNEL_PULSES_MISSED + 1)
		sem_post(&alive.is_counted);
	return n > 0 || look <= FM_CHANNEL_PULSES_MISSED ? n : poll(fds, count, timeout_ms);
}

static int poll_still(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	CU_ASSERT_EQUAL(timeout_ms, FM_CHANNEL_PULSE_MS);
	return poll(fds, count, 0);
}

static atomic_uint naming_looks;

static int poll_naming(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	(void)timeout_ms;
	atomic_fetch_add(&naming_looks, 1);
	return poll(fds, count, 0);
}

/* One whose threads all wait, but that lives, is waited for, however often it is looked at. */
static void test_slow(void)
{
	struct slow slow = { .tree = { .ops = &slow_ops, .is_source = true } };
	struct both b = { .real = &slow.tree, .poll = poll_alive };
	struct asked filled;
	struct fm_err err = { 0 };

	sem_init(&slow.is_asked, 0, 0);
	sem_init(&slow.may_answer, 0, 0);
	sem_init(&alive.is_counted, 0, 0);
	CU_ASSERT_EQUAL_FATAL(both_connect(&b, &err), 0);
	alive.memory = b.memory;
	filled = (struct asked){ .remote = b.remote, .ret = -1 };
	pthread_create(&filled.thread, NULL, ask_fill, &filled);
	sem_wait(&slow.is_asked);
	sem_wait(&alive.is_counted);
	sem_post(&slow.may_answer);
	pthread_join(filled.thread, NULL);
	CU_ASSERT_EQUAL(filled.ret, 0);
	(void)both_end(&b);
	sem_destroy(&alive.is_counted);
	sem_destroy(&slow.is_asked);
	sem_destroy(&slow.may_answer);
}

/* One that is to give a tree its name is waited for without a look; all others that are silent for
 * so many are given up by name. */
static void test_stands_still(void)
{
	struct liar naming = {.lie = NULL, .poll = poll_naming},
		    still = {.lie = NULL, .poll = poll_still};
	struct asked published;
	uint8_t buf[4096];
	struct fm_err err = { 0 };
	char who[32];

	liar_begin(&naming, false);
	published = (struct asked){ .remote = naming.remote };
	pthread_create(&published.thread, NULL, ask_publish, &published);
	pthread_join(naming.thread, NULL);	/* it was asked */

	liar_begin(&still, true);
	CU_ASSERT_EQUAL(still.remote->ops->fill(still.remote, 0, buf, sizeof(buf), &err),
			-ETIMEDOUT);
	snprintf(who, sizeof(who), "process %d", (int)getpid());
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "stood still"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, who));
	CU_ASSERT_EQUAL(still.remote->ops->fill(still.remote, 1, buf, sizeof(buf), &err),
			-ETIMEDOUT);
	liar_end(&still);

	naming.remote->ops->stop(naming.remote);
	pthread_join(published.thread, NULL);
	CU_ASSERT_EQUAL(published.ret, -ECANCELED);
	CU_ASSERT_EQUAL(atomic_load(&naming_looks), 0);
	/* for liar_end(): it hears the end */
	pthread_create(&naming.thread, NULL, liar_run, &naming);
	liar_end(&naming);
}

/* ---- a child that was forked meanwhile ---- */

static int in_child(const struct both *a, const struct both *b)
{
	return fm_channel_free(a->channel).is_forked && fm_channel_free(b->channel).is_forked ? 0
											       : 1;
}

/* Goal: a call that comes back in a child ends nothing of its parent's. */
static void test_forked(void)
{
	struct fm_err err = { 0 };
	struct both a, b;
	struct moving m;
	int status;
	pid_t pid;

	dir_begin();
	make_tree();
	both_source(&a, path_of("a"), &(struct fm_tree_begin){ 0 });
	both_sink(&b, "b", false, false);
	pid = fork();
	if (pid == 0)
		_exit(in_child(&a, &b));
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(move(a.remote, b.remote, &m), 0);
	CU_ASSERT_EQUAL(b.remote->ops->prepare(b.remote, false, &err), 0);
	CU_ASSERT_EQUAL(b.remote->ops->publish(b.remote, false, &err), 0);
	CU_ASSERT_FALSE(both_end(&a));
	CU_ASSERT_TRUE(both_end(&b));
	compare("b");
	dir_end();
}

static struct fm_tree *sink_of(const char *name)
{
	struct fm_tree_sink_opts o = { .parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
				       .name = name,
				       .path = name,
				       .lock_wait_ms = 1 };
	struct fm_err err = { 0 };
	struct fm_tree *t;

	CU_ASSERT_EQUAL_FATAL(fm_tree_sink_new(&o, &t, &err), 0);
	return t;
}

static int begin_sink(struct fm_tree *t)
{
	const struct fm_tree_begin how = { .source = { .node = "n1", .dev = 1, .ino = 2 } };
	struct fm_err err = { 0 };

	return t->ops->begin(t, &how, &err);
}

static void can_begin(const char *name)
{
	struct fm_tree *t = sink_of(name);

	CU_ASSERT_EQUAL(begin_sink(t), 0);
	t->ops->close(t);
}

static pid_t fork_sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return pid;
}

/* Goal: the lock of a tree goes with its sink, though a child goes on that was forked meanwhile. */
static void test_lock_and_a_child(void)
{
	struct both a, b;
	struct moving m;
	pid_t sleeper;

	dir_begin();
	shell("mkdir %s/a && echo x > %s/a/x", dir, dir);
	both_source(&a, path_of("a"), &(struct fm_tree_begin){ 0 });
	both_sink(&b, "b", false, false);
	CU_ASSERT_EQUAL(move(a.remote, b.remote, &m), 0);
	(void)both_end(&a);
	(void)fm_channel_free(b.channel);
	b.channel = NULL;
	sleeper = fork_sleeper();
	b.real->ops->keep(b.real);
	(void)both_end(&b);
	can_begin("b");
	(void)kill(sleeper, SIGKILL);
	(void)waitpid(sleeper, NULL, 0);
	dir_end();
}

/* The thread sanitizer cannot have threads in the child of a program with threads. */
#ifndef __SANITIZE_THREAD__
static _Noreturn void begin_and_die(int tell)
{
	struct both b;
	pid_t sleeper;

	both_sink(&b, "b", false, false);
	sleeper = fork_sleeper();
	_exit(write(tell, &sleeper, sizeof(sleeper)) != sizeof(sleeper));
}

/* Goal: ... and with its process, however that ends. */
static void test_lock_of_a_dead_parent(void)
{
	pid_t pid, sleeper = 0;
	int pair[2], status;

	dir_begin();
	CU_ASSERT_EQUAL_FATAL(pipe(pair), 0);
	pid = fork();
	if (pid == 0)
		begin_and_die(pair[1]);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL_FATAL(read(pair[0], &sleeper, sizeof(sleeper)), sizeof(sleeper));
	can_begin("b");
	(void)kill(sleeper, SIGKILL);
	(void)close(pair[0]);
	(void)close(pair[1]);
	dir_end();
}
#else
static void test_lock_of_a_dead_parent(void)
{
}
#endif

static void test_wrong_descriptors(void)
{
	unsigned before = open_fds();
	struct fm_tree *t;
	struct fm_err err = { 0 };
	int fds[3], pair[2];

	for (unsigned wrong = 0; wrong < 3; wrong++) {
		CU_ASSERT_EQUAL(
			socketpair(AF_UNIX, wrong == 1 ? SOCK_STREAM : SOCK_SEQPACKET, 0, pair), 0);
		fds[0] = wrong == 0 ? open("/proc/self/exe", O_RDONLY) : memfd_create("x", 0);
		fds[1] = pair[0];
		fds[2] = wrong == 2 ? open("/dev/null", O_RDWR) : dup(pair[1]);
		close(pair[1]);
		CU_ASSERT_EQUAL(
			fm_tree_remote_new(&(struct fm_tree_remote_opts){true, fds, 3, NULL, NULL},
					   &t, &err),
			-EINVAL);
	}
	fds[0] = memfd_create("x", 0);
	fds[1] = dup(fds[0]);
	CU_ASSERT_EQUAL(fm_tree_remote_new(&(struct fm_tree_remote_opts){true, fds, 2, NULL, NULL},
					   &t, &err),
			-EINVAL);
	CU_ASSERT_EQUAL(open_fds(), before);
}

/* ---- messages ---- */

static size_t an_answer(uint8_t *buf)
{
	struct fm_tree_large l = {.path = "d/x",
				  .size = 5000000,
				  .mode = 0644,
				  .mtime_ns = -1,
				  .has_holes = true,
				  .id = {.node = "n", .ino = 3}};
	struct fm_channel_answer a = {
		.op = FM_CHANNEL_FILL,
		.tag = 4,
		.ret = 100,
		.flags = FM_CHANNEL_MORE,
		.serial = 9,
		.count = {.files = 1, .wanted_bytes = 11, .is_reflinked = true},
		.text = "t",
		.text_len = 1,
		.note = "no",
		.note_len = 2,
		.larges_count = 1,
		.larges = &l};

	return fm_channel_put_answer(&a, buf);
}

static void test_messages(void)
{
	static uint8_t buf[FM_CHANNEL_ANSWER_MAX];
	struct fm_channel_answer a;
	struct fm_tree_large l;
	size_t len = an_answer(buf);

	CU_ASSERT_EQUAL(fm_channel_get_answer(buf, len, &a), 0);
	CU_ASSERT_TRUE(a.op == FM_CHANNEL_FILL && a.tag == 4 && a.ret == 100 && a.serial == 9 &&
		       a.count.files == 1);
	CU_ASSERT_TRUE(a.count.wanted_bytes == 11 && a.count.is_reflinked && a.note_len == 2 &&
		       memcmp(a.note, "no", 2) == 0);
	CU_ASSERT_EQUAL(a.larges_count, 1);
	fm_channel_get_large(&a.larges_at, &l);
	CU_ASSERT_TRUE(strcmp(l.path, "d/x") == 0 && l.size == 5000000 && l.mtime_ns == -1 &&
		       l.has_holes && l.id.ino == 3);
	for (size_t i = 0; i < len; i++)
		CU_ASSERT_EQUAL(fm_channel_get_answer(buf, i, &a), -EBADMSG);
	/* Any byte may be another one: it is taken or refused, and nothing else. */
	for (size_t i = 0; i < len; i++)
		for (unsigned v = 0; v < 256; v++) {
			uint8_t before = buf[i];

			buf[i] = (uint8_t)v;
			if (fm_channel_get_answer(buf, len, &a) == 0)
				fm_have_free(&a.have);
			buf[i] = before;
		}
}

/* What a caller's tree may answer, and must not: it would go into a message to the peer as it
 * is. */
static void test_bad_answers(void)
{
	static uint8_t buf[FM_CHANNEL_ANSWER_MAX];
	struct fm_written pieces[] = { { 0, 8192, 7 }, { 4096, 4096, 1 } };
	struct fm_channel_answer a = {.op = FM_CHANNEL_CREATE_LARGE,
				      .text = "",
				      .note = "",
				      .have = {.pieces = pieces, .count = 2}},
				 back;
	size_t len = fm_channel_put_answer(&a, buf);

	CU_ASSERT_TRUE(len > 0);
	CU_ASSERT_EQUAL(fm_channel_get_answer(buf, len, &back), -EBADMSG);	/* one in another */
	a.have.count = 0;
	len = fm_channel_put_answer(&a, buf);
	CU_ASSERT_EQUAL(fm_channel_get_answer(buf, len, &back), 0);
	a.note_len = FM_CHANNEL_NOTE_MAX + 1;
	CU_ASSERT_EQUAL(fm_channel_put_answer(&a, buf), 0);
	a = (struct fm_channel_answer){.op = FM_CHANNEL_APPLY,
				       .text = "",
				       .note = "",
				       .need = {.count = FM_TREE_OFFERS_MAX + 1}};
	CU_ASSERT_EQUAL(fm_channel_put_answer(&a, buf), 0);
}

static void test_bad_asks(void)
{
	static uint8_t buf[FM_CHANNEL_ASK_MAX];
	static struct fm_channel_ask ask;

	ask = (struct fm_channel_ask){.op = FM_CHANNEL_FILL, .acks_count = FM_CHANNEL_ACKS_MAX + 1};
	CU_ASSERT_EQUAL(fm_channel_put_ask(&ask, buf), 0);
	ask = (struct fm_channel_ask){.op = FM_CHANNEL_SEAL_LARGE,
				      .has_digest = true,
				      .digest = {.blocks = FM_DIGEST_BLOCKS_MAX + 1}};
	CU_ASSERT_EQUAL(fm_channel_put_ask(&ask, buf), 0);
}

static void test_asks(void)
{
	static uint8_t buf[FM_CHANNEL_ASK_MAX];
	static struct fm_channel_ask ask, back;
	size_t len;

	ask = (struct fm_channel_ask){.op = FM_CHANNEL_FILL,
				      .tag = 3,
				      .seq = 8,
				      .len = FM_CHANNEL_PACK_MAX,
				      .larges = 4,
				      .acks_count = FM_CHANNEL_ACKS_MAX,
				      .needs_count = FM_CHANNEL_NEEDS_MAX};
	for (unsigned i = 0; i < FM_CHANNEL_NEEDS_MAX; i++)
		ask.needs[i].count = FM_TREE_OFFERS_MAX;
	ask.needs[3].bits[127] = 0x80;
	ask.acks[200] = 77;
	len = fm_channel_put_ask(&ask, buf);
	CU_ASSERT_EQUAL(fm_channel_get_ask(buf, len, &back), 0);
	CU_ASSERT_TRUE(back.seq == 8 && back.acks[200] == 77 && back.needs[3].bits[127] == 0x80 &&
		       back.larges == 4);
	CU_ASSERT_EQUAL(fm_channel_get_ask(buf, len - 1, &back), -EBADMSG);

	ask = (struct fm_channel_ask){
		.op = FM_CHANNEL_SEAL_LARGE,
		.has_digest = true,
		.digest = {.crc = 5, .size = 6, .blocks = FM_DIGEST_BLOCKS_MAX}};
	memset(ask.large.path, 'p', 255);
	ask.digest.block[63] = 9;
	len = fm_channel_put_ask(&ask, buf);
	CU_ASSERT_EQUAL(fm_channel_get_ask(buf, len, &back), 0);
	CU_ASSERT_TRUE(back.has_digest && back.digest.block[63] == 9 &&
		       strlen(back.large.path) == 255);

	ask = (struct fm_channel_ask){.op = FM_CHANNEL_BEGIN,
				      .flags = FM_CHANNEL_OFFERING,
				      .identity = {.node = "node", .ctime_ns = -4}};
	len = fm_channel_put_ask(&ask, buf);
	CU_ASSERT_EQUAL(fm_channel_get_ask(buf, len, &back), 0);
	CU_ASSERT_TRUE(back.flags == FM_CHANNEL_OFFERING &&
		       strcmp(back.identity.node, "node") == 0 && back.identity.ctime_ns == -4);
	buf[4]++;
	CU_ASSERT_EQUAL(fm_channel_get_ask(buf, len, &back), -EPROTONOSUPPORT);
}

/* ---- faults ---- */

/* Whatever fails, it is an error, and everything is given back. */
static void test_faults(void)
{
#ifdef FM_FAULTS
	unsigned fds = open_fds();
	bool has_fired = true;
	static uint8_t buf[BUF];

	dir_begin();
	shell("mkdir %s/a && echo x > %s/a/x && truncate -s 5000000 %s/a/large", dir, dir, dir);
	for (unsigned n = 1; has_fired; n++) {
		struct fm_tree_source_opts o = {.root = open(path_of("a"), O_RDONLY | O_DIRECTORY)};
		struct fm_tree_large l;
		struct fm_err err = { 0 };
		struct both a = { 0 };
		int64_t ret = 0;

		fm_fault_arm(NULL, n);
		if (fm_tree_source_new(&o, &a.real, &err) == 0 && both_connect(&a, &err) == 0 &&
		    a.remote->ops->begin(a.remote, &(struct fm_tree_begin){ 0 }, &err) == 0)
			for (uint64_t seq = 0; seq == 0 || ret > 0 || ret == -EAGAIN; seq++) {
				ret = a.remote->ops->fill(a.remote, seq, buf, BUF, &err);
				a.remote->ops->acked(a.remote, seq);
				while (a.remote->ops->next_large(a.remote, &l))
					close(l.fd);
			}
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_TRUE(!has_fired || err.code < 0 || ret == 0);
		(void)both_end(&a);
	}
	dir_end();
	CU_ASSERT_EQUAL(open_fds(), fds);
#endif
}

static const struct fm_test tests[] = {
	{"messages are read as they were written, others refused", test_messages},
	{"asks are read as they were written", test_asks},
	{"what an answer must not say is refused, and not said", test_bad_answers},
	{"an ask that cannot be said is none", test_bad_asks},
	{"a tree through channels is the same tree", test_tree},
	{"an error of the caller's tree is heard", test_error_of_the_tree},
	{"and what it has to say beside", test_notes},
	{"stop, and a caller that goes away", test_stop},
	{"lies of a source end it", test_lies_of_a_source},
	{"lies of a sink end it", test_lies_of_a_sink},
	{"lies about what is there are refused", test_lies_about_what_is_there},
	{"memory that vanishes is an error", test_memory_that_vanishes},
	{"stop ends the wait for a caller that says nothing", test_silence},
	{"a caller that is slow is waited for", test_slow},
	{"a caller that stands still is given up, but not before it gave a tree its name",
	 test_stands_still},
	{"in a child nothing of the parent's is ended", test_forked},
	{"a child that goes on holds no lock of a sink", test_lock_and_a_child},
	{"nor does one whose parent died", test_lock_of_a_dead_parent},
	{"wrong descriptors are refused and closed", test_wrong_descriptors},
	{"every fault is an error", test_faults},
};

FM_TEST_MAIN("channel", tests)
