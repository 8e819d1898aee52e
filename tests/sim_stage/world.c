/* SPDX-License-Identifier: MIT */
/*
 * world - what the core's actions do here: sessions, memory, disks, storage. An action schedules an
 * event that tells the core what became of it. What a crash or a lost session cuts off is known by
 * numbers: the node's boot, the session's epoch, the slot's serial.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim_stage/stage_sim.h"

uint64_t sim_bit(unsigned node)
{
	return UINT64_C(1) << node;
}

/* ---- events ---- */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void heap_push(struct event *e)
{
	unsigned i = sim.heap_count++;

	if (sim.heap_count >= sizeof(sim.heap) / sizeof(sim.heap[0])) {
		sim_violate("too many events: something goes round and round");
		sim.heap_count--;
		free(e->msg);
		free(e);
		return;
	}
	for (; i > 0 && is_before(e, sim.heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim.heap[i] = sim.heap[(i - 1) / 2];
	sim.heap[i] = e;
}

static struct event *heap_pop(void)
{
	struct event *first = sim.heap[0], *last = sim.heap[--sim.heap_count];
	unsigned i = 0, child;

	while ((child = 2 * i + 1) < sim.heap_count) {
		if (child + 1 < sim.heap_count && is_before(sim.heap[child + 1], sim.heap[child]))
			child++;
		if (is_before(last, sim.heap[child]))
			break;
		sim.heap[i] = sim.heap[child];
		i = child;
	}
	sim.heap[i] = last;
	return first;
}

static struct event *new_event(enum event_kind kind, unsigned node)
{
	static uint64_t number;
	struct event *e = calloc(1, sizeof(*e));

	e->kind = kind;
	e->node = node;
	e->boot = sim.node[node].boot;
	e->number = sim.steps == 0 && sim.heap_count == 0 ? (number = 0) : ++number;
	return e;
}

struct event *sim_event(uint64_t delay_ns, enum event_kind kind, unsigned node)
{
	struct event *e = new_event(kind, node);

	e->at_ns = sim.now_ns + delay_ns;
	heap_push(e);
	return e;
}

void sim_free_events(void)
{
	for (unsigned i = 0; i < sim.heap_count; i++) {
		free(sim.heap[i]->msg);
		free(sim.heap[i]);
	}
	sim.heap_count = 0;
}

/* How long it takes to move one extent. */
static uint64_t duration(double slow)
{
	return (uint64_t)(sim.size * slow * (double)(800 + sim_random(400)) / 1000 * (double)S);
}

/* ---- sessions ---- */

struct session *sim_session(unsigned a, unsigned b)
{
	return a < b ? &sim.session[a][b] : &sim.session[b][a];
}

/* The end of it, which each of the two hears of later. */
void sim_session_lose(unsigned a, unsigned b, bool is_cut)
{
	struct session *s = sim_session(a, b);

	s->is_cut = s->is_cut || is_cut;
	if (!s->is_alive)
		return;
	s->is_alive = false;
	s->epoch++;
	for (unsigned i = 0; i < 2; i++) {
		struct event *e =
			sim_event(20 * MS + sim_random(3 * S), EVENT_DOWN, i == 0 ? a : b);

		e->other = i == 0 ? b : a;
		e->epoch = s->epoch;
	}
	if (!s->is_cut)
		sim_session_up(a, b, 4 * S + sim_random(3 * S));
}

void sim_session_up(unsigned a, unsigned b, uint64_t delay_ns)
{
	struct event *e = sim_event(delay_ns, EVENT_UP, a);

	e->other = b;
	e->boot = 0;
}

/* The node hears that the session ended. What went over it comes no more. */
static void hear_down(unsigned self, unsigned other)
{
	struct node *n = &sim.node[self];
	bool *is_up = &sim_session(self, other)->is_up[self > other];

	if (!*is_up)
		return;
	*is_up = false;
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++)
		if (n->memory[i].from == other)
			n->memory[i].is_receiving = false;
	if (n->run)
		fm_run_peer_lost(n->run, other);
	sim_reap(n);
}

/*
 * Both must run to make a session. Who has not heard of the last one's end hears that first, since
 * nothing else tells of what was sent over it.
 */
static void session_is_up(unsigned a, unsigned b)
{
	struct session *s = sim_session(a, b);

	if (s->is_alive || s->is_cut || !sim.node[a].is_running || !sim.node[b].is_running)
		return;
	if (sim.node[b].stalled_ns > sim.now_ns) {
		sim_session_up(a, b, sim.node[b].stalled_ns - sim.now_ns);
		return;
	}
	hear_down(a, b);
	hear_down(b, a);
	s->is_alive = true;
	s->is_up[0] = s->is_up[1] = true;
	s->epoch++;
	for (unsigned i = 0; i < 2; i++) {
		struct node *n = &sim.node[i == 0 ? a : b];

		if (n->run)
			fm_run_peer_up(n->run, i == 0 ? b : a);
		sim_reap(n);
	}
}

static uint64_t peers_up(unsigned node)
{
	uint64_t up = 0;

	for (unsigned n = 0; n < sim.node_count; n++)
		if (n != node && sim_session(node, n)->is_up[node > n])
			up |= sim_bit(n);
	return up;
}

static void post(unsigned self, unsigned hop, const struct fm_run_msg *msg)
{
	struct session *s = sim_session(self, hop);
	struct event *e;

	if (!s->is_alive)
		return;
	e = new_event(EVENT_MESSAGE, hop);
	e->at_ns = sim.now_ns + MS / 10 + sim_random(20 * MS);
	if (e->at_ns < s->last_ns[self > hop])
		e->at_ns = s->last_ns[self > hop];
	s->last_ns[self > hop] = e->at_ns;
	e->other = self;
	e->epoch = s->epoch;
	e->msg = malloc(sizeof(*msg));
	*e->msg = *msg;
	heap_push(e);
}

/* ---- one who lies of what it has ---- */

static uint32_t made_up(uint32_t extent)
{
	return sim.truth[extent] ^ 0x5a5a;
}

static void post_lying_pages(unsigned self, unsigned hop, const struct fm_run_msg *join)
{
	for (uint32_t first = 0; first < sim.extent_count; first += FM_RUN_PAGE) {
		struct fm_run_msg msg = *join;

		msg.type = FM_RUN_PAGE_OF;
		msg.page = (struct fm_run_page){
			.first = first, .is_last = first + FM_RUN_PAGE >= sim.extent_count};
		for (uint32_t i = 0; i < FM_RUN_PAGE && first + i < sim.extent_count; i++) {
			msg.page.bits[i / 8] |= (uint8_t)(1U << (i % 8));
			msg.page.crc[i] = made_up(first + i);
		}
		post(self, hop, &msg);
	}
}

static bool lies_by_offers(const struct node *n)
{
	return n->lie == LIE_OFFERS || n->lie == LIE_OFFERS_NOTHING ||
	       n->lie == LIE_OFFERS_REFUSED;
}

/* To all its peers, as many as they have memory for. */
static void offer_lies(unsigned self)
{
	for (unsigned i = 0; i < FM_RUN_SLOTS * sim.node_count; i++) {
		struct fm_run_msg msg = {.type = FM_RUN_OFFER,
					 .from = (uint8_t)self,
					 .to = (uint8_t)(i % sim.node_count),
					 .node = (uint8_t)self,
					 .nodes = UINT64_MAX,
					 .extent = (uint32_t)sim_random(sim.extent_count)};

		msg.crc = made_up(msg.extent);
		if (msg.to != self)
			post(self, msg.to, &msg);
	}
}

/* What its core says of itself becomes: it has everything, with CRCs that it made up. */
static void post_lie(unsigned self, unsigned hop, const struct fm_run_msg *msg)
{
	struct node *n = &sim.node[self];
	struct fm_run_msg lie = *msg;

	if (lies_by_offers(n)) {
		post(self, hop, msg);
		return;
	}
	if (msg->type == FM_RUN_PAGE_OF)
		return;
	if (msg->type == FM_RUN_HAVE)
		lie.crc = made_up(msg->extent);
	if (msg->type == FM_RUN_JOIN || msg->type == FM_RUN_PULSE) {
		lie.state.place = n->lies_ready ? FM_RUN_READY : FM_RUN_SINK;
		lie.state.have_count = sim.extent_count;
	}
	post(self, hop, &lie);
	if (msg->type != FM_RUN_JOIN)
		return;
	n->lie_join = lie;
	post_lying_pages(self, hop, &lie);
}

/* It goes on to say so, whatever it is told. */
static void lie_again(unsigned self)
{
	struct fm_run_msg msg = sim.node[self].lie_join;

	if (lies_by_offers(&sim.node[self]))
		offer_lies(self);
	if (msg.type != FM_RUN_JOIN || msg.to == self)
		return;
	msg.type = FM_RUN_HAVE;
	msg.extent = (uint32_t)sim_random(sim.extent_count);
	msg.crc = made_up(msg.extent);
	if (sim.node[self].lie == LIE_CHANGES) {
		msg.extent = self % sim.extent_count;
		msg.crc = (uint32_t)sim_random(UINT32_MAX);
	}
	post(self, msg.to, &msg);
}

static void world_send(void *ctx, unsigned hop, const struct fm_run_msg *msg)
{
	unsigned self = (unsigned)((struct node *)ctx - sim.node);

	if (msg->type == FM_RUN_GET) {
		struct memory *m = &sim.node[self].memory[msg->slot];

		*m = (struct memory){.serial = m->serial + 1,
				     .extent = msg->extent,
				     .from = hop,
				     .is_receiving = true};
	}
	if (sim.node[self].lie != LIE_NONE && msg->from == self)
		post_lie(self, hop, msg);
	else
		post(self, hop, msg);
}

/* ---- extents ---- */

static void world_read(void *ctx, unsigned slot, uint32_t extent)
{
	struct node *n = ctx;
	bool is_away = sim.now_ns < sim.storage_ns;
	uint64_t ns = duration(n->slow_read);
	struct event *e;

	n->memory[slot].serial++;
	sim.reads++;
	sim_trace("n%u reads %u", (unsigned)(n - sim.node), extent);
	if (n->does_hang)
		return;
	if (is_away)
		ns = sim.does_storage_hang && !sim.is_storage_gone
			     ? sim.storage_ns - sim.now_ns + ns
			     : S;
	e = sim_event(ns, EVENT_READ, (unsigned)(n - sim.node));
	e->slot = slot;
	e->extent = extent;
	e->code = is_away && !(sim.does_storage_hang && !sim.is_storage_gone) ? -EIO : 0;
}

static void on_read(struct node *n, struct event *e)
{
	struct memory *m = &n->memory[e->slot];

	m->content = sim.truth[e->extent];
	if (sim.now_ns >= sim.change_ns) {
		m->content ^= 0x10000;
		if (sim_chance(0.3))
			e->code = -ESTALE;
	}
	if (sim.is_storage_bad && sim_chance(0.05))
		m->content ^= 1U + (uint32_t)sim_random(1000);
	if (m->content != sim.truth[e->extent])
		sim_trace("n%u read other bytes of %u", e->node, e->extent);
	m->extent = e->extent;
	fm_run_read_done(n->run, e->slot, m->content, e->code);
}

static void world_write(void *ctx, unsigned slot, uint32_t extent)
{
	struct node *n = ctx;
	struct event *e;

	if (n->does_disk_hang)
		return;
	e = sim_event(duration(n->slow_disk), EVENT_WRITTEN, (unsigned)(n - sim.node));
	e->slot = slot;
	e->extent = extent;
	e->content = n->memory[slot].content;
	if (sim_mutant == MUTANT_JOURNAL_FIRST) {
		n->is_durable[extent] = true;
		n->journal[extent] = e->content;
	}
}

static void on_written(struct node *n, struct event *e)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < sim.extent_count; i++)
		count += n->is_durable[i];
	if (count >= n->disk_room && sim_mutant != MUTANT_FULL_STAYS) {
		fm_run_written(n->run, e->slot, -ENOSPC);
		return;
	}
	if (count < n->disk_room) {
		n->is_durable[e->extent] = true;
		n->journal[e->extent] = n->disk[e->extent] = e->content;
		n->is_rotten[e->extent] = false;
	}
	fm_run_written(n->run, e->slot, 0);
}

static void world_upload(void *ctx, unsigned to, uint32_t extent, int slot, unsigned to_slot)
{
	struct node *n = ctx;
	unsigned self = (unsigned)(n - sim.node);
	struct memory *there = &sim.node[to].memory[to_slot];
	struct event *e;

	if (slot < 0 && n->disk[extent] != n->journal[extent]) {
		sim_event(0, EVENT_DISK_BAD, self)->extent = extent;
		e = sim_event(MS, EVENT_DATA, to);
		e->code = -EIO;
	} else {
		e = sim_event(duration(n->slow_net > sim.node[to].slow_net ? n->slow_net
									   : sim.node[to].slow_net),
			      EVENT_DATA, to);
	}
	e->other = self;
	e->slot = (unsigned)(slot + 1);
	e->to_slot = to_slot;
	e->extent = extent;
	e->epoch = sim_session(self, to)->epoch;
	e->serial = there->is_receiving && there->extent == extent && there->from == self
			    ? there->serial
			    : 0;
	e->crc = slot < 0 ? n->journal[extent] : n->memory[slot].content;
	e->content = slot < 0 ? n->disk[extent] : n->memory[slot].content;
	if (sim.is_wire_bad && sim_chance(0.05))
		e->content ^= 1U + (uint32_t)sim_random(1000);
	if (e->content != e->crc)
		sim_trace("what n%u sends n%u of %u is damaged", self, to, extent);
}

/* Other bytes than those that it said it has: sound by themselves, or not. */
static void answer_lying(unsigned self, const struct fm_run_msg *get)
{
	const struct memory *there = &sim.node[get->from].memory[get->slot];
	struct event *e = sim_event(duration(1), EVENT_DATA, get->from);

	e->other = self;
	e->slot = FM_RUN_SLOTS + 1;	/* of none of its own */
	e->to_slot = get->slot;
	e->extent = get->extent;
	e->epoch = sim_session(self, get->from)->epoch;
	e->serial = there->is_receiving && there->from == self ? there->serial : 0;
	e->content = (uint32_t)sim_random(1000);
	e->crc = sim_random(2) ? e->content : made_up(get->extent);
}

/* It has not what it offered, but keeps who asked for it waiting for nearly as long as it can. */
static void refuse_lately(unsigned self, const struct fm_run_msg *get)
{
	struct event *e = sim_event(fm_run_times_default.fetch - S, EVENT_MESSAGE, get->from);

	e->other = self;
	e->epoch = sim_session(self, get->from)->epoch;
	e->msg = malloc(sizeof(*e->msg));
	*e->msg = (struct fm_run_msg){.type = FM_RUN_NONE,
				      .from = (uint8_t)self,
				      .to = get->from,
				      .extent = get->extent,
				      .slot = get->slot};
}

/* Whether it asked for an extent of one who lies; of what that one holds in memory it does not. */
static bool is_lied_to(const struct event *e)
{
	const struct node *n = &sim.node[e->node];

	if (n->lie == LIE_NONE || e->msg->type != FM_RUN_GET || e->msg->to != e->node)
		return false;
	if (n->lie == LIE_OTHER_BYTES || n->lie == LIE_OFFERS)
		answer_lying(e->node, e->msg);
	else if (n->lie == LIE_OFFERS_REFUSED)
		refuse_lately(e->node, e->msg);
	return n->lie != LIE_REFUSES;
}

/* Both ends hear of it. */
static void on_data(struct event *e)
{
	struct node *to = &sim.node[e->node], *from = &sim.node[e->other];
	struct memory *m = &to->memory[e->to_slot];
	bool is_taken = to->run && !e->is_cancelled && m->is_receiving && m->serial == e->serial;

	if (sim_session(e->node, e->other)->epoch != e->epoch)
		return;
	if (is_taken && e->code == 0 && e->crc != e->content && sim_mutant != MUTANT_WIRE_UNCHECKED)
		e->code = -EBADMSG;
	if (is_taken) {
		m->is_receiving = false;
		m->content = e->content;
		fm_run_received(to->run, e->to_slot,
				sim_mutant == MUTANT_WIRE_UNCHECKED ? e->crc : e->content, e->code);
		sim_reap(to);
	}
	if (from->run && !e->is_cancelled) {
		from->sent += is_taken && e->code == 0;
		fm_run_sent(from->run, e->node, e->extent, is_taken ? e->code : -ECANCELED);
		sim_reap(from);
	}
}

static void world_cancel_upload(void *ctx, unsigned to, uint32_t extent, int slot)
{
	unsigned self = (unsigned)((struct node *)ctx - sim.node);

	for (unsigned i = 0; i < sim.heap_count; i++) {
		struct event *e = sim.heap[i];

		if (e->kind != EVENT_DATA || e->node != to || e->other != self ||
		    e->extent != extent || (int)e->slot != slot + 1 || e->is_cancelled)
			continue;
		struct event *told = sim_event(10 * MS, EVENT_DATA, to);

		e->is_cancelled = true;
		told->other = self;
		told->to_slot = e->to_slot;
		told->slot = e->slot;
		told->epoch = e->epoch;
		told->serial = e->serial;
		told->extent = EXTENTS_MAX; /* for the sender it was over at once */
		told->code = -ECANCELED;
		return;
	}
}

static void world_cancel_receive(void *ctx, unsigned slot)
{
	struct node *n = ctx;

	n->memory[slot].is_receiving = false;
	for (unsigned i = 0; i < sim.heap_count; i++) {
		struct event *e = sim.heap[i], *told;

		if (e->kind != EVENT_DATA || e->is_cancelled ||
		    e->node != (unsigned)(n - sim.node) || e->to_slot != slot ||
		    e->serial != n->memory[slot].serial)
			continue;
		told = sim_event(10 * MS, EVENT_DATA, e->node);
		told->other = e->other;
		told->to_slot = slot;
		told->slot = e->slot;
		told->epoch = e->epoch;
		told->extent = e->extent; /* no slot has serial 0: only the sender hears of it */
		e->is_cancelled = true;
		return;
	}
}

static void world_release(void *ctx, unsigned slot)
{
	struct memory *m = &((struct node *)ctx)->memory[slot];

	m->is_receiving = false;
	m->content = 0xdead;
}

static void world_forget(void *ctx, uint32_t extent)
{
	((struct node *)ctx)->is_durable[extent] = false;
}

/* ---- the rest ---- */

static void world_check_source(void *ctx, uint32_t number)
{
	struct node *n = ctx;

	if (n->does_hang)
		return;
	sim_event(duration(n->slow_read) + 100 * MS, EVENT_CHECKED, (unsigned)(n - sim.node))
		->serial = number;
}

static void on_checked(struct node *n, struct event *e)
{
	int code = sim.now_ns >= sim.change_ns ? -ESTALE : 0;

	fm_run_checked(n->run, e->serial, sim.now_ns < sim.storage_ns ? -EIO : code);
}

static void world_invited(void *ctx)
{
	sim_event(10 * MS + sim_random(S), EVENT_INVITED,
		  (unsigned)((struct node *)ctx - sim.node));
}

static void world_publish(void *ctx)
{
	sim_event(10 * MS + sim_random(S), EVENT_PUBLISHED,
		  (unsigned)((struct node *)ctx - sim.node));
}

static void on_published(struct node *n)
{
	check_publish((unsigned)(n - sim.node));
	n->is_ready = true;
	n->ready_ns = sim.now_ns;
	sim_trace("n%u is READY", (unsigned)(n - sim.node));
	fm_run_published(n->run, 0);
}

static void world_end(void *ctx, int code, uint64_t missing)
{
	struct node *n = ctx;
	struct fm_run_show show = {.place = FM_RUN_SINK};

	(void)missing;
	if (n->run)
		fm_run_show(n->run, &show);
	sim_trace("n%u: over, code %d", (unsigned)(n - sim.node), code);
	check_end((unsigned)(n - sim.node), code);
	n->is_over = n->has_ended = true;
	n->was_torn = n->was_torn || code == -EBADMSG;
	if (show.place != FM_RUN_PASSIVE) /* it wanted nothing */
		n->code = code;
}

const struct fm_run_world sim_world = {
	.send = world_send,
	.read = world_read,
	.write = world_write,
	.upload = world_upload,
	.cancel_upload = world_cancel_upload,
	.cancel_receive = world_cancel_receive,
	.release = world_release,
	.forget = world_forget,
	.check_source = world_check_source,
	.invited = world_invited,
	.publish = world_publish,
	.end = world_end,
};

/* A run that is over is freed when the core has returned. */
void sim_reap(struct node *n)
{
	if (!n->is_over)
		return;
	fm_run_free(n->run);
	n->run = NULL;
	n->is_over = false;
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++) {
		n->memory[i].serial++;
		n->memory[i].is_receiving = false;
	}
	n->boot++; /* what was asked for is answered no more */
}

static uint64_t clock_of(const struct node *n)
{
	return (uint64_t)((int64_t)sim.now_ns + n->clock_ns);
}

/* What a run goes on from is read again: what rotted is not there. */
static void find_on_disk(const struct node *n, uint64_t have[static (EXTENTS_MAX + 63) / 64])
{
	for (uint32_t e = 0; e < sim.extent_count; e++)
		if (n->is_durable[e] &&
		    (n->disk[e] == n->journal[e] || sim_mutant == MUTANT_JOURNAL_FIRST))
			have[e / 64] |= UINT64_C(1) << (e % 64);
}

static void want(struct node *n)
{
	uint64_t have[(EXTENTS_MAX + 63) / 64] = {0};

	find_on_disk(n, have);
	fm_run_want(n->run, have, n->journal);
}

bool sim_has_equal_uploads(void)
{
	return sim.seed % 4 != 3;
}

/* Nodes may be configured differently: who coordinates counts with its own value. */
static unsigned uploads_of(unsigned node)
{
	return sim_has_equal_uploads() ? 4 : 1 + node * 5 % FM_RUN_UPLOADS_MAX;
}

void sim_start(unsigned node, uint64_t request)
{
	struct node *n = &sim.node[node];
	uint64_t have[(EXTENTS_MAX + 63) / 64] = {0};
	struct fm_run_params p = {.self = node,
				  .node_count = sim.node_count,
				  .rank = sim.rank,
				  .up = peers_up(node),
				  .extent_count = sim.extent_count,
				  .can_read = n->can_read,
				  .uploads = uploads_of(node),
				  .scan = sim.seed % 3 == 0 ? SCAN_SHORT : 0,
				  .have = have,
				  .crc = n->journal,
				  .expected = sim.has_expected ? sim.truth : NULL};

	if (!n->is_running)
		return;
	n->request |= request;
	for (unsigned i = 0; i < sim.node_count; i++)
		if (request & sim_bit(i) && sim.node[i].asked_ns == 0) {
			sim.node[i].asked_ns = sim.now_ns;
			sim.read_before = sim.reads;
		}
	if (request)
		sim_trace("n%u is asked for %llx", node, (unsigned long long)request);
	if (!n->run) {
		find_on_disk(n, have);
		p.join = ++n->runs << 16;
		p.place = n->is_ready		    ? FM_RUN_READY
			  : request & sim_bit(node) ? FM_RUN_SINK
						    : FM_RUN_PASSIVE;
		if (fm_run_new(&p, &sim_world, n, &n->run) != 0)
			abort();
		fm_run_tick(n->run, clock_of(n));
		sim_reap(n);
	}
	if (n->run && request) {
		fm_run_request(n->run, request);
		if (request & sim_bit(node))
			want(n);
	}
	sim_reap(n);
}

static void on_message(struct event *e)
{
	struct node *n = &sim.node[e->node];
	enum fm_run_msg_type type = e->msg->type;

	if (sim_session(e->node, e->other)->epoch != e->epoch)
		return;
	if (!n->run && (type == FM_RUN_LINKS || type == FM_RUN_JOIN || type == FM_RUN_PULSE))
		sim_start(e->node, 0);
	sim_trace("n%u hears %u of n%u (from n%u to n%u): extent %u, node %u, code %d", e->node,
		  type, e->other, e->msg->from, e->msg->to, e->msg->extent, e->msg->node,
		  e->msg->code);
	if (n->run && !is_lied_to(e))
		fm_run_message(n->run, e->other, e->msg);
}

static void on_down(struct event *e)
{
	if (sim_session(e->node, e->other)->epoch == e->epoch)
		hear_down(e->node, e->other);
}

static void on_tick(struct event *e)
{
	struct node *n = &sim.node[e->node];

	if (n->run)
		fm_run_tick(n->run, clock_of(n));
	if (n->run && n->lie != LIE_NONE)
		lie_again(e->node);
	sim_event(250 * MS, EVENT_TICK, e->node)->boot = 0;
}

static void on_start(struct event *e)
{
	struct node *n = &sim.node[e->node];

	n->is_running = true;
	for (unsigned k = 0; k < sim.node_count; k++)
		if (k != e->node && sim.is_peer[e->node][k])
			sim_session_up(e->node, k, 100 * MS + sim_random(2 * S));
	if (n->request)
		sim_event(2 * S, EVENT_REQUEST, e->node)->nodes = n->request;
}

/* What happens at a node that has a run. */
static void step_run(struct node *n, struct event *e)
{
	if (e->kind == EVENT_READ)
		on_read(n, e);
	else if (e->kind == EVENT_WRITTEN)
		on_written(n, e);
	else if (e->kind == EVENT_CHECKED)
		on_checked(n, e);
	else if (e->kind == EVENT_PUBLISHED)
		on_published(n);
	else if (e->kind == EVENT_INVITED)
		want(n);
	else if (e->kind == EVENT_DISK_BAD)
		fm_run_disk_bad(n->run, e->extent);
}

static bool is_of_world(enum event_kind kind)
{
	return kind == EVENT_MESSAGE || kind == EVENT_DATA || kind == EVENT_UP ||
	       kind == EVENT_DOWN || kind == EVENT_TICK || kind == EVENT_FAULT ||
	       kind == EVENT_HEAL || kind == EVENT_START || kind == EVENT_REQUEST;
}

static void step_world(struct event *e)
{
	if (e->kind == EVENT_MESSAGE)
		on_message(e);
	else if (e->kind == EVENT_DATA)
		on_data(e);
	else if (e->kind == EVENT_UP)
		session_is_up(e->node, e->other);
	else if (e->kind == EVENT_DOWN)
		on_down(e);
	else if (e->kind == EVENT_TICK)
		on_tick(e);
	else if (e->kind == EVENT_FAULT)
		sim_fault();
	else if (e->kind == EVENT_HEAL)
		sim_heal();
	else if (e->kind == EVENT_START)
		on_start(e);
	else
		sim_start(e->node, e->nodes);
}

void sim_step(void)
{
	struct event *e = heap_pop();
	struct node *n = &sim.node[e->node];

	if (n->stalled_ns > e->at_ns && e->kind != EVENT_FAULT &&
	    e->kind != EVENT_HEAL) { /* it hears of it later */
		e->at_ns = n->stalled_ns;
		heap_push(e);
		return;
	}
	sim.now_ns = e->at_ns;
	sim.steps++;
	sim.hash = (sim.hash ^ (e->at_ns + e->kind * 7 + e->node * 131 + e->extent)) *
		   UINT64_C(0x100000001b3);
	if (is_of_world(e->kind))
		step_world(e);
	else if (n->run && n->boot == e->boot)
		step_run(n, e);
	sim_reap(n);
	check_audit(e->node);
	free(e->msg);
	free(e);
}
