/* SPDX-License-Identifier: MIT */
/*
 * supervisor - see supervisor.h. Here: the look, which is all that ever starts anything, and what
 * makes it happen.
 *
 * A look reads mounts and inventory once, has the plan of each volume made from them, starts at
 * most one call for each and sets the time of the next look: when a call ends, when something that
 * is held may be tried, when the kernel says that something happened, and at the latest at the
 * audit.
 */
#include "nvmetcp/supervisor.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "nvmetcp/identity.h"
#include "nvmetcp/supervisor_priv.h"

#define AUDIT_MIN_NS (10 * FM_NS_PER_S)
#define AUDIT_MAX_NS (60 * FM_NS_PER_S)
/* for each controller: what auditing costs has a bound that way */
#define AUDIT_EACH_NS (250 * FM_NS_PER_MS)
#define AUDIT_BUSY_NS FM_NS_PER_S		/* while something is under way */
/* what does not change for so long is not under way any more */
#define BUSY_NS (30 * FM_NS_PER_S)
#define WAKE_NS (50 * FM_NS_PER_MS)		/* events come in bunches */
#define HOLD_MAX_S 60
#define BLIND_MIN_S 2u				/* a kernel that sees a namespace has it by then */
#define LOST_NS (5 * FM_NS_PER_S)		/* without a live path, when all are to be down */

/* ---- patience ---- */

static uint64_t random_below(struct fm_supervisor *sup, uint64_t bound)
{
	uint64_t n;

	sup->random->fill(sup->random->ctx, &n, sizeof(n));
	return n % bound;
}

/* Doubled each time, and a quarter more or less, so that many nodes do not come at once. */
void fm_hold_failed(struct fm_supervisor *sup, struct fm_hold *hold, unsigned min_s, unsigned max_s)
{
	uint64_t s = hold->failures < 6 ? UINT64_C(1) << hold->failures : HOLD_MAX_S, ns;

	s = s < min_s ? min_s : s > max_s ? max_s : s;
	hold->failures++;
	ns = s * FM_NS_PER_S;
	ns = ns * 3 / 4 + random_below(sup, ns / 2);
	if (ns > max_s * FM_NS_PER_S)
		ns = max_s * FM_NS_PER_S;
	if (ns < FM_NS_PER_S)
		ns = FM_NS_PER_S;
	hold->until_ns = fm_loop_now(sup->loop) + ns;
}

void fm_hold_worked(struct fm_supervisor *sup, struct fm_hold *hold)
{
	*hold = (struct fm_hold){ .until_ns = fm_loop_now(sup->loop) + FM_NS_PER_S };
}

bool fm_hold_is_on(const struct fm_supervisor *sup, const struct fm_hold *hold)
{
	return fm_loop_now(sup->loop) < hold->until_ns;
}

static void release_holds(struct fm_supervised *v)
{
	for (unsigned i = 0; i < v->path_count; i++)
		v->path[i].hold = (struct fm_hold){ 0 };
	v->mount_hold = v->unmount_hold = v->disconnect_hold = v->blind_hold = v->keep_hold =
		v->unused_hold = v->where.hold = (struct fm_hold){0};
	v->is_refused = false;
	v->is_unreservable = false;
	v->is_iopolicy_refused = false;
	v->hung_unmounts = 0;
	v->is_sync_tried = false;
	v->is_release_tried = false;
}

void fm_supervised_error(struct fm_supervised *v, const char *text)
{
	v->tries++;
	v->error_ms = v->sup->world->wall_ms(v->sup->world->ctx);
	if (strcmp(v->error, text) == 0)
		return;
	(void)snprintf(v->error, sizeof(v->error), "%s", text);
	fm_log_warn("volume %s: %s", v->volume->name, v->error);
}

void fm_supervised_worked(struct fm_supervised *v)
{
	v->tries = 0;
	v->error[0] = '\0';
	v->error_ms = 0;
}

/* ---- the plan ---- */

/* What plan.h wants to know, and how its addresses are numbered here. */
struct view {
	struct fm_plan_volume pv;
	struct fm_volume_address address[FM_VOLUME_PATHS_MAX];
	bool is_held[FM_VOLUME_PATHS_MAX];
	unsigned path_of[FM_VOLUME_PATHS_MAX];
	char owned[FM_SUPERVISED_OWNED_MAX][32];
	struct fm_plan_device had[FM_SUPERVISED_HELD_MAX];
	char leave_why[FM_PLAN_WHY_MAX], unfit_why[FM_PLAN_WHY_MAX];
};

static bool has_path(const struct fm_supervised *v, const struct fm_owned_path *path)
{
	for (unsigned i = 0; i < v->path_count; i++) {
		/* Not known yet: it may be that one. */
		if (!v->path[i].host[0])
			return true;
		if (strcmp(v->path[i].port, path->port) == 0 &&
		    fm_owned_is_same_address(v->path[i].host, path->address))
			return true;
	}
	return v->path_count == 0;
}

static bool is_needed_by_another(const struct fm_supervised *v, const struct fm_owned *o)
{
	fm_list_each(at, next, &v->sup->volumes) {
		const struct fm_supervised *other = fm_container_of(at, struct fm_supervised, link);

		if (other != v && fm_supervised_want(other) != FM_WANT_DOWN &&
		    strcmp(other->volume->subsystem, o->path.subsystem) == 0 &&
		    has_path(other, &o->path))
			return true;
	}
	return false;
}

static void view_owned(const struct fm_supervised *v, struct view *view)
{
	const struct fm_owned_list *owned = &v->sup->owned;

	for (unsigned i = 0; i < owned->count && view->pv.owned_count < FM_SUPERVISED_OWNED_MAX;
	     i++) {
		const struct fm_owned *o = &owned->entry[i];

		if (o->controller[0] && strcmp(o->path.subsystem, v->volume->subsystem) == 0 &&
		    !is_needed_by_another(v, o))
			memcpy(view->owned[view->pv.owned_count++], o->controller,
			       sizeof(o->controller));
	}
}

static void view_held(const struct fm_supervised *v, struct view *view)
{
	for (unsigned i = 0; i < v->held_count; i++) {
		view->had[i].dev = v->held[i].dev;
		memcpy(view->had[i].name, v->held[i].name, sizeof(view->had[i].name));
	}
	view->pv.had = view->had;
	view->pv.had_count = v->held_count;
}

/* What the configuration asks for and this controller lacks, or does not show; NULL: nothing. */
static const char *lack_of(const struct fm_volume *vol, const struct fm_inv_settings *is)
{
	if (vol->secret_file[0] && !is->has_secret)
		return "without a secret (secret_file)";
	if (vol->controller_secret_file[0] && !is->has_controller_secret)
		return "without a secret of the target (controller_secret_file)";
	if (vol->has_tls && !is->has_tls)
		return "without TLS (tls)";
	if (vol->has_header_digest || vol->has_data_digest)
		return "and whether with digests (header_digest, data_digest) no kernel says";
	return NULL;
}

static bool is_protection_asked(const struct fm_volume *vol)
{
	return vol->secret_file[0] || vol->controller_secret_file[0] || vol->has_tls ||
	       vol->has_header_digest || vol->has_data_digest;
}

/*
 * Of a controller that may be ours: ours has what can be seen. Of digests nothing can, and while it
 * comes not all of the rest.
 */
static const char *lack_of_doubtful(const struct fm_volume *vol, const struct fm_inv_controller *c,
				    const struct fm_inv_settings *is)
{
	struct fm_volume seen = *vol;

	seen.has_header_digest = seen.has_data_digest = false;
	return strcmp(c->state, "live") == 0 ? lack_of(&seen, is) : NULL;
}

/*
 * Finds a controller of somebody else that lacks what is configured (*lack). Controllers that a
 * helper of fmove-nvmed says it has made were connected as configured. NULL: every controller may
 * be used.
 */
static const struct fm_inv_controller *find_unfit(const struct fm_supervised *v, const char **lack)
{
	const struct fm_supervisor *sup = v->sup;

	for (unsigned i = 0; is_protection_asked(v->volume) && i < sup->inv->controller_count;
	     i++) {
		const struct fm_inv_controller *c = &sup->inv->controllers[i];
		const struct fm_owned *o = fm_owned_find(&sup->owned, c);
		struct fm_inv_settings settings;

		if (strcmp(c->subsysnqn, v->volume->subsystem) != 0 ||
		    (o && !o->is_expected && !o->is_guessed))
			continue;
		sup->world->read_settings(sup->world->ctx, c->name, &settings);
		*lack = o ? lack_of_doubtful(v->volume, c, &settings)
			  : lack_of(v->volume, &settings);
		if (*lack)
			return c;
	}
	return NULL;
}

static const char *unfit_why(const struct fm_supervised *v, char why[static FM_PLAN_WHY_MAX])
{
	const char *lack;
	const struct fm_inv_controller *c = find_unfit(v, &lack);

	if (!c)
		return NULL;
	(void)snprintf(why, FM_PLAN_WHY_MAX,
		       "%.31s was connected by somebody else, %s: it is not used; nvme disconnect "
		       "-d %.31s, "
		       "and fmove-nvmed connects it as configured",
		       c->name, lack, c->name);
	return why;
}

/*
 * Warns of a controller without the configured protection that appeared while the volume is
 * mounted. The volume stays mounted: an unmount would not take back the data that went that way.
 */
static void watch_unfit(struct fm_supervised *v)
{
	const char *lack;
	const struct fm_inv_controller *c = v->plan.is_mounted ? find_unfit(v, &lack) : NULL;
	char why[FM_PLAN_WHY_MAX] = "";

	if (c)
		(void)snprintf(why, sizeof(why),
			       "%.31s was connected by somebody else, %s, while it is mounted: "
			       "data may go that way; "
			       "nvme disconnect -d %.31s",
			       c->name, lack, c->name);
	if (strcmp(why, v->unfit) == 0)
		return;
	memcpy(v->unfit, why, sizeof(why));
	if (why[0])
		fm_log_error("volume %s: %s", v->volume->name, why);
	else
		fm_log_info("volume %s: every path is connected as configured again",
			    v->volume->name);
}

/* Why another host may have written to the volume; NULL: as far as is known, none could. */
static const char *taken_why(const struct fm_supervised *v)
{
	if (v->is_taken)
		return "another host has it reserved, and may have written to it";
	return v->is_doubtful ? "the target was away, and whether another host had it reserved "
				"then is not known"
			      : NULL;
}

static void view_make(const struct fm_supervised *v, struct view *view)
{
	const struct fm_supervisor *sup = v->sup;
	unsigned count = 0;

	*view = (struct view){.pv = {.volume = v->volume,
				     .want = fm_supervised_want(v),
				     .host_nqn = sup->host_nqn}};
	for (unsigned i = 0; i < v->path_count; i++) {
		if (!v->path[i].host[0])
			continue;
		view->address[count] = (struct fm_volume_address){v->path[i].host, v->path[i].port};
		view->is_held[count] = fm_hold_is_on(sup, &v->path[i].hold);
		view->path_of[count++] = i;
	}
	view->pv.address = view->address;
	view->pv.address_count = count;
	view->pv.is_held = view->is_held;
	view->pv.is_writable = fm_supervised_is_writable(v);
	view->pv.unfit_why = unfit_why(v, view->unfit_why);
	view->pv.leave_why = fm_supervised_leave_why(v, view->leave_why);
	view->pv.taken_why = taken_why(v);
	view->pv.is_mount_held = fm_hold_is_on(sup, &v->mount_hold);
	view_owned(v, view);
	view->pv.owned = (const char(*)[32])view->owned;
	view_held(v, view);
}

const struct fm_inv_namespace *fm_supervised_ns(const struct fm_supervised *v)
{
	return v->sup->inv && v->plan.ns >= 0 ? &v->sup->inv->namespaces[v->plan.ns] : NULL;
}

/* Whether the reason of a refusal has changed, so that the volume is looked at again at once. */
static bool is_refusal_outdated(struct fm_supervised *v)
{
	const struct fm_supervised_facts *f = &v->refused_facts;
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);

	if (!v->is_refused)
		return false;
	if (!ns || f->peers_version != v->sup->peers_version)
		return true;
	return ns->dev != f->dev || ns->size_bytes != f->size_bytes ||
	       ns->is_read_only != f->is_read_only || strcmp(ns->wwid, f->wwid) != 0;
}

static void make_plan(struct fm_supervised *v)
{
	struct view view;

	view_make(v, &view);
	fm_plan_make(&view.pv, v->sup->inv, &v->sup->mounts, &v->plan);
	if (is_refusal_outdated(v)) {
		v->is_refused = false;
		v->mount_hold = (struct fm_hold){ 0 };
		view.pv.is_mount_held = false;
		fm_plan_make(&view.pv, v->sup->inv, &v->sup->mounts, &v->plan);
	}
	v->plan_path = v->plan.address >= 0 ? view.path_of[v->plan.address] : 0;
}

/* ---- steps ---- */

/* Whether another volume's connect of this path is under way. */
static bool is_connecting(const struct fm_supervisor *sup, const char *subsystem,
			  const struct fm_supervised_path *path)
{
	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->call == FM_CALL_CONNECT && strcmp(v->connecting.subsystem, subsystem) == 0 &&
		    strcmp(v->connecting.port, path->port) == 0 &&
		    fm_owned_is_same_address(v->connecting.address, path->host))
			return true;
	}
	return false;
}

const struct fm_supervised *fm_supervised_blocker(const struct fm_supervised *v)
{
	fm_list_each(at, next, &v->sup->volumes) {
		const struct fm_supervised *other = fm_container_of(at, struct fm_supervised, link);

		if (other == v)
			return NULL;
		if (other->is_retired && strcmp(other->volume->name, v->volume->name) == 0)
			return other;
	}
	return NULL;
}

/*
 * Sets the I/O policy of a subsystem that fmove-nvmed connected. For one that somebody else
 * connected it is not ours to set.
 */
static void set_iopolicy(struct fm_supervised *v)
{
	const struct fm_supervisor *sup = v->sup;
	struct fm_err err = { 0 };
	bool is_ours = false;
	int ret;

	for (unsigned i = 0; i < sup->owned.count; i++)
		is_ours = is_ours ||
			  strcmp(sup->owned.entry[i].path.subsystem, v->volume->subsystem) == 0;
	if (!is_ours || !v->volume->iopolicy || !v->volume->iopolicy[0] || v->is_iopolicy_refused)
		return;
	for (unsigned i = 0; i < sup->inv->subsystem_count; i++) {
		const struct fm_inv_subsystem *s = &sup->inv->subsystems[i];

		if (strcmp(s->nqn, v->volume->subsystem) != 0 || !s->iopolicy[0] ||
		    strcmp(s->iopolicy, v->volume->iopolicy) == 0)
			continue;
		ret = sup->world->set_iopolicy(sup->world->ctx, s->name, v->volume->iopolicy, &err);
		v->is_iopolicy_refused = ret < 0;
		if (ret < 0)
			fm_log_warn("volume %s: iopolicy %s: %s; it stays \"%s\"", v->volume->name,
				    v->volume->iopolicy, err.text, s->iopolicy);
	}
}

/*
 * A target says when its namespaces change, once. A kernel that finds another namespace at a number
 * drops the old one and is content, and words get lost in a reconnect: then nobody looks again
 * unless told to.
 */
static void rescan_blind(struct fm_supervised *v)
{
	const struct fm_supervisor *sup = v->sup;
	const struct fm_plan *plan = &v->plan;

	if (plan->blind_count == 0 || fm_supervised_want(v) == FM_WANT_DOWN) {
		v->blind_hold = (struct fm_hold){ 0 };
		return;
	}
	if (fm_hold_is_on(sup, &v->blind_hold))
		return;
	for (unsigned i = 0; i < plan->blind_count && v->blind_hold.failures > 0; i++) {
		const char *controller = sup->inv->controllers[plan->blind[i]].name;

		if (v->blind_hold.failures == 1)
			fm_log_info("volume %s: %s has no namespace for it: the kernel is told to "
				    "look again",
				    v->volume->name, controller);
		sup->world->rescan(sup->world->ctx, controller);
	}
	fm_hold_failed(v->sup, &v->blind_hold, BLIND_MIN_S, HOLD_MAX_S);
}

/*
 * Whether a reservation is left over: the target keeps the volume for this host, which has it not
 * mounted and will not mount it read-write.
 */
static bool is_release_due(const struct fm_supervised *v)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);
	bool may_write;

	return v->is_reserved && !v->is_release_tried && !v->plan.is_mounted && ns &&
	       fm_inventory_is_live(v->sup->inv, ns) && !v->is_announced &&
	       !fm_supervised_is_left_hanging(v, &may_write) && !fm_supervised_is_in_use(v) &&
	       (fm_supervised_want(v) != FM_WANT_UP || !fm_supervised_is_writable(v)) &&
	       !fm_supervised_is_host_shared(v);
}

static void take_step(struct fm_supervised *v)
{
	const struct fm_supervisor *sup = v->sup;
	const struct fm_plan *plan = &v->plan;

	if (v->call != FM_CALL_NONE || fm_supervised_blocker(v))
		return;
	if (fm_supervised_check_unused(v))
		return;
	if (is_release_due(v)) {
		v->is_release_tried = true;
		fm_supervised_release(v, fm_supervised_ns(v));
		return;
	}
	if (fm_supervised_is_keep_due(v)) {
		fm_supervised_keep(v, fm_supervised_ns(v));
		return;
	}
	switch (plan->step) {
	case FM_STEP_NONE:
	case FM_STEP_WAIT:
		set_iopolicy(v);
		return;
	case FM_STEP_CONNECT:
		if (!is_connecting(sup, v->volume->subsystem, &v->path[v->plan_path]))
			fm_supervised_connect(v, v->plan_path);
		return;
	case FM_STEP_MOUNT:
		set_iopolicy(v);
		if (!fm_supervised_is_in_use(v))
			fm_supervised_mount(v, &sup->inv->namespaces[plan->ns]);
		return;
	case FM_STEP_UNMOUNT:
		if (!fm_hold_is_on(sup, &v->unmount_hold))
			fm_supervised_unmount(v,
					      fm_mounts_at(&sup->mounts, v->volume->mount_point));
		return;
	case FM_STEP_DISCONNECT:
		if (!fm_hold_is_on(sup, &v->disconnect_hold))
			fm_supervised_disconnect(v, &sup->inv->controllers[plan->controller]);
		return;
	case FM_STEP_REFUSE:
		return;
	}
}

/* ---- the end of the machine ---- */

enum fm_plan_want fm_supervised_want(const struct fm_supervised *v)
{
	return v->sup->is_closed ? FM_WANT_DOWN : v->want;
}

static bool has_live_path(const struct fm_supervised *v)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);

	return ns && fm_inventory_is_live(v->sup->inv, ns);
}

static void note_loss(struct fm_supervised *v)
{
	if (has_live_path(v))
		v->lost_ns = 0;
	else if (v->lost_ns == 0)
		v->lost_ns = fm_loop_now(v->sup->loop);
}

/* The network is about to go and this one's target has gone: waiting would only delay the end. */
static bool is_hopeless(const struct fm_supervised *v)
{
	const struct fm_supervisor *sup = v->sup;
	uint64_t since = v->lost_ns > sup->closed_ns ? v->lost_ns : sup->closed_ns;

	return sup->is_closed && v->lost_ns && fm_loop_now(sup->loop) >= since + LOST_NS;
}

bool fm_supervised_is_forced(const struct fm_supervised *v)
{
	return v->is_forced ||
	       (v->sup->is_closed && fm_loop_now(v->sup->loop) >= v->sup->force_ns) ||
	       is_hopeless(v);
}

/* A person who unmounts by force does not wait for what a seal writes. */
static bool is_seal_forced(const struct fm_supervised *v)
{
	return v->call == FM_CALL_UNMOUNT && v->is_seal_written && fm_supervised_is_forced(v);
}

/*
 * Gives up a call that hangs on a dead target. It ends when the controller is removed, which
 * another call does.
 */
static void give_up_hopeless(struct fm_supervised *v)
{
	if (v->call != FM_CALL_NONE && v->call != FM_CALL_DISCONNECT &&
	    (is_hopeless(v) || is_seal_forced(v)))
		v->sup->world->give_up(v->sup->world->ctx, &v->helper);
}

void fm_supervisor_close(struct fm_supervisor *sup, uint64_t force_ns)
{
	fm_log_info("all volumes: to be down");
	sup->is_closed = true;
	sup->closed_ns = fm_loop_now(sup->loop);
	sup->force_ns = sup->closed_ns + force_ns;
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		v->is_fresh = true;
		v->is_mount_forced = false;
		release_holds(v);
	}
	fm_supervisor_look_soon(sup);
}

void fm_supervisor_open(struct fm_supervisor *sup)
{
	if (!sup->is_closed)
		return;
	fm_log_info("all volumes: to be as each is wished");
	sup->is_closed = false;
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		v->is_fresh = true;
		release_holds(v);
	}
	fm_supervisor_look_soon(sup);
}

bool fm_supervisor_is_closed(const struct fm_supervisor *sup)
{
	return sup->is_closed;
}

bool fm_supervisor_is_all_down(const struct fm_supervisor *sup, const char **why)
{
	*why = "";
	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!v->is_fresh && v->state == FM_STATE_DOWN)
			continue;
		*why = v->error[0] ? v->error : v->text;
		return false;
	}
	return sup->is_closed;
}

/* ---- what becomes of a device ---- */

/* Smaller below a mount: what is missing is lost, and nobody but us may say so before it is
 * needed. */
static void watch_size(struct fm_supervised *v, const struct fm_inv_namespace *ns)
{
	bool is_same = v->plan.is_mounted && strcmp(ns->wwid, v->last_wwid) == 0;
	bool is_too_small = is_same && ns->size_bytes < v->last_size_bytes;
	char line[FM_SUPERVISED_WHY_MAX];

	if (is_too_small && !v->is_too_small) {
		(void)snprintf(line, sizeof(line),
			       "%s is mounted and has %" PRIu64
			       " bytes now, fewer than the %" PRIu64 " when it was "
			       "mounted: a part of the file system is missing; look at the target",
			       ns->name, ns->size_bytes, v->last_size_bytes);
		fm_supervised_error(v, line);
	} else if (is_same && !is_too_small && v->is_too_small) {
		fm_supervised_worked(v);
	}
	v->is_too_small = is_too_small;
}

static void watch_device(struct fm_supervised *v)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);

	if (!ns)
		return;
	watch_size(v, ns);
	/* Writable again, or made anew: then it is not by us, should it ever be read-only. */
	if (v->call != FM_CALL_PREPARE && fm_supervised_is_kept(v) && !ns->is_read_only &&
	    strcmp(v->read_only_wwid, ns->wwid) == 0)
		fm_supervised_note_read_only(v, "");
	fm_supervised_watch_seal(v);
}

/* ---- the look ---- */

/* -1: it is gone. */
static int find_again(const struct fm_inventory *inv, const struct fm_inv_namespace *ns)
{
	for (unsigned i = 0; i < inv->namespace_count; i++)
		if (inv->namespaces[i].dev == ns->dev &&
		    strcmp(inv->namespaces[i].wwid, ns->wwid) == 0)
			return (int)i;
	return -1;
}

/* A plan knows its namespace by its place, which is another's in the next inventory, or nobody's:
 * until the next plan is made that of the last one is asked for. */
static void carry_namespaces(const struct fm_supervisor *sup, const struct fm_inventory *inv)
{
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);
		const struct fm_inv_namespace *ns = fm_supervised_ns(v);

		v->plan.ns = ns ? find_again(inv, ns) : -1;
	}
}

static int take_snapshot(struct fm_supervisor *sup, struct fm_err *err)
{
	const struct fm_supervisor_world *world = sup->world;
	struct fm_inventory *inv = NULL;
	struct fm_mounts mounts = { 0 };
	int ret;

	/* In this order: see plan.h. */
	ret = world->read_mounts(world->ctx, &mounts, err);
	if (ret == 0)
		ret = world->read_inventory(world->ctx, &inv, err);
	if (ret < 0) {
		fm_mounts_free(&mounts);
		return ret;
	}
	carry_namespaces(sup, inv);
	fm_mounts_free(&sup->mounts);
	fm_inventory_free(sup->inv);
	sup->mounts = mounts;
	sup->inv = inv;
	return 0;
}

static uint64_t audit_ns(const struct fm_supervisor *sup)
{
	uint64_t ns = sup->inv->controller_count * AUDIT_EACH_NS;

	return ns < AUDIT_MIN_NS ? AUDIT_MIN_NS : ns > AUDIT_MAX_NS ? AUDIT_MAX_NS : ns;
}

static uint64_t sooner(const struct fm_supervisor *sup, const struct fm_hold *hold, uint64_t at)
{
	return fm_hold_is_on(sup, hold) && hold->until_ns < at ? hold->until_ns : at;
}

static bool is_busy(const struct fm_supervised *v)
{
	return v->call != FM_CALL_NONE || (v->sup->is_closed && v->state != FM_STATE_DOWN) ||
	       (!fm_supervised_is_as_wanted(v) &&
		fm_loop_now(v->sup->loop) < v->since_ns + BUSY_NS);
}

static uint64_t next_look(const struct fm_supervised *v, uint64_t where_ns)
{
	const struct fm_supervisor *sup = v->sup;
	uint64_t at = fm_loop_now(sup->loop) + (is_busy(v) ? AUDIT_BUSY_NS : audit_ns(sup));

	at = where_ns < at ? where_ns : at;
	for (unsigned i = 0; i < v->path_count; i++)
		at = sooner(sup, &v->path[i].hold, at);
	at = sooner(sup, &v->mount_hold, at);
	at = sooner(sup, &v->unmount_hold, at);
	at = sooner(sup, &v->blind_hold, at);
	at = sooner(sup, &v->keep_hold, at);
	at = sooner(sup, &v->unused_hold, at);
	return sooner(sup, &v->disconnect_hold, at);
}

static void free_volume(struct fm_supervised *v)
{
	fm_list_del(&v->link);
	fm_json_free(v->raised);
	fm_json_free(v->readers);
	fm_json_free(v->answered);
	fm_json_free(v->spoken);
	fm_json_free(v->waits_for);
	free(v->volume);
	free(v);
}

static bool is_forgettable(const struct fm_supervised *v)
{
	bool may_write;

	/* What a helper that hangs may mount yet would be nobody's. */
	return v->is_retired && v->call == FM_CALL_NONE && !v->is_announced &&
	       !fm_supervised_is_left_hanging(v, &may_write) &&
	       !fm_supervised_is_held(v, &may_write) && !v->where.is_busy &&
	       v->plan.step == FM_STEP_NONE;
}

/*
 * To write: wherever, and by whomever. What is being unmounted, by whichever helper, does not stay.
 */
static bool is_there_to_stay(const struct fm_supervised *v)
{
	bool may_write;

	if (v->is_announced || v->call == FM_CALL_UNMOUNT || v->plan.step == FM_STEP_UNMOUNT ||
	    fm_supervised_is_left_hanging(v, &may_write))
		return false;
	if (!fm_supervised_is_writable(v))
		return v->plan.is_mounted && !v->plan.is_read_write;
	for (unsigned i = 0; i < v->held_count; i++)
		if (v->held[i].is_mounted && v->held[i].is_read_write)
			return true;
	return false;
}

/*
 * Ends force for a volume that is mounted as it is wanted. Otherwise it would stay in effect until
 * some later mount.
 */
static void end_force(struct fm_supervised *v)
{
	if (!v->is_mount_forced || !is_there_to_stay(v))
		return;
	v->is_mount_forced = false;
	v->is_nothing_forced = true;
	fm_log_info("volume %s: it is mounted, and nothing is forced", v->volume->name);
}

/*
 * Ends force for all volumes after a look that failed. A volume may be mounted unseen and unmounted
 * again, and force is for one mount only.
 */
static void drop_forces(struct fm_supervisor *sup)
{
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->is_mount_forced)
			fm_log_warn("volume %s: what is mounted cannot be seen, so nothing is "
				    "forced: say --force once more", v->volume->name);
		v->is_mount_forced = false;
	}
}

static uint64_t look_at(struct fm_supervised *v)
{
	uint64_t where_ns = fm_supervised_where_ask(v);

	fm_supervised_settle_word(v);
	fm_supervised_settle_number(v);
	fm_supervised_hold_left(v);
	make_plan(v);
	fm_supervised_hold_found(v);
	fm_supervised_watch_held(v);
	fm_supervised_end_taken(v);
	end_force(v);
	fm_supervised_note_live(v);
	watch_device(v);
	watch_unfit(v);
	note_loss(v);
	give_up_hopeless(v);
	rescan_blind(v);
	take_step(v);
	v->is_fresh = false;
	fm_supervised_update(v);
	return next_look(v, where_ns);
}

/*
 * Before the inventory is read: which connects that nobody will hear of have ended. Of one that an
 * fmove-nvmed of before began, and did not say by which process, any stray helper may be at it.
 */
static void watch_connects(struct fm_supervisor *sup)
{
	const struct fm_supervisor_world *world = sup->world;

	for (unsigned i = 0; i < sup->owned.count; i++) {
		struct fm_owned *o = &sup->owned.entry[i];

		if (o->is_expected && o->is_doubtful)
			o->is_over = o->process.pid > 0
					     ? !world->may_live(world->ctx, &o->process)
					     : !world->may_stray(world->ctx);
	}
}

static void look(struct fm_supervisor *sup)
{
	uint64_t now = fm_loop_now(sup->loop), next;
	struct fm_err err = { 0 };
	int ret;

	fm_supervisor_watch_begun(sup);
	watch_connects(sup);
	ret = take_snapshot(sup, &err);

	if (ret < 0 && !sup->has_world_error)
		fm_log_error("what is connected and mounted cannot be seen: %s", err.text);
	sup->has_world_error = ret < 0;
	if (ret < 0) {
		drop_forces(sup);
		fm_timer_set(sup->loop, &sup->timer, now + AUDIT_BUSY_NS);
		return;
	}
	fm_supervisor_settle_begun(sup);
	if (fm_owned_settle(&sup->owned, sup->inv, sup->host_nqn))
		fm_supervisor_save_owned(sup);
	next = now + audit_ns(sup);
	fm_supervisor_sweep(sup);
	fm_list_each(at, after, &sup->volumes) {
		uint64_t wanted = look_at(fm_container_of(at, struct fm_supervised, link));

		next = wanted < next ? wanted : next;
	}
	fm_list_each(at, after, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		fm_supervised_hand_over(v);
		if (!is_forgettable(v))
			continue;
		fm_log_info(fm_supervised_is_stranger(v) ?
				    "%s: it is free, and peers are told so" :
				    "volume %s: taken down, as it is no longer configured like "
				    "that",
			    v->volume->name);
		free_volume(v);
		sup->is_published = false;	/* peers may have been told of it */
		next = now;	/* what waited for it */
	}
	fm_supervisor_publish(sup);
	fm_supervisor_ask(sup);
	fm_timer_set(sup->loop, &sup->timer, next);
	if (sup->changed)
		sup->changed(sup->ctx);
}

static void look_run(struct fm_task *task)
{
	struct fm_supervisor *sup = fm_container_of(task, struct fm_supervisor, look);

	if (!sup->is_stopped && sup->host_nqn)
		look(sup);
}

static void look_timer(struct fm_timer *timer)
{
	look(fm_container_of(timer, struct fm_supervisor, timer));
}

void fm_supervisor_look_soon(struct fm_supervisor *sup)
{
	if (!sup->is_stopped)
		fm_loop_post(sup->loop, &sup->look);
}

void fm_supervisor_wake(struct fm_supervisor *sup)
{
	uint64_t at = fm_loop_now(sup->loop) + WAKE_NS;

	if (sup->is_stopped || !sup->host_nqn ||
	    (fm_timer_is_set(&sup->timer) && sup->timer.at_ns <= at))
		return;
	fm_timer_set(sup->loop, &sup->timer, at);
}

/* ---- what is wanted ---- */

struct fm_supervised *fm_supervisor_find(const struct fm_supervisor *sup, const char *name)
{
	struct fm_supervised *found = NULL;

	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (strcmp(v->volume->name, name) == 0 && (!found || found->is_retired))
			found = v;
	}
	return found;
}

void fm_supervised_refresh(struct fm_supervised *v)
{
	v->is_fresh = true;
	release_holds(v);
	fm_supervised_worked(v);
	fm_supervisor_look_soon(v->sup);
}

static void retire(struct fm_supervised *v)
{
	fm_supervised_drop_answers(v);
	v->is_retired = true;
	v->want = FM_WANT_DOWN;
	release_holds(v);
}

/* v is zeroed; the volume is taken over. */
static void add_volume(struct fm_supervisor *sup, struct fm_supervised *v, struct fm_volume *volume)
{
	v->sup = sup;
	v->volume = volume;
	v->want = FM_WANT_UP;
	v->is_fresh = true;
	v->state = FM_STATE_WAITING;
	v->since_ms = sup->world->wall_ms(sup->world->ctx);
	v->since_ns = fm_loop_now(sup->loop);
	v->plan = (struct fm_plan){ .address = -1, .controller = -1, .ns = -1 };
	fm_supervised_recall(v);
	fm_supervised_check_forgetting(v);
	fm_supervised_where_set(v, NULL);
	fm_list_append(&sup->volumes, &v->link);
}

/* The new volumes of a reload. All of them are made before anything is changed. */
struct fresh {
	struct fm_volume *volume;
	struct fm_supervised *room;
	struct fm_supervised *former;	/* that is still this one; NULL: none */
};

struct all_fresh {
	struct fresh *each;
	struct fm_renamed *renamed;	/* room for as many */
	unsigned count;
};

static int fresh_make(struct fresh *fresh, const struct fm_volume *from)
{
	fresh->volume = fm_volume_copy(from);
	fresh->room = FM_FAULT("supervisor.room") ? NULL : calloc(1, sizeof(*fresh->room));
	return fresh->volume && fresh->room ? 0 : -ENOMEM;
}

struct fm_supervised *fm_supervisor_add_retired(struct fm_supervisor *sup,
						const struct fm_volume *volume)
{
	struct fresh fresh;

	if (fresh_make(&fresh, volume) < 0) {
		free(fresh.volume);
		free(fresh.room);
		return NULL;
	}
	fresh.room->is_retired = true;	/* its name may be another one's */
	add_volume(sup, fresh.room, fresh.volume);
	retire(fresh.room);
	return fresh.room;
}

/*
 * The writer or the mode of the volume has changed. No peer has agreed to that, so their answers,
 * the seal and force are dropped.
 */
static void change_writer(struct fm_supervised *v)
{
	fm_supervised_drop_answers(v);
	fm_supervised_forget_seal(v);
	v->is_mount_forced = false;
}

static void replace_volume(struct fm_supervised *v, struct fm_volume *volume)
{
	struct fm_volume *before = v->volume;

	v->volume = volume;
	if (!fm_volume_is_same_thing(before, volume))
		fm_supervised_void_answers(v);	/* some may be of what it could have been before */
	if (before->mode != volume->mode || strcmp(before->writer, volume->writer) != 0)
		change_writer(v);
	v->is_fresh = true;
	release_holds(v);
	fm_supervised_where_set(v, before);
	free(before);
}

/*
 * This node has another name now, so it may be another volume's writer: all answers of peers are
 * dropped.
 */
static void change_all_writers(struct fm_supervisor *sup)
{
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!v->is_retired)
			change_writer(v);
	}
}

static int set_strings(struct fm_supervisor *sup, const struct fm_supervisor_config *config)
{
	char *node = strdup(config->node), *nqn = strdup(config->host_nqn),
	     *id = strdup(config->host_id);

	if (!node || !nqn || !id) {
		free(node);
		free(nqn);
		free(id);
		return -ENOMEM;
	}
	if (sup->node && strcmp(sup->node, node) != 0)
		change_all_writers(sup);
	free(sup->node);
	free(sup->host_nqn);
	free(sup->host_id);
	sup->node = node;
	sup->host_nqn = nqn;
	sup->host_id = id;
	return 0;
}

/* Whether all that it has, or is about to have, is of that namespace. */
static bool has_only(const struct fm_supervised *v, const char *wwid)
{
	for (unsigned i = 0; i < v->held_count; i++)
		if (strcmp(v->held[i].wwid, wwid) != 0)
			return false;
	return (!v->left_wwid[0] || strcmp(v->left_wwid, wwid) == 0) && v->cut_dev == 0 &&
	       (v->call == FM_CALL_NONE || !v->ns.wwid[0] || strcmp(v->ns.wwid, wwid) == 0);
}

/*
 * Whether the volume is what is configured now. A volume that said nothing, or something else, of
 * which namespace it is, and says it by now, as people are told to, is the same one if it has that
 * namespace: it is not taken down below who uses it.
 */
static bool is_still(const struct fm_supervised *v, const struct fm_volume *now)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);
	const char *wwid = fm_supervised_wwid(v);
	char why[FM_IDENTITY_WHY_MAX];

	if (fm_volume_is_same_thing(v->volume, now))
		return true;
	if (!fm_volume_is_same_place(v->volume, now) || !has_only(v, wwid))
		return false;
	return ns ? fm_identity_is_named(now) &&
			    fm_identity_check(now, ns, why) == FM_IDENTITY_SAME
		  : fm_volume_is_named_by_now(now, v->volume, wwid);
}

/*
 * Whether nothing is under way of it. A helper that hangs is known by the name of its volume, and
 * what is not noted of its namespace is.
 */
static bool is_quiet(const struct fm_supervised *v)
{
	const struct fm_supervisor_world *world = v->sup->world;
	char key[FM_VOLUME_NAME_MAX + 3];
	bool may_write;

	(void)snprintf(key, sizeof(key), "%s: ", v->volume->name);
	return v->call == FM_CALL_NONE && !v->where.is_busy && !v->is_announced &&
	       !fm_supervised_is_left_hanging(v, &may_write) && !world->has_helper(world->ctx, key);
}

static bool is_kept(const struct all_fresh *fresh, const struct fm_supervised *v)
{
	for (unsigned i = 0; i < fresh->count; i++)
		if (fresh->each[i].former == v)
			return true;
	return false;
}

static struct fm_supervised *find_same(const struct fm_supervisor *sup, const struct fm_volume *now)
{
	struct fm_supervised *v = fm_supervisor_find(sup, now->name);

	return v && !v->is_retired && is_still(v, now) ? v : NULL;
}

/* The volume that is called something else now. NULL: there is none. */
static struct fm_supervised *find_renamed(const struct fm_supervisor *sup,
					  const struct all_fresh *fresh,
					  const struct fm_volume *now)
{
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!v->is_retired && !is_kept(fresh, v) && is_still(v, now) && is_quiet(v))
			return v;
	}
	return NULL;
}

/* Whether no other volume keeps the name until it is taken down. */
static bool is_name_free(const struct fm_supervisor *sup, const struct all_fresh *fresh,
			 const char *name)
{
	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!is_kept(fresh, v) && strcmp(v->volume->name, name) == 0)
			return false;
	}
	return true;
}

static bool is_renamed(const struct fresh *one)
{
	return one->former && strcmp(one->former->volume->name, one->volume->name) != 0;
}

/* Takes one that cannot have its name out; another one may wait for the name that it keeps then. */
static bool drop_blocked(const struct fm_supervisor *sup, struct all_fresh *fresh)
{
	for (unsigned i = 0; i < fresh->count; i++) {
		struct fresh *one = &fresh->each[i];

		if (is_renamed(one) && !is_name_free(sup, fresh, one->volume->name)) {
			one->former = NULL;
			return true;
		}
	}
	return false;
}

/* All of them before any is changed: names may move along. */
static void find_former(const struct fm_supervisor *sup, struct all_fresh *fresh)
{
	for (unsigned i = 0; i < fresh->count; i++)
		fresh->each[i].former = find_same(sup, fresh->each[i].volume);
	for (unsigned i = 0; i < fresh->count; i++)
		if (!fresh->each[i].former)
			fresh->each[i].former = find_renamed(sup, fresh, fresh->each[i].volume);
	while (drop_blocked(sup, fresh))
		;
}

static void keep_volumes(struct fm_supervisor *sup, struct all_fresh *fresh)
{
	unsigned count = 0;

	for (unsigned i = 0; i < fresh->count; i++)
		if (is_renamed(&fresh->each[i]))
			fresh->renamed[count++] =
				(struct fm_renamed){.from = fresh->each[i].former->volume->name,
						    .to = fresh->each[i].volume->name};
	fm_supervisor_rename_state(sup, fresh->renamed, count);
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!v->is_retired && !is_kept(fresh, v))
			retire(v);
	}
	for (unsigned i = 0; i < fresh->count; i++) {
		struct fresh *one = &fresh->each[i];

		if (!one->former)
			continue;
		replace_volume(one->former, one->volume);
		one->volume = NULL;
	}
}

static void add_volumes(struct fm_supervisor *sup, struct all_fresh *fresh)
{
	for (unsigned i = 0; i < fresh->count; i++) {
		struct fresh *one = &fresh->each[i];

		if (one->former)
			continue;
		add_volume(sup, one->room, one->volume);
		one->room = NULL;
		one->volume = NULL;
	}
}

static int all_fresh_make(struct all_fresh *fresh, const struct fm_supervisor_config *config)
{
	int ret;

	fresh->count = config->count;
	fresh->each = calloc(config->count + 1, sizeof(*fresh->each));
	fresh->renamed = calloc(config->count + 1, sizeof(*fresh->renamed));
	ret = fresh->each && fresh->renamed ? 0 : -ENOMEM;
	for (unsigned i = 0; i < config->count && ret == 0; i++)
		ret = fresh_make(&fresh->each[i], &config->volumes[i]);
	return ret;
}

static void all_fresh_free(struct all_fresh *fresh)
{
	for (unsigned i = 0; fresh->each && i < fresh->count; i++) {
		free(fresh->each[i].volume);
		free(fresh->each[i].room);
	}
	free(fresh->each);
	free(fresh->renamed);
}

int fm_supervisor_set(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
		      struct fm_err *err)
{
	bool is_first = fm_list_is_empty(&sup->volumes);
	struct all_fresh fresh;
	int ret = all_fresh_make(&fresh, config);

	if (ret == 0)
		ret = set_strings(sup, config);
	if (ret == 0 && is_first)
		fm_supervisor_take_names(sup, config);
	if (ret == 0)
		ret = fm_supervisor_take_left(sup, config);
	if (ret == 0) {
		find_former(sup, &fresh);
		keep_volumes(sup, &fresh);
		if (!is_first)
			fm_supervisor_take_names(sup, config);
		add_volumes(sup, &fresh);
		fm_supervisor_give_left(sup);
	}
	sup->is_published = false;
	all_fresh_free(&fresh);
	fm_supervisor_look_soon(sup);
	return ret < 0 ? fm_err_set(err, ret, "no memory for the volumes") : 0;
}

void fm_supervised_force_mount(struct fm_supervised *v, bool is_forced)
{
	v->is_mount_forced = is_forced;
	v->is_nothing_forced = false;
	fm_json_free(v->spoken);
	v->spoken = NULL;
	fm_supervised_note_speakers(v);
}

/*
 * What is called so and is no longer configured like that is taken down without a wish. One to have
 * it down has it tried again now, by force if that is said. Whether there is any.
 */
static bool hurry_former(struct fm_supervisor *sup, const char *volume, bool is_forced)
{
	bool is_any = false;

	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!v->is_retired || strcmp(v->volume->name, volume) != 0)
			continue;
		v->is_forced = v->is_forced || is_forced;
		fm_supervised_refresh(v);
		is_any = true;
	}
	return is_any;
}

int fm_supervisor_wish(struct fm_supervisor *sup, const char *volume, enum fm_plan_want want,
		       bool is_forced, struct fm_err *err)
{
	struct fm_supervised *v = fm_supervisor_find(sup, volume);
	bool is_former = want == FM_WANT_DOWN && hurry_former(sup, volume, is_forced);

	if (!v || v->is_retired)
		return is_former ? 0
				 : fm_err_set(err, -ENOENT,
					      "no volume \"%s\" is configured; fmove nvme status "
					      "lists those that are",
					      volume);
	if (v->want != want)
		fm_log_info("volume %s: to be %s", volume,
			    want == FM_WANT_UP	   ? "up"
			    : want == FM_WANT_DOWN ? "down"
						   : "connected");
	v->want = want;
	v->is_forced = is_forced && want != FM_WANT_UP;
	fm_supervised_force_mount(v, is_forced && want == FM_WANT_UP);
	fm_supervised_refresh(v);
	/* At the end of the machine units are stopped, and nobody means it for the next boot. */
	if (sup->is_closed || fm_supervisor_save_wish(sup, v, err) == 0)
		return 0;
	return err->code == -ENOENT ? -EIO : err->code;
}

int fm_supervisor_progress(const struct fm_supervisor *sup, const char *volume,
			   enum fm_supervisor_progress *progress, const char **why)
{
	const struct fm_supervised *v = fm_supervisor_find(sup, volume);

	if (!v)
		return -ENOENT;
	*why = v->error[0] && !fm_supervised_is_as_wanted(v) && v->state != FM_STATE_REFUSED
		       ? v->error
		       : v->text;
	*progress = v->is_fresh				 ? FM_PROGRESS_UNDER_WAY :
		    fm_supervised_is_as_wanted(v)	 ? FM_PROGRESS_REACHED :
		    v->state == FM_STATE_REFUSED	 ? FM_PROGRESS_REFUSED :
							   FM_PROGRESS_UNDER_WAY;
	return 0;
}

bool fm_supervisor_wants(const struct fm_supervisor *sup, const char *volume,
			 enum fm_plan_want want)
{
	const struct fm_supervised *v = fm_supervisor_find(sup, volume);

	return v && fm_supervised_want(v) == want;
}

bool fm_supervisor_is_nothing_forced(const struct fm_supervisor *sup, const char *volume)
{
	const struct fm_supervised *v = fm_supervisor_find(sup, volume);

	return v && v->is_nothing_forced;
}

bool fm_supervisor_is_mounted(const struct fm_supervisor *sup, const char *volume)
{
	const struct fm_supervised *v = fm_supervisor_find(sup, volume);

	return v && v->plan.is_mounted;
}

bool fm_supervisor_is_mount_allowed(const struct fm_supervisor *sup, const char *volume)
{
	const struct fm_supervised *v = fm_supervisor_find(sup, volume);

	if (!v || v->is_fresh)
		return false;
	/* Who is let go on because it is mounted must not mount it when it is mounted no more. */
	if (v->plan.is_mounted)
		return v->plan.step != FM_STEP_UNMOUNT && v->call != FM_CALL_UNMOUNT;
	return v->call == FM_CALL_MOUNT && fm_supervised_is_for_unit(v);
}

bool fm_supervised_is_for_unit(const struct fm_supervised *v)
{
	/* systemd would mount what its writer has sealed as its unit says, read-write: that is
	 * mounted without it, and seen by its unit then. */
	return v->how.verdict != FM_GUARD_READ_ONLY ||
	       !fm_guard_is_writer(v->volume, v->sup->node);
}

void fm_supervisor_look_anew(struct fm_supervisor *sup, const char *volume)
{
	struct fm_supervised *v = fm_supervisor_find(sup, volume);

	if (v)
		v->is_fresh = true;
	fm_supervisor_look_soon(sup);
}

struct fm_supervisor_count fm_supervisor_count(const struct fm_supervisor *sup)
{
	struct fm_supervisor_count count = { 0 };

	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		count.volumes++;
		count.as_wanted += fm_supervised_is_as_wanted(v);
		count.refused += v->state == FM_STATE_REFUSED;
		count.alarms += fm_supervised_has_alarm(v);
	}
	return count;
}

/* ---- its life ---- */

int fm_supervisor_new(const struct fm_supervisor_opts *opts, struct fm_supervisor **out,
		      struct fm_err *err)
{
	struct fm_supervisor *sup = FM_FAULT("supervisor.alloc") ? NULL : calloc(1, sizeof(*sup));
	int ret;

	if (!sup)
		return fm_err_set(err, -ENOMEM, "no memory for the supervisor");
	sup->loop = opts->loop;
	sup->world = opts->world;
	sup->random = opts->random;
	sup->changed = opts->changed;
	sup->ctx = opts->ctx;
	sup->timer.fire = look_timer;
	sup->look.run = look_run;
	fm_list_init(&sup->volumes);
	ret = fm_supervisor_load(sup, err);
	if (ret < 0) {
		sup->is_stopped = true;
		fm_supervisor_free(sup);
		return ret;
	}
	*out = sup;
	return 0;
}

void fm_supervisor_stop(struct fm_supervisor *sup)
{
	sup->is_stopped = true;
	fm_timer_clear(sup->loop, &sup->timer);
	fm_timer_clear(sup->loop, &sup->ask_timer);
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->call == FM_CALL_PEERS)
			v->call = FM_CALL_NONE;
	}
}

void fm_supervisor_free(struct fm_supervisor *sup)
{
	if (!sup)
		return;
	assert(sup->is_stopped && !sup->look.is_posted && !sup->is_sweeping);
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		assert(v->call == FM_CALL_NONE && !v->where.is_busy);
		free_volume(v);
	}
	fm_inventory_free(sup->inv);
	fm_mounts_free(&sup->mounts);
	fm_owned_clear(&sup->owned);
	fm_peers_clear(&sup->peers);
	fm_supervisor_forget_state(sup);
	free(sup->node);
	free(sup->host_nqn);
	free(sup->host_id);
	free(sup);
}
