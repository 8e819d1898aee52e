/* SPDX-License-Identifier: MIT */
/*
 * systemd - mount units of this machine, over D-Bus: looked at, started and stopped. The only file
 * that knows the bus.
 *
 * Every call waits for its end, a start or stop for that of the job; so only helper processes use
 * it, which have a deadline.
 */
#ifndef FM_NVMETCP_SYSTEMD_H
#define FM_NVMETCP_SYSTEMD_H

#include <limits.h>
#include <stdbool.h>

struct fm_err;
struct fm_systemd;

struct fm_systemd_mount {
	char name[256];			/* "srv-data.mount" */
	char what[PATH_MAX];
	char options[4096];
	/* somebody wrote a unit; else it is what systemd makes of every mount that it sees */
	bool has_file;
	bool is_active;
	bool is_changing;		/* systemd starts or stops it, or is to */
};

/* -ENOENT: systemd does not run this machine, or there is no bus; -EAGAIN: there is one that does
 * not answer. */
int fm_systemd_open(struct fm_systemd **out, struct fm_err *err);

/* NULL is allowed. */
void fm_systemd_close(struct fm_systemd *systemd);

/* The unit of a mount point, an absolute path. */
int fm_systemd_look(struct fm_systemd *systemd, const char *point, struct fm_systemd_mount *out,
		    struct fm_err *err);

/*
 * Whether the unit would mount with these options (words of mount(8), comma-separated): each is
 * among its own, and it is read-only only if they are. lacking: the first word that it has not, or
 * has too many; borrowed from one of the two.
 */
bool fm_systemd_has_options(const struct fm_systemd_mount *mount, const char *options,
			    const char **lacking, int *len);

/* -EIO: it did not work, and the line says where to look. */
int fm_systemd_start(struct fm_systemd *systemd, const char *unit, struct fm_err *err);
int fm_systemd_stop(struct fm_systemd *systemd, const char *unit, struct fm_err *err);

#endif
