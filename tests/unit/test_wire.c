/* SPDX-License-Identifier: MIT */
/*
 * links: fm_wire
 *
 * test_wire - the node-to-node protocol: the bytes of every control message, and that nothing but
 * those is accepted.
 *
 * The golden bytes were written down from wire.h, not printed by the encoder. If one of these
 * fails, either the change is a mistake or it is a new version of the protocol.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/wire/wire.h"
#include "tests/fm_test.h"

#define BYTES_MAX 2048		/* of a message in this file */

static struct fm_wire_msg msg_in, msg_out;	/* too large for the stack of a careful person */
static uint8_t encoded[FM_WIRE_MSG_MAX];

/* ---- the messages ---- */

struct golden {
	enum fm_wire_type type;
	void (*make)(struct fm_wire_msg *m);
	const char *hex;	/* blanks are ignored */
};

static void make_hello(struct fm_wire_msg *m)
{
	m->hello = (struct fm_wire_hello){.version_min = 1,
					  .version_max = 2,
					  .name = fm_wire_str("n1"),
					  .session = 7,
					  .tcp_conns = 16,
					  .rdma_conns = 2};
	for (unsigned i = 0; i < 16; i++)
		m->hello.boot_id[i] = (uint8_t)(0xa0 + i);
}

static void make_addrs(struct fm_wire_msg *m)
{
	m->addrs.tcp_port = 7471;
	m->addrs.rdma_port = 0;
	m->addrs.count = 2;
	m->addrs.addr[0] = (struct fm_wire_addr){
		.family = 4,
		.prefix_len = 30,
		.is_rdma = 1,
		.private_bits = 24,
		.speed_mbps = 200000,
		.address = { 10, 0, 0, 1 },
		.name = "rocep1s0f0",
	};
	m->addrs.addr[1] = (struct fm_wire_addr){
		.family = 6, .prefix_len = 64, .address = { 0xfe, 0x80, [15] = 7 }, .name = "",
	};
}

static void make_tokens_want(struct fm_wire_msg *m)
{
	m->tokens.count = 32;
}

static void make_tokens(struct fm_wire_msg *m)
{
	m->tokens.count = 2;
	memset(m->tokens.token[0], 0x11, FM_WIRE_TOKEN_LEN);
	memset(m->tokens.token[1], 0x22, FM_WIRE_TOKEN_LEN);
}

static void make_ping(struct fm_wire_msg *m)
{
	m->ping.nonce = UINT64_C(0x0807060504030201);
}

static void make_put(struct fm_wire_msg *m)
{
	m->put = (struct fm_wire_put){
		.flags = FM_WIRE_PUT_REPLACE | FM_WIRE_PUT_DENSE,
		.xfer = UINT64_C(0x8000000000000001),
		.size = FM_WIRE_SIZE_UNKNOWN,
		.chunk = 1u << 20,
		.mode = 0640,
		.mtime_ns = -2,
		.uid = 1000,
		.gid = 100,
		.durability = FM_WIRE_DURABLE_MEMORY,
		.dev = 0x10,
		.ino = 0x11,
		.ctime_ns = -1,
		.store = fm_wire_str("s"),
		.path = fm_wire_str("a/b"),
	};
}

static void make_ready(struct fm_wire_msg *m)
{
	static uint8_t have[2 * FM_WIRE_RANGE_LEN];

	fm_wire_set_range(have, 0, (struct fm_wire_range){ 0, 0x1000 });
	fm_wire_set_range(have, 1, (struct fm_wire_range){ 0x2000, 0x1001 });
	m->ready = (struct fm_wire_ready){
		.flags = FM_WIRE_READY_DURABLE,
		.xfer = 3,
		.chunk = 65536,
		.have_crc = 0x01020304,
		.count = 2,
		.have = have,
		.note = fm_wire_str("buffered"),
	};
}

static void make_get(struct fm_wire_msg *m)
{
	m->get = (struct fm_wire_get){
		.flags = FM_WIRE_GET_ORDERED | FM_WIRE_GET_RDMA | FM_WIRE_GET_TREE,
		.xfer = 4,
		.chunk = FM_WIRE_CHUNK_MIN,
		.rate_bytes = UINT64_C(10000000000),
		.uid = 1,
		.gid = 2,
		.store = fm_wire_str("data"),
		.path = fm_wire_str(""),
		.count = 2,
		.exclude = { fm_wire_str("*.o"), fm_wire_str("x") },
	};
}

static void make_found(struct fm_wire_msg *m)
{
	m->found = (struct fm_wire_found){
		.flags = FM_WIRE_FOUND_DENSE,
		.xfer = 4,
		.size = FM_WIRE_SIZE_MAX,
		.mode = 0777,
		.mtime_ns = 1,
		.dev = 2,
		.ino = 3,
		.ctime_ns = 4,
		.note = fm_wire_str(""),
	};
}

static void make_finish(struct fm_wire_msg *m)
{
	m->finish = (struct fm_wire_finish){.flags = FM_WIRE_FINISH_HOLD,
					    .xfer = 5,
					    .size = 0x3000,
					    .data_bytes = 0x2000,
					    .chunks = 2,
					    .crc = 0xe3069283};
}

static void make_done(struct fm_wire_msg *m)
{
	m->done = (struct fm_wire_done){
		.flags = FM_WIRE_DONE_DURABLE | FM_WIRE_DONE_REFLINKED,
		.xfer = 6,
		.files = 1,
		.dirs = 2,
		.links = 3,
		.hard_links = 4,
		.bytes = 5,
		.reused_files = 6,
		.reused_bytes = 7,
		.resumed_files = 8,
		.resumed_bytes = 9,
		.damaged_files = 10,
		.damaged_bytes = 11,
		.added = 12,
		.replaced = 13,
		.removed = 14,
		.kept = 15,
		.note = fm_wire_str("n"),
	};
}

static void make_abort(struct fm_wire_msg *m)
{
	m->abort = (struct fm_wire_abort){.flags = FM_WIRE_ABORT_KEEP,
					  .xfer = 7,
					  .code = 28,
					  .text = fm_wire_str("no space")};
}

static void make_put_member(struct fm_wire_msg *m)
{
	make_put(m);
	m->put.flags = FM_WIRE_PUT_GROUP;
	memset(m->put.group, 0x55, sizeof(m->put.group));
}

static void make_put_job(struct fm_wire_msg *m)
{
	make_put_member(m);
	m->put.flags |= FM_WIRE_PUT_JOB;
	memcpy(m->put.job, "abcd2z7a", sizeof(m->put.job));
}

static void make_get_job(struct fm_wire_msg *m)
{
	make_get(m);
	m->get.flags |= FM_WIRE_GET_JOB;
	memcpy(m->get.job, "abcd2z7a", sizeof(m->get.job));
}

static void make_group_commit(struct fm_wire_msg *m)
{
	m->request = (struct fm_wire_request){
		.flags = FM_WIRE_REQUEST_REPLACE,
		.id = 8,
		.verb = FM_WIRE_GROUP_COMMIT,
		.uid = 3,
		.gid = 4,
		.store = fm_wire_str("s"),
		.path = fm_wire_str("old"),
		.members = 2,
		.expect = fm_wire_str("a\nb"),
	};
	memset(m->request.group, 0x66, sizeof(m->request.group));
}

static void make_request(struct fm_wire_msg *m)
{
	m->request = (struct fm_wire_request){
		.flags = FM_WIRE_REQUEST_RECURSIVE,
		.id = 8,
		.verb = FM_WIRE_REMOVE,
		.uid = 3,
		.gid = 4,
		.store = fm_wire_str("s"),
		.path = fm_wire_str("old"),
		.after = fm_wire_str(""),
		.to = fm_wire_str(""),
	};
}

static void make_missing_reply(struct fm_wire_msg *m)
{
	m->reply = (struct fm_wire_reply){.id = 9,
					  .code = ENODATA,
					  .text = fm_wire_str("gps"),
					  .says = fm_wire_str("3\na/")};
}

static void make_reply(struct fm_wire_msg *m)
{
	m->reply.flags = FM_WIRE_REPLY_MORE;
	m->reply.id = 9;
	m->reply.code = 0;
	m->reply.count = 2;
	m->reply.text = fm_wire_str("");
	m->reply.says = fm_wire_str("");
	m->reply.entry[0] = (struct fm_wire_entry){.type = 1,
						   .mode = 0600,
						   .size = 13,
						   .mtime_ns = 5,
						   .whole = 26,
						   .name = fm_wire_str("f")};
	m->reply.entry[1] = (struct fm_wire_entry){.type = 2,
						   .mode = 0755,
						   .size = 0,
						   .mtime_ns = 6,
						   .whole = FM_WIRE_SIZE_UNKNOWN,
						   .name = fm_wire_str("dir")};
}

static void make_look_reply(struct fm_wire_msg *m)
{
	m->reply.id = 9;
	m->reply.code = 0;
	m->reply.count = 1;
	m->reply.text = fm_wire_str("");
	m->reply.says = fm_wire_str("../f");
	m->reply.entry[0] = (struct fm_wire_entry){
		.type = 3, .mode = 0777, .size = 4, .mtime_ns = 5, .name = fm_wire_str("")};
}

static void make_need(struct fm_wire_msg *m)
{
	m->need = (struct fm_wire_need){.xfer = 10, .seq = 11, .count = 9, .bits = {0x81, 0x01}};
}

static void make_commit(struct fm_wire_msg *m)
{
	m->commit.xfer = 12;
}

static void make_verify(struct fm_wire_msg *m)
{
	m->verify = (struct fm_wire_verify){
		.id = 13, .uid = 1, .gid = 2, .store = fm_wire_str("s"), .path = fm_wire_str("p")};
}

static void make_verified(struct fm_wire_msg *m)
{
	m->verified = (struct fm_wire_verified){
		.flags = FM_WIRE_VERIFIED_MORE,
		.id = 13,
		.code = 5,
		.count = 1,
		.files = 1,
		.bytes = 2,
		.corrupt = 3,
		.unreadable = 4,
		.changed = 5,
		.missing = 7,
		.swapped = 8,
		.without = 6,
		.unlisted = 9,
		.text = fm_wire_str("t"),
		.finding = {{.kind = FM_WIRE_UNREADABLE,
			     .offset = 0x1000,
			     .length = 0x200,
			     .path = fm_wire_str("a")}},
	};
}

static void make_volumes_ask(struct fm_wire_msg *m)
{
	m->volumes_ask.id = 14;
}

static void make_volumes(struct fm_wire_msg *m)
{
	m->volumes = (struct fm_wire_volumes){
		.flags = FM_WIRE_VOLUMES_MORE,
		.id = 14,
		.count = 1,
		.text = fm_wire_str(""),
		.volume = { { .state = FM_WIRE_VOLUME_MOUNTED | FM_WIRE_VOLUME_SEALED,
			      .epoch = 3,
			      .name = fm_wire_str("v"),
			      .subsystem = fm_wire_str("q"),
			      .wwid = fm_wire_str("w"),
			      .writer = fm_wire_str("n1") } },
	};
}

static void make_facts_ask(struct fm_wire_msg *m)
{
	m->facts_ask.id = 14;
}

static void make_facts(struct fm_wire_msg *m)
{
	m->facts = (struct fm_wire_facts){.flags = FM_WIRE_FACTS_MORE,
					  .id = 14,
					  .text = fm_wire_str(""),
					  .piece = fm_wire_str("{}")};
}

static void make_stage(struct fm_wire_msg *m)
{
	static const uint8_t body[] = { 0, 1, 255 };

	m->stage = (struct fm_wire_stage){.run = {7, [31] = 9},
					  .kind = FM_WIRE_STAGE_RUN,
					  .body = body,
					  .len = sizeof(body)};
}

static void make_names(struct fm_wire_msg *m)
{
	static const uint8_t names[] = { 1, 1, 0, 'a', 3, 3, 0, 'b', '/', 'c' };

	m->names = (struct fm_wire_names){ .xfer = 17, .len = sizeof(names), .at = names };
}

static void make_kept(struct fm_wire_msg *m)
{
	m->kept = (struct fm_wire_kept){.flags = FM_WIRE_KEPT_LAST,
					.xfer = 15,
					.reread = 0x3000,
					.damaged = {0x1000, 0x2001},
					.crc = 0x01020304};
}

static void make_window(struct fm_wire_msg *m)
{
	m->window = (struct fm_wire_window){ .xfer = 17, .to = 0x0102 };
}

static void make_space(struct fm_wire_msg *m)
{
	m->space = (struct fm_wire_space){
		.flags = FM_WIRE_SPACE_MORE | FM_WIRE_SPACE_COUNTING,
		.id = 16,
		.size = 1,
		.free = 2,
		.used = 3,
		.quota = 4,
		.promised = 5,
		.aside = 6,
		.trees = 7,
		.code = 10,
		.silent_ns = 9,
		.count = 1,
		.store = fm_wire_str("s"),
		.tree = { { .bytes = 8, .since_ns = -1, .path = fm_wire_str("a/b") } },
	};
}

static void make_groups(struct fm_wire_msg *m)
{
	m->groups = (struct fm_wire_groups){
		.flags = FM_WIRE_GROUPS_MORE,
		.id = 19,
		.count = 1,
		.group = {{.begun_ns = 1,
			   .expires_ns = 2,
			   .uid = 3,
			   .expected = 4,
			   .may_replace = 1,
			   .count = {1, 0, 2},
			   .path = fm_wire_str("a/b"),
			   .peer = fm_wire_str("n1"),
			   .names = {fm_wire_str("x"), fm_wire_str(""), fm_wire_str("y\nz")}}},
	};
}

static void make_bye(struct fm_wire_msg *m)
{
	m->bye.text = fm_wire_str("version 1 only");
}

static void make_resume(struct fm_wire_msg *m)
{
	m->resume.session = 0x11;
	m->resume.count = 0x12;
	m->resume.order = 0x13;
}

static const struct golden goldens[] = {
	{FM_WIRE_HELLO, make_hello,
	 "0100 0000 464d4f56 0100 0200 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf 0200 6e31 "
	 "0700000000000000 1000 0200"},
	{FM_WIRE_ADDRS, make_addrs,
	 "0200 0000 2f1d 0000 0200"
	 "04 1e 01 18 400d0300 0a000001000000000000000000000000 0a00 726f6365703173306630"
	 "06 40 00 00 00000000 fe800000000000000000000000000007 0000"},
	{FM_WIRE_TOKENS_WANT, make_tokens_want, "0300 0000 2000"},
	{FM_WIRE_TOKENS, make_tokens,
	 "0400 0000 0200 11111111111111111111111111111111 22222222222222222222222222222222"},
	{FM_WIRE_PING, make_ping, "0500 0000 0102030405060708"},
	{FM_WIRE_PONG, make_ping, "0600 0000 0102030405060708"},
	{FM_WIRE_PUT, make_put,
	 "0700 0300 0100000000000080 ffffffffffffffff 00001000 a0010000 feffffffffffffffe8030000 "
	 "64000000 02 000000 0000000000000000 1000000000000000 1100000000000000 ffffffffffffffff "
	 "0100 73 0300 612f62"},
	{FM_WIRE_PUT, make_put_member,
	 "0700 0002 0100000000000080 ffffffffffffffff 00001000 a0010000 feffffffffffffffe8030000 "
	 "64000000 02 000000 0000000000000000 1000000000000000 1100000000000000 ffffffffffffffff "
	 "0100 73 0300 612f62 55555555555555555555555555555555"},
	{FM_WIRE_PUT, make_put_job,
	 "0700 0006 0100000000000080 ffffffffffffffff 00001000 a0010000 feffffffffffffffe8030000 "
	 "64000000 02 000000 0000000000000000 1000000000000000 1100000000000000 ffffffffffffffff "
	 "0100 73 0300 612f62 55555555555555555555555555555555 6162636432 7a3761"},
	{FM_WIRE_READY, make_ready,
	 "0800 0100 0300000000000000 00000100 04030201 0200 00000000000000000000 0010000000000000 "
	 "0020000000000000 0110000000000000 0800 6275666665726564"},
	{FM_WIRE_GET, make_get,
	 "0900 1500 0400000000000000 00100000 00e40b5402000000 01000000 02000000 0200 0000 0400 "
	 "64617461 00000300 2a2e6f 0100 78"},
	{FM_WIRE_GET, make_get_job,
	 "0900 1502 0400000000000000 00100000 00e40b5402000000 01000000 02000000 0200 0000 0400 "
	 "64617461 00000300 2a2e6f 0100 78 6162636432 7a3761"},
	{FM_WIRE_FOUND, make_found,
	 "0a00 0100 0400000000000000 ffffffffffffff7f ff010000 0100000000000000"
	 "0200000000000000 0300000000000000 0400000000000000 0000"},
	{FM_WIRE_FINISH, make_finish,
	 "0b00 0100 0500000000000000 0030000000000000 0020000000000000 0200000000000000 839206e3 "
	 "00000000"},
	{FM_WIRE_DONE, make_done,
	 "0c00 0500 0600000000000000 0100000000000000 0200000000000000 0300000000000000 "
	 "04000000000000000500000000000000 0600000000000000 0700000000000000 0800000000000000 "
	 "0900000000000000 0a000000000000000b00000000000000 0c00000000000000 0d00000000000000 "
	 "0e00000000000000 0f00000000000000 0100 6e"},
	{FM_WIRE_ABORT, make_abort, "0d00 0100 0700000000000000 1c000000 0800 6e6f207370616365"},
	{FM_WIRE_REQUEST, make_request,
	 "0e00 0100 0800000000000000 03 000000 03000000 04000000 0100 73 0300 6f6c64 0000 0000"},
	{FM_WIRE_REQUEST, make_group_commit,
	 "0e00 0400 0800000000000000 0d 000000 03000000 04000000 0100 73 0300 6f6c64 0000 0000 "
	 "66666666666666666666666666666666 0000000000000000 02000000 0300 610a62"},
	{FM_WIRE_REPLY, make_reply,
	 "0f00 0100 0900000000000000 00000000 0200 0000 0000"
	 "01 000000 80010000 0d00000000000000 0500000000000000 1a00000000000000 0100 66"
	 "02 000000 ed010000 0000000000000000 0600000000000000 ffffffffffffffff 0300 646972"},
	{FM_WIRE_REPLY, make_missing_reply,
	 "0f00 0000 0900000000000000 3d000000 0000 0300 677073 0400 330a612f"},
	{FM_WIRE_REPLY, make_look_reply,
	 "0f00 0000 0900000000000000 00000000 0100 0000 0400 2e2e2f66"
	 "03 000000 ff010000 0400000000000000 0500000000000000 0000000000000000 0000"},
	{FM_WIRE_BYE, make_bye, "1000 0000 0e00 76657273696f6e2031206f6e6c79"},
	{FM_WIRE_NEED, make_need, "1100 0000 0a00000000000000 0b00000000000000 0900 0000 8101"},
	{FM_WIRE_COMMIT, make_commit, "1200 0000 0c00000000000000"},
	{FM_WIRE_VERIFY, make_verify,
	 "1300 0000 0d00000000000000 01000000 02000000 0100 73 0100 70"},
	{FM_WIRE_VERIFIED, make_verified,
	 "1400 0100 0d00000000000000 05000000 0100 0000 0100000000000000 0200000000000000 "
	 "03000000000000000400000000000000 0500000000000000 0700000000000000 0800000000000000 "
	 "0600000000000000 0900000000000000 0100 74 02 000000 0010000000000000 "
	 "0002000000000000 0100 61"},
	{FM_WIRE_VOLUMES_ASK, make_volumes_ask, "1500 0000 0e00000000000000"},
	{FM_WIRE_VOLUMES, make_volumes,
	 "1600 0100 0e00000000000000 00000000 0100 0000 0000 05 000000 0300000000000000 0100 76 "
	 "0100 71 0100 77 0200 6e31"},
	{FM_WIRE_FACTS_ASK, make_facts_ask, "1d00 0000 0e00000000000000"},
	{FM_WIRE_FACTS, make_facts, "1e00 0100 0e00000000000000 00000000 0000 0200 7b7d"},
	{FM_WIRE_STAGE, make_stage,
	 "1f00 0000 0700000000000000 0000000000000000 0000000000000000 0000000000000009 02 00 "
	 "0300 0001ff"},
	{FM_WIRE_KEPT, make_kept,
	 "1700 0100 0f00000000000000 0030000000000000 0010000000000000 0120000000000000 04030201 "
	 "00000000"},
	{FM_WIRE_SPACE, make_space,
	 "1800 0300 1000000000000000 0100000000000000 0200000000000000 0300000000000000 "
	 "04000000000000000500000000000000 0600000000000000 07000000 0100 0a00 "
	 "0900000000000000 0100 73 "
	 "0800000000000000 ffffffffffffffff 0300 612f62"},
	{FM_WIRE_GROUPS, make_groups,
	 "2000 0100 1300000000000000 0100 0000 0100000000000000 0200000000000000 03000000 04000000 "
	 "01000000 01000000 00000000 02000000 0300 612f62 0200 6e31 0100 78 0000 0300 790a7a"},
	{FM_WIRE_RECEIVED, make_resume, "1900 0000 1200000000000000"},
	{FM_WIRE_RESUME, make_resume,
	 "1a00 0000 1100000000000000 1200000000000000 1300000000000000"},
	{FM_WIRE_WINDOW, make_window, "1b00 0000 1100000000000000 0201000000000000"},
	{FM_WIRE_NAMES, make_names,
	 "1c00 0000 1100000000000000 0a00 0000 01 0100 61 03 0300 622f63"},
};

#define GOLDENS (sizeof(goldens) / sizeof(goldens[0]))

static unsigned nibble(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static size_t from_hex(const char *hex, uint8_t *out)
{
	size_t len = 0;

	for (; *hex; hex++) {
		if (*hex == ' ')
			continue;
		out[len++] = (uint8_t)(nibble(hex[0]) << 4 | nibble(hex[1]));
		hex++;
	}
	return len;
}

static size_t golden_bytes(enum fm_wire_type type, uint8_t *out)
{
	for (size_t i = 0; i < GOLDENS; i++)
		if (goldens[i].type == type)
			return from_hex(goldens[i].hex, out);
	return 0;
}

/* From a block of exactly len bytes, so that the address sanitizer sees a decoder that looks behind
 * it. */
static int decode_exact(const uint8_t *bytes, size_t len, struct fm_wire_msg *out)
{
	uint8_t *copy = malloc(len ? len : 1);
	int ret;

	if (!copy)
		abort();
	memcpy(copy, bytes, len);
	ret = fm_wire_decode(copy, len, out);
	free(copy);
	return ret;
}

static void test_golden(void)
{
	for (size_t i = 0; i < GOLDENS; i++) {
		const struct golden *g = &goldens[i];
		uint8_t bytes[BYTES_MAX];
		size_t len = from_hex(g->hex, bytes);

		memset(&msg_in, 0, sizeof(msg_in));
		msg_in.type = g->type;
		g->make(&msg_in);
		CU_ASSERT_EQUAL(fm_wire_encode(&msg_in, encoded), len);
		CU_ASSERT_EQUAL(memcmp(encoded, bytes, len), 0);
		memset(&msg_out, 0xee, sizeof(msg_out));
		CU_ASSERT_EQUAL(fm_wire_decode(bytes, len, &msg_out), 0);
		CU_ASSERT_EQUAL(msg_out.type, g->type);
		memset(encoded, 0, len);
		CU_ASSERT_EQUAL(fm_wire_encode(&msg_out, encoded), len);
		CU_ASSERT_EQUAL(memcmp(encoded, bytes, len), 0);
	}
	for (unsigned type = 1; type <= FM_WIRE_TYPE_LAST; type++) {	/* none was forgotten */
		CU_ASSERT_TRUE(golden_bytes((enum fm_wire_type)type, encoded) > 0);
		CU_ASSERT_STRING_NOT_EQUAL(fm_wire_type_name(type), "?");
	}
}

/* Encoding twice proves nothing about a field that both directions misplace together; so look at
 * some values. */
static void test_decoded_values(void)
{
	uint8_t bytes[BYTES_MAX];
	size_t len = golden_bytes(FM_WIRE_PUT, bytes);

	CU_ASSERT_EQUAL_FATAL(fm_wire_decode(bytes, len, &msg_out), 0);
	CU_ASSERT_EQUAL(msg_out.put.xfer, UINT64_C(0x8000000000000001));
	CU_ASSERT_EQUAL(msg_out.put.mtime_ns, -2);
	CU_ASSERT_EQUAL(msg_out.put.uid, 1000);
	CU_ASSERT_EQUAL(msg_out.put.gid, 100);
	CU_ASSERT_EQUAL(msg_out.put.path.len, 3);
	CU_ASSERT_EQUAL(memcmp(msg_out.put.path.at, "a/b", 3), 0);

	len = golden_bytes(FM_WIRE_ADDRS, bytes);
	CU_ASSERT_EQUAL_FATAL(fm_wire_decode(bytes, len, &msg_out), 0);
	CU_ASSERT_STRING_EQUAL(msg_out.addrs.addr[0].name, "rocep1s0f0");
	CU_ASSERT_EQUAL(msg_out.addrs.addr[0].speed_mbps, 200000);
	CU_ASSERT_STRING_EQUAL(msg_out.addrs.addr[1].name, "");
	CU_ASSERT_EQUAL(msg_out.addrs.addr[1].address[15], 7);
}

#define HELLO_NAME_END 32	/* of the golden one */

static void test_truncated(void)
{
	for (size_t i = 0; i < GOLDENS; i++) {
		uint8_t bytes[BYTES_MAX];
		size_t len = from_hex(goldens[i].hex, bytes);

		for (size_t cut = 0; cut < len; cut++) {
			int want = goldens[i].type == FM_WIRE_HELLO && cut == HELLO_NAME_END
					   ? 0
					   : -EBADMSG;

			CU_ASSERT_EQUAL(decode_exact(bytes, cut, &msg_out), want);
		}
	}
}

/* Goal: a HELLO of an older node, which ends with the name, and one of a newer node are
 * understood. */
static void test_hello_conns(void)
{
	static uint8_t again[FM_WIRE_MSG_MAX];
	uint8_t bytes[BYTES_MAX];
	size_t len = golden_bytes(FM_WIRE_HELLO, bytes);

	for (size_t at = HELLO_NAME_END; at <= len; at += len - HELLO_NAME_END) {
		CU_ASSERT_EQUAL_FATAL(decode_exact(bytes, at, &msg_out), 0);
		CU_ASSERT_EQUAL(msg_out.hello.tcp_conns, at == len ? 16 : 0);
		CU_ASSERT_EQUAL(msg_out.hello.rdma_conns, at == len ? 2 : 0);
	}
	CU_ASSERT_EQUAL_FATAL(fm_wire_decode(bytes, HELLO_NAME_END, &msg_out), 0);
	CU_ASSERT_EQUAL(fm_wire_encode(&msg_out, again), HELLO_NAME_END);
	CU_ASSERT_EQUAL(memcmp(again, bytes, HELLO_NAME_END), 0);
}

static void test_trailing(void)
{
	for (size_t i = 0; i < GOLDENS; i++) {
		uint8_t bytes[BYTES_MAX];
		size_t len = from_hex(goldens[i].hex, bytes);
		int want = goldens[i].type == FM_WIRE_HELLO ? 0 : -EBADMSG;

		bytes[len] = 0;
		CU_ASSERT_EQUAL(decode_exact(bytes, len + 1, &msg_out), want);
	}
}

/* What becomes of a message of which another id of a job is the end. */
static int decode_job(void (*make)(struct fm_wire_msg *m), enum fm_wire_type type, const char *job)
{
	size_t len;

	memset(&msg_in, 0, sizeof(msg_in));
	msg_in.type = type;
	make(&msg_in);
	len = fm_wire_encode(&msg_in, encoded);
	CU_ASSERT_TRUE_FATAL(len > FM_WIRE_JOB_LEN);
	memcpy(encoded + len - FM_WIRE_JOB_LEN, job, FM_WIRE_JOB_LEN);
	return decode_exact(encoded, len, &msg_out);
}

static void test_job_ids(void)
{
	static const char *const bad[] = {"abcd2z7\n", "Abcd2z7a", "abcd1z7a", "abcd8z7a",
					  "abc=2z7a"};

	CU_ASSERT_EQUAL(decode_job(make_put_job, FM_WIRE_PUT, "zz77aa22"), 0);
	CU_ASSERT_EQUAL(memcmp(msg_out.put.job, "zz77aa22", FM_WIRE_JOB_LEN), 0);
	CU_ASSERT_EQUAL(decode_job(make_get_job, FM_WIRE_GET, "zz77aa22"), 0);
	CU_ASSERT_EQUAL(memcmp(msg_out.get.job, "zz77aa22", FM_WIRE_JOB_LEN), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(decode_job(make_put_job, FM_WIRE_PUT, bad[i]), -ERANGE);
		CU_ASSERT_EQUAL(decode_job(make_get_job, FM_WIRE_GET, bad[i]), -ERANGE);
	}
}

/* A golden message with some bytes replaced. */
struct spoiled {
	enum fm_wire_type type;
	size_t at;
	const char *hex;
	int want;
};

static const struct spoiled spoiled[] = {
	/* type and flags */
	{ FM_WIRE_PING, 0, "0000", -EPROTO },
	{ FM_WIRE_PING, 0, "2100", -EPROTO },
	{ FM_WIRE_PING, 0, "0501", -EPROTO },
	{ FM_WIRE_PING, 2, "0100", -EPROTO },
	{ FM_WIRE_HELLO, 2, "0100", -EPROTO },
	{ FM_WIRE_ADDRS, 2, "0080", -EPROTO },
	{ FM_WIRE_TOKENS, 2, "0100", -EPROTO },
	{ FM_WIRE_PUT, 2, "8000", -EPROTO },
	{ FM_WIRE_PUT, 2, "0800", -EPROTO },		/* UPDATE without TREE */
	{ FM_WIRE_READY, 2, "4000", -EPROTO },
	{ FM_WIRE_GET, 2, "9200", -EPROTO },
	{ FM_WIRE_GET, 2, "3200", 0 },
	{ FM_WIRE_GET, 2, "0200", -EPROTO },		/* patterns without TREE */
	{ FM_WIRE_GET, 2, "1100", -EPROTO },		/* no kind of connection is left */
	{ FM_WIRE_FOUND, 2, "0200", -EPROTO },
	{ FM_WIRE_FINISH, 2, "0200", 0 },
	{ FM_WIRE_FINISH, 2, "0400", -EPROTO },
	{ FM_WIRE_DONE, 2, "0800", -EPROTO },
	{ FM_WIRE_ABORT, 2, "0400", -EPROTO },
	{ FM_WIRE_ABORT, 2, "0300", -EPROTO },		/* FULL, and another code than EBUSY */
	{ FM_WIRE_ABORT, 2, "0300 0700000000000000 10000000", 0 },
	{ FM_WIRE_REQUEST, 2, "0200", -EPROTO },	/* DRY without PURGE */
	{ FM_WIRE_REQUEST, 2, "0400", -EPROTO },	/* REPLACE without MOVE or LINK */
	{ FM_WIRE_REQUEST, 2, "0800", -EPROTO },
	{ FM_WIRE_REPLY, 2, "0400", -EPROTO },
	{ FM_WIRE_REPLY, 2, "0200", -EPROTO },		/* FULL, and another code than EBUSY */
	{ FM_WIRE_BYE, 2, "0100", -EPROTO },
	{ FM_WIRE_KEPT, 2, "0200", -EPROTO },
	{ FM_WIRE_SPACE, 2, "0f00", 0 },
	{ FM_WIRE_SPACE, 2, "1000", -EPROTO },
	{ FM_WIRE_GROUPS, 2, "0200", -EPROTO },
	{ FM_WIRE_WINDOW, 2, "0100", -EPROTO },
	/* HELLO: magic, versions, name */
	{ FM_WIRE_HELLO, 4, "474d4f56", -EPROTO },
	{ FM_WIRE_HELLO, 8, "0000", -ERANGE },
	{ FM_WIRE_HELLO, 8, "0300", -ERANGE },
	{ FM_WIRE_HELLO, 28, "0000", -ERANGE },
	{ FM_WIRE_HELLO, 30, "2f", -ERANGE },
	{ FM_WIRE_HELLO, 31, "00", -ERANGE },
	/* ADDRS: count, family, prefix, is_rdma, private bits, tail of an IPv4 address, length and
	 * bytes of the name */
	{ FM_WIRE_ADDRS, 8, "2100", -ERANGE },
	{ FM_WIRE_ADDRS, 8, "ffff", -ERANGE },
	{ FM_WIRE_ADDRS, 8, "0300", -EBADMSG },
	{ FM_WIRE_ADDRS, 8, "0100", -EBADMSG },
	{ FM_WIRE_ADDRS, 10, "05", -ERANGE },
	{ FM_WIRE_ADDRS, 11, "21", -ERANGE },
	{ FM_WIRE_ADDRS, 12, "02", -ERANGE },
	{ FM_WIRE_ADDRS, 13, "20", 0 },
	{ FM_WIRE_ADDRS, 13, "21", -ERANGE },
	{ FM_WIRE_ADDRS, 22, "01", -ERANGE },
	{ FM_WIRE_ADDRS, 34, "2000", -ERANGE },
	{ FM_WIRE_ADDRS, 36, "00", -ERANGE },
	{ FM_WIRE_ADDRS, 46, "0681", -ERANGE },
	{ FM_WIRE_ADDRS, 46, "0440", -ERANGE },
	/* TOKENS, TOKENS_WANT: count */
	{ FM_WIRE_TOKENS_WANT, 4, "0000", -ERANGE },
	{ FM_WIRE_TOKENS_WANT, 4, "2100", -ERANGE },
	{ FM_WIRE_TOKENS, 4, "0000", -EBADMSG },
	{ FM_WIRE_TOKENS, 4, "0300", -EBADMSG },
	{ FM_WIRE_TOKENS, 4, "2100", -ERANGE },
	/* PUT: size, chunk, mode, durability, zero, store, path */
	{ FM_WIRE_PUT, 12, "0000000000000080", -ERANGE },
	{ FM_WIRE_PUT, 12, "feffffffffffffff", -ERANGE },
	{ FM_WIRE_PUT, 12, "ffffffffffffff7f", 0 },
	{ FM_WIRE_PUT, 20, "00000000", -ERANGE },
	{ FM_WIRE_PUT, 20, "00080000", -ERANGE },
	{ FM_WIRE_PUT, 20, "00100000", 0 },
	{ FM_WIRE_PUT, 20, "00180000", -ERANGE },
	{ FM_WIRE_PUT, 20, "00000004", 0 },
	{ FM_WIRE_PUT, 20, "00000008", -ERANGE },
	{ FM_WIRE_PUT, 24, "00020000", -ERANGE },
	{ FM_WIRE_PUT, 44, "03", -ERANGE },
	{ FM_WIRE_PUT, 45, "01", -ERANGE },
	{ FM_WIRE_PUT, 47, "01", -ERANGE },
	{ FM_WIRE_PUT, 82, "2f", -ERANGE },
	{ FM_WIRE_PUT, 82, "00", -ERANGE },
	{ FM_WIRE_PUT, 83, "0400", -EBADMSG },
	{ FM_WIRE_PUT, 83, "0200", -EBADMSG },
	{ FM_WIRE_PUT, 86, "00", -ERANGE },
	/* PUT of a large file in a tree: size known, no store; a tree: size not known, in no
	 * tree */
	{ FM_WIRE_PUT, 48, "01", -ERANGE },
	{ FM_WIRE_PUT, 2, "0400", 0 },
	{ FM_WIRE_PUT, 2, "0400 0100000000000080 0000000000000000", 0 },
	/* READY: chunk, count, zero, ranges (empty, off the grid, touching, beyond any file),
	 * note */
	{ FM_WIRE_READY, 12, "01000100", -ERANGE },
	{ FM_WIRE_READY, 12, "00000000", -ERANGE },
	{ FM_WIRE_READY, 20, "0108", -ERANGE },
	{ FM_WIRE_READY, 20, "0300", -EBADMSG },
	{ FM_WIRE_READY, 22, "01", -ERANGE },
	{ FM_WIRE_READY, 24, "01", -ERANGE },
	{ FM_WIRE_READY, 32, "0000", -ERANGE },
	{ FM_WIRE_READY, 32, "0020", -ERANGE },
	{ FM_WIRE_READY, 32, "0120", -ERANGE },
	{ FM_WIRE_READY, 48, "ffffffffffffffff", -ERANGE },
	{ FM_WIRE_READY, 58, "00", -ERANGE },
	/* GET: chunk, count, zero, store, pattern */
	{ FM_WIRE_GET, 12, "00000000", -ERANGE },
	{ FM_WIRE_GET, 12, "01100000", -ERANGE },
	{ FM_WIRE_GET, 32, "4100", -ERANGE },
	{ FM_WIRE_GET, 32, "0300", -EBADMSG },
	{ FM_WIRE_GET, 34, "01", -EBADMSG },
	{ FM_WIRE_GET, 38, "2f", -ERANGE },
	{ FM_WIRE_GET, 46, "00", -ERANGE },
	/* FOUND: size, mode */
	{ FM_WIRE_FOUND, 12, "feffffffffffffff", -ERANGE },
	{ FM_WIRE_FOUND, 20, "00080000", -ERANGE },
	/* FINISH: size, data_bytes, chunks, zero */
	{ FM_WIRE_FINISH, 12, "00300000000000ff", -ERANGE },
	{ FM_WIRE_FINISH, 20, "0130000000000000", -ERANGE },
	{ FM_WIRE_FINISH, 28, "0120000000000000", -ERANGE },
	{ FM_WIRE_FINISH, 28, "0000000000000000", 0 },	/* all of it was there */
	{ FM_WIRE_FINISH, 40, "01000000", -ERANGE },
	/* ABORT: code, text */
	{ FM_WIRE_ABORT, 12, "00000000", -ERANGE },
	{ FM_WIRE_ABORT, 12, "00100000", -ERANGE },
	{ FM_WIRE_ABORT, 12, "ff0f0000", 0 },
	{ FM_WIRE_ABORT, 20, "00", -ERANGE },
	/* REQUEST: verb, RECURSIVE with another verb, zero, store, path */
	{ FM_WIRE_REQUEST, 12, "00", -ERANGE },
	{ FM_WIRE_REQUEST, 12, "0b", -EBADMSG },	/* of a group, without one */
	{ FM_WIRE_REQUEST, 12, "11", -ERANGE },
	{ FM_WIRE_REQUEST, 12, "02", -EPROTO },
	{ FM_WIRE_REQUEST, 13, "01", -ERANGE },
	{ FM_WIRE_REQUEST, 26, "2f", -ERANGE },
	{ FM_WIRE_REQUEST, 29, "00", -ERANGE },
	/* REPLY: code with entries, code, count, MORE without an entry, type, zero, mode, size,
	 * whole, name */
	{ FM_WIRE_REPLY, 12, "02000000", -ERANGE },
	{ FM_WIRE_REPLY, 12, "00100000", -ERANGE },
	{ FM_WIRE_REPLY, 16, "8100", -ERANGE },
	{ FM_WIRE_REPLY, 16, "0300", -EBADMSG },
	{ FM_WIRE_REPLY, 22, "00", -ERANGE },
	{ FM_WIRE_REPLY, 22, "05", -ERANGE },
	{ FM_WIRE_REPLY, 23, "01", -ERANGE },
	{ FM_WIRE_REPLY, 26, "00020000", -ERANGE },
	{ FM_WIRE_REPLY, 30, "ffffffffffffffff", -ERANGE },
	{ FM_WIRE_REPLY, 46, "0000000000000080", -ERANGE },
	{ FM_WIRE_REPLY, 56, "2f", -ERANGE },
	{ FM_WIRE_REPLY, 56, "2e", -ERANGE },
	{ FM_WIRE_REPLY, 56, "00", -ERANGE },
	{ FM_WIRE_SPACE, 64, "0900", -ERANGE },		/* more than the most */
	{ FM_WIRE_SPACE, 64, "0000", -EBADMSG },
	{ FM_WIRE_SPACE, 66, "0010", -ERANGE },		/* no errno */
	{ FM_WIRE_SPACE, 78, "2f", -ERANGE },		/* a store's name with a slash, or a NUL */
	{ FM_WIRE_SPACE, 78, "00", -ERANGE },
	{ FM_WIRE_SPACE, 97, "00", -ERANGE },		/* a path with a NUL */
	{ FM_WIRE_GROUPS, 12, "0500", -ERANGE },	/* more than the most */
	{ FM_WIRE_GROUPS, 12, "0000", -EBADMSG },
	{ FM_WIRE_GROUPS, 14, "01", -ERANGE },		/* not zero */
	{ FM_WIRE_GROUPS, 23, "80", -ERANGE },		/* before 1970 */
	{ FM_WIRE_GROUPS, 31, "80", -ERANGE },
	{ FM_WIRE_GROUPS, 40, "02", -ERANGE },		/* neither false nor true */
	{ FM_WIRE_GROUPS, 58, "00", -ERANGE },		/* a NUL in the path, the peer, a name */
	{ FM_WIRE_GROUPS, 63, "00", -ERANGE },
	{ FM_WIRE_GROUPS, 63, "2f", -ERANGE },
	{ FM_WIRE_GROUPS, 67, "00", -ERANGE },
	/* NEED: count, zero, a bit behind the last */
	{ FM_WIRE_NEED, 20, "0000", -EBADMSG },
	{ FM_WIRE_NEED, 20, "0104", -ERANGE },
	{ FM_WIRE_NEED, 20, "1100", -EBADMSG },
	{ FM_WIRE_NEED, 22, "01", -ERANGE },
	{ FM_WIRE_NEED, 25, "03", -ERANGE },
	/* NAMES: length, zero, change, path: empty, longer than the rest, with a NUL */
	{ FM_WIRE_NAMES, 12, "0b00", -EBADMSG },
	{ FM_WIRE_NAMES, 12, "0900", -EBADMSG },
	{ FM_WIRE_NAMES, 14, "01", -ERANGE },
	{ FM_WIRE_NAMES, 16, "00", -ERANGE },
	{ FM_WIRE_NAMES, 16, "04", -ERANGE },
	{ FM_WIRE_NAMES, 17, "0000", -ERANGE },
	{ FM_WIRE_NAMES, 21, "0400", -ERANGE },
	{ FM_WIRE_NAMES, 24, "00", -ERANGE },
	/* KEPT: what was read, offset, length, CRC of nothing, zero */
	{ FM_WIRE_KEPT, 12, "0000000000000080", -ERANGE },
	{ FM_WIRE_KEPT, 12, "0020000000000000", -ERANGE },
	{ FM_WIRE_KEPT, 20, "0110", -ERANGE },
	{ FM_WIRE_KEPT, 20, "00f0ffffffffff7f", -ERANGE },
	{ FM_WIRE_KEPT, 28, "0130", -ERANGE },
	{ FM_WIRE_KEPT, 28, "0000000000000000", -ERANGE },
	{ FM_WIRE_KEPT, 40, "01", -ERANGE },
	/* WINDOW: to */
	{ FM_WIRE_WINDOW, 12, "0000000000000000", -ERANGE },
	{ FM_WIRE_WINDOW, 12, "0000000000000080", -ERANGE },
	{ FM_WIRE_WINDOW, 12, "ffffffffffffff7f", 0 },
	/* VERIFY: store. VERIFIED: code, count, zero, kind, zero, path */
	{ FM_WIRE_VERIFY, 22, "2f", -ERANGE },
	{ FM_WIRE_VERIFIED, 12, "00100000", -ERANGE },
	{ FM_WIRE_VERIFIED, 16, "0900", -ERANGE },
	{ FM_WIRE_VERIFIED, 18, "01", -ERANGE },
	{ FM_WIRE_VERIFIED, 95, "06", -ERANGE },
	{ FM_WIRE_VERIFIED, 96, "01", -ERANGE },
	{ FM_WIRE_VERIFIED, 117, "00", -ERANGE },
	/* VOLUMES: code with a volume, code, count, zero, state, read-write and not mounted, zero,
	 * epoch, name, subsystem, writer */
	{ FM_WIRE_VOLUMES, 12, "01000000", -ERANGE },
	{ FM_WIRE_VOLUMES, 12, "00100000", -ERANGE },
	{ FM_WIRE_VOLUMES, 16, "4100", -ERANGE },
	{ FM_WIRE_VOLUMES, 18, "01", -ERANGE },
	{ FM_WIRE_VOLUMES, 22, "09", -ERANGE },
	{ FM_WIRE_VOLUMES, 22, "02", -ERANGE },
	{ FM_WIRE_VOLUMES, 23, "01", -ERANGE },
	{ FM_WIRE_VOLUMES, 33, "80", -ERANGE },
	{ FM_WIRE_VOLUMES, 36, "2f", -ERANGE },
	{ FM_WIRE_VOLUMES, 39, "00", -ERANGE },
	{ FM_WIRE_VOLUMES, 42, "00", -ERANGE },
	{ FM_WIRE_VOLUMES, 45, "2f", -ERANGE },
	/* FACTS: code with a piece, code, a NUL in the piece */
	{ FM_WIRE_FACTS, 12, "01000000", -ERANGE },
	{ FM_WIRE_FACTS, 12, "00100000", -ERANGE },
	{ FM_WIRE_FACTS, 20, "00", -ERANGE },
	/* BYE: text */
	{ FM_WIRE_BYE, 4, "0f00", -EBADMSG },
	{ FM_WIRE_BYE, 6, "00", -ERANGE },
};

static void test_ranges(void)
{
	for (size_t i = 0; i < sizeof(spoiled) / sizeof(spoiled[0]); i++) {
		const struct spoiled *s = &spoiled[i];
		uint8_t bytes[BYTES_MAX];
		size_t len = golden_bytes(s->type, bytes);
		int ret;

		CU_ASSERT_TRUE_FATAL(s->at < len);
		(void)from_hex(s->hex, bytes + s->at);	/* its length is in the message already */
		ret = decode_exact(bytes, len, &msg_out);
		CU_ASSERT_EQUAL(ret, s->want);
		if (ret != s->want)
			printf("\n%s at %zu = %s: %d\n", fm_wire_type_name(s->type), s->at, s->hex,
			       ret);
	}
}

/* A GET of the file "f" of the store "s", for some ranges. */
#define GET_HEAD \
	"0900 %s 0400000000000000 00100000 0000000000000000 01000000 02000000 0000 %s 0100 73 " \
	"0100 66 %s"

static int decode_get(const char *flags, const char *count, const char *ranges)
{
	uint8_t bytes[BYTES_MAX];
	char hex[2 * BYTES_MAX];

	(void)snprintf(hex, sizeof(hex), GET_HEAD, flags, count, ranges);
	return decode_exact(bytes, from_hex(hex, bytes), &msg_out);
}

/* Goal: ranges of any order are taken; a count that lies, a sum that no file has, ranges of a
 * tree, are not. */
static void test_get_ranges(void)
{
	static const struct {
		const char *flags, *count, *ranges;
		int want;
	} cases[] = {
		{"0200", "0000", "", 0},
		{"0200", "0100", "0000000000000000 0000000000000000", 0},
		{"8200", "0200",
		 "0500000000000000 0100000000000000 0000000000000000 ffffffffffffffff",
		 0},
		{"0200", "0100", "ffffffffffffff7f 0000000000000000", 0},
		{"0200", "0100", "0100000000000000 feffffffffffff7f", 0},
		{"0200", "0100", "0100000000000000 ffffffffffffff7f", -ERANGE},
		{"0200", "0100", "0000000000000080 0000000000000000", -ERANGE},
		{"0200", "0100", "ffffffffffffffff ffffffffffffffff", -ERANGE},
		{"0200", "0100", "0000000000000000 feffffffffffffff", -ERANGE},
		{"0200", "0200",
		 "0000000000000000 0000000000000040 0000000000000000 ffffffffffffff3f",
		 0},
		{"0200", "0200",
		 "0000000000000000 0000000000000040 0000000000000000 0000000000000040",
		 -ERANGE},
		{"0200", "0100", "", -EBADMSG},
		{"0200", "0200", "0000000000000000 0000000000000000", -EBADMSG},
		{"0200", "0000", "0000000000000000 0000000000000000", -EBADMSG},
		{"0200", "0104", "", -ERANGE},
		{"0200", "ffff", "", -ERANGE},
		{"8200", "0000", "", -EPROTO},
		{"1200", "0100", "0000000000000000 0000000000000000", -EPROTO},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_EQUAL(decode_get(cases[i].flags, cases[i].count, cases[i].ranges),
				cases[i].want);
}

/* Goal: ranges have their golden bytes, and as many as there may be fit a message. */
static void test_most_ranges(void)
{
	static uint8_t ranges[FM_WIRE_GET_RANGES_MAX * FM_WIRE_RANGE_LEN];
	static char path[FM_WIRE_PATH_MAX];
	uint8_t bytes[BYTES_MAX];
	char hex[2 * BYTES_MAX];
	size_t len;

	(void)snprintf(hex, sizeof(hex), GET_HEAD, "8200", "0200",
		       "0500000000000000 0100000000000000 0000000000000000 ffffffffffffffff");
	len = from_hex(hex, bytes);
	fm_wire_set_range(ranges, 0, (struct fm_wire_range){5, 1});
	fm_wire_set_range(ranges, 1, (struct fm_wire_range){0, FM_WIRE_TO_END});
	memset(&msg_in, 0, sizeof(msg_in));
	msg_in.type = FM_WIRE_GET;
	msg_in.get = (struct fm_wire_get){.flags = FM_WIRE_GET_TCP | FM_WIRE_GET_VERIFY,
					  .xfer = 4,
					  .chunk = FM_WIRE_CHUNK_MIN,
					  .uid = 1,
					  .gid = 2,
					  .store = fm_wire_str("s"),
					  .path = fm_wire_str("f"),
					  .range_count = 2,
					  .ranges = ranges};
	CU_ASSERT_EQUAL(fm_wire_encode(&msg_in, encoded), len);
	CU_ASSERT_EQUAL(memcmp(encoded, bytes, len), 0);
	CU_ASSERT_EQUAL_FATAL(fm_wire_decode(bytes, len, &msg_out), 0);
	CU_ASSERT_EQUAL(msg_out.get.range_count, 2);
	CU_ASSERT_EQUAL(fm_wire_range(msg_out.get.ranges, 0).offset, 5);

	memset(path, 'x', sizeof(path));
	msg_in.get.path = (struct fm_wire_str){path, sizeof(path)};
	msg_in.get.range_count = FM_WIRE_GET_RANGES_MAX;
	len = fm_wire_encode(&msg_in, encoded);
	CU_ASSERT_TRUE(len > sizeof(ranges));
	CU_ASSERT_EQUAL(decode_exact(encoded, len, &msg_out), 0);
	msg_in.get.range_count++;
	CU_ASSERT_EQUAL(fm_wire_encode(&msg_in, encoded), 0);
}

/* Goal: which connections a get may use is said within its limits, or refused; it has its golden
 * bytes. */
static void test_get_only(void)
{
#define WAY4 "04" ONE TWO
#define ONE  "0a000001 000000000000000000000000"
#define TWO  "0a000002 000000000000000000000000"
	static const struct {
		const char *flags, *only;
		int want;
	} cases[] = {
		{"0201", "02 00", 0},
		{"0201", "40 00", 0},
		{"0201", "00 01" WAY4, 0},
		{"0201", "02 04" WAY4 WAY4 WAY4 WAY4, 0},
		{"0201",
		 "00 01 06 fe80000000000000 0000000000000001 fe80000000000000 0000000000000002",
		 0},
		{"0201", "00 00", -EPROTO},
		{"0201", "41 00", -ERANGE},
		{"0201", "00 05" WAY4 WAY4 WAY4 WAY4 WAY4, -ERANGE},
		{"0201", "00 01 05" ONE TWO, -ERANGE},
		{"0201", "00 01 04 0a000001 000000000000000000000001" TWO, -ERANGE},
		{"0201", "00 01 04" ONE "0a000002 000000000000000000000001", -ERANGE},
		{"0201", "", -EBADMSG},
		{"0201", "00 02" WAY4, -EBADMSG},
		{"0201", "02 00 00", -EBADMSG},
		{"0200", "02 00", -EBADMSG},
		{"1201", "02 00", -EPROTO},
	};
	uint8_t bytes[BYTES_MAX];
	char hex[2 * BYTES_MAX];
	size_t len;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_EQUAL(decode_get(cases[i].flags, "0000", cases[i].only), cases[i].want);
	CU_ASSERT_EQUAL(decode_get("0201", "0100", "0000000000000000 0000000000000000 02 00"),
			-EPROTO);

	(void)snprintf(hex, sizeof(hex), GET_HEAD, "0201", "0000", "03 01" WAY4);
	len = from_hex(hex, bytes);
	memset(&msg_in, 0, sizeof(msg_in));
	msg_in.type = FM_WIRE_GET;
	msg_in.get = (struct fm_wire_get){.flags = FM_WIRE_GET_TCP | FM_WIRE_GET_ONLY,
					  .xfer = 4,
					  .chunk = FM_WIRE_CHUNK_MIN,
					  .uid = 1,
					  .gid = 2,
					  .store = fm_wire_str("s"),
					  .path = fm_wire_str("f"),
					  .conns = 3,
					  .way_count = 1,
					  .way = {{4, {10, 0, 0, 1}, {10, 0, 0, 2}}}};
	CU_ASSERT_EQUAL(fm_wire_encode(&msg_in, encoded), len);
	CU_ASSERT_EQUAL(memcmp(encoded, bytes, len), 0);
	CU_ASSERT_EQUAL_FATAL(fm_wire_decode(bytes, len, &msg_out), 0);
	CU_ASSERT_EQUAL(msg_out.get.conns, 3);
	CU_ASSERT_EQUAL(msg_out.get.way_count, 1);
	CU_ASSERT_EQUAL(memcmp(msg_out.get.way, msg_in.get.way, sizeof(msg_in.get.way[0])), 0);
	msg_in.get.way_count = FM_WIRE_WAYS_MAX + 1;
	CU_ASSERT_EQUAL(fm_wire_encode(&msg_in, encoded), 0);
#undef ONE
#undef TWO
#undef WAY4
}

/* The string that ends a message. */
struct last_string {
	enum fm_wire_type type;
	size_t at;		/* of its 16-bit length */
	size_t max;
};

static const struct last_string last_strings[] = {
	{ FM_WIRE_HELLO, 28, FM_WIRE_NAME_MAX },
	{ FM_WIRE_ADDRS, 70, 31 },
	{ FM_WIRE_PUT, 83, FM_WIRE_PATH_MAX },
	{ FM_WIRE_READY, 56, FM_WIRE_TEXT_MAX },
	{ FM_WIRE_GET, 49, FM_WIRE_EXCLUDE_LEN_MAX },
	{ FM_WIRE_FOUND, 56, FM_WIRE_TEXT_MAX },
	{ FM_WIRE_DONE, 132, FM_WIRE_TEXT_MAX },
	{ FM_WIRE_ABORT, 16, FM_WIRE_TEXT_MAX },
	{ FM_WIRE_REQUEST, 34, 0 },
	{ FM_WIRE_REPLY, 89, 255 },
	{ FM_WIRE_BYE, 4, FM_WIRE_TEXT_MAX },
	{ FM_WIRE_VERIFY, 23, FM_WIRE_PATH_MAX },
	{ FM_WIRE_VERIFIED, 115, FM_WIRE_PATH_MAX },
	{ FM_WIRE_VOLUMES, 43, FM_WIRE_NAME_MAX },
	{ FM_WIRE_FACTS, 18, FM_WIRE_FACTS_MAX },
};

static void test_string_lengths(void)
{
	for (size_t i = 0; i < sizeof(last_strings) / sizeof(last_strings[0]); i++) {
		const struct last_string *s = &last_strings[i];
		static uint8_t bytes[FM_WIRE_MSG_MAX + 4096];

		for (size_t len = s->max; len <= s->max + 1; len++) {
			(void)golden_bytes(s->type, bytes);
			bytes[s->at] = (uint8_t)len;
			bytes[s->at + 1] = (uint8_t)(len >> 8);
			memset(bytes + s->at + 2, 'x', len);
			CU_ASSERT_EQUAL(decode_exact(bytes, s->at + 2 + len, &msg_out),
					len > s->max ? -ERANGE : 0);
		}
	}
}

/* LIST is the verb with a name to go on from; that name is one of a directory's. */
static void test_list_after(void)
{
	static char long_name[257];
	static const struct { const char *after; int want;
	} cases[] = {
		{"", 0}, {"x", 0}, {"a/b", -ERANGE}, {long_name, -ERANGE}, {long_name + 1, 0},
	};

	memset(long_name, 'n', 256);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[BYTES_MAX];
		size_t len = golden_bytes(FM_WIRE_REQUEST, bytes),
		       after_len = strlen(cases[i].after);

		memcpy(bytes + 2, "\0\0", 2);
		bytes[12] = FM_WIRE_LIST;
		bytes[len - 4] = (uint8_t)after_len;
		bytes[len - 3] = (uint8_t)(after_len >> 8);
		memcpy(bytes + len - 2, cases[i].after, after_len);
		memset(bytes + len - 2 + after_len, 0, 2);
		CU_ASSERT_EQUAL(decode_exact(bytes, len + after_len, &msg_out), cases[i].want);
	}
}

/*
 * Goal: what a link says comes with one entry alone, is no longer than a path, and has no NUL; who
 * is missing comes with ENODATA alone.
 */
static void test_what_a_link_says(void)
{
	static const struct {
		uint8_t code;
		uint16_t count, len;
		char first;
		int want;
	} cases[] = {
		{0, 1, 0, 'x', 0},
		{0, 1, FM_WIRE_PATH_MAX, 'x', 0},
		{0, 1, FM_WIRE_PATH_MAX + 1, 'x', -ERANGE},
		{0, 1, 3, '\0', -ERANGE},
		{0, 0, 3, 'x', -ERANGE},
		{0, 2, 3, 'x', -ERANGE},
		{ENODATA, 0, FM_WIRE_MISSING_MAX, 'x', 0},
		{ENODATA, 0, FM_WIRE_MISSING_MAX + 1, 'x', -ERANGE},
		{ENODATA, 0, 3, '\0', -ERANGE},
		{ENOENT, 0, 3, 'x', -ERANGE},
	};
	static const uint8_t entry[34] = {3};
	static uint8_t bytes[FM_WIRE_MSG_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t *at = bytes + 20;

		memset(bytes, 0, sizeof(bytes));
		bytes[0] = FM_WIRE_REPLY;
		bytes[12] = cases[i].code;
		bytes[16] = (uint8_t)cases[i].count;
		*at++ = (uint8_t)cases[i].len;
		*at++ = (uint8_t)(cases[i].len >> 8);
		memset(at, 'x', cases[i].len);
		*at = cases[i].len > 0 ? (uint8_t)cases[i].first : 0;
		at += cases[i].len;
		for (unsigned k = 0; k < cases[i].count; k++, at += sizeof(entry))
			memcpy(at, entry, sizeof(entry));
		CU_ASSERT_EQUAL(decode_exact(bytes, (size_t)(at - bytes), &msg_out),
				cases[i].want);
	}
}

/* Of MOVE and LINK: never empty, no longer than a path and without NUL. */
static void check_second_name(uint8_t verb)
{
	static const uint8_t with_nul[] = {2, 0, 'a', 0};
	static uint8_t bytes[FM_WIRE_MSG_MAX];
	static char to[FM_WIRE_PATH_MAX + 1];
	struct fm_wire_msg m = {.type = FM_WIRE_REQUEST};
	const size_t at = 34;	/* of its length */
	const size_t keep = verb == FM_WIRE_LINK ? 4 : 0;	/* bytes behind it, zero here */
	size_t len;

	memset(to, 't', FM_WIRE_PATH_MAX);
	make_request(&m);
	m.request.verb = verb;
	m.request.flags = FM_WIRE_REQUEST_REPLACE;
	m.request.to = fm_wire_str(to);
	len = fm_wire_encode(&m, bytes);
	CU_ASSERT_EQUAL(len, at + 2 + FM_WIRE_PATH_MAX + keep);
	CU_ASSERT_EQUAL(decode_exact(bytes, len, &msg_out), 0);
	CU_ASSERT_EQUAL(msg_out.request.to.len, FM_WIRE_PATH_MAX);
	bytes[2] = 0;	/* the flags, which MKDIR has not */
	bytes[12] = FM_WIRE_MKDIR;
	CU_ASSERT_EQUAL(decode_exact(bytes, len - keep, &msg_out), -ERANGE);
	bytes[12] = verb;
	bytes[at] = 0;	/* 4096 */
	bytes[at + 1] = 0x10;
	bytes[len - keep] = 't';
	bytes[len] = keep > 0 ? 0 : 't';
	CU_ASSERT_EQUAL(decode_exact(bytes, len + 1, &msg_out), -ERANGE);
	bytes[at + 1] = 0;
	memset(bytes + at + 2, 0, keep);
	CU_ASSERT_EQUAL(decode_exact(bytes, at + 2 + keep, &msg_out), -ERANGE);
	memcpy(bytes + at, with_nul, sizeof(with_nul));
	memset(bytes + at + sizeof(with_nul), 0, keep);
	CU_ASSERT_EQUAL(decode_exact(bytes, at + sizeof(with_nul) + keep, &msg_out), -ERANGE);
}

/* LINK alone says how many stay, of what it leads to in its own directory. */
static int decode_keep(const char *to, uint32_t keep)
{
	static uint8_t bytes[FM_WIRE_MSG_MAX];
	struct fm_wire_msg m = {.type = FM_WIRE_REQUEST};
	size_t len, at;

	make_request(&m);
	m.request.verb = FM_WIRE_LINK;
	m.request.flags = 0;
	m.request.to = fm_wire_str(to);
	len = fm_wire_encode(&m, bytes);
	at = len - 4;
	for (unsigned i = 0; i < 4; i++)
		bytes[at + i] = (uint8_t)(keep >> 8 * i);
	return decode_exact(bytes, len, &msg_out);
}

static void test_keep(void)
{
	CU_ASSERT_EQUAL(decode_keep("step1", FM_WIRE_KEEP_MAX), 0);
	CU_ASSERT_EQUAL(msg_out.request.keep, FM_WIRE_KEEP_MAX);
	CU_ASSERT_EQUAL(decode_keep("d/step1", 0), 0);
	CU_ASSERT_EQUAL(decode_keep("d/step1", 1), -ERANGE);
	CU_ASSERT_EQUAL(decode_keep("step1", FM_WIRE_KEEP_MAX + 1), -ERANGE);
	CU_ASSERT_EQUAL(decode_keep("step1", UINT32_MAX), -ERANGE);
}

/* LINK alone may stay where something later is, if it may replace, by a name beside it. */
static int decode_later(unsigned verb, unsigned flags, const char *to)
{
	static uint8_t bytes[FM_WIRE_MSG_MAX];
	struct fm_wire_msg m = {.type = FM_WIRE_REQUEST};
	size_t len;

	make_request(&m);
	m.request.verb = (uint8_t)verb;
	m.request.flags = 0;
	m.request.to = fm_wire_str(to);
	len = fm_wire_encode(&m, bytes);
	bytes[2] = (uint8_t)flags;
	return decode_exact(bytes, len, &msg_out);
}

static void test_later(void)
{
	const unsigned both = FM_WIRE_REQUEST_LATER | FM_WIRE_REQUEST_REPLACE;

	CU_ASSERT_EQUAL(decode_later(FM_WIRE_LINK, both, "step1"), 0);
	CU_ASSERT_EQUAL(msg_out.request.flags, both);
	CU_ASSERT_EQUAL(decode_later(FM_WIRE_LINK, both, "d/step1"), -ERANGE);
	CU_ASSERT_EQUAL(decode_later(FM_WIRE_LINK, FM_WIRE_REQUEST_LATER, "step1"), -EPROTO);
	CU_ASSERT_EQUAL(decode_later(FM_WIRE_MOVE, both, "step1"), -EPROTO);
	CU_ASSERT_EQUAL(decode_later(FM_WIRE_LINK, both | 2 * FM_WIRE_REQUEST_LATER, "step1"),
			-EPROTO);
}

static void test_second_name(void)
{
	check_second_name(FM_WIRE_MOVE);
	check_second_name(FM_WIRE_LINK);
}

/* The largest message there is fits, and one byte more than a message may have is refused whatever
 * it says. */
static void test_largest(void)
{
	static char name[256], text[FM_WIRE_TEXT_MAX + 1];
	static uint8_t too_long[FM_WIRE_MSG_MAX + 1];
	size_t len;

	memset(name, 'n', 255);
	memset(text, 't', FM_WIRE_TEXT_MAX);
	memset(&msg_in, 0, sizeof(msg_in));
	msg_in.type = FM_WIRE_REPLY;
	msg_in.reply.count = FM_WIRE_ENTRIES_MAX;
	msg_in.reply.text = fm_wire_str(text);
	for (unsigned i = 0; i < FM_WIRE_ENTRIES_MAX; i++)
		msg_in.reply.entry[i] =
			(struct fm_wire_entry){.type = 1, .name = fm_wire_str(name)};
	len = fm_wire_encode(&msg_in, encoded);
	CU_ASSERT_TRUE(len <= FM_WIRE_MSG_MAX);
	CU_ASSERT_EQUAL(decode_exact(encoded, len, &msg_out), 0);
	CU_ASSERT_EQUAL(msg_out.reply.count, FM_WIRE_ENTRIES_MAX);

	(void)golden_bytes(FM_WIRE_HELLO, too_long);
	CU_ASSERT_EQUAL(fm_wire_decode(too_long, FM_WIRE_MSG_MAX, &msg_out), 0);
	CU_ASSERT_EQUAL(fm_wire_decode(too_long, sizeof(too_long), &msg_out), -EBADMSG);
}

/* ---- random bytes ---- */

static uint64_t random_state = 1;

static uint32_t random_u32(void)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 32);
}

/* What is accepted means exactly its bytes: written again it is the same (HELLO: but for what is
 * behind its last field). */
static void check_accepted(const uint8_t *bytes, size_t len)
{
	size_t again;

	if (fm_wire_decode(bytes, len, &msg_out) != 0)
		return;
	again = fm_wire_encode(&msg_out, encoded);
	CU_ASSERT_TRUE(msg_out.type == FM_WIRE_HELLO ? again <= len : again == len);
	CU_ASSERT_EQUAL(memcmp(encoded, bytes, again), 0);
}

static void test_random(void)
{
	uint8_t *bytes = malloc(BYTES_MAX);

	for (unsigned i = 0; bytes && i < 100000; i++) {
		size_t len = golden_bytes((enum fm_wire_type)(1 + random_u32() % FM_WIRE_VERIFIED),
					  bytes);

		for (unsigned n = random_u32() % 4; n > 0; n--)
			bytes[random_u32() % len] = (uint8_t)random_u32();
		check_accepted(bytes, random_u32() % 8 ? len : random_u32() % (len + 1));
	}
	for (unsigned i = 0; bytes && i < 20000; i++) {
		size_t len = random_u32() % 256;

		for (size_t at = 0; at < len; at++)
			bytes[at] = (uint8_t)random_u32();
		bytes[0] %= 24;
		bytes[1] = bytes[2] = bytes[3] = 0;
		check_accepted(bytes, len);
	}
	free(bytes);
}

/* ---- encoders refuse what decoders refuse ---- */

static size_t encoded_of(struct fm_wire_msg m)
{
	msg_in = m;
	return fm_wire_encode(&msg_in, encoded);
}

static void test_encoders_refuse(void)
{
	static char long_text[70000];
	struct fm_wire_str text = { long_text, sizeof(long_text) };

	memset(long_text, 'x', sizeof(long_text));
	CU_ASSERT_EQUAL(
		encoded_of((struct fm_wire_msg){.type = FM_WIRE_DONE, .done = {.flags = 8}}), 0);
	CU_ASSERT_EQUAL(encoded_of((struct fm_wire_msg){.type = FM_WIRE_HELLO,
							.hello = {.version_min = 1,
								  .version_max = 1,
								  .name = {"a/b", 3}}}),
			0);
	CU_ASSERT_EQUAL(encoded_of((struct fm_wire_msg){ .type = (enum fm_wire_type)127 }), 0);
	CU_ASSERT_EQUAL(encoded_of((struct fm_wire_msg){.type = FM_WIRE_READY,
							.ready = {.chunk = 4096, .have_crc = 7}}),
			0);
	CU_ASSERT_EQUAL(encoded_of((struct fm_wire_msg){.type = FM_WIRE_ABORT,
							.abort = {.code = 5, .text = text}}),
			0);
	CU_ASSERT_EQUAL(
		encoded_of((struct fm_wire_msg){.type = FM_WIRE_ABORT, .abort = {.code = 0}}), 0);
	CU_ASSERT_TRUE(encoded_of((struct fm_wire_msg){ .type = FM_WIRE_DONE }) > 0);
}

static void test_names(void)
{
	CU_ASSERT_STRING_EQUAL(fm_wire_type_name(FM_WIRE_HELLO), "HELLO");
	CU_ASSERT_STRING_EQUAL(fm_wire_type_name(FM_WIRE_BYE), "BYE");
	CU_ASSERT_STRING_EQUAL(fm_wire_type_name(0), "?");
	CU_ASSERT_STRING_EQUAL(fm_wire_type_name(FM_WIRE_TYPE_LAST + 1), "?");
	CU_ASSERT_STRING_EQUAL(fm_wire_type_name(UINT32_MAX), "?");
	CU_ASSERT_TRUE(fm_wire_is_good_name("n 1", 3));
	CU_ASSERT_FALSE(fm_wire_is_good_name("", 0));
	CU_ASSERT_FALSE(fm_wire_is_good_name("a/b", 3));
	CU_ASSERT_FALSE(fm_wire_is_good_name("a\0b", 3));
	CU_ASSERT_TRUE(fm_wire_is_good_path("", 0));
	CU_ASSERT_TRUE(fm_wire_is_good_path("a/b", 3));
	CU_ASSERT_FALSE(fm_wire_is_good_path("a\0b", 3));
}

static const struct fm_test tests[] = {
	{ "every control message has its golden bytes, both ways", test_golden },
	{ "decoded fields hold what the bytes say", test_decoded_values },
	{ "every truncation of every message is refused", test_truncated },
	{ "a HELLO without numbers of connections is an older node's", test_hello_conns },
	{ "the id of a job has eight characters a-z and 2-7", test_job_ids },
	{ "bytes behind a message are refused, behind a HELLO ignored", test_trailing },
	{ "every range, flag and zero of every message is checked", test_ranges },
	{ "ranges of a GET are checked, and so is their number", test_get_ranges },
	{ "ranges of a GET have their golden bytes; the most of them fit", test_most_ranges },
	{ "which connections a GET may use", test_get_only },
	{ "strings may have their maximum and not a byte more", test_string_lengths },
	{ "only LIST goes on after a name, and that is a name", test_list_after },
	{ "MOVE and LINK alone have a second name, and may replace", test_second_name },
	{ "what a link says comes with one entry", test_what_a_link_says },
	{ "LINK says how many stay, of its own directory", test_keep },
	{ "LINK says that it is never led back, with REPLACE, in its own directory", test_later },
	{ "the largest reply fits, a longer message is refused", test_largest },
	{ "random bytes are refused or mean exactly themselves", test_random },
	{ "encoders refuse what decoders refuse", test_encoders_refuse },
	{ "types have names, and names and paths can be asked about", test_names },
};

FM_TEST_MAIN("wire", tests)
