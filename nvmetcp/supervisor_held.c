/* SPDX-License-Identifier: MIT */
/*
 * Devices that a file system may still have although no mount is to be seen. An unmount by anybody
 * takes the mount out of the table of mounts first; what is dirty is written after that, a lazy one
 * leaves the file system to whoever has a file open, and a mount namespace of a container's is in
 * no table of ours. All that time the kernel keeps the device for the file system: an exclusive
 * open of it is refused.
 *
 * So a device that was seen mounted here, or was about to be, is held until a helper process
 * (FM_CALL_UNUSED; the open can hang) could open it exclusively, after a look that has seen no
 * mount of it. Until then peers are told what they were told while it was mounted, and nothing is
 * mounted. What was written down does not matter for that: a device that is there when a volume is
 * first looked at may be held from before, and is tried as well.
 *
 * A device that is gone from /sys is held no more. The kernel marks it dead before that and fails
 * every later write, and what connects again is another device: the old number is not given to it
 * as long as a file system has the old one. As long as it is in /sys, with no path left or while
 * the kernel reconnects, it may write yet, and any error but "in use" says nothing: tried again.
 *
 * systemd mounts in a process that is not ours, and goes on when the helper that asked it was
 * killed. If such a mount was begun and nobody knows its end, the unit is asked as well: as long as
 * it starts or stops, or is to, it is not over.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mover/base/log.h"
#include "mover/base/show.h"
#include "nvmetcp/supervisor_priv.h"

#define UNUSED_NS (20 * FM_NS_PER_S)
#define HOLD_MAX_S 10

/* ---- what is held ---- */

static struct fm_held *find(struct fm_supervised *v, dev_t dev)
{
	for (unsigned i = 0; i < v->held_count; i++)
		if (v->held[i].dev == dev)
			return &v->held[i];
	return NULL;
}

static void forget(struct fm_supervised *v, struct fm_held *h)
{
	*h = v->held[--v->held_count];
}

/*
 * There is no room for a further held device. It is remembered by its number: it and every device
 * with a higher number count as in use until each was tried.
 */
static void cut(struct fm_supervised *v, const struct fm_inv_namespace *ns, bool is_read_write)
{
	if (v->cut_dev == 0) {
		fm_log_warn("volume %s: more than %d devices of it may be in use: the others count "
			    "as mounted until these are free",
			    v->volume->name, FM_SUPERVISED_HELD_MAX);
		memcpy(v->cut_wwid, ns->wwid, sizeof(v->cut_wwid));
	}
	if (strcmp(v->cut_wwid, ns->wwid) != 0)
		v->cut_wwid[0] = '\0';
	if (v->cut_dev == 0 || ns->dev < v->cut_dev)
		v->cut_dev = ns->dev;
	v->is_cut_read_write = v->is_cut_read_write || is_read_write;
}

bool fm_supervised_hold(struct fm_supervised *v, const struct fm_inv_namespace *ns,
			bool is_read_write)
{
	struct fm_held *h = find(v, ns->dev);

	if (!h) {
		if (v->held_count == FM_SUPERVISED_HELD_MAX) {
			cut(v, ns, is_read_write);
			return false;
		}
		h = &v->held[v->held_count++];
		*h = (struct fm_held){ .dev = ns->dev };
	}
	memcpy(h->name, ns->name, sizeof(h->name));
	memcpy(h->wwid, ns->wwid, sizeof(h->wwid));
	h->is_read_write = h->is_read_write || is_read_write;
	return true;
}

void fm_supervised_doubt_unit(struct fm_supervised *v, bool is_read_write)
{
	v->is_unit_in_doubt = true;
	v->is_unit_read_write = v->is_unit_read_write || is_read_write;
}

bool fm_supervised_is_held(const struct fm_supervised *v, bool *is_read_write)
{
	*is_read_write = (v->is_unit_in_doubt && v->is_unit_read_write) ||
			 (v->cut_dev && v->is_cut_read_write);
	for (unsigned i = 0; i < v->held_count; i++)
		*is_read_write = *is_read_write || v->held[i].is_read_write;
	return v->held_count > 0 || v->is_unit_in_doubt || v->cut_dev;
}

/* NULL: each of them is mounted, as the last look saw it. */
static struct fm_held *first_unmounted(const struct fm_supervised *v)
{
	for (unsigned i = 0; i < v->held_count; i++)
		if (!v->held[i].is_mounted)
			return (struct fm_held *)&v->held[i];
	return NULL;
}

bool fm_supervised_is_in_use(const struct fm_supervised *v)
{
	return v->is_unit_in_doubt || v->cut_dev || first_unmounted(v);
}

const char *fm_supervised_in_use_why(const struct fm_supervised *v)
{
	if (v->unused_hold.failures > 0 && fm_supervised_is_in_use(v))
		return v->in_use_why;
	return v->cut_dev ? "more devices of it may be in use than can be looked at, and peers are "
			    "told that it is mounted: unmount those that are mounted by hand" : "";
}

/* ---- in each look ---- */

/* Without native multipath it has a device for each controller. */
static bool is_its_device(const struct fm_supervised *v, const struct fm_inv_namespace *ns)
{
	const struct fm_inv_namespace *its = fm_supervised_ns(v);

	return its && ns->dev != 0 &&
	       (ns == its || (ns->subsystem == its->subsystem && its->wwid[0] &&
			      strcmp(ns->wwid, its->wwid) == 0));
}

/* NULL: it is gone. */
static const struct fm_inv_namespace *find_device(const struct fm_supervisor *sup, dev_t dev)
{
	for (unsigned i = 0; i < sup->inv->namespace_count; i++)
		if (sup->inv->namespaces[i].dev == dev)
			return &sup->inv->namespaces[i];
	return NULL;
}

/*
 * Whether another namespace has the number of the held device now. Then nothing uses the device any
 * more.
 */
static bool is_anothers(const struct fm_supervised *v, const struct fm_held *h)
{
	const struct fm_inv_namespace *ns = find_device(v->sup, h->dev);

	return ns && h->wwid[0] && ns->wwid[0] && strcmp(ns->wwid, h->wwid) != 0;
}

static bool is_in_subsystem(const struct fm_supervised *v, const struct fm_inv_namespace *ns)
{
	const struct fm_inv_subsystem *all = v->sup->inv->subsystems;

	return ns->subsystem >= 0 && ns->dev != 0 &&
	       strcmp(all[ns->subsystem].nqn, v->volume->subsystem) == 0;
}

/* Which of the subsystem's is the volume's may not be known yet. */
static bool has_any_device(const struct fm_supervised *v)
{
	const struct fm_inventory *inv = v->sup->inv;

	for (unsigned i = 0; i < inv->namespace_count; i++)
		if (is_in_subsystem(v, &inv->namespaces[i]))
			return true;
	return false;
}

/* btrfs of a partition, which has a device number of its own. */
static bool is_made_of_part(const struct fm_mount *m, const char *name)
{
	size_t len = strlen(name);

	return major(m->dev) == 0 && strncmp(fm_mount_device(m), name, len) == 0 &&
	       fm_mount_device(m)[len] == 'p';
}

bool fm_supervisor_is_mount_of(const struct fm_mount *m, const struct fm_inv_namespace *ns)
{
	for (unsigned i = 0; i < ns->part_count; i++)
		if (ns->part[i] != 0 && m->dev == ns->part[i])
			return true;
	return fm_mount_is_of(m, ns->dev, ns->name) || is_made_of_part(m, ns->name);
}

const struct fm_inv_namespace *fm_supervisor_device_of(const struct fm_supervisor *sup,
						       const struct fm_mount *m)
{
	for (unsigned i = 0; i < sup->inv->namespace_count; i++)
		if (fm_mount_is_of(m, sup->inv->namespaces[i].dev, sup->inv->namespaces[i].name))
			return &sup->inv->namespaces[i];
	return NULL;
}

bool fm_supervisor_is_used(const struct fm_supervisor *sup, const struct fm_inv_namespace *ns,
			   bool *may_write)
{
	bool is_used = ns->holder[0];

	*may_write = is_used && !ns->is_read_only;
	for (size_t i = 0; i < sup->mounts.count; i++) {
		const struct fm_mount *m = &sup->mounts.mounts[i];

		if (!fm_supervisor_is_mount_of(m, ns))
			continue;
		is_used = true;
		*may_write = *may_write || !m->is_read_only;
	}
	return is_used;
}

bool fm_supervised_is_seen_written(const struct fm_supervised *v)
{
	const struct fm_inventory *inv = v->sup->inv;
	bool may_write, is_written = false;

	for (unsigned i = 0; i < inv->namespace_count; i++)
		is_written = is_written ||
			     (is_its_device(v, &inv->namespaces[i]) &&
			      fm_supervisor_is_used(v->sup, &inv->namespaces[i], &may_write) &&
			      may_write);
	return is_written;
}

/* Once it was mounted to write it counts as that until it is free: a read-only bind mount may be
 * all that is left to be seen of it. */
static bool hold_used(struct fm_supervised *v, const struct fm_inv_namespace *ns)
{
	bool may_write, is_used = fm_supervisor_is_used(v->sup, ns, &may_write);

	if (is_used)
		(void)fm_supervised_hold(v, ns, may_write);
	return is_used;
}

/* Whether what the kernel has no more is mounted still. Its name may be another's by now. */
static bool is_gone_mounted(const struct fm_supervisor *sup, dev_t dev, const char *name)
{
	bool is_name_taken = false;

	for (unsigned i = 0; i < sup->inv->namespace_count; i++)
		is_name_taken =
			is_name_taken || strcmp(sup->inv->namespaces[i].name, name) == 0;
	for (size_t i = 0; i < sup->mounts.count; i++)
		if (fm_mount_is_of(&sup->mounts.mounts[i], dev, is_name_taken ? "" : name))
			return true;
	return false;
}

/* The device was in use when fmove-nvmed ran last, and the kernel has it no more. */
static void hold_gone(struct fm_supervised *v, const struct fm_plan_device *d)
{
	struct fm_inv_namespace ns = { .dev = d->dev };

	if (find_device(v->sup, d->dev) || !is_gone_mounted(v->sup, d->dev, d->name))
		return;
	memcpy(ns.name, d->name, sizeof(d->name));
	memcpy(ns.wwid, v->left_wwid, sizeof(v->left_wwid));
	(void)fm_supervised_hold(v, &ns, v->is_left_written);
}

/*
 * Holds what an earlier fmove-nvmed said to be mounted: its devices, and the namespace even if the
 * volume has another one now.
 */
void fm_supervised_hold_left(struct fm_supervised *v)
{
	const struct fm_inventory *inv = v->sup->inv;

	for (unsigned i = 0; i < v->left_count; i++)
		hold_gone(v, &v->left[i]);
	v->left_count = 0;


	for (unsigned i = 0; v->left_wwid[0] && i < inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &inv->namespaces[i];

		if (ns->dev == 0 || strcmp(ns->wwid, v->left_wwid) != 0)
			continue;
		if (!hold_used(v, ns))
			(void)fm_supervised_hold(v, ns, v->is_left_written);
	}
	v->left_wwid[0] = '\0';
}

void fm_supervised_hold_found(struct fm_supervised *v)
{
	const struct fm_inventory *inv = v->sup->inv;
	bool may_write = v->volume->mode != FM_VOLUME_READ_ONLY;

	if (v->is_found || (!fm_supervised_ns(v) && has_any_device(v)))
		return;
	v->is_found = true;
	if (!v->volume->mount_point[0] || !fm_supervised_ns(v))
		return;
	for (unsigned i = 0; i < inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &inv->namespaces[i];

		if (is_its_device(v, ns) && !hold_used(v, ns))
			(void)fm_supervised_hold(v, ns, may_write && !ns->is_read_only);
	}
	if (v->sup->was_begun_unknown)
		fm_supervised_doubt_unit(v, may_write);
}

/*
 * Notes whether a held device is mounted, and how. A device that is gone may still be in the table
 * of mounts.
 */
static void see(const struct fm_supervised *v, struct fm_held *h)
{
	const struct fm_inv_namespace *ns = find_device(v->sup, h->dev);
	bool may_write = true;

	h->is_mounted = ns ? fm_supervisor_is_used(v->sup, ns, &may_write)
			   : is_gone_mounted(v->sup, h->dev, h->name);
	h->is_seen_read_only = h->is_mounted && !may_write && ns == fm_supervised_ns(v);
}

bool fm_supervised_is_overstated(const struct fm_supervised *v)
{
	for (unsigned i = 0; i < v->held_count; i++)
		if (v->held[i].is_read_write && v->held[i].is_seen_read_only)
			return true;
	return false;
}

/*
 * Hands a held device over to the configured volume that has its namespace now. False: there is no
 * such volume, or it has no room for it.
 */
static bool give_away(const struct fm_supervised *v, const struct fm_held *h)
{
	const struct fm_inv_namespace *ns = find_device(v->sup, h->dev);

	fm_list_each(at, next, &v->sup->volumes) {
		struct fm_supervised *other = fm_container_of(at, struct fm_supervised, link);

		if (ns && !other->is_retired && is_its_device(other, ns))
			return fm_supervised_hold(other, ns, h->is_read_write);
	}
	return false;
}

void fm_supervised_hand_over(struct fm_supervised *v)
{
	for (unsigned i = v->held_count; v->is_retired && i-- > 0;)
		if (give_away(v, &v->held[i]))
			forget(v, &v->held[i]);
}

static bool is_cut(const struct fm_supervised *v, const struct fm_inv_namespace *ns, dev_t from,
		   const char *wwid)
{
	return ns->dev >= from && is_in_subsystem(v, ns) &&
	       (!wwid[0] || strcmp(ns->wwid, wwid) == 0);
}

/*
 * Holds the devices that had no room, once held ones were found free. Devices that are gone from
 * /sys need no hold.
 */
static void hold_cut(struct fm_supervised *v)
{
	const struct fm_inventory *inv = v->sup->inv;
	bool is_read_write = v->is_cut_read_write;
	dev_t from = v->cut_dev;
	char wwid[sizeof(v->cut_wwid)];

	if (from == 0 || inv->is_cut || first_unmounted(v) ||
	    v->held_count == FM_SUPERVISED_HELD_MAX)
		return;
	memcpy(wwid, v->cut_wwid, sizeof(wwid));
	v->cut_dev = 0;
	v->is_cut_read_write = false;
	for (unsigned i = 0; i < inv->namespace_count; i++)
		if (is_cut(v, &inv->namespaces[i], from, wwid))
			(void)fm_supervised_hold(v, &inv->namespaces[i], is_read_write);
}

void fm_supervised_watch_held(struct fm_supervised *v)
{
	const struct fm_inventory *inv = v->sup->inv;

	for (unsigned i = 0; i < inv->namespace_count; i++)
		if (is_its_device(v, &inv->namespaces[i]))
			(void)hold_used(v, &inv->namespaces[i]);
	for (unsigned i = v->held_count; i-- > 0;) {
		see(v, &v->held[i]);
		if (is_anothers(v, &v->held[i]))
			forget(v, &v->held[i]);
	}
	hold_cut(v);
}

static bool show_use(const struct fm_supervisor *sup, const struct fm_inv_namespace *ns, char *text,
		     size_t size)
{
	struct fm_path_shown shown;

	if (ns->holder[0]) {
		(void)snprintf(text, size,
			       "%s is in use by %s, and peers are told that it is mounted: take "
			       "that away (vgchange -an, mdadm --stop)", ns->name, ns->holder);
		return true;
	}
	for (size_t i = 0; i < sup->mounts.count; i++) {
		const struct fm_mount *m = &sup->mounts.mounts[i];

		if (!fm_supervisor_is_mount_of(m, ns))
			continue;
		(void)snprintf(text, size,
			       "%s is mounted at %.200s by somebody else, and peers are told so: "
			       "unmount it there", ns->name, fm_path_show(m->point, &shown));
		return true;
	}
	return false;
}

void fm_supervised_show_use(const struct fm_supervised *v, char *text, size_t size)
{
	for (unsigned i = 0; i < v->held_count; i++) {
		const struct fm_inv_namespace *ns = find_device(v->sup, v->held[i].dev);

		if (v->held[i].is_mounted && ns && show_use(v->sup, ns, text, size))
			return;
	}
}

/* ---- whether it is free ---- */

/*
 * Whether the device is to be tried now. Not while a helper may still mount it: it would be found
 * free, and then be mounted. Not before a disconnect without a live path either: the open could
 * hang, and the device goes with its controller.
 */
static bool is_due(const struct fm_supervised *v)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);
	bool may_write;

	if ((!first_unmounted(v) && !v->is_unit_in_doubt) || v->is_announced ||
	    fm_supervised_is_left_hanging(v, &may_write) || fm_hold_is_on(v->sup, &v->unused_hold))
		return false;
	return v->plan.step != FM_STEP_DISCONNECT || (ns && fm_inventory_is_live(v->sup->inv, ns));
}

/* h NULL: of the unit alone. */
static struct fm_json *request_of(const struct fm_supervised *v, const struct fm_held *h)
{
	struct fm_json *request = fm_json_pack(
		"{s:s, s:s*}", "call", "unused", "unit_of",
		v->is_unit_in_doubt && v->volume->mount_point[0] ? v->volume->mount_point : NULL);
	const struct fm_inv_namespace *ns = h ? find_device(v->sup, h->dev) : NULL;
	bool is_mapped = ns && ns->mapper[0];
	const char *wwid;
	char device[64];
	dev_t dev;

	if (!request || !h)
		return request;
	/* multipathd has the namespace for itself, so who has multipathd's device has it. */
	dev = is_mapped ? ns->mapper_dev : h->dev;
	(void)snprintf(device, sizeof(device), "/dev/%s", is_mapped ? ns->mapper : h->name);
	wwid = h->wwid[0] && !is_mapped ? h->wwid : NULL;
	if (fm_json_set_all(request,
			    fm_json_pack("{s:s, s:[i, i], s:s*}", "device", device, "rdev",
					 (int)major(dev), (int)minor(dev), "wwid", wwid)) == 0)
		return request;
	fm_json_free(request);
	return NULL;
}

bool fm_supervised_check_unused(struct fm_supervised *v)
{
	const struct fm_held *h = first_unmounted(v);

	if (!is_due(v))
		return false;
	v->unused_dev = h ? h->dev : 0;
	if (fm_supervised_begin_on(v, FM_CALL_UNUSED, v->unused_dev, request_of(v, h), UNUSED_NS) <
	    0)
		fm_hold_failed(v->sup, &v->unused_hold, 1, HOLD_MAX_S);
	return true;
}

/* "In use" is no error: it ends by itself, or when the last open file is closed. */
static void is_not_free(struct fm_supervised *v, int code, const char *text)
{
	char why[FM_SUPERVISED_WHY_MAX];

	(void)snprintf(
		why, sizeof(why), "%s: %s",
		code == -EBUSY
			? "no mount of it is to be seen, but it is not free, and peers are told "
			  "that it is mounted"
			: "whether anything of it is still being written cannot be seen, and peers "
			  "are told that it is "
			  "mounted",
		text);
	if (strcmp(why, v->in_use_why) != 0 || v->unused_hold.failures == 0)
		fm_log(code == -EBUSY ? FM_LOG_INFO : FM_LOG_WARN, "volume %s: %s", v->volume->name,
		       why);
	memcpy(v->in_use_why, why, sizeof(why));
	fm_hold_failed(v->sup, &v->unused_hold, 1, HOLD_MAX_S);
}

void fm_supervised_unused_done(struct fm_supervised *v, int code, const char *text)
{
	struct fm_held *h = v->unused_dev ? find(v, v->unused_dev) : NULL;

	if (code < 0) {
		is_not_free(v, code, text);
		return;
	}
	if (v->unused_hold.failures > 0)
		fm_log_info("volume %s: it is free, and peers are told so", v->volume->name);
	v->unused_hold = (struct fm_hold){ 0 };
	v->is_unit_in_doubt = v->is_unit_read_write = false;
	if (h)
		forget(v, h);
	fm_supervised_restore(v);
}
