/* SPDX-License-Identifier: MIT */
/*
 * What the target keeps for this node, a reservation or write protection, when the target was away.
 * Linux's (nvmet) has both in memory and comes back without them, and a mount does not notice. So
 * they are taken again whenever a controller of what is mounted is live and was not, or has
 * connected again between two looks, and once after a start of the supervisor. One that has come
 * back since the target was asked before the mount counts as well: what that rests on may be
 * forgotten before it is there.
 *
 * Taken by a helper (FM_CALL_KEEP). What cannot be taken is an error of the volume, and tried
 * again. But what another host has by now it may write to: it is not taken again, or both would
 * have written beside each other's mount. That mount ends, and the next one is asked for as any
 * other.
 *
 * Of what was mounted before a start, and of which nothing is written down, the target may keep it
 * as well, or another host have had it since. So it is asked all the same.
 *
 * That the target is asked is written down before. Where nobody has heard what it said, because
 * fmove-nvmed or the helper was killed, or it hung, there may have been another host, and the mount
 * ends as well. Until then it is taken again if nobody has it: there may have been none.
 */
#include <string.h>

#include "nvmetcp/supervisor_priv.h"

/* Whether the target is to keep anything for this node, as the volume is mounted now. */
static bool has_kept(const struct fm_supervised *v)
{
	if (!v->plan.is_mounted || !fm_guard_is_writer(v->volume, v->sup->node))
		return false;
	return v->plan.is_read_write
		       ? (v->is_reserved || v->is_reserved_unknown) && !v->is_taken &&
				 fm_supervised_is_writable(v)
		       : v->is_write_protected && v->seal == FM_SEAL_DONE;
}

static bool was_live(const struct fm_supervised *v, const struct fm_supervised_live *one)
{
	for (unsigned i = 0; i < v->live_count; i++)
		if (v->live[i].id == one->id && v->live[i].cntlid == one->cntlid)
			return true;
	return false;
}

void fm_supervised_note_live(struct fm_supervised *v)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);
	struct fm_supervised_live now[FM_INV_PATHS_MAX];
	unsigned count = 0;
	bool is_anew = false;

	for (unsigned i = 0; ns && i < ns->path_count; i++) {
		const struct fm_inv_controller *c =
			&v->sup->inv->controllers[ns->path[i].controller];

		if (strcmp(c->state, "live") != 0)
			continue;
		now[count] = (struct fm_supervised_live){ .id = c->id, .cntlid = c->cntlid };
		is_anew = is_anew || !was_live(v, &now[count]);
		count++;
	}
	memcpy(v->live, now, count * sizeof(now[0]));
	v->live_count = count;
	v->is_unreservable = v->is_unreservable && !is_anew;
	v->is_keep_due = v->is_keep_due || is_anew;
}

void fm_supervised_end_taken(struct fm_supervised *v)
{
	bool may_write;

	if (!(v->is_taken || v->is_doubtful) || !v->is_found || v->call != FM_CALL_NONE ||
	    v->is_announced || fm_supervised_is_left_hanging(v, &may_write) ||
	    fm_supervised_is_held(v, &may_write))
		return;
	v->is_taken = v->is_doubtful = v->is_shut_down = v->is_shutdown_failed = false;
	(void)fm_supervisor_save_mounted(v->sup, v);
}

bool fm_supervised_is_kept(const struct fm_supervised *v)
{
	return !(v->is_keep_due && has_kept(v)) && v->call != FM_CALL_KEEP;
}

bool fm_supervised_is_keep_due(const struct fm_supervised *v)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);

	return v->is_keep_due && has_kept(v) && fm_supervised_want(v) == FM_WANT_UP &&
	       (v->plan.step != FM_STEP_UNMOUNT || v->is_doubtful) && ns &&
	       fm_inventory_is_live(v->sup->inv, ns) && !fm_hold_is_on(v->sup, &v->keep_hold);
}

/* As if none had been live. */
void fm_supervisor_connected(struct fm_supervisor *sup, const char *controller)
{
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);
		const struct fm_inv_namespace *ns = fm_supervised_ns(v);

		for (unsigned i = 0; ns && i < ns->path_count; i++) {
			const char *name = sup->inv->controllers[ns->path[i].controller].name;
			bool is_it = controller && strcmp(name, controller) == 0;

			v->reconnects += is_it;
			if (is_it || !controller)
				v->live_count = 0;
		}
	}
	fm_supervisor_wake(sup);
}
