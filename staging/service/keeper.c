/* SPDX-License-Identifier: MIT */
/* keeper - see keeper.h. */
#include "staging/service/keeper.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "mover/node/session.h"
#include "mover/services/request.h"
#include "mover/store/store.h"
#include "staging/key.h"
#include "staging/service/api_ops.h"
#include "staging/service/hub.h"
#include "staging/service/keep.h"
#include "staging/service/rights.h"
#include "staging/service/together.h"

#define ANSWER_NS (5 * FM_NS_PER_S)	/* less than who asked us waits */

struct fm_keeper {
	struct fm_keeper_opts o;
	struct fm_list orders;
	struct fm_share places;
	uint64_t store_changes;		/* of the engine, when the holds were last looked at */
};

/* KEEP of a peer: its dataset is found, the rules are asked, and then it is done. */
struct order {
	struct fm_list at;
	struct fm_keeper *keeper;
	struct fm_work work;
	struct fm_share_held place;
	struct fm_stage_keep keep;
	uint64_t id;			/* of the dataset */
	bool is_released;		/* meanwhile */
	bool is_reader;			/* his user may read it by his entry in its list */
	bool is_asked_anew;		/* who may: rules changed meanwhile */
	uint64_t store_changes;		/* of the engine, when they were asked */
	struct fm_store_ref *from;	/* whose rules say so, of this node; NULL: another node's */
	struct fm_hub_source source;	/* SHOW: of the dataset */
	char path[FM_PATH_LEN_MAX + 1];	/* ... of the snapshot */
	char name[FM_CACHE_NAME_MAX + 1];	/* of the dataset; "": it is not known */
	struct fm_err err;
	char peer[FM_WIRE_NAME_MAX + 1];
};

int fm_keeper_new(const struct fm_keeper_opts *opts, struct fm_keeper **out, struct fm_err *err)
{
	static const struct fm_share_limits limits = { .what = "orders to keep what is staged",
						       .total = FM_KEEPER_ORDERS_MAX, .times = 1 };
	struct fm_keeper *k = FM_FAULT("stage.keeper") ? NULL : calloc(1, sizeof(*k));

	if (!k)
		return fm_err_set(err, -ENOMEM, "allocate the keeper");
	k->o = *opts;
	k->store_changes = UINT64_MAX;
	fm_list_init(&k->orders);
	fm_share_init(&k->places, &limits);
	*out = k;
	return 0;
}

bool fm_keeper_is_idle(const struct fm_keeper *k)
{
	return fm_list_is_empty(&k->orders);
}

bool fm_keeper_awaits_users(const struct fm_keeper *k)
{
	fm_list_each(at, next, &((struct fm_keeper *)k)->orders)
		if (!fm_container_of(at, struct order, at)->work.may_await)
			return false;
	return true;
}

void fm_keeper_free(struct fm_keeper *k)
{
	assert(!k || fm_keeper_is_idle(k));
	free(k);
}

/* path: of what is shown; NULL: nothing is. */
static void answer(struct fm_session *s, const struct fm_stage_keep *keep, const struct fm_err *err,
		   const char *path)
{
	struct fm_stage_kept kept = { .id = keep->id, .code = err->code };
	struct fm_wire_msg m = { .type = FM_WIRE_STAGE, .stage = { .kind = FM_WIRE_STAGE_KEPT } };
	uint8_t body[FM_WIRE_STAGE_MAX];

	if (keep->verb == FM_STAGE_RELEASE || !fm_session_has_room(s))
		return;
	if (err->code < 0)
		(void)snprintf(kept.text, sizeof(kept.text), "%.255s", err->text);
	else if (path)
		(void)snprintf(kept.text, sizeof(kept.text), "%s", path);
	m.stage.body = body;
	m.stage.len = fm_stage_kept_encode(&kept, body);
	if (m.stage.len > 0)
		fm_session_send(s, &m);
}

/* ---- rules ---- */

static int check_rules(const struct fm_keeper_opts *k, const char *source, const char *peer,
		       struct fm_err *err)
{
	struct fm_store_ref *ref = fm_stage_rights_store(k->engine, k->node, source);
	const struct fm_store_ops *ops = ref ? ref->store->ops : NULL;
	int ret = 0;

	if (!ref && strncmp(source, FM_STAGE_SHARED, strlen(FM_STAGE_SHARED)) != 0 &&
	    fm_stage_rights_wait(k->engine, k->node, source))
		ret = fm_err_set(err, -EAGAIN,
				 "%.200s is on a volume that is not mounted: who may read it is "
				 "not known (fmove nvme status there says why)",
				 source);
	if (ref && !(ops->lets_peer && ops->lets_peer(ref->store, peer)))
		ret = fm_err_set(err, -EACCES,
				 "%s may not read store \"%s\" of %s; \"peer:%s\" in the store's "
				 "read list would allow it",
				 peer, ref->store->name, k->node, peer);
	if (ref)
		fm_engine_store_put(ref);
	return ret;
}

/*
 * -EACCES: rules let that node read the source no more, and its hold has ended. A hold on what
 * nobody can be asked about now stays.
 */
static int ask_again(const struct fm_keeper *k, uint64_t id, const char *peer, uint64_t number,
		     struct fm_err *err)
{
	struct fm_cache_info info;
	struct fm_err why;

	if (!fm_cache_look(k->o.cache, id, &info) ||
	    check_rules(&k->o, info.source, peer, &why) != -EACCES)
		return 0;
	fm_cache_release_node(k->o.cache, peer, number);
	*err = why;
	return -EACCES;
}

/* ---- an order ---- */

/* What is asked for is called as the order does; "": by its key, or by a revision alone. */
static const char *told_name(const struct fm_stage_keep *keep)
{
	return keep->verb == FM_STAGE_SHOW ? "" : keep->name;
}

/*
 * Under the id of the request that it belongs to, which the node that asks logs under, too. What is
 * said again while a process lives has none.
 */
static void log_end(struct fm_engine *e, const char *peer, const struct fm_stage_keep *keep,
		    const char *name, const struct fm_err *err)
{
	struct fm_log_limit *lines = fm_engine_job_lines(e, peer);
	const char *verb = fm_stage_verb_names[keep->verb];

	if (!keep->job[0])
		return;
	if (err->code < 0)
		fm_log_job(lines, fm_engine_now(e), FM_LOG_INFO, keep->job,
			   "%s for user %u of %s ended: %s: %s", verb, (unsigned)keep->uid, peer,
			   name[0] ? name : "what is not here", err->text);
	else
		fm_log_job(lines, fm_engine_now(e), FM_LOG_INFO, keep->job,
			   "%s for user %u of %s is done: %s", verb, (unsigned)keep->uid, peer,
			   name);
}

static void end(struct order *o)
{
	struct fm_keeper *k = o->keeper;
	struct fm_peer *peer = fm_engine_peer(k->o.engine, o->peer);

	log_end(k->o.engine, o->peer, &o->keep, o->name, &o->err);
	if (o->is_released)
		fm_cache_release_node(k->o.cache, o->peer, o->keep.hold);
	if (peer && peer->session)
		answer(peer->session, &o->keep, &o->err, o->path);
	if (o->from)
		fm_engine_store_put(o->from);
	fm_share_give_all(&o->place);
	fm_list_del(&o->at);
	free(o);
	fm_engine_check_stopped(k->o.engine);
}

static void submit_awaiting(struct order *o, void (*run)(struct fm_work *work),
			    void (*done)(struct fm_work *work), const void *may_await)
{
	o->work = (struct fm_work){ .run = run, .done = done, .who = fm_share_name(o->peer),
				    .user = o->keep.uid, .may_await = may_await };
	fm_worker_submit(o->keeper->o.worker, &o->work, o->keeper->o.loop);
}

static void submit(struct order *o, void (*run)(struct fm_work *work),
		   void (*done)(struct fm_work *work))
{
	submit_awaiting(o, run, done, NULL);
}

static int hold(struct order *o)
{
	struct fm_cache_holder who = { .uid = o->keep.uid, .theirs = o->keep.hold };
	uint64_t number;

	(void)snprintf(who.node, sizeof(who.node), "%s", o->peer);
	return fm_cache_hold(o->keeper->o.cache, o->id, &who, &number, &o->err);
}

static void act_run(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);
	struct fm_cache *c = o->keeper->o.cache;
	char note[FM_HUB_NOTE_MAX];	/* only users of this node have one */

	switch (o->keep.verb) {
	case FM_STAGE_HOLD:
		(void)hold(o);
		break;
	case FM_STAGE_PIN:
		(void)fm_cache_pin_node(c, o->id, o->peer, o->keep.uid, &o->err);
		break;
	case FM_STAGE_LET:
		(void)fm_cache_allow_user(c, o->id, o->keep.uid, true, &o->err);
		break;
	case FM_STAGE_UNPIN:
		(void)fm_cache_unpin_node(c, o->id, o->peer, o->keep.uid, &o->err);
		break;
	case FM_STAGE_UNSTAGE:
		(void)fm_cache_discard(c, o->id, &o->err);
		break;
	case FM_STAGE_SHOW:
		(void)fm_hub_show(o->keeper->o.hub, o->id, o->keep.name, NULL, o->path,
				  sizeof(o->path), note, &o->err);
		break;
	case FM_STAGE_RELEASE:
		break;		/* was done at once */
	}
}

static void act(struct order *o);

/* Rules may have changed while the hold was written down, and while the user was let in. */
static void act_done(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);

	if (o->err.code == 0 && o->keep.verb == FM_STAGE_HOLD)
		(void)ask_again(o->keeper, o->id, o->peer, o->keep.hold, &o->err);
	if (o->err.code == 0 && o->keep.verb == FM_STAGE_LET &&
	    o->store_changes != o->keeper->o.engine->store_changes) {
		o->is_asked_anew = true;
		act(o);
		return;
	}
	end(o);
}

/* Apart from the pin, which is synced: a stop waits for a disk, but not for a user database. */
static void look_up_run(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);

	if (!fm_stage_rights_is_user(o->keep.uid))
		(void)fm_err_set(&o->err, -EPERM, "%s knows no user %u, who could unpin it there",
				 o->keeper->o.node, (unsigned)o->keep.uid);
}

static void looked_up(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);

	if (o->err.code < 0)
		end(o);
	else
		submit(o, act_run, act_done);
}

/* ---- what is shown ---- */

/* The source's node has said which commit the revision is. */
static void asked(void *ctx, const struct fm_request_result *r)
{
	struct order *o = ctx;
	const struct fm_hub_name *name = &o->source.name;

	if (r->code < 0)
		o->err = r->err;
	else if (r->count != 1 || strcmp(r->entries[0].name, name->revision) != 0)
		(void)fm_err_set(&o->err, -ESTALE,
				 "%s says that \"%.100s\" of %s is another commit; run it again",
				 o->source.node, o->keep.name, name->dir);
	if (o->err.code < 0)
		end(o);
	else
		submit(o, act_run, act_done);
}

/*
 * Asks the node of the source which commit the revision is. What a node says that is not the source
 * would be a way to lead a branch to any commit that is here. A store of this node is asked with
 * the rights of the peer, not of a user here whose number it says.
 */
static int show(struct order *o, const struct fm_cache_info *info)
{
	char path[FM_HUB_DIR_MAX + FM_HUB_REVISION_MAX + 2];
	const struct fm_hub_name *name = &o->source.name;
	struct fm_request_opts r = { .verb = FM_VERB_LIST, .node = o->source.node,
				     .store = o->source.store, .path = path, .after = "",
				     .who = { o->peer, o->keep.uid, (gid_t)o->keep.hold },
				     .timeout_ns = ANSWER_NS };

	if (fm_hub_source_parse(info->source, &o->source) < 0)
		return fm_err_set(&o->err, -EINVAL, "%.100s is not of a hub cache", info->name);
	if (strcmp(name->revision, o->keep.name) == 0) {
		submit(o, act_run, act_done);
		return 0;
	}
	if (!fm_hub_can_be(o->keep.name, name->revision))
		return fm_err_set(&o->err, -EINVAL, "%.100s is a commit, and not the one of %.100s",
				  o->keep.name, info->name);
	r.path_len = (size_t)snprintf(path, sizeof(path), "%s@%s", name->dir, o->keep.name);
	return fm_request_start(o->keeper->o.engine, &r, asked, o, &o->err);
}

/* ---- whom it lets in ---- */

static void let_in(struct order *o)
{
	if (o->err.code < 0)
		end(o);
	else
		submit(o, act_run, act_done);
}

static void refused_run(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);
	struct fm_cache *c = o->keeper->o.cache;
	struct fm_cache_info info;

	if (fm_cache_look(c, o->id, &info))
		fm_stage_rights_end(c, info.source, o->keep.uid, !o->from);
}

static void refused_done(struct fm_work *work)
{
	end(fm_container_of(work, struct order, work));
}

/* Who is refused by the source reads no copy of it, as when he is refused a request here. */
static void asked_for_him(struct order *o)
{
	if (fm_stage_rights_is_refusal(&o->err))
		submit(o, refused_run, refused_done);
	else
		let_in(o);
}

/*
 * Only a refusal counts. A node that is away or busy, or whose source is gone, says nothing of this
 * user: then whoever asks is believed, as with a hold.
 */
static void source_said(void *ctx, const struct fm_request_result *r)
{
	struct order *o = ctx;

	if (r->code < 0 && fm_stage_rights_is_refusal(&r->err))
		o->err = r->err;
	asked_for_him(o);
}

static void rules_run(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);

	if (!fm_stage_rights_may_read_as(o->from->store, o->keep.uid))
		(void)fm_err_rule(&o->err,
				  "uid %u may not read store \"%s\" of %s; \"user:NAME\" in the "
				  "store's read list would allow it",
				  (unsigned)o->keep.uid, o->from->store->name, o->keeper->o.node);
}

static void rules_done(struct fm_work *work)
{
	asked_for_him(fm_container_of(work, struct order, work));
}

/*
 * The source is in a store of this node: its rules for peers are none for a user here. Only rules
 * are asked, not the file system.
 */
static void ask_rules(struct order *o)
{
	submit_awaiting(o, rules_run, rules_done, fm_stage_rights_may_await_of(o->from->store));
}

/* Whose rules nobody can be asked for, now or ever: this node has no such store, or not now. */
static bool is_nobody_to_ask(const struct fm_keeper_opts *k, const char *source,
			     struct fm_stage_source_parts *s)
{
	return fm_stage_source_parse(source, s) < 0 || s->kind == FM_STAGE_SHARED_STORE ||
	       strcmp(s->node, k->node) == 0;
}

/*
 * Asks the source whether his user may read it, as this node does before it stages anything for
 * somebody. If nobody can be asked, whoever asks is believed, as with a hold: of a shared store
 * that this node does not have it is not known who has it; one of this node may not answer, be on a
 * volume that is away, or have been removed. When it opens again its rules decide (rights.h).
 */
static void ask_source(struct order *o, const char *source)
{
	const struct fm_keeper_opts *k = &o->keeper->o;
	struct fm_stage_source_parts s;
	struct fm_request_opts r = { .verb = FM_VERB_STAT, .node = s.node, .store = s.store,
				     .who = { o->peer, o->keep.uid, (gid_t)-1 },
				     .timeout_ns = ANSWER_NS };

	if (o->from)
		fm_engine_store_put(o->from);
	o->from = NULL;
	if (fm_stage_rights_wait(k->engine, k->node, source)) {
		let_in(o);
		return;
	}
	o->from = fm_stage_rights_store(k->engine, k->node, source);
	if (o->from) {
		ask_rules(o);
		return;
	}
	if (is_nobody_to_ask(k, source, &s)) {
		let_in(o);
		return;
	}
	r.path = s.path;
	r.path_len = strlen(s.path);
	if (fm_request_start(k->engine, &r, source_said, o, &o->err) < 0) {
		fm_err_clear(&o->err);	/* nobody was asked, so nobody refuses him */
		let_in(o);
	}
}

static void reader_run(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);

	o->is_reader = fm_cache_has_staged(o->keeper->o.cache, o->id, o->keep.uid, &o->err) == 1;
}

/* Who is in its list has been asked about, and is whenever its rules change. */
static void reader_done(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);
	struct fm_cache_info info;

	if (o->err.code == 0 && !fm_cache_look(o->keeper->o.cache, o->id, &info))
		(void)fm_err_set(&o->err, -ENOENT, "it is not there any more: stage it again");
	if (o->err.code < 0)
		end(o);
	else if (o->is_reader && !o->is_asked_anew)
		let_in(o);
	else
		ask_source(o, info.source);
}

/* ---- the act ---- */

/*
 * Whether the rules for peers let whoever asks have that done. A source that is away refuses no
 * user a copy of it (ask_source()).
 */
static int may_act(const struct order *o, const char *source, struct fm_err *err)
{
	int ret = check_rules(&o->keeper->o, source, o->peer, err);

	if (ret != -EAGAIN || o->keep.verb != FM_STAGE_LET)
		return ret;
	fm_err_clear(err);
	return 0;
}

/* The dataset is known: asks the rules of its store, and does what is to be done. */
static void act(struct order *o)
{
	struct fm_cache_info info;

	o->store_changes = o->keeper->o.engine->store_changes;
	if (o->err.code == 0 && !fm_cache_look(o->keeper->o.cache, o->id, &info))
		(void)fm_err_set(&o->err, -ENOENT, "it is not there any more: stage it again");
	if (o->err.code == 0)
		(void)snprintf(o->name, sizeof(o->name), "%s", info.name);
	if (o->err.code == 0)
		(void)may_act(o, info.source, &o->err);
	if (o->err.code == 0 && o->keep.verb == FM_STAGE_SHOW && show(o, &info) == 0)
		return;
	if (o->err.code < 0)
		end(o);
	else if (o->keep.verb == FM_STAGE_LET)
		submit(o, reader_run, reader_done);
	else if (o->keep.verb == FM_STAGE_PIN)
		submit_awaiting(o, look_up_run, looked_up, fm_stage_rights_may_await());
	else
		submit(o, act_run, act_done);
}

/* Who did not stage it here does not learn whether there is one of that name. */
static void find_run(struct fm_work *work)
{
	struct order *o = fm_container_of(work, struct order, work);
	struct fm_err err;

	if (fm_stage_find_to(o->keep.verb, o->keeper->o.cache, o->keep.name, o->keep.uid, o->peer,
			     &o->id, &err) < 0)
		(void)fm_err_set(&o->err, -ENOENT,
				 "no dataset that user %u staged on %s is called \"%.100s\"",
				 (unsigned)o->keep.uid, o->keeper->o.node, o->keep.name);
}

static void find_done(struct fm_work *work)
{
	act(fm_container_of(work, struct order, work));
}

static void find(struct order *o)
{
	struct fm_cache *c = o->keeper->o.cache;
	struct fm_cache_info info;

	if (o->keep.name[0] && o->keep.verb != FM_STAGE_SHOW) {
		submit(o, find_run, find_done);
		return;
	}
	o->id = fm_cache_find_listing(c, &o->keep.key);
	if (o->id == 0 || !fm_cache_look(c, o->id, &info) || info.state != FM_CACHE_READY ||
	    fm_hub_is_own(info.source))
		(void)fm_err_set(&o->err, -ENOENT,
				 "it went meanwhile, or has the same files from another source: "
				 "ask for it there, or unstage that one, by its source");
	act(o);
}

/* ---- what comes ---- */

static int new_order(struct fm_keeper *k, const char *peer, const struct fm_stage_keep *keep,
		     struct order **out, struct fm_err *err)
{
	struct fm_share_held place = { 0 };
	struct order *o;
	int ret = fm_share_take(&k->places, fm_share_name(peer), 1, &place, err);

	if (ret < 0)
		return ret;
	o = FM_FAULT("stage.keeper") ? NULL : calloc(1, sizeof(*o));
	if (!o) {
		fm_share_give_all(&place);
		return fm_err_set(err, -ENOMEM, "no memory for an order");
	}
	o->keeper = k;
	o->place = place;
	o->keep = *keep;
	(void)snprintf(o->peer, sizeof(o->peer), "%s", peer);
	(void)snprintf(o->name, sizeof(o->name), "%.*s", FM_CACHE_NAME_MAX, told_name(keep));
	fm_list_append(&k->orders, &o->at);
	*out = o;
	return 0;
}

/* The hold ends, also one that is just being written down. */
static void release(struct fm_keeper *k, const char *peer, uint64_t number)
{
	fm_list_each(at, next, &k->orders) {
		struct order *o = fm_container_of(at, struct order, at);

		o->is_released |= o->keep.verb == FM_STAGE_HOLD && o->keep.hold == number &&
				  strcmp(o->peer, peer) == 0;
	}
	fm_cache_release_node(k->o.cache, peer, number);
}

/* 1: the hold is there, and lasts again; it need not be written down. 0: there is none. */
static int renew(struct fm_keeper *k, const char *peer, const struct fm_stage_keep *keep,
		 struct fm_err *err)
{
	uint64_t id = fm_cache_find_listing(k->o.cache, &keep->key);

	if (id == 0 || !fm_cache_renew_node(k->o.cache, id, peer, keep->hold))
		return 0;
	return ask_again(k, id, peer, keep->hold, err) < 0 ? err->code : 1;
}

/* Of the dataset whose hold lasts again. */
static const char *renewed_name(const struct fm_keeper *k, const struct fm_stage_keep *keep,
				struct fm_cache_info *info)
{
	uint64_t id = fm_cache_find_listing(k->o.cache, &keep->key);

	return fm_cache_look(k->o.cache, id, info) ? info->name : "what went just now";
}

static int check_peer(const struct fm_keeper *k, const struct fm_session *s, struct fm_err *err)
{
	if (!k)
		return fm_err_set(err, -EOPNOTSUPP,
				  "%s stages nothing: staging.directory of its fmove.conf says "
				  "where",
				  s->engine->name);
	if (fm_togethers_may(k->o.togethers, s->name, err) < 0)
		return fm_err_set(err, -EACCES,
				  "%s does not stage with %s: staging.peers in its fmove.conf "
				  "lacks it; add it, and restart fmoved there",
				  k->o.node, s->name);
	return 0;
}

void fm_keeper_message(struct fm_keeper *k, struct fm_session *s, const struct fm_wire_stage *m)
{
	struct fm_stage_keep keep;
	struct fm_err err = { 0 };
	struct fm_cache_info info;
	struct order *o = NULL;
	int ret;

	if (fm_stage_keep_decode(m->body, m->len, &keep) < 0) {
		fm_session_protocol_error(s, "an order to keep something that cannot be");
		return;
	}
	if (k && keep.verb == FM_STAGE_RELEASE) {
		release(k, s->name, keep.hold);
		return;
	}
	ret = check_peer(k, s, &err);
	if (ret == 0 && keep.verb == FM_STAGE_HOLD)
		ret = renew(k, s->name, &keep, &err);
	if (ret == 0)
		ret = new_order(k, s->name, &keep, &o, &err);
	if (o) {
		find(o);
		return;
	}
	log_end(s->engine, s->name, &keep,
		ret > 0 ? renewed_name(k, &keep, &info) : told_name(&keep), &err);
	answer(s, &keep, &err, NULL);
}

/* ---- after a reload ---- */

struct look {
	uint64_t ids[FM_CACHE_DATASETS_MAX];
	struct fm_cache_holder holders[FM_CACHE_HOLDS_MAX];
};

static void look_at(const struct fm_keeper *k, uint64_t id, struct fm_cache_holder *holders)
{
	size_t count = fm_cache_holders(k->o.cache, id, holders, FM_CACHE_HOLDS_MAX);
	struct fm_err err;

	for (size_t i = 0; i < count; i++) {
		const struct fm_cache_holder *h = &holders[i];

		if (h->node[0] && ask_again(k, id, h->node, h->theirs, &err) < 0)
			fm_log_info("staging: a hold for %s has ended: %s", h->node, err.text);
	}
}

void fm_keeper_look(struct fm_keeper *k)
{
	uint64_t changes = k->o.engine->store_changes;
	struct look *l;
	size_t count;

	if (k->store_changes == changes)
		return;
	l = malloc(sizeof(*l));
	if (!l)
		return;		/* the next time, then */
	k->store_changes = changes;
	count = fm_cache_list(k->o.cache, l->ids, FM_CACHE_DATASETS_MAX);
	for (size_t i = 0; i < count; i++)
		look_at(k, l->ids[i], l->holders);
	free(l);
}
