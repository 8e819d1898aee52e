/* SPDX-License-Identifier: MIT */
/*
 * lead - a symbolic link is led to a group that was published (group commit --latest), but never
 * back: not to an older one that is committed once more, as a job does that did not hear of the
 * first time.
 *
 * When a group was published its directory tells for as long as it is kept (group.h), by its time.
 * What is published is never older than the other groups beside it, whatever the clock says. Of
 * what is no group's, or has none any more, it counts when the link was led there, unless that is
 * still to come. One that leads nowhere is led in any case.
 *
 * In a store that is not durable the group's commit has synced nothing: that is done first, by a
 * descriptor that watches the file system since the group was begun (group_watch.h), and hears of
 * errors that others were told of, too. It is kept for at least one sweep behind the commit. Later,
 * where the daemon was started anew meanwhile, and for what is of no group, only an error that
 * nobody was told of is heard. Where each member was on the disk before it had its name an error
 * is somebody else's, and keeps no link.
 */
#ifndef FM_STORE_LEAD_H
#define FM_STORE_LEAD_H

struct fm_err;
struct fm_group_dir;
struct fm_path_parent;
struct fm_store_dir;
struct fm_who;

/*
 * Leads the link of that checked path to `published`, a name beside it. -ENOENT: nothing has that
 * name, as when a rotation removes it just now. -ESTALE: it leads to what was published later, and
 * stays. -EIO: what was published may not be on the disk, for ever if members of its group came
 * without a sync. Else as fm_symlink() that may replace. Worker threads.
 */
int fm_lead(struct fm_store_dir *dir, const char *link, const char *published,
	    const struct fm_who *who, struct fm_err *err);

/*
 * A group was published just now: gives its directory a later time than those of all others beside
 * it have, if it has not. Best effort.
 */
void fm_lead_note_order(struct fm_store_dir *dir, const struct fm_path_parent *parent,
			const struct fm_group_dir *g);

#endif
