/* SPDX-License-Identifier: MIT */
/* words - control messages with any values that can be written. See peer.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "tests/hostile/peer.h"

uint64_t any_id(struct peer *p)
{
	struct odds *o = &p->odds;

	if (p->id_count > 0 && !one_in(o, 4))
		return p->ids[below(o, p->id_count < IDS_MAX ? p->id_count : IDS_MAX)];
	return below(o, 8) | (one_in(o, 2) ? UINT64_C(1) << 63 : 0);
}

void remember(struct peer *p, uint64_t id)
{
	p->ids[p->id_count++ % IDS_MAX] = id;
}

static uint64_t any_size(struct odds *o)
{
	switch (below(o, 8)) {
	case 0:
		return 0;
	case 1:
		return FM_WIRE_SIZE_MAX;
	default:
		return below(o, 1u << 20);
	}
}

static uint32_t any_chunk(struct odds *o)
{
	return 4096u << (one_in(o, 4) ? below(o, 15) : below(o, 5));
}

/* What terminals, paths and shells might take for something. */
static struct fm_wire_str any_text(struct odds *o)
{
	static const char *const texts[] = {
		"",
		"for no reason",
		"\033[2J\033]0;title\007",
		"a\rb",
		("\xe2\x80\xae"
		 "txt.exe"),
		"%s%n%s",
		"\xff\xfe",
		"../../..",
		"line\nline",
	};

	return fm_wire_str(texts[below(o, sizeof(texts) / sizeof(texts[0]))]);
}

/* Below a store, as one would like to get out of it. hstl in each tells what we made. */
static struct fm_wire_str any_path(struct peer *p, bool is_tree)
{
	static char text[64];
	static const char *const ways[] = {"../",     "a/../../",    "/tmp/",
					   "./",      "hstl-out/",   "hstl-d/x/",
					   ".fmove.", "hstl\033[1m", "hstl-link/"};
	struct odds *o = &p->odds;
	unsigned n = (unsigned)below(o, 40);

	(void)snprintf(text, sizeof(text), "%shstl%s%u",
		       one_in(o, 6) ? ways[below(o, sizeof(ways) / sizeof(ways[0]))] : "",
		       is_tree ? "-t" : "", n);
	return one_in(o, 30) ? fm_wire_str("") : fm_wire_str(text);
}

static struct fm_wire_str any_store(struct odds *o)
{
	static const char *const stores[] = {"s",    "s",	"s",  "own",	    "null",
					     "read", "nowhere", "..", FM_LENT_STORE};

	return fm_wire_str(stores[below(o, sizeof(stores) / sizeof(stores[0]))]);
}

static uint32_t any_user(struct odds *o)
{
	static const uint32_t users[] = {0, 1, 1000, 65534, UINT32_MAX};

	return users[below(o, sizeof(users) / sizeof(users[0]))];
}

/* Of few, so that members meet groups; the hostile client has the same. */
static void any_group(struct odds *o, uint8_t group[FM_WIRE_GROUP_LEN])
{
	memset(group, 0, FM_WIRE_GROUP_LEN);
	group[FM_WIRE_GROUP_LEN - 1] = (uint8_t)below(o, 2);
}

static struct fm_wire_str any_group_path(struct odds *o, bool is_member)
{
	static char text[64];
	static const char *const ways[] = {"", "hstl-d/", "../", ".fmove.", "a/../../"};
	unsigned n = (unsigned)below(o, 4);

	if (is_member)
		(void)snprintf(text, sizeof(text), "hstl-g%u/%shstl%u", n,
			       ways[one_in(o, 2) ? 0 : below(o, 5)], (unsigned)below(o, 4));
	else
		(void)snprintf(text, sizeof(text), "hstl-g%u", n);
	return fm_wire_str(text);
}

static void make_member(struct odds *o, struct fm_wire_put *m)
{
	m->flags |= FM_WIRE_PUT_GROUP;
	any_group(o, m->group);
	m->store = fm_wire_str("s");
	m->path = any_group_path(o, true);
}

static void make_put(struct peer *p, struct fm_wire_put *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_put){.flags = (uint16_t)below(o, 4),
				  .xfer = any_id(p) | 1,
				  .size = one_in(o, 4) ? FM_WIRE_SIZE_UNKNOWN : any_size(o),
				  .chunk = any_chunk(o),
				  .mode = (uint32_t)below(o, 01000),
				  .mtime_ns = (int64_t)any_number(o),
				  .uid = any_user(o),
				  .gid = any_user(o),
				  .durability = (uint8_t)below(o, 3),
				  .ino = below(o, 3),
				  .dev = below(o, 2),
				  .store = any_store(o),
				  .path = any_path(p, false)};
	if (one_in(o, 6))
		m->flags |= FM_WIRE_PUT_READBACK;
	if (one_in(o, 3)) {
		m->flags |= FM_WIRE_PUT_TREE | (uint16_t)(below(o, 8) * FM_WIRE_PUT_UPDATE);
		m->flags |= one_in(o, 3) ? FM_WIRE_PUT_NAMES : 0;
		m->flags &= (uint16_t)~FM_WIRE_PUT_READBACK;
		m->path = any_path(p, true);
		m->size = FM_WIRE_SIZE_UNKNOWN;
		m->mode = 0;
		m->mtime_ns = 0;
	} else if (one_in(o, 3)) {
		m->tree = any_id(p) | 1;
		m->size = any_size(o);
		m->store = fm_wire_str("");
		if (m->path.len == 0 || one_in(o, 2))
			m->path = fm_wire_str("hstl-d/big");
	}
	if (m->tree == 0 && one_in(o, 4))
		make_member(o, m);
}

static void make_ready(struct peer *p, struct fm_wire_ready *m)
{
	static uint8_t have[8 * FM_WIRE_RANGE_LEN];
	struct odds *o = &p->odds;
	uint64_t at = 0;

	*m = (struct fm_wire_ready){
		.flags = (uint16_t)below(o, one_in(o, 2) ? 2 : FM_WIRE_READY_FLAGS + 1),
		.xfer = any_id(p),
		.chunk = any_chunk(o),
		.note = any_text(o)};
	if (!one_in(o, 3))
		return;
	m->count = 1 + (uint16_t)below(o, 8);
	m->have = have;
	m->have_crc = (uint32_t)odds_next(o);
	for (unsigned i = 0; i < m->count; i++, at += 16384)
		fm_wire_set_range(
			have, i,
			(struct fm_wire_range){at + below(o, 2) * 4096, 1 + below(o, 8192)});
}

/* Ranges, half of them of more than any file has. */
static void add_ranges(struct odds *o, struct fm_wire_get *m)
{
	static uint8_t ranges[4 * FM_WIRE_RANGE_LEN];

	m->ranges = ranges;
	m->range_count = (uint16_t)(1 + below(o, 4));
	for (unsigned i = 0; i < m->range_count; i++)
		fm_wire_set_range(ranges, i,
				  (struct fm_wire_range){below(o, 9000),
							 one_in(o, 2) ? FM_WIRE_SIZE_MAX / 8
								      : below(o, 20000)});
	if (one_in(o, 2))
		m->flags |= FM_WIRE_GET_VERIFY;
}

/* Connections that may be there, or more than there are. */
static void add_only(struct odds *o, struct fm_wire_get *m)
{
	m->flags |= FM_WIRE_GET_ONLY;
	m->conns = (uint8_t)below(o, FM_WIRE_ONLY_CONNS_MAX + 1);
	m->way_count = (uint8_t)below(o, FM_WIRE_WAYS_MAX + 1);
	if (m->way_count == 0 && m->conns == 0)
		m->conns = 1;
	for (unsigned i = 0; i < m->way_count; i++)
		m->way[i] = (struct fm_wire_way){
			4, {127, 0, 0, (uint8_t)below(o, 3)}, {127, 0, 0, (uint8_t)below(o, 3)}};
}

static void make_get(struct peer *p, struct fm_wire_get *m)
{
	static char lent[FM_LENT_KEY_LEN + 32];
	struct odds *o = &p->odds;

	*m = (struct fm_wire_get){.flags = (uint16_t)(2 + below(o, 6)),
				  .xfer = any_id(p) | 1,
				  .chunk = any_chunk(o),
				  .rate_bytes = one_in(o, 4) ? below(o, 100000) : 0,
				  .uid = any_user(o),
				  .gid = any_user(o),
				  .store = any_store(o),
				  .path = any_path(p, false)};
	if (one_in(o, 3))
		m->flags |= FM_WIRE_GET_RESUME;
	if (one_in(o, 8)) {	/* of a dataset that the daemon may have */
		(void)snprintf(lent, sizeof(lent), "%064d/%s%u", 0,
			       one_in(o, 2) ? "../.manifest" : "hstl", (unsigned)below(o, 9));
		m->store = fm_wire_str(FM_LENT_STORE);
		m->path = fm_wire_str(lent);
		add_ranges(o, m);
	} else if (one_in(o, 4))
		add_ranges(o, m);
	else if (one_in(o, 4))
		add_only(o, m);
	if (m->range_count > 0 || m->flags & FM_WIRE_GET_ONLY || !one_in(o, 3))
		return;
	m->flags |= FM_WIRE_GET_TREE;
	m->path = any_path(p, true);
	m->count = (uint16_t)below(o, 3);
	m->exclude[0] = fm_wire_str("x*");
	m->exclude[1] = fm_wire_str("[[:alpha:]*[");
}

static void make_need(struct peer *p, struct fm_wire_need *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_need){
		.xfer = any_id(p), .seq = below(o, 6), .count = 1 + (uint16_t)below(o, 8)};
	m->bits[0] = (uint8_t)(below(o, 256) & ((1u << m->count) - 1));
}

static void make_names(struct peer *p, struct fm_wire_names *m)
{
	static const uint8_t names[] = {1,   1,	  0,   '.', 3, 5, 0, 'a',
					'/', '.', '.', 033, 2, 1, 0, '/'};
	static const uint16_t lens[] = { 0, 4, 12, sizeof(names) };

	*m = (struct fm_wire_names){
		.xfer = any_id(p), .len = lens[below(&p->odds, 4)], .at = names};
}

static void make_kept(struct peer *p, struct fm_wire_kept *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_kept){
		.flags = (uint16_t)one_in(o, 3), .xfer = any_id(p), .reread = any_number(o) >> 1};
	if (!one_in(o, 2) || m->reread == 0)
		return;
	m->damaged.offset = below(o, 16) * 4096;
	m->damaged.len = 1 + below(o, m->reread < 100000 ? m->reread : 100000);
	m->crc = (uint32_t)odds_next(o);
}

static void make_finish(struct peer *p, struct fm_wire_finish *m)
{
	struct odds *o = &p->odds;
	uint64_t size = any_size(o);

	*m = (struct fm_wire_finish){.flags = (uint16_t)one_in(o, 4),
				     .xfer = any_id(p),
				     .size = size,
				     .data_bytes = size,
				     .chunks = size > 0 ? 1 + below(o, size) : 0,
				     .crc = (uint32_t)odds_next(o)};
}

static void make_verified(struct peer *p, struct fm_wire_verified *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_verified){.flags = (uint16_t)below(o, 2),
				       .id = any_id(p),
				       .files = any_number(o),
				       .bytes = any_number(o),
				       .corrupt = any_number(o),
				       .text = any_text(o)};
	if (m->flags)
		m->text = fm_wire_str("");
	m->count = (uint16_t)below(o, 3);
	for (unsigned i = 0; i < m->count; i++)
		m->finding[i] =
			(struct fm_wire_found_bad){.kind = 1 + (uint8_t)below(o, 2),
						   .offset = below(o, 1u << 20),
						   .length = below(o, 1u << 20),
						   .path = fm_wire_str("hstl\033]0;x\007\r")};
}

static void make_volumes(struct peer *p, struct fm_wire_volumes *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_volumes){.id = any_id(p), .text = fm_wire_str("")};
	m->count = (uint16_t)below(o, 3);
	if (m->count > 0)
		m->flags = (uint16_t)below(o, 2);
	for (unsigned i = 0; i < m->count; i++)
		m->volume[i] = (struct fm_wire_volume){.state = (uint8_t)below(o, 8) |
								FM_WIRE_VOLUME_MOUNTED,
						       .epoch = any_number(o) >> 1,
						       .name = fm_wire_str("hstl"),
						       .subsystem = fm_wire_str("nqn.hstl\033[7m"),
						       .wwid = fm_wire_str("\rwwid"),
						       .writer = fm_wire_str("n1")};
}

static void make_stage(struct peer *p, struct fm_wire_stage *m)
{
	struct fm_wire_str body = any_text(&p->odds);

	*m = (struct fm_wire_stage){.kind = (uint8_t)(1 + below(&p->odds, 3)),
				    .body = (const uint8_t *)body.at,
				    .len = body.len};
	m->run[0] = (uint8_t)below(&p->odds, 4);
}

static void make_facts(struct peer *p, struct fm_wire_facts *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_facts){.id = any_id(p), .text = any_text(o), .piece = any_text(o)};
	if (one_in(o, 8)) {
		m->code = 1 + (uint32_t)below(o, 4095);
		m->piece.len = 0;
	}
	if (m->piece.len > 0)
		m->flags = (uint16_t)below(o, 2);
}

static void make_reply(struct peer *p, struct fm_wire_reply *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_reply){
		.id = any_id(p), .count = (uint16_t)below(o, 4), .text = any_text(o)};
	if (m->count > 0)
		m->flags = (uint16_t)below(o, 2);
	else
		m->code = (uint32_t)below(o, 200);
	for (unsigned i = 0; i < m->count; i++)
		m->entry[i] = (struct fm_wire_entry){.type = 1 + (uint8_t)below(o, 4),
						     .mode = (uint32_t)below(o, 01000),
						     .size = below(o, 1u << 30),
						     .name = fm_wire_str("hstl\033[8m")};
}

static void make_addrs(struct peer *p, struct fm_wire_addrs *m)
{
	struct odds *o = &p->odds;

	m->tcp_port = (uint16_t)below(o, 65536);
	m->rdma_port = (uint16_t)below(o, 65536);
	m->count = (uint16_t)below(o, one_in(o, 4) ? FM_WIRE_ADDRS_MAX + 1 : 3);
	for (unsigned i = 0; i < m->count; i++) {
		m->addr[i] = (struct fm_wire_addr){.family = 4,
						   .prefix_len = (uint8_t)below(o, 33),
						   .is_rdma = one_in(o, 4),
						   .speed_mbps = (uint32_t)odds_next(o),
						   .address = {127, 0, 0, (uint8_t)below(o, 3)}};
		(void)snprintf(m->addr[i].name, sizeof(m->addr[i].name), "%s",
			       one_in(o, 2) ? "lo" : "\033[5mport\r");
	}
}

static void make_group_request(struct odds *o, struct fm_wire_request *m)
{
	static const char *const expect[] = {"", "hstl0", "hstl0\nhstl1", "\n\n../hstl0\n",
					     "hstl-d"};

	m->flags = one_in(o, 2) ? FM_WIRE_REQUEST_REPLACE : 0;
	m->store = fm_wire_str("s");
	m->path = any_group_path(o, false);
	any_group(o, m->group);
	if (m->verb == FM_WIRE_GROUP_BEGIN)
		m->expires_s = one_in(o, 2) ? below(o, 9) : any_number(o) % FM_WIRE_EXPIRES_MAX;
	if (m->verb == FM_WIRE_GROUP_DISCARD)
		m->flags = 0;
	else
		m->members = (uint32_t)below(o, 4);
	if (m->verb != FM_WIRE_GROUP_DISCARD && one_in(o, 2))
		m->expect = fm_wire_str(expect[below(o, 5)]);
}

static void make_request_word(struct peer *p, struct fm_wire_request *m)
{
	static char path[64];	/* as any_path() has it: there is one of those only */
	struct odds *o = &p->odds;
	bool is_purge;

	*m = (struct fm_wire_request){.id = any_id(p) | 1,
				      .verb = 1 + (uint8_t)below(o, FM_WIRE_GROUP_LIST),
				      .uid = any_user(o),
				      .gid = any_user(o),
				      .store = any_store(o),
				      .path = any_path(p, false),
				      .after = fm_wire_str(""),
				      .to = fm_wire_str(""),
				      .expect = fm_wire_str("")};
	if (m->verb >= FM_WIRE_GROUP_BEGIN && m->verb <= FM_WIRE_GROUP_DISCARD)
		make_group_request(o, m);
	if (m->verb == FM_WIRE_GROUP_LIST)
		m->path = fm_wire_str(one_in(o, 2) ? "" : "hstl-g1");
	if (m->verb == FM_WIRE_MOVE || m->verb == FM_WIRE_LINK) {
		(void)snprintf(path, sizeof(path), "%.*s", (int)m->path.len, m->path.at);
		m->path = fm_wire_str(path);
		m->to = any_path(p, one_in(o, 2));
		if (m->to.len == 0)
			m->to = fm_wire_str("../..");
		m->flags = one_in(o, 2) ? FM_WIRE_REQUEST_REPLACE : 0;
		if (m->verb == FM_WIRE_LINK && !memchr(m->to.at, '/', m->to.len))
			m->keep = (uint32_t)below(o, 3);
	}
	if (m->verb == FM_WIRE_STAT && one_in(o, 2))
		m->verb = FM_WIRE_LOOK;
	if (m->verb == FM_WIRE_MKDIR)
		m->path = any_path(p, true);
	if (m->verb == FM_WIRE_REMOVE)
		m->flags = (uint16_t)below(o, 2);
	if ((m->verb == FM_WIRE_LIST || m->verb == FM_WIRE_PARTIALS) && one_in(o, 3))
		m->after = fm_wire_str("hstl2");
	if ((m->verb == FM_WIRE_LIST && one_in(o, 2)) || m->verb == FM_WIRE_FREE)
		m->path = fm_wire_str("");
	if (m->verb == FM_WIRE_FREE && one_in(o, 2)) {
		m->store = fm_wire_str("");
		m->after = any_store(o);
	}
	is_purge = m->verb == FM_WIRE_PURGE || m->verb == FM_WIRE_PURGE_PARTIALS;
	if (is_purge && one_in(o, 2))
		m->flags = FM_WIRE_REQUEST_DRY;
	else if (is_purge)
		m->path = fm_wire_str("");
}

static void make_space(struct peer *p, struct fm_wire_space *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_space){.id = any_id(p),
				    .flags = (uint16_t)(2 * below(o, 8)),
				    .size = any_number(o),
				    .free = any_number(o),
				    .used = any_number(o),
				    .aside = any_number(o),
				    .trees = (uint32_t)below(o, 9),
				    .count = (uint16_t)below(o, FM_WIRE_ASIDE_MAX + 1),
				    .store = one_in(o, 3) ? fm_wire_str("") : any_store(o)};
	for (unsigned i = 0; i < m->count; i++)
		m->tree[i] = (struct fm_wire_aside){.bytes = any_number(o),
						    .since_ns = (int64_t)any_number(o),
						    .path = fm_wire_str("\033[31ma/../b")};
	if (m->count > 0 && one_in(o, 3))
		m->flags |= FM_WIRE_SPACE_MORE;
}

static void make_groups(struct peer *p, struct fm_wire_groups *m)
{
	struct odds *o = &p->odds;

	*m = (struct fm_wire_groups){.id = any_id(p),
				     .count = (uint16_t)below(o, FM_WIRE_GROUPS_MAX + 1)};
	for (unsigned i = 0; i < m->count; i++) {
		struct fm_wire_group *g = &m->group[i];

		*g = (struct fm_wire_group){.begun_ns = (int64_t)(any_number(o) >> 1),
					    .expires_ns = (int64_t)(any_number(o) >> 1),
					    .uid = any_user(o),
					    .expected = (uint32_t)any_number(o),
					    .path = fm_wire_str("\033[31ma/../b"),
					    .peer = fm_wire_str("n1")};
		for (unsigned k = 0; k < FM_WIRE_MEMBERS_COUNT; k++) {
			g->count[k] = (uint32_t)any_number(o);
			g->names[k] = fm_wire_str("\033[31ma\n\n../b");
		}
	}
	if (m->count > 0 && one_in(o, 3))
		m->flags = FM_WIRE_GROUPS_MORE;
}

static void make_xfer_word(struct peer *p, struct fm_wire_msg *m)
{
	struct odds *o = &p->odds;

	switch (m->type) {
	case FM_WIRE_PUT:
		make_put(p, &m->put);
		break;
	case FM_WIRE_READY:
		make_ready(p, &m->ready);
		break;
	case FM_WIRE_GET:
		make_get(p, &m->get);
		break;
	case FM_WIRE_NEED:
		make_need(p, &m->need);
		break;
	case FM_WIRE_FINISH:
		make_finish(p, &m->finish);
		break;
	case FM_WIRE_COMMIT:
		m->commit.xfer = any_id(p);
		break;
	case FM_WIRE_WINDOW:
		m->window = (struct fm_wire_window){.xfer = any_id(p),
						    .to = one_in(o, 2) ? 1 + below(o, 8)
								       : 1 + (any_number(o) >> 2)};
		break;
	case FM_WIRE_KEPT:
		make_kept(p, &m->kept);
		break;
	case FM_WIRE_NAMES:
		make_names(p, &m->names);
		break;
	case FM_WIRE_FOUND:
		m->found = (struct fm_wire_found){.flags = (uint16_t)below(o, 2),
						  .xfer = any_id(p),
						  .size = one_in(o, 3) ? FM_WIRE_SIZE_UNKNOWN
								       : any_size(o),
						  .mode = (uint32_t)below(o, 01000),
						  .note = any_text(o)};
		break;
	case FM_WIRE_DONE:
		m->done = (struct fm_wire_done){.flags = (uint16_t)below(o, 8),
						.xfer = any_id(p),
						.files = any_number(o),
						.note = any_text(o)};
		break;
	default:
		m->type = FM_WIRE_ABORT;
		m->abort = (struct fm_wire_abort){
			.flags = (uint16_t)below(o, FM_WIRE_ABORT_FLAGS + 1),
			.xfer = any_id(p),
			.code = one_in(o, 2) ? EBUSY : 1 + (uint32_t)below(o, 4095),
			.text = any_text(o)};
		if (m->abort.code != EBUSY)
			m->abort.flags &= (uint16_t)~FM_WIRE_ABORT_FULL;
		break;
	}
}

void word_any(struct peer *p, struct fm_wire_msg *m)
{
	struct odds *o = &p->odds;

	m->type = (enum fm_wire_type)(1 + below(o, FM_WIRE_TYPE_LAST));
	switch (m->type) {
	case FM_WIRE_HELLO:
		m->hello = (struct fm_wire_hello){
			.version_min = FM_WIRE_VERSION,
			.version_max = FM_WIRE_VERSION,
			.name = fm_wire_str(one_in(o, 2) ? p->name : "\033[31mn2")};
		break;
	case FM_WIRE_ADDRS:
		make_addrs(p, &m->addrs);
		break;
	case FM_WIRE_TOKENS:
	case FM_WIRE_TOKENS_WANT:
		memset(&m->tokens, 0x33, sizeof(m->tokens));
		m->tokens.count = 1 + (uint16_t)below(o, FM_WIRE_TOKENS_MAX);
		break;
	case FM_WIRE_PING:
	case FM_WIRE_PONG:
		m->ping.nonce = any_number(o);
		break;
	case FM_WIRE_RECEIVED:
	case FM_WIRE_RESUME:
		m->resume = (struct fm_wire_resume){.session = 1 + below(o, 4),
						    .count = one_in(o, 4) ? any_number(o)
									  : below(o, 100),
						    .order = 1 + below(o, 4)};
		break;
	case FM_WIRE_REQUEST:
		make_request_word(p, &m->request);
		break;
	case FM_WIRE_REPLY:
		make_reply(p, &m->reply);
		break;
	case FM_WIRE_BYE:
		m->bye.text = any_text(o);
		break;
	case FM_WIRE_VERIFY:
		m->verify = (struct fm_wire_verify){.id = any_id(p) | 1,
						    .uid = any_user(o),
						    .gid = any_user(o),
						    .store = any_store(o),
						    .path = any_path(p, false)};
		break;
	case FM_WIRE_VERIFIED:
		make_verified(p, &m->verified);
		break;
	case FM_WIRE_SPACE:
		make_space(p, &m->space);
		break;
	case FM_WIRE_GROUPS:
		make_groups(p, &m->groups);
		break;
	case FM_WIRE_VOLUMES_ASK:
		m->volumes_ask.id = any_id(p);
		break;
	case FM_WIRE_FACTS_ASK:
		m->facts_ask.id = any_id(p);
		break;
	case FM_WIRE_FACTS:
		make_facts(p, &m->facts);
		break;
	case FM_WIRE_VOLUMES:
		make_volumes(p, &m->volumes);
		break;
	case FM_WIRE_STAGE:
		make_stage(p, &m->stage);
		break;
	default:
		make_xfer_word(p, m);
		break;
	}
}

/* ---- what a peer does that goes well ---- */

/* NULL: enough are under way. Now and then one is forgotten, and the daemon waits for the rest of
 * it in vain. */
static struct deed *deed_place(struct peer *p)
{
	for (unsigned i = 0; i < DEEDS_MAX; i++)
		if (p->deeds[i].state == DEED_NONE)
			return &p->deeds[i];
	return one_in(&p->odds, 500) ? &p->deeds[below(&p->odds, DEEDS_MAX)] : NULL;
}

/* A put of a few chunks, or of a tree of a few packs. */
static bool begin_deed(struct talk *t, struct fm_wire_put *m, uint64_t id)
{
	struct peer *p = t->peer;
	struct deed *d = deed_place(p);
	bool is_tree = !p->lie && one_in(&p->odds, 2);

	if (!d)
		return false;
	*d = (struct deed){.talk = t,
			   .state = DEED_ASKED,
			   .is_tree = is_tree,
			   .is_exact = p->is_exact,
			   .id = id,
			   .chunk = 65536,
			   .count = 1 + below(&p->odds, is_tree ? PACKS_MAX : 6)};
	*m = (struct fm_wire_put){.flags = FM_WIRE_PUT_REPLACE,
				  .xfer = id,
				  .size = FM_WIRE_SIZE_UNKNOWN,
				  .chunk = d->chunk,
				  .mode = is_tree ? 0 : 0600,
				  .durability = (uint8_t)below(&p->odds, 3),
				  .dev = is_tree,
				  .ino = is_tree,
				  .store = fm_wire_str("s"),
				  .path = any_path(p, is_tree)};
	if (!is_tree && p->has_landing && (p->lie || one_in(&p->odds, 2))) {
		m->size = d->count * d->chunk;
		m->store = fm_wire_str(FM_LANDING_STORE);
		m->path = fm_wire_str(p->landing);
	}
	if (is_tree) {
		m->flags |= FM_WIRE_PUT_TREE | (uint16_t)(below(&p->odds, 2) * FM_WIRE_PUT_UPDATE);
		m->flags |= one_in(&p->odds, 2) ? FM_WIRE_PUT_NAMES : 0;
	}
	if (m->size == FM_WIRE_SIZE_UNKNOWN && one_in(&p->odds, 3))
		make_member(&p->odds, m);
	return true;
}

static void make_id_request(struct peer *p, struct fm_wire_msg *m, uint64_t id)
{
	switch (below(&p->odds, 16)) {
	case 0:
		m->type = FM_WIRE_VERIFY;
		m->verify = (struct fm_wire_verify){.id = id,
						    .store = fm_wire_str("s"),
						    .path = any_path(p, one_in(&p->odds, 2))};
		break;
	case 1:
	case 2:
		m->type = FM_WIRE_VOLUMES_ASK;
		m->volumes_ask.id = id;
		break;
	case 3:
		m->type = FM_WIRE_FACTS_ASK;
		m->facts_ask.id = id;
		break;
	case 4:
	case 5:
	case 6:
		m->type = FM_WIRE_PING;
		m->ping.nonce = id;
		break;
	default:
		m->type = FM_WIRE_REQUEST;
		make_request_word(p, &m->request);
		m->request.id = id;
		break;
	}
}

/* For something that is asked for. */
static uint64_t new_id(struct talk *t)
{
	uint64_t id = t->next_id++ | (t->is_dialled ? 0 : UINT64_C(1) << 63);

	remember(t->peer, id);
	return id;
}

bool word_deed(struct talk *t, struct fm_wire_msg *m)
{
	m->type = FM_WIRE_PUT;
	return begin_deed(t, &m->put, new_id(t));
}

void word_request(struct talk *t, struct fm_wire_msg *m)
{
	struct peer *p = t->peer;
	uint64_t id = new_id(t);

	if (one_in(&p->odds, 3)) {
		m->type = FM_WIRE_STAGE;
		stage_word(t, &m->stage);
		return;
	}
	m->type = FM_WIRE_PUT;
	if (one_in(&p->odds, 4) && begin_deed(t, &m->put, id))
		return;
	switch (below(&p->odds, 60)) {
	case 0:
		make_put(p, &m->put);
		m->put.xfer = id;
		break;
	case 1:
		m->type = FM_WIRE_GET;
		make_get(p, &m->get);
		m->get.xfer = id;
		break;
	default:
		make_id_request(p, m, id);
		break;
	}
}

static bool answer_xfer(struct talk *t, const struct fm_wire_msg *in, struct fm_wire_msg *m)
{
	struct peer *p = t->peer;

	switch (in->type) {
	case FM_WIRE_NAMES:
		m->type = FM_WIRE_NAMES;
		m->names = (struct fm_wire_names){.xfer = in->names.xfer};
		return !one_in(&p->odds, 8);
	case FM_WIRE_PUT:
		m->type = FM_WIRE_READY;
		make_ready(p, &m->ready);
		m->ready.xfer = in->put.xfer;
		m->ready.chunk = in->put.chunk;
		if (!(in->put.flags & FM_WIRE_PUT_TREE))
			m->ready.flags &= FM_WIRE_READY_DURABLE;
		return true;
	case FM_WIRE_GET:
		m->type = FM_WIRE_FOUND;
		make_xfer_word(p, m);
		m->found.xfer = in->get.xfer;
		return true;
	case FM_WIRE_FINISH:
		m->type = FM_WIRE_DONE;
		m->done =
			(struct fm_wire_done){.xfer = in->finish.xfer, .note = any_text(&p->odds)};
		if (in->finish.flags & FM_WIRE_FINISH_HOLD)
			m->done.flags = FM_WIRE_DONE_PREPARED;
		return true;
	case FM_WIRE_FOUND:
		m->type = FM_WIRE_READY;
		make_ready(p, &m->ready);
		m->ready.xfer = in->found.xfer;
		return one_in(&p->odds, 2);
	default:
		return false;
	}
}

bool word_answer(struct talk *t, const struct fm_wire_msg *in, struct fm_wire_msg *m)
{
	struct peer *p = t->peer;

	switch (in->type) {
	case FM_WIRE_PING:
		m->type = FM_WIRE_PONG;
		m->ping = in->ping;
		return true;
	case FM_WIRE_REQUEST:
		if (in->request.verb == FM_WIRE_GROUP_LIST && !one_in(&p->odds, 4)) {
			m->type = FM_WIRE_GROUPS;
			make_groups(p, &m->groups);
			m->groups.id = in->request.id;
			return true;
		}
		m->type = FM_WIRE_REPLY;
		make_reply(p, &m->reply);
		m->reply.id = in->request.id;
		return true;
	case FM_WIRE_VERIFY:
		m->type = FM_WIRE_VERIFIED;
		make_verified(p, &m->verified);
		m->verified.id = in->verify.id;
		return true;
	case FM_WIRE_FACTS_ASK:
		m->type = FM_WIRE_FACTS;
		make_facts(p, &m->facts);
		m->facts.id = in->facts_ask.id;
		return true;
	case FM_WIRE_VOLUMES_ASK:
		m->type = FM_WIRE_VOLUMES;
		make_volumes(p, &m->volumes);
		m->volumes.id = in->volumes_ask.id;
		return true;
	default:
		return answer_xfer(t, in, m);
	}
}
