/* SPDX-License-Identifier: MIT */
/*
 * Two nodes that both have a volume read-write. None of the guard's rules lets it come to that; a
 * person does, with mount(8), force, or a node that was forgotten and is not dead. Nobody else
 * notices before the file system is destroyed, so it is said at once and again every minute.
 *
 * A peer is believed when it has said so twice: "about to be mounted" looks the same, and is over
 * by then. The plan unmounts what this node has read-write and is not the writer of, as soon as no
 * file is open on it.
 */
#include <stdio.h>
#include <string.h>

#include "mover/base/log.h"
#include "mover/base/show.h"
#include "nvmetcp/supervisor_priv.h"

#define SAY_NS (60 * FM_NS_PER_S)
#define HEARD_ENOUGH 2

/* A read-write mount of the device, at any place and by any program; NULL: there is none. */
static const struct fm_mount *read_write_mount(const struct fm_supervised *v)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);
	const struct fm_mounts *mounts = &v->sup->mounts;

	for (size_t i = 0; ns && i < mounts->count; i++)
		if (!mounts->mounts[i].is_read_only &&
		    fm_supervisor_is_mount_of(&mounts->mounts[i], ns))
			return &mounts->mounts[i];
	return NULL;
}

/*
 * A peer that has the volume read-write; NULL: none has. A peer that has fallen silent has it until
 * it says otherwise. If there are several, the one of the last alarm is kept, because their order
 * may change.
 */
const struct fm_peer_volume *fm_supervised_other_writer(const struct fm_supervised *v)
{
	const struct fm_peers *peers = &v->sup->peers;
	const struct fm_peer_volume *found = NULL;

	for (unsigned i = 0; i < peers->volume_count; i++) {
		const struct fm_peer_volume *p = &peers->volumes[i];

		if (!p->is_mounted || !p->is_read_write || !fm_supervised_is_meant(v, p))
			continue;
		if (!found || strcmp(p->node, v->second_writer) == 0)
			found = p;
	}
	return found;
}

bool fm_supervised_has_alarm(const struct fm_supervised *v)
{
	return v->second_writer_heard >= HEARD_ENOUGH;
}

void fm_supervised_show_alarm(const struct fm_supervised *v, char *text, size_t size)
{
	bool is_writer = fm_guard_is_writer(v->volume, v->sup->node);
	const struct fm_mount *here = read_write_mount(v);
	struct fm_path_shown point;

	text[0] = '\0';
	if (!fm_supervised_has_alarm(v))
		return;
	if (!is_writer && !v->plan.is_read_write && here) {
		(void)snprintf(text, size,
			       "%s has it mounted read-write as well: each destroys what the other "
			       "one writes; this node is not its writer: unmount it here, at "
			       "%.200s",
			       v->second_writer, fm_path_show(here->point, &point));
		return;
	}
	(void)snprintf(
		text, size,
		"%s has it mounted read-write as well: each destroys what the other one writes; %s",
		v->second_writer,
		is_writer ? "unmount it there now, then here, and have the file system checked "
			    "before it is mounted again"
			  : "this node is not its writer and unmounts it as soon as no file "
			    "is open on it: end what uses it");
}

static void say(struct fm_supervised *v)
{
	uint64_t now = fm_loop_now(v->sup->loop);
	char text[FM_SUPERVISED_WHY_MAX];

	if (now < v->alarm_again_ns)
		return;
	v->alarm_again_ns = now + SAY_NS;
	fm_supervised_show_alarm(v, text, sizeof(text));
	fm_log_error("volume %s: ALARM: %s", v->volume->name, text);
}

bool fm_supervised_watch_writers(struct fm_supervised *v)
{
	const struct fm_peer_volume *other =
		read_write_mount(v) ? fm_supervised_other_writer(v) : NULL;
	bool had_alarm = fm_supervised_has_alarm(v);

	if (!other || (!had_alarm && strcmp(v->second_writer, other->node) != 0))
		v->second_writer_heard = 0;
	if (other && v->second_writer_heard < HEARD_ENOUGH && !other->is_stale)
		v->second_writer_heard++;
	(void)snprintf(v->second_writer, sizeof(v->second_writer), "%s", other ? other->node : "");
	if (fm_supervised_has_alarm(v)) {
		say(v);
	} else if (had_alarm) {
		v->alarm_again_ns = 0;
		fm_log_warn("volume %s: no two nodes have it read-write any more: have its file "
			    "system checked",
			    v->volume->name);
	}
	return had_alarm != fm_supervised_has_alarm(v);
}
