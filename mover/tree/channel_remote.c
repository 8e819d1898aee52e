/* SPDX-License-Identifier: MIT */
/*
 * channel_remote - the daemon's end of a channel: a tree whose functions are calls to the process
 * of a local caller.
 *
 * The happy path of a call: take a free socket (packs leave some for everything else); send the
 * ask; receive the answer; check it; take what is common to all answers (numbers, note); take what
 * is its own; give the socket back.
 *
 * Failure: what the caller's tree says is the error of that call. What the caller should not have
 * sent, or its end, is the error of this call and of all others from then on: the sockets are shut
 * down, which ends those that wait. So is a caller that stands still: what those calls hold is
 * wanted by others.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/of_kernel.h"
#include "mover/base/worker.h"
#include "mover/tree/channel.h"
#include "mover/tree/channel_io.h"
#include "mover/tree/channel_msg.h"
#include "mover/tree/channel_pulse.h"
#include "mover/tree/pack.h"

/* one that is forgotten costs the caller some memory until the end */
#define ACKS_KEPT_MAX (64u << 10)
#define NOTES_MAX 8u		/* more than a sink has to say, one by one */
#define NEEDS_KEPT_MAX 128u		/* more than a source has offers without answer */

struct line {
	int socket;
	off_t region;			/* in the memory file */
	bool is_busy;
	uint64_t tag;			/* of its last call */
	uint8_t buf[FM_CHANNEL_ANSWER_MAX];
};
_Static_assert(FM_CHANNEL_ASK_MAX <= FM_CHANNEL_ANSWER_MAX, "an ask fits the buffer too");

struct held {
	struct fm_list link;
	struct fm_tree_large large;
};

/* The sockets mean nothing but where the holder is: it shuts them down. */
struct stopping {
	struct fm_work work;
	struct remote *remote;
	struct fm_holder *holder;
};

struct remote {
	struct fm_tree tree;
	struct stopping *stopping;	/* NULL: the sockets are ours, or it is under way */
	bool is_stopping;		/* it has not run yet */
	bool has_holder;
	int memory;
	int (*poll)(struct pollfd *fds, nfds_t count, int timeout_ms);
	unsigned count;			/* of lines */
	struct line *lines[FM_CHANNEL_SOCKETS_MAX];

	pthread_mutex_t lock;
	pthread_cond_t freed;		/* a line; or stopped, or broken */
	unsigned packs;			/* lines that carry packs */
	bool is_stopped;
	struct fm_err broken;		/* code 0: it is not */
	atomic_flag is_still_told;	/* that the caller stands still */
	uint64_t serial;
	struct fm_tree_count numbers;
	/* each is read without the lock, so it stays as it is */
	char notes[NOTES_MAX][FM_CHANNEL_NOTE_MAX + 1];
	unsigned notes_said;
	uint64_t note_serial;		/* of the answer that brought the last one */
	uint64_t *acks;			/* not told yet */
	size_t acks_count;
	size_t acks_cap;
	struct fm_channel_need needs[NEEDS_KEPT_MAX];	/* the same */
	unsigned needs_count;
	struct fm_list larges;		/* that wait for next_large() */
	unsigned larges_count;
};

static struct remote *remote_of(struct fm_tree *t)
{
	return fm_container_of(t, struct remote, tree);
}

/* ---- the lines ---- */

/* Ends every call that waits for the caller. */
static void shut_down(struct remote *r)
{
	for (unsigned i = 0; i < r->count; i++)
		/* one that is closed already is as good */
		(void)shutdown(r->lines[i]->socket, SHUT_RDWR);
	pthread_cond_broadcast(&r->freed);
}

/* With the lock: 0 if a call can be made, else the error that says why not. */
static int check_state(const struct remote *r, struct fm_err *err)
{
	if (r->is_stopped)
		return fm_err_set(err, -ECANCELED, "stopped");
	if (r->broken.code && err)
		*err = r->broken;
	return r->broken.code;
}

/* The channel is of no use any more. Returns what the call that found it out returns. */
static int broke(struct remote *r, int code, const char *text, struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&r->lock);
	if (!r->broken.code && !r->is_stopped)
		(void)fm_err_set(&r->broken, code, "%s", text);
	shut_down(r);
	ret = check_state(r, err);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

static int broke_nonsense(struct remote *r, const char *what, struct fm_err *err)
{
	char text[128];

	/* cut is fine */
	(void)snprintf(text, sizeof(text), "the client of the local API answers nonsense: %s",
		       what);
	return broke(r, -EPROTO, text, err);
}

/* The process that made the sockets, as words; "" where it has no number here. */
static void name_client(const struct remote *r, char *out, size_t cap)
{
	struct ucred who = { .pid = 0 };
	socklen_t len = sizeof(who);

	out[0] = '\0';
	if (getsockopt(r->lines[0]->socket, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
	    who.pid > 0)
		(void)snprintf(out, cap, " (process %d)", (int)who.pid);	/* a number fits */
}

static int broke_still(struct remote *r, struct fm_err *err)
{
	char text[192], client[32];

	name_client(r, client, sizeof(client));
	(void)snprintf(
		text, sizeof(text),
		"its client%s stood still for %u s (was it stopped?): ended, so that others go on",
		client, FM_CHANNEL_PULSES_MISSED * FM_CHANNEL_PULSE_MS / 1000); /* cut is fine */
	if (!atomic_flag_test_and_set(&r->is_still_told))
		fm_log_warn("%s of a local directory: %s", r->tree.is_source ? "put" : "get", text);
	return broke(r, -ETIMEDOUT, text, err);
}

/* Packs leave one line, or two if there are some, for everything else. */
static unsigned packs_max(const struct remote *r)
{
	return r->count > 3 ? r->count - 2 : r->count - 1;
}

static struct line *find_line(const struct remote *r, bool is_pack)
{
	if (is_pack && r->packs == packs_max(r))
		return NULL;
	for (unsigned i = 0; i < r->count; i++)
		if (!r->lines[i]->is_busy)
			return r->lines[i];
	return NULL;
}

/* Waits for one. NULL: *ret says why. */
static struct line *line_take(struct remote *r, bool is_pack, int *ret, struct fm_err *err)
{
	struct line *l = NULL;

	pthread_mutex_lock(&r->lock);
	while ((*ret = check_state(r, err)) == 0 && !(l = find_line(r, is_pack)))
		pthread_cond_wait(&r->freed, &r->lock);
	if (l) {
		l->is_busy = true;
		r->packs += is_pack;
	}
	pthread_mutex_unlock(&r->lock);
	return l;
}

static void line_put(struct remote *r, struct line *l, bool is_pack)
{
	pthread_mutex_lock(&r->lock);
	l->is_busy = false;
	r->packs -= is_pack;
	/* of two that wait, one may be the one that may not */
	pthread_cond_broadcast(&r->freed);
	pthread_mutex_unlock(&r->lock);
}

/* ---- a call ---- */

/* Text of the caller: one line. */
static void copy_text(char *out, size_t cap, const char *text, size_t len)
{
	size_t n = len < cap ? len : cap - 1;

	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
	out[n] = '\0';
}

/* Takes over the note of the far end, which grows while the tree is made. */
static void take_note(struct remote *r, const struct fm_channel_answer *a)
{
	char *note = r->notes[r->notes_said];

	r->note_serial = a->serial;
	copy_text(note, sizeof(r->notes[0]), a->note, a->note_len);
	if (r->notes_said > 0 && strcmp(note, r->notes[r->notes_said - 1]) == 0)
		return;
	__atomic_store_n(&r->tree.note, note, __ATOMIC_RELEASE);
	r->notes_said++;
}

/*
 * Takes over the fields that every answer has. Threads may handle answers in another order than
 * they were sent.
 */
static void take_common(struct remote *r, const struct fm_channel_answer *a)
{
	if (a->flags & FM_CHANNEL_LOST)
		atomic_store(&r->tree.sync_error, -EIO);
	pthread_mutex_lock(&r->lock);
	if (a->serial > r->serial) {
		r->serial = a->serial;
		r->numbers = a->count;
	}
	if (a->note_len > 0 && a->serial > r->note_serial && r->notes_said < NOTES_MAX)
		take_note(r, a);
	pthread_mutex_unlock(&r->lock);
}

static int receive(struct remote *r, struct line *l, const struct fm_channel_ask *ask,
		   struct fm_channel_answer *answer, struct fm_channel_fds *fds, struct fm_err *err)
{
	int ret = fm_channel_receive(l->socket, l->buf, sizeof(l->buf), fds);

	if (ret == 0)
		return broke(r, -EPIPE, "its client went away", err);
	if (ret < 0)
		return broke_nonsense(r, fm_err_name(ret), err);
	ret = fm_channel_get_answer(l->buf, (size_t)ret, answer);
	if (ret == -EPROTONOSUPPORT)
		ret = broke(r, ret,
			    "the client of the local API is of another version: upgrade fmove and "
			    "fmoved together",
			    err);
	else if (ret == -ENOMEM)
		ret = broke(r, ret, "no memory for an answer of the client", err);
	else if (ret < 0)
		ret = broke_nonsense(r, "not a message of a tree", err);
	if (ret == 0 && (answer->op != ask->op || answer->tag != ask->tag)) {
		fm_have_free(&answer->have);
		ret = broke_nonsense(r, "the answer to something else", err);
	}
	if (ret < 0)
		fm_channel_close_fds(fds);
	return ret;
}

/*
 * Ask, and wait. 0: there is an answer, whatever it says; its have and *fds are to be freed. Its
 * pointers are into the line's buffer.
 */
static int call(struct remote *r, struct line *l, struct fm_channel_ask *ask,
		const struct fm_channel_fds *pass, struct fm_channel_answer *answer,
		struct fm_channel_fds *fds, struct fm_err *err)
{
	size_t len;
	int ret;

	fds->count = 0;
	ask->tag = ++l->tag;
	len = fm_channel_put_ask(ask, l->buf);
	if (len == 0)
		return broke(r, -EINVAL, "what its client was to be asked cannot be said", err);
	ret = fm_channel_send(l->socket, l->buf, len, pass);
	if (ret == -EPIPE)
		return broke(r, -EPIPE, "its client went away", err);
	if (ret < 0)
		return broke_nonsense(r, fm_err_name(ret), err);
	/* What is asked to give the tree its name may do it whenever it goes on, and nothing that
	 * is lent waits for that. */
	if (ask->op != FM_CHANNEL_PUBLISH &&
	    fm_channel_pulse_wait(l->socket, r->memory, r->poll) < 0)
		return broke_still(r, err);
	ret = receive(r, l, ask, answer, fds, err);
	if (ret == 0)
		take_common(r, answer);
	return ret;
}

/* The error that an answer says, as this call's. */
static int error_of(const struct fm_channel_answer *a, struct fm_err *err)
{
	char text[FM_ERR_TEXT_MAX];

	if (a->ret >= 0)
		return 0;
	copy_text(text, sizeof(text), a->text, a->text_len);
	return text[0] ? fm_err_set(err, (int)a->ret, "%s", text)
		       : fm_err_sys(err, (int)a->ret, "the client's directory");
}

/* A call whose answer is only its result. */
static int call_simple(struct remote *r, struct fm_channel_ask *ask,
		       const struct fm_channel_fds *pass, struct fm_err *err)
{
	struct fm_channel_answer answer;
	struct fm_channel_fds fds;
	struct line *l;
	int ret;

	l = line_take(r, false, &ret, err);
	if (!l)
		return ret;
	ret = call(r, l, ask, pass, &answer, &fds, err);
	if (ret == 0) {
		if (fds.count > 0)
			ret = broke_nonsense(r, "descriptors that nobody wants", err);
		else
			ret = error_of(&answer, err);
		fm_have_free(&answer.have);
		fm_channel_close_fds(&fds);
	}
	line_put(r, l, false);
	return ret;
}

static int remote_begin(struct fm_tree *t, const struct fm_tree_begin *how, struct fm_err *err)
{
	struct remote *r = remote_of(t);
	struct fm_channel_ask ask = { .op = FM_CHANNEL_BEGIN, .identity = how->source };
	struct fm_channel_answer answer;
	struct fm_channel_fds fds;
	struct line *l;
	int ret;

	ask.flags = (how->is_offering ? FM_CHANNEL_OFFERING : 0) |
		    (how->has_checksums ? FM_CHANNEL_CHECKSUMS : 0) |
		    (how->has_owners ? FM_CHANNEL_OWNERS : 0) | (how->is_dry ? FM_CHANNEL_DRY : 0);
	l = line_take(r, false, &ret, err);
	if (!l)
		return ret;
	ret = call(r, l, &ask, NULL, &answer, &fds, err);
	if (ret == 0) {
		fm_channel_close_fds(&fds);
		t->is_partial = (answer.flags & FM_CHANNEL_PARTIAL) != 0;
		t->has_owners = (answer.flags & FM_CHANNEL_OWNERS) != 0;
		ret = error_of(&answer, err);
	}
	line_put(r, l, false);
	return ret;
}

/* ---- source ---- */

/* A real client passes one of a tree in /sys at most. */
static int refuse_of_kernel(struct remote *r, struct fm_err *err)
{
	return broke(r, -EINVAL,
		     "a file that the kernel makes up, as in /proc or /sys: fmoved neither reads "
		     "nor writes it for its client",
		     err);
}

static bool is_readable_file(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_WRONLY &&
	       fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Adds the acknowledgements and wants since the last FILL to this one, as many as fit. */
static void add_news(struct remote *r, struct fm_channel_ask *ask)
{
	size_t acks, needs;

	pthread_mutex_lock(&r->lock);
	acks = r->acks_count < FM_CHANNEL_ACKS_MAX ? r->acks_count : FM_CHANNEL_ACKS_MAX;
	needs = r->needs_count < FM_CHANNEL_NEEDS_MAX ? r->needs_count : FM_CHANNEL_NEEDS_MAX;
	for (size_t i = 0; i < acks; i++)
		ask->acks[i] = r->acks[--r->acks_count];
	memcpy(ask->needs, r->needs, needs * sizeof(r->needs[0]));
	r->needs_count -= (unsigned)needs;
	memmove(r->needs, r->needs + needs, r->needs_count * sizeof(r->needs[0]));
	ask->acks_count = (uint16_t)acks;
	ask->needs_count = (uint16_t)needs;
	ask->larges = r->larges_count < FM_CHANNEL_LARGES_HELD_MAX ? FM_CHANNEL_LARGES_MAX : 0;
	pthread_mutex_unlock(&r->lock);
}

static int hold_large(struct remote *r, const struct fm_tree_large *large)
{
	struct held *h = FM_FAULT("channel.large") ? NULL : fm_budget_realloc(NULL, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->large = *large;
	fm_list_init(&h->link);
	pthread_mutex_lock(&r->lock);
	fm_list_append(&r->larges, &h->link);
	r->larges_count++;
	pthread_mutex_unlock(&r->lock);
	return 0;
}

/* Large files that the answer announces; descriptors that were taken are out of *fds. */
static int take_larges(struct remote *r, struct fm_channel_answer *a, struct fm_channel_fds *fds,
		       struct fm_err *err)
{
	struct fm_tree_large large;

	if (fds->count != a->larges_count)
		return broke_nonsense(r, "not as many descriptors as files", err);
	for (unsigned i = 0; i < a->larges_count; i++) {
		if (!is_readable_file(fds->at[i]))
			return broke_nonsense(r, "a descriptor that is no file open for reading",
					      err);
		if (fm_is_of_kernel(fds->at[i]))
			return refuse_of_kernel(r, err);
	}
	for (unsigned i = a->larges_count; i > 0; i--) {
		fm_channel_get_large(&a->larges_at, &large);
		large.fd = fds->at[a->larges_count - i];
		if (hold_large(r, &large) < 0) {
			memmove(fds->at, fds->at + (a->larges_count - i), i * sizeof(fds->at[0]));
			fds->count = i;
			return fm_err_set(err, -ENOMEM, "no memory for a large file of the tree");
		}
	}
	fds->count = 0;
	return 0;
}

/* The pack itself. */
static int64_t take_pack(struct remote *r, const struct line *l, const struct fm_channel_ask *ask,
			 int64_t len, void *buf, struct fm_err *err)
{
	ssize_t n;

	if (len > ask->len)
		return broke_nonsense(r, "a pack that is too long", err);
	n = FM_FAULT("channel.copy") ? -1 : pread(r->memory, buf, (size_t)len, l->region);
	return n == len ? len : broke_nonsense(r, "a pack that cannot be read", err);
}

static int64_t fill_with(struct remote *r, struct line *l, struct fm_channel_ask *ask, void *buf,
			 bool *has_more, struct fm_err *err)
{
	struct fm_channel_answer answer;
	struct fm_channel_fds fds;
	int64_t ret = call(r, l, ask, NULL, &answer, &fds, err);

	if (ret < 0)
		return ret;
	*has_more = (answer.flags & FM_CHANNEL_MORE) != 0;
	ret = take_larges(r, &answer, &fds, err);
	fm_channel_close_fds(&fds);
	if (ret < 0)
		return ret;
	if (answer.ret == -EAGAIN)
		return -EAGAIN;
	if (answer.ret < 0)
		return error_of(&answer, err);
	return answer.ret > 0 ? take_pack(r, l, ask, answer.ret, buf, err) : 0;
}

/* Whether the caller could have more for us when it is asked again at once. */
static bool has_reason_to_ask(struct remote *r, bool has_more)
{
	bool has;

	pthread_mutex_lock(&r->lock);
	has = r->needs_count > 0 || (has_more && r->larges_count < FM_CHANNEL_LARGES_HELD_MAX);
	pthread_mutex_unlock(&r->lock);
	return has;
}

/* -EAGAIN only if need() or next_large() will be called: large files wait here, or offers are not
 * answered. */
static int64_t remote_fill(struct fm_tree *t, uint64_t seq, void *buf, size_t len,
			   struct fm_err *err)
{
	struct remote *r = remote_of(t);
	struct fm_channel_ask ask = { .op = FM_CHANNEL_FILL, .seq = seq };
	bool has_more;
	struct line *l;
	int64_t ret;

	ask.len = len < FM_CHANNEL_PACK_MAX ? (uint32_t)len : FM_CHANNEL_PACK_MAX;
	do {
		int why;

		has_more = false;
		l = line_take(r, true, &why, err);
		if (!l)
			return why;
		add_news(r, &ask);
		ret = fill_with(r, l, &ask, buf, &has_more, err);
		line_put(r, l, true);
	} while (ret == -EAGAIN && has_reason_to_ask(r, has_more));
	return ret;
}

/* With the lock. */
static bool acks_reserve(struct remote *r)
{
	size_t cap = r->acks_cap > 0 ? 2 * r->acks_cap : 256;
	uint64_t *acks;

	if (r->acks_count < r->acks_cap)
		return true;
	acks = cap > ACKS_KEPT_MAX || FM_FAULT("channel.acks")
		       ? NULL
		       : fm_budget_realloc(r->acks, cap * sizeof(*acks));
	if (!acks)
		return false;
	r->acks = acks;
	r->acks_cap = cap;
	return true;
}

static void remote_acked(struct fm_tree *t, uint64_t seq)
{
	struct remote *r = remote_of(t);

	pthread_mutex_lock(&r->lock);
	if (acks_reserve(r))
		r->acks[r->acks_count++] = seq;
	pthread_mutex_unlock(&r->lock);
}

static int remote_need(struct fm_tree *t, uint64_t seq, const uint8_t *bits, size_t count,
		       struct fm_err *err)
{
	struct remote *r = remote_of(t);
	struct fm_channel_need *n;
	int ret = 0;

	if (count == 0 || count > FM_TREE_OFFERS_MAX)
		return fm_err_set(err, -EPROTO, "the far end answers an offer of %zu files", count);
	pthread_mutex_lock(&r->lock);
	if (r->needs_count == NEEDS_KEPT_MAX) {
		ret = fm_err_set(err, -EPROTO, "the far end answers more than it was offered");
	} else {
		n = &r->needs[r->needs_count++];
		*n = (struct fm_channel_need){ .seq = seq, .count = (uint16_t)count };
		memcpy(n->bits, bits, (count + 7) / 8);
		if (count % 8 != 0)
			n->bits[count / 8] &= (uint8_t)((1u << count % 8) - 1);
	}
	pthread_mutex_unlock(&r->lock);
	return ret;
}

static int remote_next_large(struct fm_tree *t, struct fm_tree_large *out)
{
	struct remote *r = remote_of(t);
	struct fm_list *link;
	struct held *h;

	pthread_mutex_lock(&r->lock);
	link = fm_list_pop(&r->larges);
	if (link)
		r->larges_count--;
	pthread_mutex_unlock(&r->lock);
	if (!link)
		return 0;
	h = fm_container_of(link, struct held, link);
	*out = h->large;
	fm_budget_free(h);
	return 1;
}

/* ---- sink ---- */

/* Hand the pack over, and take which of its offers are needed. */
static int apply_with(struct remote *r, struct line *l, const void *pack, size_t len,
		      struct fm_channel_need *out, struct fm_err *err)
{
	struct fm_channel_ask ask = { .op = FM_CHANNEL_APPLY, .len = (uint32_t)len };
	struct fm_channel_answer answer;
	struct fm_channel_fds fds;
	ssize_t n;
	int ret;

	n = FM_FAULT("channel.copy") ? -1 : pwrite(r->memory, pack, len, l->region);
	if (n != (ssize_t)len)
		return broke(r, -ENOMEM, "the client's memory takes no more", err);
	ret = call(r, l, &ask, NULL, &answer, &fds, err);
	if (ret < 0)
		return ret;
	fm_channel_close_fds(&fds);
	*out = answer.need;
	return error_of(&answer, err);
}

static int remote_apply(struct fm_tree *t, const void *pack, size_t len, uint8_t *bits,
			size_t *count, struct fm_err *err)
{
	struct remote *r = remote_of(t);
	struct fm_channel_need need = { .count = 0 };
	struct line *l;
	int ret;

	*count = 0;
	if (len > FM_CHANNEL_PACK_MAX)
		return fm_err_set(err, -EMSGSIZE,
				  "a pack of %zu bytes is more than the %u that a client takes",
				  len, FM_CHANNEL_PACK_MAX);
	l = line_take(r, true, &ret, err);
	if (!l)
		return ret;
	ret = apply_with(r, l, pack, len, &need, err);
	line_put(r, l, true);
	if (ret < 0)
		return ret;
	*count = need.count;
	memcpy(bits, need.bits, sizeof(need.bits));
	return 0;
}

static bool is_writable_file(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	return flags >= 0 && (flags & (O_ACCMODE | O_APPEND | O_PATH)) == O_RDWR &&
	       fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Ranges within the file; the last may end with it, all others at a block. */
static bool is_have_of(const struct fm_ranges *have, uint64_t size)
{
	for (size_t i = 0; i < have->count; i++) {
		uint64_t end = have->at[i].offset + have->at[i].len;

		if (end > size || !fm_block_is_stretch(have->at[i].offset, end, size))
			return false;
	}
	return true;
}

static int create_with(struct remote *r, struct line *l, struct fm_channel_ask *ask, int *fd,
		       struct fm_have *have, struct fm_err *err)
{
	struct fm_channel_answer answer;
	struct fm_channel_fds fds;
	int ret = call(r, l, ask, NULL, &answer, &fds, err);

	if (ret < 0)
		return ret;
	ret = error_of(&answer, err);
	if (ret == 0 && (fds.count != 1 || !is_writable_file(fds.at[0])))
		ret = broke_nonsense(r, "no file open for reading and writing", err);
	else if (ret == 0 && fm_is_of_kernel(fds.at[0]))
		ret = refuse_of_kernel(r, err);
	else if (ret == 0 && !is_have_of(&answer.have.ranges, ask->large.size))
		ret = broke_nonsense(r, "parts of a file where it has none", err);
	if (ret < 0) {
		fm_have_free(&answer.have);
		fm_channel_close_fds(&fds);
		return ret;
	}
	*fd = fds.at[0];
	*have = answer.have;
	return 0;
}

static int remote_create_large(struct fm_tree *t, const struct fm_tree_large *how, int *fd,
			       struct fm_have *have, struct fm_err *err)
{
	struct remote *r = remote_of(t);
	struct fm_channel_ask ask = { .op = FM_CHANNEL_CREATE_LARGE, .large = *how };
	struct line *l;
	int ret;

	/* The client would take it for nonsense of ours, and go. */
	if (!fm_pack_is_good_path(how->path, strnlen(how->path, sizeof(how->path))))
		return fm_err_set(err, -EPROTO, "a large file came under a path that is none");
	l = line_take(r, false, &ret, err);
	if (!l)
		return ret;
	ret = create_with(r, l, &ask, fd, have, err);
	line_put(r, l, false);
	return ret;
}

static int remote_wrote_large(struct fm_tree *t, const struct fm_journal_entry *entry,
			      struct fm_err *err)
{
	struct fm_channel_ask ask = { .op = FM_CHANNEL_WROTE_LARGE, .entry = *entry };

	return call_simple(remote_of(t), &ask, NULL, err);
}

static int remote_seal_large(struct fm_tree *t, const struct fm_tree_large *how, int fd,
			     const struct fm_digest *digest, struct fm_err *err)
{
	struct fm_channel_ask ask = {
		.op = FM_CHANNEL_SEAL_LARGE, .large = *how, .has_digest = digest != NULL};
	const struct fm_channel_fds pass = { .at = { fd }, .count = 1 };

	if (digest)
		ask.digest = *digest;
	return call_simple(remote_of(t), &ask, &pass, err);
}

static int remote_log(struct fm_tree *t, struct fm_err *err)
{
	struct fm_channel_ask ask = { .op = FM_CHANNEL_LOG };

	return call_simple(remote_of(t), &ask, NULL, err);
}

static int remote_prepare(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	struct fm_channel_ask ask = {.op = FM_CHANNEL_PREPARE,
				     .flags = is_durable ? FM_CHANNEL_DURABLE : 0};

	return call_simple(remote_of(t), &ask, NULL, err);
}

static int remote_publish(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	struct fm_channel_ask ask = {.op = FM_CHANNEL_PUBLISH,
				     .flags = is_durable ? FM_CHANNEL_DURABLE : 0};

	return call_simple(remote_of(t), &ask, NULL, err);
}

static void remote_leave(struct fm_tree *t)
{
	(void)t;	/* the caller decides when it hears how the transfer ended */
}

/* ---- both ---- */

static void remote_count(struct fm_tree *t, struct fm_tree_count *out)
{
	struct remote *r = remote_of(t);

	pthread_mutex_lock(&r->lock);
	*out = r->numbers;
	pthread_mutex_unlock(&r->lock);
}

static void stopping_run(struct fm_work *work)
{
	struct remote *r = fm_container_of(work, struct stopping, work)->remote;

	pthread_mutex_lock(&r->lock);
	shut_down(r);
	r->is_stopping = false;
	pthread_cond_broadcast(&r->freed);
	pthread_mutex_unlock(&r->lock);
}

static void stopping_done(struct fm_work *work)
{
	struct stopping *s = fm_container_of(work, struct stopping, work);

	fm_holder_put(s->holder);
	free(s);
}

static void remote_stop(struct fm_tree *t)
{
	struct remote *r = remote_of(t);
	struct stopping *s;

	pthread_mutex_lock(&r->lock);
	r->is_stopped = true;
	s = r->stopping;
	r->stopping = NULL;
	if (s) {
		r->is_stopping = true;
		pthread_cond_broadcast(&r->freed);
		(void)fm_holder_ref(s->holder);
		fm_holder_work(s->holder, &s->work);
	} else if (!r->is_stopping && !r->has_holder) {
		shut_down(r);
	}
	pthread_mutex_unlock(&r->lock);
}

/* Also closes an end that was only made in part. */
static void remote_close(struct fm_tree *t)
{
	struct remote *r = remote_of(t);
	struct fm_tree_large large;

	pthread_mutex_lock(&r->lock);
	while (r->is_stopping)
		pthread_cond_wait(&r->freed, &r->lock);
	pthread_mutex_unlock(&r->lock);
	free(r->stopping);
	while (remote_next_large(t, &large))
		(void)close(large.fd);		/* only read */
	for (unsigned i = 0; i < r->count; i++) {
		assert(!r->lines[i]->is_busy);
		/* every answer was received or is not wanted */
		(void)close(r->lines[i]->socket);
		fm_budget_free(r->lines[i]);
	}
	(void)close(r->memory);
	fm_budget_free(r->acks);
	pthread_cond_destroy(&r->freed);
	pthread_mutex_destroy(&r->lock);
	fm_budget_free(r);
}

static const struct fm_tree_ops source_ops = {
	.begin = remote_begin,
	.fill = remote_fill,
	.acked = remote_acked,
	.need = remote_need,
	.next_large = remote_next_large,
	.count = remote_count,
	.stop = remote_stop,
	.close = remote_close,
};

static const struct fm_tree_ops sink_ops = {
	.begin = remote_begin,
	.apply = remote_apply,
	.create_large = remote_create_large,
	.wrote_large = remote_wrote_large,
	.seal_large = remote_seal_large,
	.log = remote_log,
	.prepare = remote_prepare,
	.publish = remote_publish,
	.keep = remote_leave,
	.discard = remote_leave,
	.count = remote_count,
	.stop = remote_stop,
	.close = remote_close,
};

/* ---- making one ---- */

/* Only memory files know seals: whatever is done to one, it answers at once. */
static bool is_memory(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

static bool is_socket(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
		return false;
	len = sizeof(type);
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && domain == AF_UNIX &&
	       type == SOCK_SEQPACKET;
}

static int check_fds(const struct fm_tree_remote_opts *o, struct fm_err *err)
{
	if (o->count < 1 + FM_CHANNEL_SOCKETS_MIN || o->count > 1 + FM_CHANNEL_SOCKETS_MAX)
		return fm_err_set(
			err, -EINVAL,
			"a tree takes a memory file and %d to %d sockets, not %u descriptors",
			FM_CHANNEL_SOCKETS_MIN, FM_CHANNEL_SOCKETS_MAX, o->count);
	if (!is_memory(o->fds[0]))
		return fm_err_set(err, -EINVAL,
				  "the first descriptor of a tree is no memory file (memfd_create) "
				  "open for reading and writing");
	for (unsigned i = 1; i < o->count; i++)
		if (!is_socket(o->fds[i]))
			return fm_err_set(
				err, -EINVAL,
				"descriptor %u of a tree is no UNIX socket of type SOCK_SEQPACKET",
				i + 1);
	return 0;
}

static struct remote *remote_new(void)
{
	struct remote *r = FM_FAULT("channel.remote") ? NULL : fm_budget_alloc(sizeof(*r));

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->freed, NULL);
	atomic_flag_clear(&r->is_still_told);
	fm_list_init(&r->larges);
	return r;
}

static bool add_stopping(struct remote *r, struct fm_holder *holder)
{
	struct stopping *s;

	if (!holder)
		return true;
	s = FM_FAULT("channel.stopping") ? NULL : calloc(1, sizeof(*s));
	if (!s)
		return false;
	s->work.run = stopping_run;
	s->work.done = stopping_done;
	s->remote = r;
	s->holder = holder;	/* the file has a reference as long as it may be stopped */
	r->stopping = s;
	r->has_holder = true;
	return true;
}

static int add_line(struct remote *r, int fd)
{
	struct line *l = FM_FAULT("channel.line") ? NULL : fm_budget_realloc(NULL, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->socket = fd;
	l->region = (off_t)r->count * FM_CHANNEL_PACK_MAX;
	l->is_busy = false;
	l->tag = 0;
	r->lines[r->count++] = l;
	return 0;
}

int fm_tree_remote_new(const struct fm_tree_remote_opts *o, struct fm_tree **out,
		       struct fm_err *err)
{
	struct remote *r = NULL;
	bool has_all = false;
	unsigned used = 0;
	int ret = check_fds(o, err);

	if (ret == 0)
		r = remote_new();
	if (r) {
		r->memory = o->fds[used++];
		r->poll = o->poll ? o->poll : poll;
		has_all = add_stopping(r, o->holder);
		while (has_all && used < o->count && add_line(r, o->fds[used]) == 0)
			used++;
		r->tree = (struct fm_tree){ .ops = o->is_source ? &source_ops : &sink_ops,
					    .is_source = o->is_source,
					    .pack_max = FM_CHANNEL_PACK_MAX };
	}
	if (r && used == o->count) {
		*out = &r->tree;
		return 0;
	}
	if (r)
		remote_close(&r->tree);
	/* unused; of what they are nothing may be known, so that closing one may take for ever */
	fm_holder_close(o->holder, o->fds + used, o->count - used);
	return ret < 0 ? ret : fm_err_set(err, -ENOMEM, "no memory for a tree");
}
