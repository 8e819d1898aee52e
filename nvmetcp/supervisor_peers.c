/* SPDX-License-Identifier: MIT */
/*
 * What nodes say to each other of one namespace, and sealing.
 *
 * Every few seconds, and before each mount, the peers are asked what they have. Before a mount this
 * node first says that it is about to, then asks: of two nodes that do so at the same time at least
 * one hears of the other and refuses. What it has said it takes back when a look sees that it is
 * not mounted, no helper hangs that could mount it yet, and the device is seen to be free
 * (supervisor_held.c). What a node said it has forbids until that node says otherwise, over silence
 * and restarts of ours. Who was not heard permits nothing.
 *
 * Sealing, at the writer: WANTED -> all is written out, unmounted, and found clean on the disk ->
 * the number is one more, written down, DONE -> mounted read-only. The readers hear of it, drop
 * what they have cached and mount. What could not be written, or is not clean, is OPEN again.
 * Unsealing, OPEN, takes a number of its own: an answer that is older than it must not look like
 * one of now. The readers hear of it and unmount; each node says the highest number that it has
 * heard, and until each has said that it has nothing mounted at this number or a higher one, the
 * guard keeps the writer from mounting. A writer that has lost its number, or is the writer anew,
 * takes one that is higher than any there ever was: of the clock.
 *
 * A reader mounts only what it has heard to be sealed since it said last that it has nothing
 * mounted: the writer may go on upon that word.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "nvmetcp/supervisor_priv.h"

#define ASK_NS (5 * FM_NS_PER_S)
#define RAISE_NS (60 * FM_NS_PER_S)	/* from the first higher number of a peer to the next */
#define RAISE_MAX_NS (3600 * FM_NS_PER_S)
#define NOT_ASKED (-1)
#define RAISE_QUIET_NS (3600 * FM_NS_PER_S)	/* without any for so long, it is the first again */
#define NO_NUMBER                                                                                  \
	"the numbers of seals of \"%s\" are used up, which only a hostile node can do: give it "   \
	"another name on every node"

static bool is_shared(const struct fm_supervised *v)
{
	return v->volume->mode == FM_VOLUME_SHARED_READ;
}

static bool is_writer(const struct fm_supervised *v)
{
	return fm_guard_is_writer(v->volume, v->sup->node);
}

bool fm_supervised_is_writable(const struct fm_supervised *v)
{
	return is_writer(v) && !(is_shared(v) && v->seal != FM_SEAL_OPEN);
}

/* ---- which of what they say is about this volume ---- */

const char *fm_supervised_wwid(const struct fm_supervised *v)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);

	return ns ? ns->wwid : v->last_wwid;
}

/*
 * Whether a peer means the same volume. If one of the two has never seen the namespace, the names
 * must be equal: a subsystem may have several volumes.
 */
bool fm_supervised_is_same(const struct fm_supervised *v, const char *wwid, const char *name,
			   const char *subsystem)
{
	const char *ours = fm_supervised_wwid(v);

	if (ours[0] && wwid[0])
		return strcmp(ours, wwid) == 0;
	return strcmp(v->volume->name, name) == 0 && strcmp(v->volume->subsystem, subsystem) == 0;
}

bool fm_supervised_is_meant(const struct fm_supervised *v, const struct fm_peer_volume *p)
{
	return fm_supervised_is_same(v, p->wwid, p->name, p->subsystem);
}

/* As one that has said nothing of it. */
static struct fm_guard_peer guard_peer(const struct fm_supervised *v, const char *node)
{
	char host[FM_PEER_HOST_LEN + 1];

	fm_peers_host(v->sup->host_id ? v->sup->host_id : "", host);
	return (struct fm_guard_peer){.node = node,
				      .writer = "",
				      .silent_why = fm_peers_silent_why(&v->sup->peers, node),
				      .is_same_host = fm_peers_is_host(&v->sup->peers, node, host),
				      .counts = fm_supervised_counts(v, node),
				      .has_answered = fm_supervised_has_answered(v, node),
				      .is_forgotten = fm_supervised_is_forgotten(v, node),
				      .has_spoken = fm_json_get(v->spoken, node)};
}

static void add_said(const struct fm_supervised *v, struct fm_guard_peer *out, unsigned *count)
{
	const struct fm_peers *peers = &v->sup->peers;

	for (unsigned i = 0; i < peers->volume_count; i++) {
		const struct fm_peer_volume *p = &peers->volumes[i];

		if (!fm_supervised_is_meant(v, p))
			continue;
		out[*count] = guard_peer(v, p->node);
		out[*count].writer = p->writer;
		out[*count].is_mounted = p->is_mounted;
		out[*count].is_read_write = p->is_read_write;
		out[*count].names_it = true;
		out[(*count)++].number = p->epoch;
	}
}

static void add_node(const struct fm_supervised *v, const char *node, struct fm_guard_peer *out,
		     unsigned *count)
{
	bool is_there = false;

	for (unsigned i = 0; i < *count; i++)
		is_there = is_there || strcmp(out[i].node, node) == 0;
	if (!is_there)
		out[(*count)++] = guard_peer(v, node);
}

/*
 * Among all nodes that a volume names this one is no other. But a peer of its name is: whose
 * configuration this node has a copy of, or whose name it took.
 */
int fm_supervised_guard_peers(const struct fm_supervised *v, struct fm_guard_peer **out,
			      unsigned *count)
{
	const struct fm_supervisor *sup = v->sup;
	size_t room = sup->peers.volume_count + sup->peers.node_count +
		      fm_json_member_count(sup->nodes.entries) + v->volume->node_count;
	const char *node;
	struct fm_json *entry;

	*count = 0;
	*out = FM_FAULT("supervisor.peers") ? NULL : calloc(room + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	add_said(v, *out, count);
	for (void *it = NULL; fm_json_next(sup->nodes.entries, &it, &node, &entry);)
		add_node(v, node, *out, count);
	for (unsigned i = 0; i < sup->peers.node_count; i++)
		add_node(v, sup->peers.nodes[i].node, *out, count);
	for (unsigned i = 0; i < v->volume->node_count; i++)
		if (strcmp(v->volume->node[i], sup->node) != 0)
			add_node(v, v->volume->node[i], *out, count);
	return 0;
}

/* ---- what this node says ---- */

/* Allowed, and under way: that another writer is configured meanwhile does not end it. */
static bool is_writing_begun(const struct fm_supervised *v)
{
	return (v->call == FM_CALL_PREPARE || v->call == FM_CALL_MOUNT) &&
	       v->how.verdict == FM_GUARD_READ_WRITE;
}

/* Finds out whether the device of the volume is mounted, at any place and by any program. */
static void look_at_mounts(const struct fm_supervised *v, struct fm_supervised_word *word)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);
	const struct fm_mount *m = NULL;
	bool may_write;

	word->is_mounted = fm_supervised_is_held(v, &may_write);
	word->is_mounted = fm_supervised_is_left_hanging(v, &word->is_read_write) ||
			   v->is_announced || word->is_mounted;
	word->is_read_write = word->is_read_write || may_write;
	word->is_read_write =
		word->is_read_write ||
		(v->is_announced && (fm_supervised_is_writable(v) || v->seal == FM_SEAL_WANTED ||
				     v->is_left_read_write || is_writing_begun(v)));
	if (!ns)
		return;
	while ((m = fm_mounts_of(&v->sup->mounts, ns->dev, m))) {
		word->is_mounted = true;
		word->is_read_write = word->is_read_write || !m->is_read_only;
	}
}

/*
 * The device that the plan has mounted and leaves mounted; 0: none. fmoved keeps the directory of a
 * store open, so it has to let go before the volume can be unmounted.
 */
static dev_t device_of(const struct fm_supervised *v)
{
	const struct fm_mount *m;

	if (!v->plan.is_mounted || v->plan.step == FM_STEP_UNMOUNT || v->call == FM_CALL_UNMOUNT ||
	    fm_supervised_want(v) != FM_WANT_UP || fm_supervised_blocker(v))
		return 0;
	m = fm_mounts_at(&v->sup->mounts, v->volume->mount_point);
	return m ? m->dev : 0;
}

/* The seal whose bytes are mounted: nobody changes them before this node has unmounted it. */
static uint64_t mounted_seal(const struct fm_supervised *v)
{
	bool is_sealed =
		is_writer(v) ? v->seal == FM_SEAL_DONE : v->has_heard && v->is_heard_sealed;

	return is_shared(v) && is_sealed && v->epoch == v->mounted_epoch ? v->epoch : 0;
}

static void say_here(const struct fm_supervised *v, struct fm_supervised_word *word)
{
	const struct fm_peer_volume *other = fm_supervised_other_writer(v);

	word->device = device_of(v);
	if (other)
		(void)snprintf(word->written_by, sizeof(word->written_by), "%s", other->node);
	if (word->device != 0 && !word->is_read_write && !other)
		word->mounted_epoch = mounted_seal(v);
}

static void word_of(const struct fm_supervised *v, struct fm_supervised_word *word)
{
	bool may_write;

	memset(word, 0, sizeof(*word));		/* it is compared byte by byte */
	if (v->is_retired && !v->plan.is_mounted && !v->is_announced &&
	    !fm_supervised_is_left_hanging(v, &may_write) && !fm_supervised_is_held(v, &may_write))
		return;
	word->is_said = true;
	word->is_sealed = is_writer(v) && is_shared(v) && v->seal == FM_SEAL_DONE && v->has_number;
	word->epoch = is_shared(v) ? v->epoch : 0;
	(void)snprintf(word->wwid, sizeof(word->wwid), "%s", fm_supervised_wwid(v));
	look_at_mounts(v, word);
	say_here(v, word);
}

static struct fm_json *say_one(const struct fm_supervised *v)
{
	const struct fm_supervised_word *word = &v->word;
	const struct fm_volume *vol = v->volume;

	if (FM_FAULT("supervisor.say"))
		return NULL;
	return fm_json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:s}", "name",
			    vol->name, "subsystem", vol->subsystem, "wwid", word->wwid, "writer",
			    vol->mode == FM_VOLUME_READ_ONLY ? "" : vol->writer, "mounted",
			    word->is_mounted, "read_write", word->is_read_write, "sealed",
			    word->is_sealed, "epoch", (long long)word->epoch, "device",
			    (long long)word->device, "mounted_epoch",
			    (long long)word->mounted_epoch, "written_by", word->written_by);
}

static struct fm_json *say_host(const struct fm_supervisor *sup)
{
	char host[FM_PEER_HOST_LEN + 1];

	fm_peers_host(sup->host_id, host);
	return fm_json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:i}", "name", FM_PEER_HOST,
			    "subsystem", FM_PEER_HOST_SUBSYSTEM, "wwid", host, "writer", "",
			    "mounted", 0, "read_write", 0, "sealed", 0, "epoch", 0);
}

/* NULL: no memory. Nothing is said then: what is left out is free, to peers. */
static char *say_all(struct fm_supervisor *sup)
{
	struct fm_json *all = fm_json_array(), *said;
	bool is_whole = fm_json_add(all, say_host(sup)) == 0;
	char *text;

	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->word.is_said)
			is_whole = fm_json_add(all, say_one(v)) == 0 && is_whole;
	}
	is_whole = fm_supervisor_say_begun(sup, all) && is_whole;
	is_whole = fm_supervisor_say_strangers(sup, all) && is_whole;
	said = fm_json_pack("{s:o}", "volumes", all);
	text = said && is_whole ? fm_json_dump(said, FM_JSON_ONE_LINE) : NULL;
	fm_json_free(said);
	return text;
}

/*
 * Whether the note in held.json still covers what is said now. It must be of the same namespace,
 * mounted without a break (else it may have been dropped), and at least as strong: a note of
 * "read-only" does not cover "read-write".
 */
static bool is_note_of(const struct fm_supervised *v, const struct fm_supervised_word *now)
{
	return v->is_noted && v->word.is_mounted && strcmp(now->wwid, v->word.wwid) == 0 &&
	       (v->word.is_read_write || !now->is_read_write);
}

/* To make the text costs much, and hardly ever is there anything new. */
static bool is_news(struct fm_supervisor *sup)
{
	bool is_new = fm_supervisor_watch_strangers(sup) || !sup->is_published;

	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);
		struct fm_supervised_word now;

		word_of(v, &now);
		if (memcmp(&now, &v->word, sizeof(now)) == 0)
			continue;
		/* What was said of another namespace may not have been kept. */
		if (v->word.wwid[0] && strcmp(now.wwid, v->word.wwid) != 0) {
			fm_supervised_void_answers(v);
			v->answers_from = 0;
		}
		v->is_noted = is_note_of(v, &now);
		memcpy(&v->word, &now, sizeof(now));
		is_new = true;
	}
	return is_new;
}

static void ask(struct fm_supervisor *sup)
{
	sup->is_ask_wanted = sup->is_asking;
	if (sup->is_asking)
		return;
	sup->is_asking = true;
	sup->asks_begun++;
	sup->world->ask_peers(sup->world->ctx);
}

/*
 * Writes down what peers are told, then tells them. They are told even if the note fails: without
 * it, another node could write beside a mount of this one.
 */
static int note_and_tell(struct fm_supervisor *sup, const char *text, struct fm_err *err)
{
	int noted = fm_supervisor_note_held(sup, err);
	int ret = sup->world->publish(sup->world->ctx, text, err);

	if (ret < 0)
		return ret;
	if (fm_supervisor_answers_begin(sup))
		ask(sup);
	return noted;
}

int fm_supervisor_publish(struct fm_supervisor *sup)
{
	struct fm_err err = { 0 };
	char *text;
	int ret;

	/*
	 * No look has seen yet what is mounted here. What peers were told before the start stays in
	 * force.
	 */
	if (!sup->inv)
		return -EAGAIN;
	if (!is_news(sup))
		return 0;
	text = FM_FAULT("supervisor.publish") ? NULL : say_all(sup);
	ret = text ? note_and_tell(sup, text, &err) : fm_err_set(&err, -ENOMEM, "out of memory");
	free(text);
	if (ret < 0 && !sup->has_publish_error)
		fm_log_warn("what peers are told of the volumes cannot be written: %s", err.text);
	sup->is_published = ret == 0;
	sup->has_publish_error = ret < 0;
	return ret;
}

/* ---- asking ---- */

static void ask_timer(struct fm_timer *timer)
{
	ask(fm_container_of(timer, struct fm_supervisor, ask_timer));
}

static bool has_mounts(const struct fm_supervisor *sup)
{
	fm_list_each(at, next, &sup->volumes)
		if (fm_container_of(at, struct fm_supervised, link)->volume->mount_point[0])
			return true;
	return false;
}

void fm_supervisor_ask(struct fm_supervisor *sup)
{
	sup->ask_timer.fire = ask_timer;
	if (!sup->is_stopped && !sup->is_asking && !fm_timer_is_set(&sup->ask_timer) &&
	    has_mounts(sup))
		fm_timer_set(sup->loop, &sup->ask_timer, fm_loop_now(sup->loop));
}

/*
 * The end of a call is not the end of what it began: a helper that hangs in mount() past its
 * deadline, and past SIGKILL, may come through at any time. The calls that mount are named after
 * the device.
 */
void fm_supervised_settle_word(struct fm_supervised *v)
{
	const struct fm_supervisor_world *world = v->sup->world;
	char key[FM_SUPERVISED_WHY_MAX];

	if (!v->is_announced || v->call != FM_CALL_NONE)
		return;
	fm_supervised_device_keys(v, key, sizeof(key));
	v->is_announced = world->has_helper(world->ctx, key);
	v->is_left_read_write =
		v->is_announced && (v->is_left_read_write || v->how.verdict == FM_GUARD_READ_WRITE);
}

/*
 * Says that a mount is about to begin, then asks the peers. A question that is already under way
 * does not count: it may have been answered before peers could read the announcement.
 */
int fm_supervised_ask(struct fm_supervised *v)
{
	bool was_announced = v->is_announced;
	int ret;

	v->is_announced = true;
	ret = fm_supervisor_publish(v->sup);
	if (ret < 0) {
		v->is_announced = was_announced;
		return ret;
	}
	v->call = FM_CALL_PEERS;
	v->ask_wanted = v->sup->asks_begun + 1;
	ask(v->sup);
	return 0;
}

/*
 * A peer can say any number. The lower half is there to be jumped over; in the upper one nobody, a
 * writer neither, gets far with what he says: before the last one is reached, after which no reader
 * would hear its writer, ten thousand years are over.
 */
static bool is_believable(uint64_t said, uint64_t known)
{
	uint64_t half = FM_SUPERVISED_EPOCH_MAX / 2;

	return said < half || (said < FM_SUPERVISED_EPOCH_MAX &&
			       said <= (known > half ? known : half) + FM_SUPERVISED_EPOCH_STEP);
}

static void take_word(struct fm_supervised *v, const struct fm_peer_volume *p)
{
	v->has_heard = true;
	v->epoch = p->epoch;
	v->is_heard_sealed = p->is_sealed;
	(void)fm_supervisor_save_mounted(v->sup, v);
	if (p->is_sealed)
		fm_log_info("volume %s: %s has sealed it, epoch %" PRIu64, v->volume->name, p->node,
			    p->epoch);
	else
		fm_log_info("volume %s: %s may write to it", v->volume->name, p->node);
}

/*
 * Whether the writer's seal is of before somebody wrote here, of which he does not know. This node
 * says a higher number then, and the writer takes one that is higher still (hear_readers()). While
 * he may write he takes one anyway.
 */
static bool is_outdated_seal(struct fm_supervised *v, const struct fm_peer_volume *p)
{
	if (!v->is_untold_written)
		return false;
	v->is_untold_written = false;
	if (p->is_sealed && p->epoch + 1 < FM_SUPERVISED_EPOCH_MAX) {
		fm_log_warn("volume %s: somebody had it read-write here, and %s has sealed it, "
			    "epoch %" PRIu64 ": that is to be sealed anew",
			    v->volume->name, p->node, p->epoch);
		v->epoch = p->epoch + 1;
		v->has_heard = v->is_heard_sealed = v->is_heard_now = false;
	}
	(void)fm_supervisor_save_mounted(v->sup, v);
	return p->is_sealed;
}

/*
 * Takes what the writer says now; silence changes nothing. Returns whether it is new. A number that
 * is lower than one that was heard means that the writer lost its state: it will hear our number,
 * and take a higher one.
 */
static bool hear_writer(struct fm_supervised *v)
{
	const struct fm_peers *peers = &v->sup->peers;
	bool is_now = v->hears_from > 0 && v->sup->asks_done >= v->hears_from, is_new = false;

	for (unsigned i = 0; i < peers->volume_count; i++) {
		const struct fm_peer_volume *p = &peers->volumes[i];

		if (p->is_stale || strcmp(p->node, v->volume->writer) != 0 ||
		    strcmp(p->writer, p->node) != 0 || !fm_supervised_is_meant(v, p) ||
		    p->epoch < v->epoch || !is_believable(p->epoch, v->epoch))
			continue;
		if (is_outdated_seal(v, p))
			return true;
		is_new = is_new || (is_now && !v->is_heard_now);
		v->is_heard_now = v->is_heard_now || is_now;
		if (v->has_heard && v->epoch == p->epoch && v->is_heard_sealed == p->is_sealed)
			continue;
		take_word(v, p);
		is_new = true;
	}
	return is_new;
}

/* The highest number of all peers, silent ones included. */
static uint64_t highest_said(const struct fm_supervised *v)
{
	const struct fm_peers *peers = &v->sup->peers;
	uint64_t number = 0;

	for (unsigned i = 0; i < peers->volume_count; i++) {
		const struct fm_peer_volume *p = &peers->volumes[i];

		if (p->epoch > number && is_believable(p->epoch, v->epoch) &&
		    fm_supervised_is_meant(v, p))
			number = p->epoch;
	}
	return number;
}

/* Who names another writer reads nothing of this one's: he counts from when he names this node. */
static bool asks_for_raise(const struct fm_supervised *v, const struct fm_peer_volume *p)
{
	return p->epoch > v->epoch && is_believable(p->epoch, v->epoch) &&
	       fm_supervised_is_meant(v, p) && strcmp(p->writer, v->sup->node) == 0;
}

static bool note_raise(struct fm_supervised *v, const char *node, uint64_t wait, uint64_t followed,
		       int64_t asked)
{
	return fm_json_set(v->raised, node,
			   fm_json_pack("{s:I, s:I, s:I}", "wait", (long long)wait, "followed",
					(long long)followed, "asked", (long long)asked)) == 0;
}

static int64_t raised_when(const struct fm_json *last, const char *what)
{
	return fm_json_as_i64(fm_json_get(last, what));
}

/*
 * Whether this peer's higher number is to be followed now: the next one after twice the time, an
 * hour at most. Who mounts by hand what is sealed causes one each time, and is not to wait for that
 * of last year. While one waits it is said with each answer: quiet was the time before that.
 */
static bool is_raise_due(struct fm_supervised *v, const char *node)
{
	const struct fm_json *last = fm_json_get(v->raised, node);
	uint64_t now = fm_loop_now(v->sup->loop), wait, followed;
	int64_t asked;

	if (!last)
		return note_raise(v, node, RAISE_NS, now, NOT_ASKED);
	wait = (uint64_t)raised_when(last, "wait");
	followed = (uint64_t)raised_when(last, "followed");
	asked = raised_when(last, "asked");
	asked = asked == NOT_ASKED ? (int64_t)now : asked;
	if ((uint64_t)asked >= followed + RAISE_QUIET_NS)
		return note_raise(v, node, RAISE_NS, now, NOT_ASKED);
	if (now >= followed + wait)
		return note_raise(v, node, 2 * wait < RAISE_MAX_NS ? 2 * wait : RAISE_MAX_NS, now,
				  NOT_ASKED);
	(void)note_raise(v, node, wait, followed, asked);
	return false;
}

static bool does_ask(const struct fm_supervised *v, const char *node)
{
	const struct fm_peers *peers = &v->sup->peers;

	for (unsigned i = 0; i < peers->volume_count; i++)
		if (strcmp(peers->volumes[i].node, node) == 0 &&
		    asks_for_raise(v, &peers->volumes[i]))
			return true;
	return false;
}

/* Who asks no more has heard a number that will do, which another peer may have asked for. */
static void end_asked(struct fm_supervised *v)
{
	struct fm_json *one;
	const char *node;

	for (void *it = NULL; fm_json_next(v->raised, &it, &node, &one);)
		if (!does_ask(v, node))
			(void)fm_json_set(fm_json_part(v->raised, node), "asked",
					  fm_json_of_i64(NOT_ASKED));
}

/*
 * Whether a peer says a higher number that is to be followed. Nobody gave it that: it took itself
 * for the writer, perhaps where this node did not hear of it, and waits for a higher one still. But
 * a hostile one could have it sealed anew without end, so each is followed ever more rarely.
 */
static bool may_be_raised(struct fm_supervised *v)
{
	const struct fm_peers *peers = &v->sup->peers;
	bool may_be = false;

	v->raised = v->raised ? v->raised : fm_json_object();
	end_asked(v);
	for (unsigned i = 0; i < peers->volume_count; i++)
		if (asks_for_raise(v, &peers->volumes[i]))
			may_be = is_raise_due(v, peers->volumes[i].node) || may_be;
	return may_be;
}

/* A number that this node does not know is of a writer before it, or of a state of its own that is
 * lost. */
static bool hear_readers(struct fm_supervised *v)
{
	uint64_t said = highest_said(v);

	if (!v->has_number || !may_be_raised(v))
		return false;
	fm_log_warn("volume %s: a peer has heard of epoch %" PRIu64 ", and this node has %" PRIu64
		    ": it takes a new one",
		    v->volume->name, said, v->epoch);
	v->has_number = false;
	v->seal = v->seal == FM_SEAL_DONE ? FM_SEAL_WANTED : v->seal;
	v->is_written = false;
	return true;
}

static bool hear(struct fm_supervised *v)
{
	if (!is_shared(v) || v->is_retired)
		return false;
	return is_writer(v) ? hear_readers(v) : hear_writer(v);
}

bool fm_supervised_said(struct fm_supervised *v)
{
	bool is_left = v->is_said_mounted && !v->word.is_mounted;

	v->is_said_mounted = v->word.is_mounted;
	if (v->hears_from > 0 && !is_left)
		return false;
	v->hears_from = v->sup->asks_begun + 1;
	v->is_heard_now = false;
	return is_shared(v) && !is_writer(v) && is_left;
}

static bool has_mounted(const struct fm_supervised *v, const char *node)
{
	const struct fm_peers *peers = &v->sup->peers;

	for (unsigned i = 0; i < peers->volume_count; i++)
		if (!peers->volumes[i].is_stale && peers->volumes[i].is_mounted &&
		    strcmp(peers->volumes[i].node, node) == 0 &&
		    fm_supervised_is_meant(v, &peers->volumes[i]))
			return true;
	return false;
}

bool fm_supervised_is_host_shared(const struct fm_supervised *v)
{
	const struct fm_peers *peers = &v->sup->peers;
	char host[FM_PEER_HOST_LEN + 1];

	fm_peers_host(v->sup->host_id, host);
	for (unsigned i = 0; i < peers->volume_count; i++) {
		const char *node = peers->volumes[i].node;

		if (fm_peers_is_host(peers, node, host) && !fm_supervised_is_forgotten(v, node) &&
		    (fm_peers_are_silent(peers, node) || has_mounted(v, node)))
			return true;
	}
	return false;
}

/*
 * Writes down which nodes have the sealed volume mounted, or had it when they answered last. They
 * may be silent after a restart of this node.
 */
static void note_readers(struct fm_supervised *v)
{
	const struct fm_peers *peers = &v->sup->peers;
	const struct fm_json *at;
	struct fm_json *now;
	struct fm_err err = { 0 };
	size_t i;

	if (v->seal == FM_SEAL_OPEN || !is_writer(v))
		return;
	now = fm_json_array();
	for (i = 0; (at = fm_json_at(v->readers, i)); i++)
		if (fm_peers_are_silent(peers, fm_json_as_text(at)))
			(void)fm_json_add(now, fm_json_share(at));
	for (unsigned n = 0; n < peers->node_count; n++)
		if (has_mounted(v, peers->nodes[n].node))
			(void)fm_json_add(now, fm_json_of_text(peers->nodes[n].node));
	if (!now || fm_json_is_equal(now, v->readers)) {
		fm_json_free(now);
		return;
	}
	fm_json_free(v->readers);
	v->readers = now;
	/* Else with the number that it takes: the present one would be taken for its own. */
	if (v->has_number && fm_supervisor_save_seal(v->sup, v, &err) < 0)
		fm_log_warn("volume %s: who reads it is not written down: %s", v->volume->name,
			    err.text);
}

static void answer_waiting(struct fm_supervisor *sup)
{
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->call == FM_CALL_PEERS && sup->asks_done >= v->ask_wanted)
			fm_supervised_peers_asked(v);
	}
}

static void void_all(struct fm_supervisor *sup)
{
	fm_log_warn("what some peers said before is lost, for want of memory or because it is too "
		    "much: each must answer once more before "
		    "a volume is written that nothing else protects");
	fm_list_each(at, next, &sup->volumes)
		fm_supervised_void_answers(fm_container_of(at, struct fm_supervised, link));
}

/*
 * Whether what a peer says may be about this volume. As long as our namespace is not known,
 * everything may be. A volume of the same subsystem or name may become it.
 */
static bool may_concern(const struct fm_supervised *v, const struct fm_peer_volume *p)
{
	const char *ours = fm_supervised_wwid(v);

	return !ours[0] || strcmp(ours, p->wwid) == 0 ||
	       strcmp(v->volume->subsystem, p->subsystem) == 0 ||
	       strcmp(v->volume->name, p->name) == 0;
}

/*
 * Whether to keep what a peer says of a volume. What it has mounted is always kept: the volume may
 * be configured here later, while that node is silent.
 */
static bool may_concern_any(const void *ctx, const struct fm_peer_volume *p)
{
	const struct fm_supervisor *sup = ctx;

	if (p->is_mounted || strcmp(p->subsystem, FM_PEER_HOST_SUBSYSTEM) == 0)
		return true;
	fm_list_each(at, next, &sup->volumes)
		if (may_concern(fm_container_of(at, struct fm_supervised, link), p))
			return true;
	return false;
}

/* Said once of each such node: of the first one, until that has an id of its own. */
static void watch_hosts(struct fm_supervisor *sup)
{
	char host[FM_PEER_HOST_LEN + 1], same[FM_PEER_NAME_MAX + 1] = "";

	fm_peers_host(sup->host_id ? sup->host_id : "", host);
	for (unsigned i = 0; i < sup->peers.node_count && !same[0]; i++)
		if (fm_peers_is_host(&sup->peers, sup->peers.nodes[i].node, host))
			memcpy(same, sup->peers.nodes[i].node, sizeof(same));
	if (same[0] && strcmp(same, sup->same_host) != 0)
		fm_log_error("%s has the NVMe host id of this node: targets take both for one "
			     "host, and a reservation keeps neither away; give "
			     "it one of its own (fmove-nvme(1), RESERVATIONS)",
			     same);
	memcpy(sup->same_host, same, sizeof(same));
}

void fm_supervisor_peers(struct fm_supervisor *sup, struct fm_peers *peers)
{
	bool is_new, is_alarmed = false;

	sup->is_asking = false;
	sup->asks_done = sup->asks_begun;
	if (sup->is_stopped) {
		fm_peers_clear(peers);
		return;
	}
	fm_peers_filter(peers, may_concern_any, sup);
	fm_peers_share(peers);
	if (fm_peers_keep(peers, &sup->peers) < 0)
		void_all(sup);
	is_new = !fm_peers_are_equal(peers, &sup->peers);
	fm_peers_clear(&sup->peers);
	sup->peers = *peers;
	*peers = (struct fm_peers){ 0 };
	fm_supervisor_save_heard(sup);
	watch_hosts(sup);
	is_new = fm_supervisor_note_nodes(sup) || is_new;
	/* Also what is not new may be so to a volume that was configured meanwhile. */
	fm_list_each(at, next, &sup->volumes) {
		is_new = hear(fm_container_of(at, struct fm_supervised, link)) || is_new;
		note_readers(fm_container_of(at, struct fm_supervised, link));
		is_alarmed = fm_supervised_watch_writers(
				     fm_container_of(at, struct fm_supervised, link)) ||
			     is_alarmed;
	}
	sup->peers_version += is_new;
	if (is_new || is_alarmed)
		fm_supervisor_look_soon(sup);
	answer_waiting(sup);
	if (sup->is_ask_wanted)
		ask(sup);
	else if (has_mounts(sup))
		fm_timer_set(sup->loop, &sup->ask_timer, fm_loop_now(sup->loop) + ASK_NS);
}

/* ---- sealing ---- */

const char *fm_supervised_leave_why(const struct fm_supervised *v, char why[static FM_PLAN_WHY_MAX])
{
	if (!is_shared(v))
		return NULL;
	/* Else the others would wait for ever: that it is read-only by now is no proof that nothing
	 * is written any more, and free it is only when it was unmounted. */
	if (fm_supervised_is_overstated(v)) {
		(void)snprintf(why, FM_PLAN_WHY_MAX, "it may have been mounted read-write, and "
						     "peers are told so: it is mounted anew");
		return why;
	}
	if (is_writer(v)) {
		if (v->seal == FM_SEAL_DONE || (v->seal == FM_SEAL_OPEN && v->mounted_epoch == 0))
			return NULL;
		(void)snprintf(why, FM_PLAN_WHY_MAX, "%s",
			       v->seal == FM_SEAL_OPEN ? "it is unsealed" : "it is to be sealed");
		return why;
	}
	if (!v->has_heard || (v->is_heard_sealed && v->epoch == v->mounted_epoch))
		return NULL;
	if (!v->is_heard_sealed)
		(void)snprintf(why, FM_PLAN_WHY_MAX, "%.64s is about to write to it",
			       v->volume->writer);
	else
		(void)snprintf(why, FM_PLAN_WHY_MAX, "%.64s has sealed it anew, epoch %" PRIu64,
			       v->volume->writer, v->epoch);
	return why;
}

static uint64_t next_number(const struct fm_supervised *v)
{
	uint64_t said = highest_said(v);

	return (said > v->epoch ? said : v->epoch) + 1;
}

/*
 * A number from the clock, for a writer that lost its own. The highest number of the peers plus one
 * is not safe: an answer under way may carry it. The seconds since 1970 are more than anybody can
 * have sealed.
 */
static uint64_t number_of_clock(const struct fm_supervised *v)
{
	uint64_t seconds = v->sup->world->wall_ms(v->sup->world->ctx) / 1000, next = next_number(v);

	return seconds > next ? seconds : next;
}

bool fm_supervised_has_number(const struct fm_supervised *v)
{
	return !is_shared(v) || !is_writer(v) || v->has_number;
}

/*
 * Gives a volume without a number one from the clock. It is written down before any peer hears of
 * it.
 */
void fm_supervised_settle_number(struct fm_supervised *v)
{
	uint64_t before = v->epoch;
	struct fm_err err = { 0 };
	bool may_write;

	if (fm_supervised_has_number(v) || v->is_retired || v->is_announced ||
	    number_of_clock(v) >= FM_SUPERVISED_EPOCH_MAX ||
	    fm_supervised_is_left_hanging(v, &may_write) || !v->volume->mount_point[0])
		return;
	v->epoch = number_of_clock(v);
	if (fm_supervisor_save_seal(v->sup, v, &err) < 0) {
		v->epoch = before;
		fm_supervised_error(v, err.text);
		return;
	}
	v->has_number = true;
	fm_supervised_drop_answers(v);
	fm_log_info("volume %s: whether it was ever sealed is not known here: epoch %" PRIu64
		    " begins, and each node must say that it has "
		    "nothing older",
		    v->volume->name, v->epoch);
}

/* Who had the last seal is known by the numbers that it said. */
static void forget_readers(struct fm_supervised *v)
{
	fm_json_free(v->readers);
	v->readers = NULL;
	v->are_readers_lost = false;
}

/*
 * What cannot be written down is in force all the same: it has no number then, is not mounted, and
 * takes one as soon as that can be written.
 */
void fm_supervised_end_seal(struct fm_supervised *v, const char *why)
{
	struct fm_err err = { 0 };

	if (v->seal != FM_SEAL_WANTED || !is_writer(v) || !is_shared(v))
		return;
	v->seal = FM_SEAL_OPEN;
	v->is_unheard = false;
	(void)snprintf(v->unsealed_why, sizeof(v->unsealed_why), "not sealed: %s", why);
	fm_log_error("volume %s: %s", v->volume->name, v->unsealed_why);
	forget_readers(v);
	fm_supervised_void_answers(v);
	v->sup->is_published = false;
	if (v->has_number && fm_supervisor_save_seal(v->sup, v, &err) < 0) {
		v->has_number = false;
		fm_log_error("volume %s: %s", v->volume->name, err.text);
	}
}

/*
 * The kernel tells of what it could not write once. A helper that was told so after its fmove-nvmed
 * had ended told nobody, and the next one would find nothing wrong.
 */
void fm_supervised_end_restarted_seal(struct fm_supervised *v)
{
	char why[FM_SUPERVISED_WHY_MAX];

	(void)snprintf(why, sizeof(why),
		       "fmove-nvmed was restarted while it was written out, so whether all of it "
		       "has come to the device is not known: dmesg may say more; write it again "
		       "if it says so, then say fmove nvme seal %s",
		       v->volume->name);
	fm_supervised_end_seal(v, why);
}

int fm_supervised_note_unheard(struct fm_supervised *v, bool is_unheard, struct fm_err *err)
{
	int ret;

	if (v->seal != FM_SEAL_WANTED || v->is_unheard == is_unheard)
		return 0;
	v->is_unheard = is_unheard;
	/* As with readers. */
	if (!v->has_number)
		return 0;
	ret = fm_supervisor_save_seal(v->sup, v, err);
	if (ret < 0)
		v->is_unheard = false;
	return ret;
}

const char *fm_supervisor_unsealed_why(const struct fm_supervisor *sup, const char *volume)
{
	const struct fm_supervised *v = fm_supervisor_find(sup, volume);

	return v ? v->unsealed_why : "";
}

bool fm_supervised_is_other_than_sealed(const struct fm_supervised *v)
{
	return v->seal == FM_SEAL_DONE && is_writer(v) && is_shared(v) && v->has_sealed_sum &&
	       v->sealed_sum != v->sb_sum;
}

/* It was sealed before such a sum was written down. */
static int note_sum(struct fm_supervised *v, struct fm_err *err)
{
	int ret;

	if (v->has_sealed_sum)
		return 0;
	v->sealed_sum = v->sb_sum;
	v->has_sealed_sum = true;
	ret = fm_supervisor_save_seal(v->sup, v, err);
	v->has_sealed_sum = ret == 0;
	return ret;
}

int fm_supervised_sealed(struct fm_supervised *v, struct fm_err *err)
{
	uint64_t before = v->epoch;
	int ret;

	if (v->seal == FM_SEAL_OPEN || !is_writer(v) || !is_shared(v))
		return 0;
	if (v->seal == FM_SEAL_DONE)
		return note_sum(v, err);
	if (next_number(v) >= FM_SUPERVISED_EPOCH_MAX)
		return fm_err_set(err, -EOVERFLOW, NO_NUMBER, v->volume->name);
	v->seal = FM_SEAL_DONE;
	v->epoch = next_number(v);
	v->sealed_sum = v->sb_sum;
	v->has_sealed_sum = true;
	ret = fm_supervisor_save_seal(v->sup, v, err);
	if (ret < 0) {
		v->seal = FM_SEAL_WANTED;
		v->epoch = before;
		return fm_err_wrap(err, "it cannot be sealed");
	}
	fm_log_info("volume %s: sealed, epoch %" PRIu64, v->volume->name, v->epoch);
	return 0;
}

/*
 * A number that is not written down is told to nobody: after a restart it would be another seal's.
 * It takes one as soon as that can be written, and is not mounted until then.
 */
void fm_supervised_seal_anew(struct fm_supervised *v, const char *why)
{
	uint64_t before = v->epoch;
	struct fm_err err = { 0 };

	fm_log_warn("volume %s: %s: it is sealed anew", v->volume->name, why);
	v->seal = FM_SEAL_WANTED;
	v->is_written = false;
	v->epoch = next_number(v) < FM_SUPERVISED_EPOCH_MAX ? next_number(v) : v->epoch;
	fm_supervised_drop_answers(v);
	if (fm_supervisor_save_seal(v->sup, v, &err) < 0) {
		v->epoch = before;
		v->has_number = false;
		fm_log_error("volume %s: %s", v->volume->name, err.text);
	}
}

/*
 * Notes that a person or another program has a volume to write, at a node that only reads it. Its
 * writer is told by a number that is higher than his (hear_writer()).
 */
static void watch_reader(struct fm_supervised *v)
{
	bool is_written = fm_supervised_is_seen_written(v);

	if (is_written && !v->is_seen_written && !v->is_untold_written) {
		v->is_untold_written = true;
		(void)fm_supervisor_save_mounted(v->sup, v);
	}
	v->is_seen_written = is_written;
}

/*
 * What is sealed, and can be written to here all the same, needs a new number: with the old one
 * readers would keep old blocks. It may be mounted at another place than the volume's.
 */
void fm_supervised_watch_seal(struct fm_supervised *v)
{
	if (!is_shared(v) || v->is_retired)
		return;
	if (!is_writer(v)) {
		watch_reader(v);
		return;
	}
	v->is_written = v->is_written || (v->seal == FM_SEAL_WANTED && v->plan.is_mounted &&
					  v->plan.is_read_write);
	if (v->seal == FM_SEAL_DONE && fm_supervised_is_seen_written(v))
		fm_supervised_seal_anew(v, "it is sealed, and somebody else has it read-write");
}

/*
 * A silent reader that may still have the volume mounted: it would read a mixture of old and new.
 * NULL: none is known.
 */
static const char *lost_reader(const struct fm_supervised *v)
{
	const struct fm_peers *peers = &v->sup->peers;
	const struct fm_json *at;
	size_t i;

	for (i = 0; (at = fm_json_at(v->readers, i)); i++)
		if (fm_peers_are_silent(peers, fm_json_as_text(at)) &&
		    !fm_supervised_is_forgotten(v, fm_json_as_text(at)))
			return fm_json_as_text(at);
	for (unsigned n = 0; v->are_readers_lost && n < peers->node_count; n++)
		if (peers->nodes[n].why[0] && !fm_supervised_is_forgotten(v, peers->nodes[n].node))
			return peers->nodes[n].node;
	return NULL;
}

static int check_seal(const struct fm_supervised *v, bool is_sealed, bool is_forced,
		      struct fm_err *err)
{
	const struct fm_volume *vol = v->volume;
	const char *lost = lost_reader(v);

	if (!is_shared(v) || !vol->mount_point[0])
		return fm_err_set(err, -EINVAL,
				  "\"%s\" is not one to be sealed: say mode = \"shared-read\", "
				  "writer and mount for it, on every node",
				  vol->name);
	if (!is_writer(v))
		return fm_err_set(err, -EACCES,
				  "%s is the writer of \"%s\", this is %s: say it there",
				  vol->writer, vol->name, v->sup->node);
	if (next_number(v) >= FM_SUPERVISED_EPOCH_MAX)
		return fm_err_set(err, -EOVERFLOW, NO_NUMBER, vol->name);
	if (is_sealed && fm_supervised_want(v) != FM_WANT_UP)
		return fm_err_set(err, -EINVAL,
				  "\"%s\" is not up, so it cannot be looked at: fmove nvme up %s",
				  vol->name, vol->name);
	if (!is_sealed && v->seal != FM_SEAL_OPEN && !is_forced &&
	    (v->sup->asks_done == 0 || v->sup->peers.why[0]))
		return fm_err_set(err, -EBUSY,
				  "nobody can say who reads \"%s\"%s%s: try again when fmoved "
				  "runs, or use --force if nobody reads",
				  vol->name, v->sup->peers.why[0] ? ": " : "", v->sup->peers.why);
	if (!is_sealed && v->seal != FM_SEAL_OPEN && lost && !is_forced)
		return fm_err_set(
			err, -EBUSY,
			"%s had it mounted when it answered last, or may have had it, and does not "
			"answer now: unmount it "
			"there (fmove nvme down %s), or use --force if nobody reads there",
			lost, vol->name);
	return 0;
}

/*
 * A person says by force that silent nodes do not read the volume. A node that said it writes still
 * forbids: no force takes that back.
 */
static void forgive_silent_readers(struct fm_supervised *v)
{
	struct fm_peers *peers = &v->sup->peers;

	for (unsigned i = 0; i < peers->volume_count; i++)
		if (peers->volumes[i].is_stale && !peers->volumes[i].is_read_write &&
		    fm_supervised_is_meant(v, &peers->volumes[i]))
			peers->volumes[i].is_mounted = false;
	v->sup->peers_version++;
	fm_supervisor_save_heard(v->sup);
}

int fm_supervisor_seal(struct fm_supervisor *sup, const char *volume, bool is_sealed,
		       bool is_forced, struct fm_err *err)
{
	struct fm_supervised *v = fm_supervisor_find(sup, volume);
	uint64_t epoch_before;
	enum fm_seal before;
	bool was_unheard;
	int ret;

	if (!v || v->is_retired)
		return fm_err_set(err, -ENOENT,
				  "no volume \"%s\" is configured; fmove nvme status lists those "
				  "that are",
				  volume);
	ret = check_seal(v, is_sealed, is_forced, err);
	if (ret < 0)
		return ret;
	if (!is_sealed && is_forced)
		forgive_silent_readers(v);
	before = v->seal;
	if (is_sealed == (before != FM_SEAL_OPEN)) {
		if (!is_sealed && is_forced) {
			fm_supervised_force_mount(v, true);
			fm_supervised_refresh(v);
		}
		return 0;
	}
	epoch_before = v->epoch;
	was_unheard = v->is_unheard;
	v->is_unheard = is_sealed && v->call == FM_CALL_UNMOUNT && v->is_left_read_write;
	v->seal = is_sealed ? FM_SEAL_WANTED : FM_SEAL_OPEN;
	v->epoch = before == FM_SEAL_DONE ? next_number(v) : v->epoch;
	v->is_written = is_sealed && v->plan.is_mounted && v->plan.is_read_write;
	ret = fm_supervisor_save_seal(sup, v, err);
	if (ret < 0) {
		v->seal = before;
		v->epoch = epoch_before;
		v->is_unheard = was_unheard;
		return fm_err_wrap(err, "nothing is changed");
	}
	v->unsealed_why[0] = '\0';
	if (!is_sealed) {
		forget_readers(v);
		fm_supervised_drop_answers(v);
	}
	fm_supervised_force_mount(v, is_forced && !is_sealed);
	fm_log_info("volume %s: to be %s", volume, is_sealed ? "sealed" : "written to");
	fm_supervised_refresh(v);
	return 0;
}

bool fm_supervisor_is_sealed(const struct fm_supervisor *sup, const char *volume)
{
	const struct fm_supervised *v = fm_supervisor_find(sup, volume);

	return v && v->seal != FM_SEAL_OPEN;
}

/* ---- what people are told ---- */

/* NULL: it said nothing of this volume. */
static const struct fm_peer_volume *said_by(const struct fm_supervised *v, const char *node)
{
	const struct fm_peers *peers = &v->sup->peers;

	for (unsigned i = 0; i < peers->volume_count; i++)
		if (strcmp(peers->volumes[i].node, node) == 0 &&
		    fm_supervised_is_meant(v, &peers->volumes[i]))
			return &peers->volumes[i];
	return NULL;
}

/* NULL: it answers, and has nothing of it. */
static struct fm_json *show_node(const struct fm_supervised *v, const char *node)
{
	const char *why = fm_peers_silent_why(&v->sup->peers, node);
	const struct fm_peer_volume *p = said_by(v, node);
	bool is_forgotten = fm_supervised_is_forgotten(v, node);
	struct fm_json *one;

	if (!p && !why[0])
		return NULL;
	one = fm_json_pack("{s:s, s:s, s:b, s:b, s:I}", "node", node, "why", why, "counts",
			   fm_supervised_counts(v, node) && !is_forgotten, "has_answered",
			   fm_supervised_has_answered(v, node), "forgotten_ms",
			   is_forgotten ? (long long)fm_supervisor_forgotten_ms(v->sup, node) : 0);
	if (p)
		(void)fm_json_set_all(one,
				      fm_json_pack("{s:s, s:b, s:b, s:b, s:I}", "writer", p->writer,
						   "is_mounted", p->is_mounted, "is_read_write",
						   p->is_read_write, "is_sealed", p->is_sealed,
						   "epoch", (long long)p->epoch));
	return one;
}

static void show_seal(const struct fm_supervised *v, struct fm_json *to)
{
	bool is_sealed =
		is_writer(v) ? v->seal == FM_SEAL_DONE : v->has_heard && v->is_heard_sealed;

	(void)fm_json_set(to, "is_sealed", fm_json_of_bool(is_sealed));
	(void)fm_json_set(to, "epoch", fm_json_of_i64((int64_t)v->epoch));
	(void)fm_json_set(to, "mounted_epoch",
			  fm_json_of_i64((int64_t)(v->plan.is_mounted ? v->mounted_epoch : 0)));
}

void fm_supervised_show_peers(const struct fm_supervised *v, struct fm_json *to)
{
	struct fm_json *all = fm_json_array(), *one, *entry;
	char too_much[FM_ERR_TEXT_MAX];
	const char *node;

	/* fits */
	(void)snprintf(too_much, sizeof(too_much), FM_SUPERVISOR_TOO_MUCH, FM_SUPERVISOR_SAID_MAX);
	if (is_shared(v) && v->sup->node)
		show_seal(v, to);
	for (void *it = NULL; fm_json_next(v->sup->nodes.entries, &it, &node, &entry);) {
		one = show_node(v, node);
		if (one)
			(void)fm_json_add(all, one);
	}
	(void)fm_json_set(to, "peers", all);
	(void)fm_json_set(to, "peers_why",
			  fm_json_of_text(v->sup->is_too_much_said ? too_much : v->sup->peers.why));
}
