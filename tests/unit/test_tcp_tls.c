/* SPDX-License-Identifier: MIT */
/* links: fm_transport fm_wire */
/*
 * Data connections inside TLS, and who would like to break in: somebody on the path, a node with
 * another key, one that is no node. test_tcp has the data path itself, with and without TLS.
 */
#include "mover/transport/tls.h"

#include "foreign_tls.h"
#include "tcp_scene.h"

#define SIZE (1u << 20)
#define COPY_MAX (4u << 20)

/* ---- somebody on the path, on the same loop ---- */

struct path {
	int listen_fd;
	uint16_t port, to;
	int fd[2];			/* the dialler's end, the acceptor's; -1: not yet, or cut */
	size_t passed;			/* bytes so far, both ways */
	size_t flip_at;			/* one bit of that byte is changed; SIZE_MAX: none */
	size_t cut_at;			/* both ends are closed before that byte; SIZE_MAX: never */
	size_t stall_at;		/* nothing passes from that byte on */
	uint8_t *copy;			/* of what went by */
};

static void path_new(struct path *p, uint16_t to)
{
	*p = (struct path){.to = to,
			   .fd = {-1, -1},
			   .flip_at = SIZE_MAX,
			   .cut_at = SIZE_MAX,
			   .stall_at = SIZE_MAX};
	p->listen_fd = raw_listen(&p->port);
	fcntl(p->listen_fd, F_SETFL, O_NONBLOCK);
	p->copy = malloc(COPY_MAX);
	if (!p->copy)
		abort();
}

static void path_cut(struct path *p)
{
	for (unsigned i = 0; i < 2; i++) {
		if (p->fd[i] >= 0)
			close(p->fd[i]);
		p->fd[i] = -1;
	}
}

static void path_free(struct path *p)
{
	path_cut(p);
	close(p->listen_fd);
	free(p->copy);
}

/* One byte after the other decides, so that what happens at which byte does not depend on how they
 * come. */
static void path_pass(struct path *p, unsigned from)
{
	uint8_t buf[16384];
	size_t room = p->stall_at - p->passed;
	ssize_t n = recv(p->fd[from], buf, room < sizeof(buf) ? room : sizeof(buf), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		path_cut(p);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (p->passed == p->flip_at)
			buf[i] ^= 4;
		if (p->passed < COPY_MAX)
			p->copy[p->passed] = buf[i];
		if (p->passed++ != p->cut_at)
			continue;
		(void)!send(p->fd[1 - from], buf, (size_t)i, MSG_NOSIGNAL);
		path_cut(p);
		return;
	}
	/* The receiver's loop is ours: a blocking send would wait for ourselves. */
	for (ssize_t at = 0, m; at < n && p->fd[1 - from] >= 0; at += m) {
		m = send(p->fd[1 - from], buf + at, (size_t)(n - at), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (m < 0 && errno != EAGAIN)
			path_cut(p);
		m = m < 0 ? 0 : m;
	}
}

/* Always false: to be looked at together with what is waited for. */
static bool path_run(struct path *p)
{
	if (p->fd[0] < 0 && p->fd[1] < 0) {
		p->fd[0] = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (p->fd[0] >= 0)
			p->fd[1] = raw_connect(p->to);
	}
	for (unsigned i = 0; i < 2; i++)
		if (p->fd[i] >= 0 && p->passed < p->stall_at)
			path_pass(p, i);
	return false;
}

/* ---- a chunk through it ---- */

struct trip {
	struct pair pair;
	struct path path;
	struct out out;
};

static void trip_new(struct trip *t)
{
	memset(t, 0, sizeof(*t));
	is_over_tls = true;
	pair_new(&t->pair);
	path_new(&t->path, fm_net_port(t->pair.b.net));
}

static void trip_free(struct trip *t)
{
	path_free(&t->path);
	pair_free(&t->pair);
	is_over_tls = false;
	is_unknown = false;
}

static bool trip_dial(struct trip *t)
{
	struct pair *p = &t->pair;

	dial_port(&p->a, t->path.port, p->b.token, &p->d);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop,
				path_run(&t->path) || (p->d.done && (p->b.conn || p->d.res < 0))));
	if (!p->d.conn || !p->b.conn) {
		end_close(&(struct end){ .conn = p->d.conn });
		return false;
	}
	end_attach(&p->from, p->d.conn, p->loop);
	end_attach(&p->to, p->b.conn, p->loop);
	p->b.conn = NULL;
	return true;
}

/* Dialled, and one chunk sent. Whether it came; it came whole then, and nothing else ever does. */
static bool trip_go(struct trip *t)
{
	struct pair *p = &t->pair;

	if (!trip_dial(t))
		return false;
	end_lend(&p->from, SIZE, false);
	end_lend(&p->to, SIZE, true);
	for (size_t i = 0; i < SIZE; i++)
		p->from.memory[i] = pattern(0, i);
	t->out = (struct out){
		.end = &p->from,
		.send = {.done = on_sent, .payload = p->from.memory, .payload_len = SIZE}};
	t->out.send.region = &p->from.region;
	t->out.send.remote = p->to.region.remote;
	t->out.send.rkey = p->to.region.rkey;
	msg_put(t->out.send.msg, 0, 0, SIZE);
	p->from.conn->ops->send(p->from.conn, &t->out.send);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, path_run(&t->path) || p->to.messages || p->to.failed ||
						 p->from.failed));
	CU_ASSERT_EQUAL(p->to.bad, 0);
	return p->to.messages == 1;
}

static bool has_seen(const struct path *p, const void *what, size_t len)
{
	return memmem(p->copy, p->passed < COPY_MAX ? p->passed : COPY_MAX, what, len) != NULL;
}

/* ---- tests ---- */

/* Goal: nobody on the path reads payload, message or token. Method: what passed is searched for
 * pieces of them. */
static void test_nothing_to_read(void)
{
	uint8_t piece[16];
	struct trip t;

	trip_new(&t);
	CU_ASSERT_TRUE(trip_go(&t));
	CU_ASSERT_TRUE(t.path.passed > SIZE);
	CU_ASSERT_FALSE(has_seen(&t.path, "FMDATA", 6));
	CU_ASSERT_FALSE(has_seen(&t.path, t.pair.b.token, FM_TOKEN_LEN));
	CU_ASSERT_FALSE(has_seen(&t.path, t.out.send.msg, 16));
	for (size_t at = 0; at < SIZE; at += 999) {
		for (size_t i = 0; i < sizeof(piece); i++)
			piece[i] = pattern(0, at + i);
		CU_ASSERT_FALSE(has_seen(&t.path, piece, sizeof(piece)));
	}
	CU_ASSERT_EQUAL(t.pair.from.conn->ops->info(t.pair.from.conn)->encryption,
			t.pair.to.conn->ops->info(t.pair.to.conn)->encryption);
	CU_ASSERT_NOT_EQUAL(t.pair.from.conn->ops->info(t.pair.from.conn)->encryption, FM_PLAIN);
	trip_free(&t);
}

/*
 * Goal:   a bit that is changed on the way ends the connection, or the attempt, with words; nothing
 *         of a changed record is delivered. A bit of a record's length may make it too long; which
 *         bits those are depends on how much a version of OpenSSL says in a handshake.
 * Method: a bit in the handshake, at some places; in the first records; deep in the payload.
 */
static void test_changed_bits(void)
{
	unsigned in_handshake = 0, in_data = 0;
	struct trip t;

	for (size_t at = 3; at < SIZE; at = at < 2600 ? at + 131 : at * 4) {
		trip_new(&t);
		t.path.flip_at = at;
		CU_ASSERT_FALSE(trip_go(&t));
		CU_ASSERT_EQUAL(t.pair.to.messages, 0);
		if (t.pair.d.res < 0) {
			in_handshake++;
			CU_ASSERT_TRUE(t.pair.d.err.text[0]);
		} else if (t.pair.to.failed) {
			in_data++;
			CU_ASSERT_TRUE(strstr(t.pair.to.err.text, "its seal is broken") ||
				       strstr(t.pair.to.err.text, "what it sent makes no sense"));
		}
		trip_free(&t);
	}
	CU_ASSERT_TRUE(in_handshake > 3);
	CU_ASSERT_TRUE(in_data > 3);
}

/* A connection that is cut, anywhere: an error, and a chunk that is not whole is not delivered. */
static void test_cut(void)
{
	struct trip t;

	for (size_t at = 100; at < SIZE; at *= 3) {
		trip_new(&t);
		t.path.cut_at = at;
		CU_ASSERT_FALSE(trip_go(&t));
		CU_ASSERT_EQUAL(t.pair.to.messages, 0);
		if (t.pair.d.res == 0)
			CU_ASSERT_TRUE(
				WAIT_FOR(t.pair.loop, t.pair.to.failed && t.pair.from.failed));
		trip_free(&t);
	}
}

/* Goal: a handshake or an answer that never comes ends by its deadline, at either end, and holds up
 * nothing meanwhile. */
static void test_stalls(void)
{
	static const size_t places[] = { 0, 300, 900 };
	struct trip t;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		trip_new(&t);
		t.path.stall_at = places[i];
		dial_port(&t.pair.a, t.path.port, t.pair.b.token, &t.pair.d);
		(void)WAIT_FOR_MS(t.pair.loop, 100, path_run(&t.path));
		CU_ASSERT_EQUAL(t.pair.d.done, 0);
		clock_skip(10 * FM_NS_PER_S);
		CU_ASSERT_TRUE(WAIT_FOR(t.pair.loop, t.pair.d.done));
		CU_ASSERT_EQUAL(t.pair.d.res, -ETIMEDOUT);
		ASSERT_SAYS(t.pair.d.err, "does not answer");
		CU_ASSERT_TRUE(t.path.fd[1] < 0 ||
			       WAIT_FOR(t.pair.loop, raw_is_closed(t.path.fd[1])));
		CU_ASSERT_EQUAL(t.pair.b.tokens, 0);
		trip_free(&t);
	}
}

static void test_keys(void)
{
	struct node other = { .net = NULL };
	struct trip t;

	/* Not the one that was called. */
	trip_new(&t);
	node_new(t.pair.loop, &other, 3);
	t.pair.a.far = &other;
	CU_ASSERT_FALSE(trip_dial(&t));
	CU_ASSERT_EQUAL(t.pair.d.res, -EKEYREJECTED);
	ASSERT_SAYS(t.pair.d.err, "its key is not the one in the configuration");
	CU_ASSERT_EQUAL(t.pair.b.tokens, 0);
	node_free(&other);
	trip_free(&t);

	/* The caller is not known there. */
	trip_new(&t);
	is_unknown = true;
	CU_ASSERT_FALSE(trip_dial(&t));
	CU_ASSERT_EQUAL(t.pair.d.res, -EACCES);
	ASSERT_SAYS(t.pair.d.err, "this node's key is not known there");
	CU_ASSERT_EQUAL(t.pair.b.tokens, 0);
	trip_free(&t);
}

/* Who should speak TLS and answers in plain is no fmove node, whatever the answer says. */
static void test_plain_answer(void)
{
	static const char taken[] = "FMDATA\r\n\1\0\0\0\0\0\0\0";
	struct trip t;
	int fd;

	trip_new(&t);
	dial_port(&t.pair.a, t.path.port, t.pair.b.token, &t.pair.d);
	CU_ASSERT_TRUE(WAIT_FOR(t.pair.loop, (fd = accept(t.path.listen_fd, NULL, NULL)) >= 0));
	raw_send(fd, taken, sizeof(taken) - 1);
	CU_ASSERT_TRUE(WAIT_FOR(t.pair.loop, t.pair.d.done));
	CU_ASSERT_EQUAL(t.pair.d.res, -EPROTO);
	ASSERT_SAYS(t.pair.d.err, "not an fmove node");
	close(fd);
	trip_free(&t);
}

/* The peer says TLS only: that is told apart from other refusals, so that TLS comes next. */
static void test_asked_for_tls(void)
{
	static const char needs_tls[] = "FMDATA\r\n\1\0\3\0\0\0\0\0";
	struct trip t;
	int fd;

	trip_new(&t);
	is_over_tls = false;
	dial_port(&t.pair.a, t.path.port, t.pair.b.token, &t.pair.d);
	CU_ASSERT_TRUE(WAIT_FOR(t.pair.loop, (fd = accept(t.path.listen_fd, NULL, NULL)) >= 0));
	raw_send(fd, needs_tls, sizeof(needs_tls) - 1);
	CU_ASSERT_TRUE(WAIT_FOR(t.pair.loop, t.pair.d.done));
	CU_ASSERT_EQUAL(t.pair.d.res, -EOPNOTSUPP);
	ASSERT_SAYS(t.pair.d.err, "mover.private_networks");
	close(fd);
	trip_free(&t);
}

/* ---- what is TLS's own, after the handshake ---- */

static void foreign_says(struct foreign *f, struct pair *p, const void *what, int len)
{
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, SSL_write(f->ssl, what, len) == len));
}

static void foreign_hears(struct foreign *f, struct pair *p, int len)
{
	uint8_t waste[64];

	CU_ASSERT_TRUE(WAIT_FOR(p->loop, SSL_read(f->ssl, waste, len) == len));
}

static void ends_for_it(struct foreign *f, struct pair *p, struct end *e, struct fm_conn *conn)
{
	CU_ASSERT_PTR_NOT_NULL_FATAL(conn);
	end_attach(e, conn, p->loop);
	foreign_change_key(f, SSL_KEY_UPDATE_NOT_REQUESTED);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, e->failed));
	CU_ASSERT_EQUAL(e->err.code, -EPROTO);
}

/* As a, which dials, with another key before its hello, or after it was taken. */
static void foreign_dials(bool is_early)
{
	uint8_t hello[64] = "FMDATA\r\n\1";
	struct foreign f;
	struct pair p;

	pair_new(&p);
	foreign_new(&f, raw_connect(fm_net_port(p.b.net)), 1, "\x0c" "fmove-data/1", 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, SSL_do_handshake(f.ssl) == 1));
	if (is_early) {
		foreign_change_key(&f, SSL_KEY_UPDATE_REQUESTED);
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, raw_is_closed(f.fd)));
		CU_ASSERT_EQUAL(p.b.tokens, 0);
	} else {
		memcpy(hello + 16, p.b.token, FM_TOKEN_LEN);
		foreign_says(&f, &p, hello, sizeof(hello));
		foreign_hears(&f, &p, 16);
		ends_for_it(&f, &p, &p.to, p.b.conn);
		p.b.conn = NULL;
	}
	foreign_free(&f);
	pair_free(&p);
}

/* As b, which accepts, with tickets before its answer, or another key after it. */
static void foreign_accepts(bool is_early)
{
	static const char taken[] = "FMDATA\r\n\1\0\0\0\0\0\0\0";
	struct foreign f;
	struct pair p;
	uint16_t port;
	int fd;

	pair_new(&p);
	fd = raw_listen(&port);
	dial_port(&p.a, port, p.b.token, &p.d);
	loop_idle(p.loop, 5);
	foreign_new(&f, accept(fd, NULL, NULL), 2, NULL, is_early ? 2 : 0);
	close(fd);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, SSL_do_handshake(f.ssl) == 1));
	if (!is_early) {
		foreign_hears(&f, &p, 64);
		foreign_says(&f, &p, taken, sizeof(taken) - 1);
	}
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done));
	CU_ASSERT_EQUAL(p.d.res, is_early ? -EPROTO : 0);
	if (!is_early)
		ends_for_it(&f, &p, &p.from, p.d.conn);
	foreign_free(&f);
	pair_free(&p);
}

/* As test_tls has it of control connections: one message of TLS itself is one too many. */
static void test_after_handshake(void)
{
	is_over_tls = true;
	foreign_dials(true);
	foreign_dials(false);
	foreign_accepts(true);
	foreign_accepts(false);
	is_over_tls = false;
}

/* Goal: keys are not used for more than they are good for. Method: a fault point says that they
 * were. */
static void test_worn_keys(void)
{
#ifdef FM_FAULTS
	struct trip t;

	trip_new(&t);
	fm_fault_arm("tcp.worn", 1);
	CU_ASSERT_FALSE(trip_go(&t));
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(t.pair.from.err.code, -ESTALE);
	ASSERT_SAYS(t.pair.from.err, "a new connection takes its place");
	CU_ASSERT_EQUAL(t.out.res, -ECANCELED);
	trip_free(&t);
#endif
}

static void test_clean_up(void)
{
	test_dir_remove();
}

static const struct fm_test tests[] = {
	{ "nobody on the path reads anything", test_nothing_to_read },
	{ "a changed bit ends the connection", test_changed_bits },
	{ "a connection that is cut delivers nothing that is not whole", test_cut },
	{ "who stalls is given up", test_stalls },
	{ "only the key that was called will do, only a known one is taken", test_keys },
	{ "a plain answer to TLS is none", test_plain_answer },
	{ "who wants TLS gets it next", test_asked_for_tls },
	{ "a message of TLS itself ends a connection", test_after_handshake },
	{ "keys that have sealed enough are given up", test_worn_keys },
	{ "(cleaning up)", test_clean_up },
};
FM_TEST_MAIN("tcp_tls", tests)
