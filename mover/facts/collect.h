/* SPDX-License-Identifier: MIT */
/*
 * collect - reads the facts of this node: sysfs, procfs, /etc, netlink, verbs, statvfs, the
 * configuration and what the daemon says.
 *
 * It changes nothing, and starts nothing that would. What cannot be read is unknown with the
 * reason, and the rest is read all the same. Attributes that ask a disk or a target are left
 * alone, and the file system of a store is given up if it does not answer (given_up.h), which needs
 * a process with one thread.
 */
#ifndef FM_COLLECT_H
#define FM_COLLECT_H

#include <stdbool.h>

struct fm_err;
struct fm_facts;
struct fm_json;

#define FM_COLLECT_CONFIG "/etc/fmove/fmove.conf"

struct fm_collect_options {
	/*
	 * The files of this directory instead of this machine's: ROOT/sys, ROOT/proc, ROOT/etc,
	 * ROOT/run. Then the kernel and the devices themselves are not asked. NULL: this machine.
	 */
	const char *root;
	const char *config;	      /* NULL: FM_COLLECT_CONFIG; below root, too */
	const struct fm_json *status; /* the daemon's answer (fmove-api(7)), or NULL */
	const char *status_why;	      /* why there is none */
	/*
	 * Of a process with threads, which must not fork (what devices write to its memory would
	 * be lost): file systems of stores, which may never answer, are not asked. What it reads is
	 * for peers, so where secrets are and who the host is to targets is not read.
	 */
	bool is_within_daemon;
};

/* -ENOMEM is the only error. */
int fm_facts_collect(const struct fm_collect_options *options, struct fm_facts **out,
		     struct fm_err *err);

#endif
