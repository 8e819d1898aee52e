/* SPDX-License-Identifier: MIT */
/*
 * cache_hold - who holds a dataset, and until when.
 *
 * A hold of a process is a file, too, so that a daemon that is started anew knows of it. It need
 * not be synced: a machine that lost its power has no such process any more, and the file says
 * which boot it was. It may outlive its hold for a while, since upkeep removes it: then the process
 * is gone.
 *
 * A hold for another node is one, too. Nobody here can see the process, so it ends when that node
 * says so, or has said nothing for a while. It is synced: the process lives on when this machine
 * loses its power. After a start that node has the whole time again to say that it does.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

#define NAME_LEN 16
#define NODE_NS	 (FM_CACHE_NODE_S * FM_NS_PER_S)

static void name_of(uint64_t number, char name[static NAME_LEN + 1])
{
	(void)snprintf(name, NAME_LEN + 1, "%016" PRIx64, number);
}

void fm_cache_hold_free(struct fm_cache_hold *h)
{
	if (h->pidfd >= 0)
		(void)close(h->pidfd); /* only looked at */
	fm_budget_free(h);
}

static struct fm_cache_hold *hold_new(const struct fm_cache_hold_record *record, int pidfd)
{
	struct fm_cache_hold *h = fm_cache_alloc(sizeof(*h));

	if (!h)
		return NULL;
	h->record = *record;
	h->pidfd = pidfd;
	fm_list_init(&h->at);
	return h;
}

static bool has_file(const struct fm_cache_hold *h)
{
	return h->pidfd >= 0 || h->record.node[0];
}

/* From now on that node has the whole time to say again that it holds. */
static void renew(struct fm_cache *c, struct fm_cache_hold *h)
{
	h->until_ns = fm_cache_now(c).boot_ns + NODE_NS;
}

static bool is_of(const struct fm_cache_hold_record *record, const char *node, uint64_t theirs)
{
	return strcmp(record->node, node) == 0 && record->theirs == theirs;
}

static void attach(struct fm_cache *c, struct fm_cache_entry *e, struct fm_cache_hold *h)
{
	h->entry = e;
	fm_list_append(&e->holds, &h->at);
	e->hold_count++;
	c->hold_count++;
}

/* Ends a hold: the dataset was used until now. Upkeep removes the file of the hold later. */
static void end_hold(struct fm_cache *c, struct fm_cache_hold *h)
{
	h->entry->use.used = fm_cache_now(c);
	h->entry->is_use_new = true;
	h->entry->hold_count--;
	h->entry = NULL;
	c->hold_count--;
	fm_list_del(&h->at);
	if (has_file(h))
		fm_list_append(&c->ended, &h->at);
	else
		fm_cache_hold_free(h);
}

static struct fm_cache_hold *find_hold(struct fm_cache *c, uint64_t number)
{
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		fm_list_each (in, after, &e->holds) {
			struct fm_cache_hold *h = fm_container_of(in, struct fm_cache_hold, at);

			if (h->record.number == number)
				return h;
		}
	}
	return NULL;
}

/* Counts the holds of the same user, of this node only if it is one of this node; and those for the
 * same node. */
static void count_like(struct fm_cache *c, const struct fm_cache_hold_record *record,
		       unsigned *of_user, unsigned *of_node)
{
	*of_user = *of_node = 0;
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		fm_list_each (in, after, &e->holds) {
			const struct fm_cache_hold *h =
				fm_container_of(in, struct fm_cache_hold, at);

			*of_user += h->record.uid == record->uid &&
				    (record->node[0] || !h->record.node[0]);
			*of_node += strcmp(h->record.node, record->node) == 0;
		}
	}
}

/*
 * Refuses a hold too many. FM_CACHE_ROOT_HOLDS are kept for root of this node; no number is kept
 * for other users.
 */
static int check_count(struct fm_cache *c, const struct fm_cache_hold_record *record,
		       struct fm_err *err)
{
	bool is_root = record->uid == 0 && !record->node[0];
	unsigned most = is_root ? FM_CACHE_HOLDS_MAX : FM_CACHE_HOLDS_MAX - FM_CACHE_ROOT_HOLDS;
	unsigned of_user, of_node;

	count_like(c, record, &of_user, &of_node);
	if (c->hold_count >= most)
		return fm_err_full(err, "cache %.200s: all %u holds are taken", c->directory, most);
	if (record->node[0] && of_node >= FM_CACHE_NODE_HOLDS_MAX)
		return fm_err_full(err,
				   "cache %.200s: %u holds for %s, which is the most of one node",
				   c->directory, FM_CACHE_NODE_HOLDS_MAX, record->node);
	if (record->uid != 0 && of_user >= FM_CACHE_USER_HOLDS_MAX)
		return fm_err_full(err,
				   "cache %.200s: you have %u holds, which is the most of one user",
				   c->directory, FM_CACHE_USER_HOLDS_MAX);
	return 0;
}

/*
 * The hold that the same process already has for the same user, or that the node calls so; NULL:
 * there is none.
 */
static struct fm_cache_hold *find_equal(struct fm_cache_entry *e,
					const struct fm_cache_hold_record *record)
{
	fm_list_each (at, next, &e->holds) {
		struct fm_cache_hold *h = fm_container_of(at, struct fm_cache_hold, at);

		if (h->record.uid != record->uid ||
		    !is_of(&h->record, record->node, record->theirs))
			continue;
		if (record->node[0] || (h->pidfd >= 0 &&
					h->record.process.pid == record->process.pid &&
					h->record.process.start == record->process.start))
			return h;
	}
	return NULL;
}

/* 1: the process holds it already, and h is not needed: its number is that of the one it has. */
static int add_hold(struct fm_cache *c, struct fm_cache_hold *h, struct fm_err *err)
{
	struct fm_cache_hold *equal = NULL;
	struct fm_cache_entry *e;
	int ret;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, h->record.id);
	ret = fm_cache_may_use(e, err);
	renew(c, h);
	if (ret == 0 && has_file(h))
		equal = find_equal(e, &h->record);
	if (equal) {
		equal->until_ns = h->until_ns;
		h->record.number = equal->record.number;
		ret = 1;
	}
	if (ret == 0)
		ret = check_count(c, &h->record, err);
	if (ret == 0 && has_file(h)) /* one of our own is charged to nobody */
		ret = fm_cache_may_charge(c, e, h->record.uid, h->record.node[0], err);
	if (ret == 0) {
		e->use.used = fm_cache_now(c);
		e->is_use_new = true;
		attach(c, e, h);
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/*
 * Writes the file of a hold, which counts in memory already. If it ends meanwhile, upkeep may have
 * looked for the file before it was there: then nobody else removes it.
 */
static int write_hold(struct fm_cache *c, const struct fm_cache_hold_record *record)
{
	uint8_t bytes[FM_CACHE_HOLD_MAX];
	char name[NAME_LEN + 1];
	bool is_ended;
	int ret;

	name_of(record->number, name);
	ret = fm_cache_file_write(c->dirs[FM_CACHE_HOLDS], name, bytes,
				  fm_cache_put_hold(record, bytes, sizeof(bytes)),
				  record->node[0] ? FM_CACHE_SYNC_ALL : FM_CACHE_SYNC_NONE);
	pthread_mutex_lock(&c->lock);
	is_ended = !find_hold(c, record->number);
	pthread_mutex_unlock(&c->lock);
	if (ret == 0 && is_ended)
		(void)fm_cache_sys_unlink(c->dirs[FM_CACHE_HOLDS], name, 0);
	return ret;
}

static int find_process(const struct fm_cache_holder *who, struct fm_cache_hold_record *record,
			int *pidfd, struct fm_err *err)
{
	uid_t uid;
	int ret;

	*pidfd = -1;
	if (who->pid == 0)
		return 0;
	ret = fm_hold_find(who->pid, &record->process, &uid, pidfd, err);
	if (ret < 0 || who->uid == 0 || uid == who->uid)
		return ret;
	(void)close(*pidfd); /* only looked at */
	return fm_err_set(err, -EPERM,
			  "process %d is another user's: a hold would last as long as he likes; "
			  "name one of yours",
			  who->pid);
}

int fm_cache_hold(struct fm_cache *c, uint64_t id, const struct fm_cache_holder *who,
		  uint64_t *hold, struct fm_err *err)
{
	struct fm_cache_hold_record record = {.id = id,
					      .number = fm_cache_random(),
					      .uid = who->uid,
					      .since_ns = fm_cache_now(c).wall_ns,
					      .theirs = who->theirs};
	struct fm_cache_hold *h;
	int pidfd, ret = find_process(who, &record, &pidfd, err);

	if (ret < 0)
		return ret;
	(void)strcpy(record.node, who->node);
	h = hold_new(&record, pidfd);
	if (!h) {
		if (pidfd >= 0)
			(void)close(pidfd); /* only looked at */
		return fm_err_set(err, -ENOMEM, "no memory for a hold");
	}
	ret = add_hold(c, h, err);
	if (ret != 0) {
		*hold = h->record.number;
		fm_cache_hold_free(h);
		return ret < 0 ? ret : 0;
	}
	ret = who->pid || who->node[0] ? write_hold(c, &record) : 0;
	if ((ret == -ENOENT && fm_cache_renew(c, err) == 0) || fm_cache_has_made_room(c, ret))
		ret = write_hold(c, &record);
	if (ret < 0) {
		fm_cache_release(c, record.number);
		return fm_err_making(err, ret, c->root, "cache %.200s: write down the hold",
				     c->directory);
	}
	*hold = record.number;
	return 0;
}

void fm_cache_release(struct fm_cache *c, uint64_t number)
{
	struct fm_cache_hold *h;

	pthread_mutex_lock(&c->lock);
	h = find_hold(c, number);
	if (h)
		end_hold(c, h);
	pthread_mutex_unlock(&c->lock);
}

bool fm_cache_renew_node(struct fm_cache *c, uint64_t id, const char *node, uint64_t theirs)
{
	struct fm_cache_entry *e;
	bool is_there = false;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e) {
		fm_list_each (at, next, &e->holds) {
			struct fm_cache_hold *h = fm_container_of(at, struct fm_cache_hold, at);

			if (is_of(&h->record, node, theirs)) {
				renew(c, h);
				is_there = true;
			}
		}
	}
	pthread_mutex_unlock(&c->lock);
	return is_there;
}

void fm_cache_release_node(struct fm_cache *c, const char *node, uint64_t theirs)
{
	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		fm_list_each (in, after, &e->holds) {
			struct fm_cache_hold *h = fm_container_of(in, struct fm_cache_hold, at);

			if (is_of(&h->record, node, theirs))
				end_hold(c, h);
		}
	}
	pthread_mutex_unlock(&c->lock);
}

static struct fm_cache_holder holder_of(const struct fm_cache_hold_record *record)
{
	struct fm_cache_holder who = {.uid = record->uid,
				      .pid = record->process.pid,
				      .theirs = record->theirs};

	(void)strcpy(who.node, record->node);
	return who;
}

size_t fm_cache_holders(struct fm_cache *c, uint64_t id, struct fm_cache_holder *out, size_t max)
{
	struct fm_cache_entry *e;
	size_t count = 0;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e)
		fm_list_each (at, next, &e->holds) {
			const struct fm_cache_hold *h =
				fm_container_of(at, struct fm_cache_hold, at);

			if (has_file(h) && count < max)
				out[count++] = holder_of(&h->record);
		}
	pthread_mutex_unlock(&c->lock);
	return count;
}

bool fm_cache_is_held_by(struct fm_cache *c, uint64_t id, uid_t uid)
{
	struct fm_cache_entry *e;
	bool is_held;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	is_held = e && fm_cache_is_charged(e, uid, true);
	pthread_mutex_unlock(&c->lock);
	return is_held;
}

bool fm_cache_is_held_by_node(struct fm_cache *c, uint64_t id, const char *node)
{
	struct fm_cache_entry *e;
	bool is_held = false;

	pthread_mutex_lock(&c->lock);
	e = node[0] ? fm_cache_entry_of(c, id) : NULL;
	if (e) {
		fm_list_each (at, next, &e->holds) {
			const struct fm_cache_hold *h =
				fm_container_of(at, struct fm_cache_hold, at);

			is_held |= strcmp(h->record.node, node) == 0;
		}
	}
	pthread_mutex_unlock(&c->lock);
	return is_held;
}

/* ---- upkeep ---- */

static bool is_over(const struct fm_cache_hold *h, uint64_t now_ns)
{
	if (h->pidfd >= 0)
		return fm_hold_is_over(h->pidfd);
	return h->record.node[0] && (now_ns >= h->until_ns || FM_FAULT("cache.node_silent"));
}

static void find_ended(struct fm_cache *c)
{
	uint64_t now_ns = fm_cache_now(c).boot_ns;

	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		fm_list_each (in, after, &e->holds) {
			struct fm_cache_hold *h = fm_container_of(in, struct fm_cache_hold, at);

			if (is_over(h, now_ns))
				end_hold(c, h);
		}
	}
	pthread_mutex_unlock(&c->lock);
}

void fm_cache_holds_end(struct fm_cache *c)
{
	struct fm_list *at;
	char name[NAME_LEN + 1];

	find_ended(c);
	do {
		pthread_mutex_lock(&c->lock);
		at = fm_list_pop(&c->ended);
		pthread_mutex_unlock(&c->lock);
		if (at) {
			struct fm_cache_hold *h = fm_container_of(at, struct fm_cache_hold, at);

			name_of(h->record.number, name);
			/* One that stays is found to be over when a daemon starts. */
			(void)fm_cache_sys_unlink(c->dirs[FM_CACHE_HOLDS], name, 0);
			fm_cache_hold_free(h);
		}
	} while (at);
}

/* ---- a daemon's start ---- */

static int read_hold(struct fm_cache *c, const char *name, struct fm_cache_hold_record *record)
{
	char own[NAME_LEN + 1];
	uint8_t *bytes;
	size_t len;
	int ret =
		fm_cache_file_read(c->dirs[FM_CACHE_HOLDS], name, FM_CACHE_HOLD_MAX, &bytes, &len);

	if (ret < 0)
		return ret;
	ret = fm_cache_get_hold(bytes, len, record);
	fm_budget_free(bytes);
	if (ret < 0)
		return ret;
	name_of(record->number, own);
	return strcmp(own, name) == 0 ? 0 : -EBADMSG;
}

static int take_hold(struct fm_cache *c, const struct fm_cache_hold_record *record)
{
	struct fm_cache_entry *e = fm_cache_entry_of(c, record->id);
	struct fm_cache_hold *h;
	unsigned of_user, of_node;
	int pidfd = -1, ret = 0;

	count_like(c, record, &of_user, &of_node);
	if (!e || c->hold_count >= FM_CACHE_HOLDS_MAX || find_hold(c, record->number) ||
	    (record->node[0] && of_node >= FM_CACHE_NODE_HOLDS_MAX))
		return -ESRCH;
	if (!record->node[0])
		ret = fm_hold_find_again(&record->process, &pidfd);
	if (ret < 0)
		return ret;
	h = hold_new(record, pidfd);
	if (h) {
		renew(c, h);
		attach(c, e, h);
	} else if (pidfd >= 0) {
		(void)close(pidfd); /* only looked at */
	}
	return h ? 0 : -ENOMEM;
}

/*
 * Loads a hold at the start. If this service is not shown its process, the hold does not count; its
 * file stays, for a later start that may see the process.
 */
int fm_cache_hold_load(struct fm_cache *c, const char *name)
{
	struct fm_cache_hold_record record;
	int ret = read_hold(c, name, &record);

	if (ret == 0)
		ret = take_hold(c, &record);
	if (ret == -EACCES) {
		fm_log_warn("cache %s: the holder of holds/%s is not shown to this service: it "
			    "does not hold any more",
			    c->directory, name);
		return 0;
	}
	/* it may be of what could not be read now */
	if (ret == -ESRCH && c->has_unread)
		return 0;
	if (fm_cache_is_unreadable(ret)) {
		fm_log_warn("cache %s: the disk cannot read holds/%s (%s): it holds nothing, and "
			    "stays for a later start",
			    c->directory, name, fm_err_name(ret));
		return 0;
	}
	if (ret == -EBADMSG)
		fm_log_warn("cache %s: a file in holds is damaged or no hold: it is removed",
			    c->directory);
	if (ret == -EBADMSG || ret == -ESRCH)
		ret = fm_cache_sys_unlink(c->dirs[FM_CACHE_HOLDS], name, 0);
	return ret == -EISDIR || ret == -ENOENT ? 0 : ret;
}
