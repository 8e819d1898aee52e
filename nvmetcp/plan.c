/* SPDX-License-Identifier: MIT */
/*
 * plan - see plan.h. First what is there is sorted into what concerns the volume (struct scene),
 * then one function for each thing that may be missing says a step, or nothing, and the next is
 * asked.
 */
#include "nvmetcp/plan.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/show.h"
#include "nvmetcp/identity.h"

struct scene {
	const struct fm_plan_volume *pv;
	const struct fm_inventory *inv;
	const struct fm_mounts *mounts;
	const struct fm_mount *there;	/* the topmost at the mount point; NULL: none */
	/* by address: its controller, index into the inventory; -1: none */
	int path[FM_VOLUME_PATHS_MAX];
	struct fm_plan *plan;
};

/* ---- saying it ---- */

static bool say(const struct scene *s, enum fm_plan_step step, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Always true: there is a step. Names may hold anything; it must not reach a terminal as it is. */
static bool say(const struct scene *s, enum fm_plan_step step, const char *fmt, ...)
{
	va_list args;

	s->plan->step = step;
	va_start(args, fmt);
	vsnprintf(s->plan->why, sizeof(s->plan->why), fmt, args);
	va_end(args);
	for (char *c = s->plan->why; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return true;
}

static bool wants_mount(const struct scene *s)
{
	return s->pv->want == FM_WANT_UP && s->pv->volume->mount_point[0];
}

/* ---- controllers ---- */

/* One address has several spellings: fd00::1 and FD00:0::1. A scope (%eth0) is compared as it
 * is. */
static bool is_same_host(const char *a, const char *b)
{
	size_t len_a = strcspn(a, "%"), len_b = strcspn(b, "%");
	unsigned char bytes_a[16] = { 0 }, bytes_b[16] = { 0 };
	char host_a[64], host_b[64];
	int family = memchr(a, ':', len_a) ? AF_INET6 : AF_INET;

	if (len_a >= sizeof(host_a) || len_b >= sizeof(host_b) || strcmp(a + len_a, b + len_b) != 0)
		return false;
	snprintf(host_a, sizeof(host_a), "%.*s", (int)len_a, a);
	snprintf(host_b, sizeof(host_b), "%.*s", (int)len_b, b);
	if (inet_pton(family, host_a, bytes_a) != 1 || inet_pton(family, host_b, bytes_b) != 1)
		return strcmp(host_a, host_b) == 0;
	return memcmp(bytes_a, bytes_b, sizeof(bytes_a)) == 0;
}

static bool is_at(const struct fm_inv_controller *c, const struct fm_volume_address *address)
{
	return is_same_host(c->traddr, address->host) &&
	       strtoul(c->trsvcid, NULL, 10) == strtoul(address->port, NULL, 10);
}

static bool is_at_any(const struct scene *s, const struct fm_inv_controller *c)
{
	for (unsigned i = 0; i < s->pv->address_count; i++)
		if (is_at(c, &s->pv->address[i]))
			return true;
	return false;
}

static bool is_named_owned(const struct scene *s, const struct fm_inv_controller *c)
{
	for (unsigned i = 0; i < s->pv->owned_count; i++)
		if (strcmp(s->pv->owned[i], c->name) == 0)
			return true;
	return false;
}

/*
 * Whether the controller leads to the volume's subsystem, as the volume's host. One that is
 * connecting may not know its subsystem's name (some kernels say "(efault)"); then our own word for
 * it and its address are enough. What tells most of them apart is looked at first: an idle
 * supervisor asks this more often than anything else.
 */
static bool is_of_volume(const struct scene *s, const struct fm_inv_controller *c)
{
	bool is_known = c->subsysnqn[0] && c->subsysnqn[0] != '(';

	if (is_known && strcmp(c->subsysnqn, s->pv->volume->subsystem) != 0)
		return false;
	if (strcmp(c->transport, "tcp") != 0 ||
	    (c->hostnqn[0] && strcmp(c->hostnqn, s->pv->host_nqn) != 0))
		return false;
	return is_known || (is_named_owned(s, c) && is_at_any(s, c));
}

static bool is_owned(const struct scene *s, const struct fm_inv_controller *c)
{
	return is_named_owned(s, c) && is_of_volume(s, c);
}

static bool is_live(const struct fm_inv_controller *c)
{
	return strcmp(c->state, "live") == 0;
}

/* The kernel takes it away; until it has, there must not be another in its place. */
static bool is_going(const struct fm_inv_controller *c)
{
	return strncmp(c->state, "deleting", 8) == 0 || strcmp(c->state, "dead") == 0;
}

/* The controller of an address: a live one if there is any, else one that comes, else one that
 * goes. -1: none. */
static int find_path(const struct scene *s, unsigned address)
{
	int best = -1, best_rank = 0;

	for (unsigned i = 0; i < s->inv->controller_count; i++) {
		const struct fm_inv_controller *c = &s->inv->controllers[i];
		int rank = is_live(c) ? 3 : is_going(c) ? 1 : 2;

		if (rank > best_rank && is_of_volume(s, c) && is_at(c, &s->pv->address[address])) {
			best = (int)i;
			best_rank = rank;
		}
	}
	return best;
}

/* No namespace behind it may be the volume's. Others of the subsystem do not count, and of a part
 * of it nothing can be said. */
static bool is_blind(const struct scene *s, int controller)
{
	char why[FM_IDENTITY_WHY_MAX];

	for (unsigned i = 0; i < s->inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &s->inv->namespaces[i];

		if (fm_inventory_is_path(ns, controller) &&
		    fm_identity_check(s->pv->volume, ns, why) != FM_IDENTITY_OTHER)
			return false;
	}
	return !s->inv->is_cut;
}

static void look_at_paths(struct scene *s)
{
	struct fm_plan *plan = s->plan;

	plan->paths_wanted = s->pv->address_count;
	for (unsigned i = 0; i < s->pv->address_count; i++) {
		int path = s->path[i] = find_path(s, i);

		if (path < 0 || !is_live(&s->inv->controllers[path]))
			continue;
		plan->paths_live++;
		if (is_blind(s, path))
			plan->blind[plan->blind_count++] = path;
	}
}

/* ---- namespaces ---- */

static bool is_in_subsystem(const struct scene *s, const struct fm_inv_namespace *ns)
{
	if (ns->subsystem >= 0)
		return strcmp(s->inv->subsystems[ns->subsystem].nqn, s->pv->volume->subsystem) == 0;
	for (unsigned i = 0; i < ns->path_count; i++)
		if (is_of_volume(s, &s->inv->controllers[ns->path[i].controller]))
			return true;
	return false;
}

/* A path through which data would go now; ANA may forbid one that is connected. */
static bool is_usable(const struct scene *s, const struct fm_inv_namespace *ns)
{
	for (unsigned i = 0; i < ns->path_count; i++) {
		const char *ana = ns->path[i].ana_state;

		if (is_live(&s->inv->controllers[ns->path[i].controller]) &&
		    (!ana[0] || strcmp(ana, "optimized") == 0 || strcmp(ana, "non-optimized") == 0))
			return true;
	}
	return false;
}

/*
 * Whether it is all of that device. What has a number of its own, btrfs, has subvolumes, of which
 * one is mounted.
 */
static bool is_whole_of(const struct fm_mount *m, dev_t dev, const char *name)
{
	return fm_mount_is_of(m, dev, name) && (m->dev != dev || strcmp(m->root, "/") == 0);
}

static bool is_mounted_there(const struct scene *s, const struct fm_inv_namespace *ns)
{
	return s->there && is_whole_of(s->there, ns->dev, ns->name);
}

/* Without native multipath one namespace is a device for each path: the one in use, else one that
 * can be used. */
static int rank_of(const struct scene *s, const struct fm_inv_namespace *ns)
{
	return is_mounted_there(s, ns) ? 3 : is_usable(s, ns) ? 2 : 1;
}

/*
 * Devices of one namespace, one for each path where there is no native multipath. A number alone
 * does not say so: two targets that call their subsystems the same are one to the kernel, and
 * private namespaces in it may have one number.
 */
static bool is_same_namespace(const struct fm_inv_namespace *a, const struct fm_inv_namespace *b)
{
	return a->nsid == b->nsid && strcmp(a->wwid, b->wwid) == 0;
}

struct candidates {
	int best, best_rank;
	int unknown, other;		/* -1: none */
	/* another namespace than best, where the volume does not tell them apart */
	int second;
	char unknown_why[FM_IDENTITY_WHY_MAX], other_why[FM_IDENTITY_WHY_MAX];
};

static void sort_candidate(const struct scene *s, int i, struct candidates *found)
{
	const struct fm_inv_namespace *ns = &s->inv->namespaces[i];
	char why[FM_IDENTITY_WHY_MAX];
	int rank = rank_of(s, ns);

	switch (fm_identity_check(s->pv->volume, ns, why)) {
	case FM_IDENTITY_UNKNOWN:
		found->unknown = i;
		memcpy(found->unknown_why, why, sizeof(why));
		return;
	case FM_IDENTITY_OTHER:
		if (found->other >= 0 && !is_mounted_there(s, ns))
			return;
		found->other = i;
		memcpy(found->other_why, why, sizeof(why));
		return;
	case FM_IDENTITY_SAME:
		break;
	}
	if (found->best >= 0 && !is_same_namespace(&s->inv->namespaces[found->best], ns))
		found->second = rank > found->best_rank ? found->best : i;
	if (rank > found->best_rank) {
		found->best = i;
		found->best_rank = rank;
	}
}

static void find_candidates(const struct scene *s, struct candidates *found)
{
	*found = (struct candidates){ .best = -1, .unknown = -1, .other = -1, .second = -1 };
	for (unsigned i = 0; i < s->inv->namespace_count; i++)
		if (is_in_subsystem(s, &s->inv->namespaces[i]))
			sort_candidate(s, (int)i, found);
}

/* ---- steps: each says one and returns true, or has none ---- */

static bool was_its_device(const struct scene *s, dev_t dev)
{
	for (unsigned i = 0; i < s->pv->had_count; i++)
		if (s->pv->had[i].dev == dev)
			return true;
	return false;
}

/* Mounted where the volume is to be, and not another namespace that somebody has mounted there. */
static bool is_volume_there(const struct scene *s, const struct fm_inv_namespace *ns)
{
	char why[FM_IDENTITY_WHY_MAX];

	return is_mounted_there(s, ns) &&
	       (fm_identity_check(s->pv->volume, ns, why) != FM_IDENTITY_OTHER ||
		was_its_device(s, ns->dev));
}

static bool is_our_mount(const struct scene *s, const struct fm_inv_namespace *ns,
			 const struct fm_mount *m)
{
	return m == s->there && is_volume_there(s, ns);
}

static bool is_partition_of(const struct fm_inv_namespace *ns, const struct fm_mount *m)
{
	for (unsigned i = 0; i < ns->part_count; i++)
		if (ns->part[i] != 0 && ns->part[i] == m->dev)
			return true;
	return false;
}

/* Mounted of this namespace, or of a partition of it, where it is not the supervisor's business.
 * NULL: nowhere. */
static const struct fm_mount *mounted_elsewhere(const struct scene *s,
						const struct fm_inv_namespace *ns)
{
	size_t len = strlen(ns->name);

	for (size_t i = 0; i < s->mounts->count; i++) {
		const struct fm_mount *m = &s->mounts->mounts[i];
		const char *name = fm_mount_device(m);
		bool is_partition = strncmp(name, ns->name, len) == 0 && name[len] == 'p' &&
				    isdigit((unsigned char)name[len + 1]);

		if (is_partition || is_partition_of(ns, m) ||
		    (fm_mount_is_of(m, ns->dev, ns->name) && !is_our_mount(s, ns, m)))
			return m;
	}
	return NULL;
}

/* Whether other is a device of that namespace: each path to it may have one. */
static bool is_device_of(const struct scene *s, const struct fm_inv_namespace *other,
			 const struct fm_inv_namespace *ns)
{
	return other == ns || (is_in_subsystem(s, other) && is_same_namespace(other, ns));
}

/*
 * The mount of this namespace through any of its devices. Two mounts through two devices would
 * write to it twice, on this very machine.
 */
static const struct fm_mount *
any_device_elsewhere(const struct scene *s, const struct fm_inv_namespace *ns, const char **device)
{
	for (unsigned i = 0; i < s->inv->namespace_count; i++) {
		const struct fm_inv_namespace *other = &s->inv->namespaces[i];
		const struct fm_mount *mount = NULL;

		if (is_device_of(s, other, ns))
			mount = mounted_elsewhere(s, other);
		*device = other->name;
		if (mount)
			return mount;
	}
	return NULL;
}

/* Something is made of it, by any of its devices. NULL: nothing. */
static const struct fm_inv_namespace *held_by_device(const struct scene *s,
						     const struct fm_inv_namespace *ns)
{
	for (unsigned i = 0; i < s->inv->namespace_count; i++) {
		const struct fm_inv_namespace *other = &s->inv->namespaces[i];

		if (other->holder[0] && is_device_of(s, other, ns))
			return other;
	}
	return NULL;
}

/* The kernel mounts none beside multipathd's device. NULL: that has none of them. */
static const struct fm_inv_namespace *mapped_device(const struct scene *s,
						    const struct fm_inv_namespace *ns)
{
	for (unsigned i = 0; i < s->inv->namespace_count; i++) {
		const struct fm_inv_namespace *other = &s->inv->namespaces[i];

		if (other->mapper[0] && is_device_of(s, other, ns))
			return other;
	}
	return NULL;
}

/* Whether no namespace has its number, nor, where the mount is known by its name, that. */
static bool has_gone(const struct scene *s, const struct fm_plan_device *d)
{
	for (unsigned i = 0; i < s->inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &s->inv->namespaces[i];

		if (ns->dev == d->dev ||
		    (s->there->dev != d->dev && strcmp(ns->name, d->name) == 0))
			return false;
	}
	return true;
}

/*
 * Whether the mount at the mount point is of a device of the volume that the kernel no longer has,
 * after ctrl_loss_tmo or a disconnect by hand. What only looks like that, a local disk that the
 * kernel tells nothing about, or a btrfs of one, is somebody's.
 */
static bool is_gone(const struct scene *s)
{
	for (unsigned i = 0; i < s->pv->had_count && s->there && !s->inv->is_cut; i++) {
		const struct fm_plan_device *d = &s->pv->had[i];

		if (is_whole_of(s->there, d->dev, d->name) && has_gone(s, d))
			return true;
	}
	return false;
}

/* Any namespace of its subsystem. */
static bool is_any_of_ours_there(const struct scene *s)
{
	for (unsigned i = 0; i < s->inv->namespace_count; i++)
		if (is_in_subsystem(s, &s->inv->namespaces[i]) &&
		    is_mounted_there(s, &s->inv->namespaces[i]))
			return true;
	return false;
}

static bool step_gone(const struct scene *s)
{
	struct fm_path_shown shown;

	if (!is_gone(s))
		return false;
	return say(s, FM_STEP_UNMOUNT, "the device of %s is gone",
		   fm_path_show(s->there->point, &shown));
}

/*
 * Whether it may be a device that the kernel has no more, perhaps the volume's: which those were an
 * fmove-nvmed of before may not have written down, or the file is lost.
 */
static bool may_have_gone(const struct scene *s)
{
	if (strncmp(s->there->source, "/dev/nvme", strlen("/dev/nvme")) != 0)
		return false;
	for (unsigned i = 0; i < s->inv->namespace_count; i++)
		if (fm_mount_is_of(s->there, s->inv->namespaces[i].dev,
				   s->inv->namespaces[i].name) ||
		    is_partition_of(&s->inv->namespaces[i], s->there))
			return false;
	return true;
}

static bool step_foreign(const struct scene *s)
{
	struct fm_path_shown point, source;

	if (!wants_mount(s) || !s->there || is_any_of_ours_there(s))
		return false;
	return say(s, FM_STEP_REFUSE,
		   "something else is mounted at %.80s: %.60s, %.15s; unmount it or choose another "
		   "mount point%s",
		   fm_path_show(s->there->point, &point), fm_path_show(s->there->source, &source),
		   s->there->fs_type,
		   may_have_gone(s) ? " (it may be the volume's own, whose device is gone)" : "");
}

/* Finds the namespace of the volume. A step (refuse, wait) only if it cannot be found. */
static bool step_namespace(const struct scene *s)
{
	struct candidates found;
	const struct fm_inv_namespace *ns = s->inv->namespaces;

	find_candidates(s, &found);
	if (found.best < 0 && found.unknown < 0 && found.other >= 0)
		return say(s, FM_STEP_REFUSE, "%.*s", FM_PLAN_WHY_MAX - 1, found.other_why);
	if (found.best < 0)
		return false;
	/* It may be a second one, and then nobody can say which of them is meant. */
	if (found.unknown >= 0 && found.best_rank < 3 && !fm_identity_is_named(s->pv->volume))
		return false;
	if (found.second >= 0 && found.best_rank < 3)
		return say(s, FM_STEP_REFUSE,
			   "%.80s has several namespaces (%u: %.48s, %u: %.48s); say which: "
			   "namespace, uuid or nguid",
			   s->pv->volume->subsystem, ns[found.best].nsid, ns[found.best].wwid,
			   ns[found.second].nsid, ns[found.second].wwid);
	/* Mounted is another one of them, with the same names or none: it would be taken for the
	 * volume. */
	if (s->there && is_any_of_ours_there(s) && !is_mounted_there(s, &ns[found.best]))
		return say(s, FM_STEP_REFUSE, "%.*s; it is mounted, unmount it",
			   FM_PLAN_WHY_MAX - 40,
			   found.other >= 0 ? found.other_why
					    : "another namespace of the subsystem is there");
	s->plan->ns = found.best;
	return false;
}

static bool step_mounted(const struct scene *s)
{
	struct fm_plan *plan = s->plan;

	plan->is_mounted = plan->ns >= 0 && is_mounted_there(s, &s->inv->namespaces[plan->ns]);
	plan->is_read_write = plan->is_mounted && !s->there->is_read_only;
	if (!plan->is_mounted)
		return false;
	if (!wants_mount(s))
		return say(s, FM_STEP_UNMOUNT, "it is to be connected only");
	if (plan->is_read_write && !s->pv->is_writable)
		return say(s, FM_STEP_UNMOUNT, "it is mounted read-write and must be read-only");
	if (plan->is_read_write && s->pv->taken_why)
		return say(s, FM_STEP_UNMOUNT, "%.200s", s->pv->taken_why);
	if (!plan->is_read_write && s->pv->leave_why)
		return say(s, FM_STEP_UNMOUNT, "%.200s", s->pv->leave_why);
	if (!plan->is_read_write && s->pv->is_writable)
		return say(s, FM_STEP_UNMOUNT,
			   "it is mounted read-only and is to be read-write: a file system does "
			   "that after an error");
	return false;
}

static bool step_mount(const struct scene *s)
{
	const struct fm_inv_namespace *held, *mapped;
	const struct fm_mount *elsewhere;
	struct fm_path_shown shown;
	const char *device;

	if (!wants_mount(s) || s->plan->ns < 0 || s->plan->is_mounted)
		return false;
	elsewhere = any_device_elsewhere(s, &s->inv->namespaces[s->plan->ns], &device);
	if (elsewhere)
		return say(s, FM_STEP_REFUSE,
			   "%.31s is mounted at %.120s, by somebody else; unmount it there", device,
			   fm_path_show(elsewhere->point, &shown));
	held = held_by_device(s, &s->inv->namespaces[s->plan->ns]);
	if (held)
		return say(s, FM_STEP_REFUSE,
			   "%.31s is in use by %.31s, which is made of it or of a partition of it: "
			   "a volume is a whole namespace; take that away (vgchange -an, mdadm "
			   "--stop)",
			   held->name, held->holder);
	mapped = mapped_device(s, &s->inv->namespaces[s->plan->ns]);
	if (mapped)
		return say(
			s, FM_STEP_REFUSE,
			"multipathd has taken %.31s (%.31s), so it cannot be mounted: leave it out "
			"in multipath.conf (blacklist), then multipath -f %.31s",
			mapped->name, mapped->mapper, mapped->mapper);
	if (s->pv->is_mount_held || !is_usable(s, &s->inv->namespaces[s->plan->ns]))
		return false;
	return say(s, FM_STEP_MOUNT, "%.31s", s->inv->namespaces[s->plan->ns].name);
}

/* Data would go that way, also over the multipath device. What is mounted stays: to unmount it
 * would not take back what went. */
static bool step_unfit(const struct scene *s)
{
	return !s->plan->is_mounted && s->pv->unfit_why &&
	       say(s, FM_STEP_REFUSE, "%s", s->pv->unfit_why);
}

static bool is_held(const struct scene *s, unsigned address)
{
	return s->pv->is_held && s->pv->is_held[address];
}

/*
 * Missing paths are connected before anything is waited for: one path may connect while another is
 * still coming.
 */
static bool step_connect(const struct scene *s)
{
	for (unsigned i = 0; i < s->pv->address_count; i++) {
		if (s->path[i] >= 0 || is_held(s, i))
			continue;
		s->plan->address = (int)i;
		return say(s, FM_STEP_CONNECT, "%.120s:%.15s", s->pv->address[i].host,
			   s->pv->address[i].port);
	}
	return false;
}

static bool step_await_paths(const struct scene *s)
{
	if (s->pv->address_count == 0)
		return say(s, FM_STEP_WAIT,
			   s->pv->volume->is_discovered ? "discovery has not found %.120s yet"
							: "the address of %.120s "
							  "is not resolved yet",
			   s->pv->volume->subsystem);
	for (unsigned i = 0; i < s->pv->address_count; i++) {
		const struct fm_volume_address *a = &s->pv->address[i];
		int path = s->path[i];

		if (path < 0)
			return say(s, FM_STEP_WAIT,
				   "%.120s:%.15s could not be connected and is tried again",
				   a->host, a->port);
		if (!is_live(&s->inv->controllers[path]))
			return say(s, FM_STEP_WAIT, "%.31s (%.120s:%.15s) is %.31s",
				   s->inv->controllers[path].name, a->host, a->port,
				   s->inv->controllers[path].state[0]
					   ? s->inv->controllers[path].state
					   : "new");
	}
	return false;
}

static bool step_await_namespace(const struct scene *s)
{
	struct candidates found;

	if (s->plan->ns < 0) {
		find_candidates(s, &found);
		if (found.unknown >= 0)
			return say(s, FM_STEP_WAIT, "%.*s", FM_PLAN_WHY_MAX - 1, found.unknown_why);
		return say(s, FM_STEP_WAIT, "%.180s has no namespace for this host yet",
			   s->pv->volume->subsystem);
	}
	if (!wants_mount(s) || s->plan->is_mounted)
		return false;
	if (!is_usable(s, &s->inv->namespaces[s->plan->ns]))
		return say(s, FM_STEP_WAIT, "no path to %.31s can be used at present (ANA)",
			   s->inv->namespaces[s->plan->ns].name);
	return say(s, FM_STEP_WAIT, "it could not be mounted and is tried again");
}

/*
 * Whether this controller is the last path of a mounted namespace. Without native multipath each
 * path is a device of its own.
 */
static bool is_last_path(const struct scene *s, int controller)
{
	for (unsigned i = 0; i < s->inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &s->inv->namespaces[i];

		if (ns->path_count == 1 && ns->path[0].controller == controller && ns->dev != 0 &&
		    (is_mounted_there(s, ns) || mounted_elsewhere(s, ns)))
			return true;
	}
	return false;
}

static bool is_path_of_any(const struct scene *s, int controller)
{
	for (unsigned i = 0; i < s->pv->address_count; i++)
		if (s->path[i] == controller)
			return true;
	return false;
}

/*
 * Ours, and not the path of any address: left from another configuration, or made twice. Only when
 * nothing else is missing. Whether it is ours comes first: hardly any is, and to ask each for its
 * path would take most of an idle supervisor's time.
 */
static bool step_surplus(const struct scene *s)
{
	for (unsigned i = 0; i < s->inv->controller_count; i++) {
		const struct fm_inv_controller *c = &s->inv->controllers[i];

		if (!is_owned(s, c) || is_going(c) || is_path_of_any(s, (int)i) ||
		    is_last_path(s, (int)i))
			continue;
		s->plan->controller = (int)i;
		return say(s, FM_STEP_DISCONNECT, "%.31s (%.63s:%.15s) is no path of it any more",
			   c->name, c->traddr, c->trsvcid);
	}
	return false;
}

/* Taken down, a device that is in use somewhere would take that mount with it. */
static const struct fm_mount *use_of_controller(const struct scene *s, int controller,
						const char **device)
{
	for (unsigned i = 0; i < s->inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &s->inv->namespaces[i];
		const struct fm_mount *use =
			fm_inventory_is_path(ns, controller) ? mounted_elsewhere(s, ns) : NULL;

		*device = ns->name;
		if (use)
			return use;
	}
	return NULL;
}

static bool step_disconnect(const struct scene *s)
{
	const struct fm_mount *use;
	struct fm_path_shown shown;
	const char *device;

	for (unsigned i = 0; i < s->inv->controller_count; i++) {
		const struct fm_inv_controller *c = &s->inv->controllers[i];

		if (!is_owned(s, c) || is_going(c))
			continue;
		use = use_of_controller(s, (int)i, &device);
		if (use)
			return say(s, FM_STEP_REFUSE,
				   "%.31s is mounted at %.120s, by somebody else; unmount it there",
				   device, fm_path_show(use->point, &shown));
		s->plan->controller = (int)i;
		return say(s, FM_STEP_DISCONNECT, "%.31s", c->name);
	}
	for (unsigned i = 0; i < s->inv->controller_count; i++)
		if (is_owned(s, &s->inv->controllers[i]))
			return say(s, FM_STEP_WAIT, "%.31s is %.31s", s->inv->controllers[i].name,
				   s->inv->controllers[i].state);
	return false;
}

static bool is_the_volume_there(const struct scene *s)
{
	for (unsigned i = 0; i < s->inv->namespace_count; i++)
		if (is_in_subsystem(s, &s->inv->namespaces[i]) &&
		    is_volume_there(s, &s->inv->namespaces[i]))
			return true;
	return false;
}

static void plan_down(const struct scene *s)
{
	struct candidates found;

	find_candidates(s, &found);
	s->plan->ns = found.best;
	s->plan->is_mounted =
		found.best >= 0 && is_mounted_there(s, &s->inv->namespaces[found.best]);
	s->plan->is_read_write = s->plan->is_mounted && !s->there->is_read_only;
	if (is_the_volume_there(s))
		say(s, FM_STEP_UNMOUNT, "it is to be down");
	else if (!step_gone(s))
		step_disconnect(s);
}

static void plan_up(const struct scene *s)
{
	static bool (*const steps[])(const struct scene *) = {
		step_gone,    step_foreign, step_namespace,   step_mounted,         step_unfit,
		step_mount,   step_connect, step_await_paths, step_await_namespace, step_surplus,
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i](s))
			return;
}

void fm_plan_make(const struct fm_plan_volume *pv, const struct fm_inventory *inv,
		  const struct fm_mounts *mounts, struct fm_plan *plan)
{
	struct scene s = { .pv = pv, .inv = inv, .mounts = mounts, .plan = plan };

	*plan = (struct fm_plan){ .step = FM_STEP_NONE, .address = -1, .controller = -1, .ns = -1 };
	look_at_paths(&s);
	if (pv->volume->mount_point[0])
		s.there = fm_mounts_at(mounts, pv->volume->mount_point);
	if (pv->want == FM_WANT_DOWN)
		plan_down(&s);
	else
		plan_up(&s);
}
