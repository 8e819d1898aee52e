/* SPDX-License-Identifier: MIT */
/*
 * collect_priv - what the collectors share: files below a root, and the parts of collect.h. Used by
 * collect_*.c only.
 */
#ifndef FM_COLLECT_PRIV_H
#define FM_COLLECT_PRIV_H

#include <dirent.h>
#include <limits.h>

#include "mover/facts/collect.h"
#include "mover/facts/facts.h"

#define FM_COLLECT_NAMES_MAX 65536u    /* entries of one directory that are looked at */
#define FM_COLLECT_FILE_MAX (1u << 20) /* of one file */
#define FM_COLLECT_INTERVAL_MS 1000u   /* between two looks at counters */
#define FM_COLLECT_LINE_MAX 1024u

/* Where secrets are, and the name by which targets know this host. */
#define FM_COLLECT_NOT_FOR_PEERS                                                                   \
	"a daemon does not say it to peers; fmove doctor at that node does"

struct fm_collect {
	const char *root; /* "" for this machine */
	const struct fm_collect_options *options;
	struct fm_facts *facts;
	uint64_t counted_ns; /* when counters were looked at last */
};

/* ---- collect_files.c: every path is below root ---- */

/* -ENAMETOOLONG. */
int fm_collect_path(const struct fm_collect *c, char out[static PATH_MAX], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The first bytes of a file as one text, without what is white at its end. -errno. */
int fm_collect_line(const struct fm_collect *c, char out[static FM_COLLECT_LINE_MAX],
		    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The whole file, terminated; the caller frees it. -errno, -E2BIG beyond FM_COLLECT_FILE_MAX. */
int fm_collect_file(const struct fm_collect *c, char **out, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * What a file says becomes the fact; if it cannot be read, the reason. Of a number what stands
 * before its unit counts.
 */
void fm_collect_text(const struct fm_collect *c, struct fm_fact *fact, enum fm_fact_kind kind,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void fm_collect_number(const struct fm_collect *c, struct fm_fact *fact, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The last part of what a link leads to. */
void fm_collect_link(const struct fm_collect *c, struct fm_fact *fact, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* "PATH: the text of the errno", code being a negative one. */
void fm_collect_failed(struct fm_fact *fact, int code, const char *path);

/*
 * The names of a directory, sorted, without those that begin with a dot; how many, or -errno. Free
 * each and the array.
 */
int fm_collect_names(const struct fm_collect *c, struct dirent ***out, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void fm_collect_names_free(struct dirent **names, int count);

/*
 * Of a directory that need not be there: the list was read, unless it is there and cannot be read.
 */
void fm_collect_list_read(struct fm_fact *read, int code, const char *path);

/* ---- the collectors ---- */

void fm_collect_node(struct fm_collect *c);	/* machine, kernel, processors, memory */
void fm_collect_ports(struct fm_collect *c);	/* RDMA ports, their GIDs and PCIe links */
void fm_collect_counters(struct fm_collect *c); /* a first look; behind fm_collect_ports() */
void fm_collect_wait(struct fm_collect *c);	/* until it is time for the second: */
void fm_collect_growth(struct fm_collect *c);
void fm_collect_network(struct fm_collect *c); /* interfaces */
void fm_collect_netlink(
	struct fm_collect *c); /* addresses, routes, rules; behind fm_collect_network() */
void fm_collect_verbs(
	struct fm_collect *c); /* what only the device says; behind fm_collect_ports() */
void fm_collect_processes(struct fm_collect *c); /* the daemons and what they may use */
void fm_collect_storage(
	struct fm_collect *c); /* disks, fstab, NVMe connections and who makes them */
void fm_collect_config(struct fm_collect *c); /* the configuration: stores, files, limits */
void fm_collect_daemon(struct fm_collect *c); /* what the daemon says; behind fm_collect_config() */
void fm_collect_packets(
	struct fm_collect *c); /* what arrives at peers; behind daemon, network and netlink */

/*
 * Each statistic that ethtool shows of an interface of this machine. -EOPNOTSUPP: it has none;
 * -errno.
 */
typedef void fm_ethtool_take(void *ctx, const char *name, uint64_t value);
int fm_collect_ethtool(const char *interface, fm_ethtool_take *take, void *ctx);

/* PCIe link of the device at a directory of sysfs: speed in megatransfers a second and lanes. */
void fm_collect_pcie(const struct fm_collect *c, const char *dir, const char *which,
		     struct fm_fact *mtps, struct fm_fact *lanes);

#endif
