/* SPDX-License-Identifier: MIT */
/*
 * slot_peer - a peer with a good key that rewrites a pack while it is applied.
 *
 *   slot_peer KEY_FILE HOST PORT PEER_KEY tcp|rdma TRIES
 *
 * A try: PUT of a tree, a data connection, and in the first slot that is granted a pack of
 * directories; right behind it the same slot again, with other bytes of the same length: the paths
 * lead out of the store now. What ends the try is the end of the data connection, or the answer to
 * the second pack.
 *
 * Every other try fills many slots, so that their packs wait for each other, and when the first is
 * acknowledged rewrites the last: with a pack that is good, but is not what its CRC says. Then it
 * sends all of them again as they should be, over another connection, and finishes the tree:
 * nothing that is published has a name that begins with "z".
 *
 * Prints how many tries ended with their connection.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mover/base/base64.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "mover/transport/net.h"
#include "mover/tree/pack.h"
#include "mover/wire/wire.h"

#define PACK_MAX (64u << 10)
#define ENTRIES 500u
#define QUEUE 12u				/* packs that wait for each other, ... */
#define QUEUE_ENTRIES 200u			/* ... and what each of them says */
#define MEMORY_LEN ((2 + QUEUE + 1) * (size_t)PACK_MAX)
#define GIVE_UP_NS (120 * FM_NS_PER_S)		/* for what never comes */

static struct fm_loop *loop;
static struct fm_net *net;
static struct fm_domain *domain;
static struct fm_ctl *ctl;
static struct fm_ctl_dial dial = { .timeout_ns = 60 * FM_NS_PER_S };
static enum fm_kind kind;
/* two packs; then those of the queue, and the one that is none of them */
static uint8_t *memory;
static uint32_t pack_len, queue_len;

/* What came. */
static bool is_hello, is_ready, is_done, is_lost;
static unsigned tokens;
static uint8_t token[FM_TOKEN_LEN];
static struct fm_conn *conn;
static bool is_dialled, is_over, is_closed;
static struct fm_region region;
static struct fm_send sends[QUEUE + 2];
static unsigned acks, acks_max;		/* so many end a try */
static bool is_queue, is_rewriting;
static struct fm_grant granted;
static uint64_t number;			/* of the try, and of its transfer */

__attribute__((noreturn)) static void die(const char *what)
{
	(void)fprintf(stderr, "slot_peer: %s\n", what);
	exit(1);
}

static void wait_for(const bool *what, const char *name)
{
	uint64_t end_ns = fm_clock_real.now_ns(NULL) + GIVE_UP_NS;

	while (!*what) {
		(void)fm_loop_step(loop, 100 * FM_NS_PER_MS);
		if (fm_clock_real.now_ns(NULL) > end_ns)
			die(name);
	}
}

/* ---- packs ---- */

/* Directories, each below one that is not there; or the same, each below one outside of the store.
 * All lengths are the same. */
static uint32_t make_pack(uint8_t *at, bool is_bad)
{
	struct fm_pack_writer w;

	fm_pack_begin(&w, at, PACK_MAX, 0);
	for (unsigned i = 0; i < ENTRIES; i++) {
		char path[32];
		struct fm_pack_entry e = { .type = FM_PACK_DIR, .mode = 0700, .path = path };

		e.path_len = (size_t)snprintf(path, sizeof(path), "%c%c/in/in/in/out.%03u",
					      'A' + i / 26, 'A' + i % 26, i);
		(void)fm_pack_add(&w, &e);
	}
	for (uint8_t *found = at;
	     is_bad && (found = memmem(found, (size_t)(at + w.len - found), "/in/in/in/out.", 14));
	     found++)
		memcpy(found - 2, "../../../../out.", 16);
	return (uint32_t)fm_pack_end(&w);
}

/* Directories of names that begin with that letter. */
static uint32_t make_queued(uint8_t *at, char letter)
{
	struct fm_pack_writer w;

	fm_pack_begin(&w, at, PACK_MAX, 0);
	for (unsigned i = 0; i < QUEUE_ENTRIES; i++) {
		char path[8];
		struct fm_pack_entry e = { .type = FM_PACK_DIR, .mode = 0700, .path = path };

		e.path_len = (size_t)snprintf(path, sizeof(path), "%c%03u", letter, i);
		(void)fm_pack_add(&w, &e);
	}
	return (uint32_t)fm_pack_end(&w);
}

static uint8_t *queued(unsigned i)
{
	return memory + (2 + i) * PACK_MAX;
}

/* ---- the control connection ---- */

static void say(const struct fm_wire_msg *m)
{
	static uint8_t buf[FM_WIRE_MSG_MAX];

	if (net->ops->ctl_send(ctl, buf, fm_wire_encode(m, buf)) < 0)
		die("the control connection takes no more");
}

static void on_opened(void *ctx)
{
	const struct fm_wire_msg m = {.type = FM_WIRE_HELLO,
				      .hello = {.version_min = FM_WIRE_VERSION,
						.version_max = FM_WIRE_VERSION,
						.name = fm_wire_str("slots")}};

	(void)ctx;
	say(&m);
}

static void on_message(void *ctx, const uint8_t *msg, size_t len)
{
	static struct fm_wire_msg in, out;

	(void)ctx;
	if (fm_wire_decode(msg, len, &in) < 0)
		die("the daemon sent a message that is none");
	is_hello |= in.type == FM_WIRE_HELLO;
	is_ready |= in.type == FM_WIRE_READY && in.ready.xfer == number;
	is_done |= in.type == FM_WIRE_DONE && in.done.xfer == number;
	if (in.type == FM_WIRE_TOKENS) {
		memcpy(token, in.tokens.token[0], FM_TOKEN_LEN);
		tokens++;
	}
	if (in.type == FM_WIRE_PING) {
		out = in;
		out.type = FM_WIRE_PONG;
		say(&out);
	}
	if (in.type == FM_WIRE_TOKENS_WANT) {
		out.type = FM_WIRE_TOKENS;
		out.tokens.count = in.tokens.count;
		say(&out);
	}
}

static void on_closed(void *ctx, const struct fm_err *err)
{
	(void)ctx;
	(void)err;
	is_lost = true;
}

static const struct fm_ctl_events ctl_events = {
	.opened = on_opened, .message = on_message, .closed = on_closed};

static bool is_known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	(void)ctx;
	return memcmp(key, dial.key, FM_KEY_LEN) == 0;
}

/* It dials us too: one connection is enough. */
static bool on_accepted(void *ctx, struct fm_ctl *c, const uint8_t key[FM_KEY_LEN],
			const struct fm_ctl_events **events, void **ctl_ctx)
{
	(void)ctx;
	(void)c;
	(void)key;
	(void)events;
	(void)ctl_ctx;
	return false;
}

static struct fm_domain *on_token(void *ctx, const uint8_t good[FM_TOKEN_LEN], enum fm_kind of,
				  const uint8_t *key, void **tag, struct fm_err *why)
{
	(void)why;
	(void)ctx;
	(void)good;
	(void)of;
	(void)key;
	(void)tag;
	return NULL;
}

static void on_arrived(void *ctx, void *tag, struct fm_conn *c)
{
	(void)ctx;
	(void)tag;
	(void)c;
}

static const struct fm_net_events net_events = {
	.is_known = is_known, .accepted = on_accepted, .token = on_token, .arrived = on_arrived};

/* ---- the data connection ---- */

static void on_sent(struct fm_send *send, int res)
{
	(void)send;
	(void)res;
}

static void send_data(struct fm_send *send, const struct fm_data_msg *m)
{
	send->done = on_sent;
	fm_data_encode(m, send->msg);
	conn->ops->send(conn, send);
}

/* The slot, and at once the slot again. */
static void fill_twice(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fm_send *send = &sends[1 + i];
		const struct fm_data_msg m = {.type = FM_DATA_CHUNK,
					      .generation = granted.generation,
					      .xfer = number,
					      .seq = 0,
					      .length = pack_len,
					      .data_crc = fm_crc32c(0, memory, pack_len)};

		*send = (struct fm_send){.payload = memory + i * PACK_MAX,
					 .payload_len = pack_len,
					 .region = &region,
					 .remote = granted.remote,
					 .rkey = granted.rkey};
		send_data(send, &m);
	}
}

static void send_queued(unsigned slot, const uint8_t *pack, struct fm_send *send)
{
	const struct fm_data_msg m = {.type = FM_DATA_CHUNK,
				      .generation = granted.generation,
				      .xfer = number,
				      .slot = (uint16_t)slot,
				      .seq = slot,
				      .offset = (uint64_t)slot * PACK_MAX,
				      .length = queue_len,
				      .data_crc = fm_crc32c(0, queued(slot), queue_len)};

	*send = (struct fm_send){.payload = pack,
				 .payload_len = queue_len,
				 .region = &region,
				 .rkey = granted.rkey,
				 .remote = granted.remote + (uint64_t)slot * granted.slot_bytes};
	send_data(send, &m);
}

static void fill_queue(void)
{
	if (granted.slots < QUEUE || granted.slot_bytes < queue_len)
		die("too few slots");
	for (unsigned i = 0; i < QUEUE; i++)
		send_queued(i, queued(i), &sends[1 + i]);
}

static void on_ack(void)
{
	acks++;
	if (is_rewriting && acks == 1)
		send_queued(QUEUE - 1, queued(QUEUE), &sends[1 + QUEUE]);
	is_over |= acks == acks_max;
}

static void on_data(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN])
{
	struct fm_data_msg in;

	(void)ctx;
	if (fm_data_decode(msg, &in) < 0)
		die("the daemon sent a data message that is none");
	if (in.type == FM_DATA_GRANT) {
		granted = fm_grant_of(&in);
		if (is_queue)
			fill_queue();
		else
			fill_twice();
	}
	if (in.type == FM_DATA_ACK)
		on_ack();
}

static void on_failed(void *ctx, const struct fm_err *err)
{
	(void)ctx;
	(void)err;
	is_over = true;
}

static void on_gone(void *ctx)
{
	(void)ctx;
	is_closed = true;
}

static const struct fm_conn_events conn_events = {
	.message = on_data, .failed = on_failed, .closed = on_gone};

static void on_dialled(void *ctx, int res, struct fm_conn *c, const struct fm_err *err)
{
	(void)ctx;
	if (res < 0)
		die(err->text);
	conn = c;
	is_dialled = true;
}

static void connect_data(void)
{
	struct fm_data_dial d = {.kind = kind,
				 .port = dial.port,
				 .domain = domain,
				 .timeout_ns = 60 * FM_NS_PER_S,
				 .done = on_dialled};

	net->ops->ctl_addrs(ctl, &d.local, &d.remote);
	memcpy(d.token, token, FM_TOKEN_LEN);
	is_dialled = is_over = is_closed = false;
	acks = 0;
	net->ops->data_dial(net, &d);
	wait_for(&is_dialled, "the data connection");
	conn->ops->attach(conn, loop, &conn_events, NULL);
	if (conn->ops->lend(conn, memory, MEMORY_LEN, false, &region, NULL) < 0)
		die("memory to send from");
}

/* ---- a try ---- */

static void want_token(void)
{
	const struct fm_wire_msg m = { .type = FM_WIRE_TOKENS_WANT, .tokens = { .count = 1 } };

	tokens = 0;
	say(&m);
	while (tokens == 0 && !is_lost)
		(void)fm_loop_step(loop, 100 * FM_NS_PER_MS);
	if (is_lost)
		die("the control connection was closed");
}

static void put_tree(void)
{
	char path[16];
	struct fm_wire_msg m = {.type = FM_WIRE_PUT,
				.put = {.flags = FM_WIRE_PUT_TREE,
					.xfer = number + 1,
					.size = FM_WIRE_SIZE_UNKNOWN,
					.chunk = PACK_MAX,
					.dev = 1,
					.ino = number + 1,
					.store = fm_wire_str("s")}};

	number++;
	(void)snprintf(path, sizeof(path), "t%u", (unsigned)number);
	m.put.path = fm_wire_str(path);
	is_ready = is_done = false;
	say(&m);
	wait_for(&is_ready, "READY");
}

/* Whether the connection ended before so many answers came. */
static bool send_over_new(unsigned answers)
{
	const struct fm_data_msg want = { .type = FM_DATA_WANT };
	bool is_ended;

	acks_max = answers;
	want_token();
	connect_data();
	send_data(&sends[0], &want);
	wait_for(&is_over, "the end of the try");
	is_ended = acks < acks_max;
	conn->ops->close(conn);
	wait_for(&is_closed, "the end of the connection");
	return is_ended;
}

static void finish_queue(void)
{
	struct fm_wire_msg m = {.type = FM_WIRE_FINISH,
				.finish = {.xfer = number,
					   .size = QUEUE * PACK_MAX,
					   .data_bytes = QUEUE * queue_len,
					   .chunks = QUEUE}};
	uint32_t parts = 0;

	for (unsigned i = 0; i < QUEUE; i++)
		parts ^= fm_crc32c_part(fm_crc32c(0, queued(i), queue_len), (uint64_t)i * PACK_MAX,
					queue_len);
	m.finish.crc = fm_crc32c_whole(parts, m.finish.size);
	say(&m);
	wait_for(&is_done, "DONE");
}

/* Whether the connection was ended for what we did. */
static bool queue_try(void)
{
	bool is_ended;

	put_tree();
	is_queue = is_rewriting = true;
	is_ended = send_over_new(QUEUE + 1);
	is_rewriting = false;
	if (send_over_new(QUEUE))
		die("a connection on which all was well ended");
	is_queue = false;
	finish_queue();
	return is_ended;
}

static bool one_try(void)
{
	const struct fm_wire_msg abort = {.type = FM_WIRE_ABORT,
					  .abort = {.code = 5, .text = fm_wire_str("enough")}};
	struct fm_wire_msg m = abort;
	bool is_ended;

	put_tree();
	is_ended = send_over_new(2);
	m.abort.xfer = number;
	say(&m);
	return is_ended;
}

static void set_up(char **argv)
{
	const struct fm_net_opts opts = {.listen = "0.0.0.0:0",
					 .key_file = argv[1],
					 .is_tcp_allowed = true,
					 .is_rdma_allowed = kind == FM_KIND_RDMA};
	struct fm_err err = { 0 };

	if (fm_base64_decode(FM_BASE64, argv[4], dial.key, FM_KEY_LEN) < 0)
		die("that is no key");
	if (fm_loop_new(&(struct fm_loop_opts){0}, &loop, &err) < 0 ||
	    fm_net_new(loop, &opts, &net, &err) < 0 ||
	    net->ops->start(net, &net_events, NULL, &err) < 0 ||
	    net->ops->domain_new(net, &domain, &err) < 0)
		die(err.text);
	memory = mmap(NULL, MEMORY_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("no memory");
	pack_len = make_pack(memory, false);
	(void)make_pack(memory + PACK_MAX, true);
	for (unsigned i = 0; i <= QUEUE; i++)
		queue_len = make_queued(queued(i), i < QUEUE ? (char)('a' + i) : 'z');
	dial.host = argv[2];
	dial.port = (uint16_t)atoi(argv[3]);
	dial.events = &ctl_events;
	ctl = net->ops->ctl_dial(net, &dial);
	wait_for(&is_hello, "HELLO");
}

int main(int argc, char **argv)
{
	unsigned tries, ended = 0;

	if (argc != 7)
		die("usage: slot_peer KEY_FILE HOST PORT PEER_KEY tcp|rdma TRIES");
	kind = strcmp(argv[5], "rdma") == 0 ? FM_KIND_RDMA : FM_KIND_TCP;
	tries = (unsigned)atoi(argv[6]);
	set_up(argv);
	for (unsigned i = 0; i < tries; i++)
		ended += i % 2 ? queue_try() : one_try();
	printf("%u of %u tries ended with the connection\n", ended, tries);
	net->ops->ctl_close(ctl);
	net->ops->stop(net);
	net->ops->domain_free(domain);
	fm_net_free(net);
	fm_loop_free(loop);
	return 0;
}
