/* SPDX-License-Identifier: MIT */
/*
 * invites - whether somebody is invited: joins are taken as long as the configuration's directory
 * has an invitation that is open.
 *
 * inotify says when one is made or used; a worker looks. Where there is no inotify to be had, a
 * worker looks every second. Control loop only.
 */
#ifndef FM_DAEMON_INVITES_H
#define FM_DAEMON_INVITES_H

struct fm_err;
struct fm_invites;
struct fm_join;
struct fm_loop;
struct fm_worker;

struct fm_invites_opts {
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_join *join;		/* is told, see fm_join_open() */
	const char *dir;		/* the configuration's; copied */
};

/* Looks at once, on the worker. */
int fm_invites_new(const struct fm_invites_opts *opts, struct fm_invites **out, struct fm_err *err);

/* The configuration's directory may be another one of that name now: where a link to it leads is
 * followed anew. NULL is allowed. */
void fm_invites_look(struct fm_invites *i);

/* Before fm_join_stop(). NULL is allowed. */
void fm_invites_stop(struct fm_invites *i);

/* Stopped, or never told anybody; and what the worker posted has run. NULL is allowed. */
void fm_invites_free(struct fm_invites *i);

#endif
