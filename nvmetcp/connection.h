/* SPDX-License-Identifier: MIT */
/*
 * connection - makes and removes one NVMe-TCP controller: what is written to /dev/nvme-fabrics, and
 * what came of it.
 *
 * The text for the kernel is built here and says every value, zeros too, with the host's NQN and id
 * always as a pair: libnvme leaves zeros out and fills in what it finds in files. Calls block for
 * seconds and may hang in the kernel: they are for a helper process (helper.h), with one thread.
 * Nothing here logs, and no error text holds a secret.
 *
 * `root` as in inventory.h: "" for this machine, else a directory with dev/, sys/ and proc/ below
 * (a test's).
 */
#ifndef FM_NVMETCP_CONNECTION_H
#define FM_NVMETCP_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

struct fm_err;

#define FM_CONNECTION_OPTIONS_MAX 4096		/* bytes; the kernel takes one page */
#define FM_CONNECTION_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"
#define FM_CONNECTION_SECRET_MAX 512
#define FM_CONNECTION_ADDRESS_MAX 80u		/* an IPv6 address and the name of its interface */
#define FM_CONNECTION_KERNEL_LOG_MAX 16384u

/* The kind of a failure, which decides whether and when it is tried again. */
enum fm_connection_trouble {
	FM_TROUBLE_NONE,
	FM_TROUBLE_UNREACHABLE,		/* no answer, nobody listens there, no route: try again */
	FM_TROUBLE_NOT_ALLOWED,		/* the target does not let this host NQN in */
	/* DH-HMAC-CHAP: wrong, missing here, or the controller's own was wrong */
	FM_TROUBLE_SECRET,
	FM_TROUBLE_NQN,			/* the target has no such subsystem */
	/* the target said no, and nobody could see why: NQN or host */
	FM_TROUBLE_REFUSED,
	FM_TROUBLE_BUSY,		/* the target has no controller to spare: try again */
	FM_TROUBLE_KERNEL,		/* this kernel lacks what is asked for */
	FM_TROUBLE_MODULE,		/* nvme_tcp or nvme_fabrics is not loaded */
	FM_TROUBLE_PERMISSION,		/* not root */
	FM_TROUBLE_VALUE,		/* an option is wrong: nothing helps but changing it */
	/* somebody else's connection has half of this host's pair of NQN and id */
	FM_TROUBLE_HOST,
	FM_TROUBLE_OTHER,
};

/* One word, e.g. "unreachable": what JSON says. */
const char *fm_connection_trouble_name(enum fm_connection_trouble trouble);

/* Strings are borrowed; NULL and "" are "not said". */
struct fm_connection_opts {
	const char *subsystem;
	const char *address;		/* literal IPv4 or IPv6; the kernel resolves no names */
	const char *port;
	const char *host_address, *host_interface;
	const char *host_nqn, *host_id;	/* both, always */
	/* 0: as many as cores, 8 at most; a discovery controller has none */
	unsigned queues;
	unsigned queue_size;		/* 0: the kernel's default */
	int keep_alive_s, reconnect_delay_s;
	int ctrl_loss_s, fast_io_fail_s;	/* -1: never, off */
	bool has_header_digest, has_data_digest, has_tls;
	/* as `nvme gen-dhchap-key` prints them: DHHC-1:... */
	const char *secret, *controller_secret;
};

/*
 * The one way to write an IPv4 or IPv6 address ("fe80::1%eth0" is one): the kernel compares texts
 * and would connect to "0:0::1" once more although it is connected to "::1". -EINVAL: it is none.
 */
int fm_connection_address(const char *text, char out[static FM_CONNECTION_ADDRESS_MAX]);

/*
 * The text for /dev/nvme-fabrics. -EINVAL with the option's name if a value has a comma or a
 * character that cannot be printed (so that no value can become another option), or is missing;
 * -E2BIG. The text may hold secrets: wipe it.
 */
int fm_connection_options(const struct fm_connection_opts *opts,
			  char text[static FM_CONNECTION_OPTIONS_MAX], struct fm_err *err);

/* What the kernel answers to it: "instance=3,cntlid=17\n". -EBADMSG if it is anything else. */
int fm_connection_answer_parse(const char *text, size_t len, int *instance, int *cntlid);

/*
 * Whether `known`, what a kernel since 5.17 says when /dev/nvme-fabrics is read
 * ("instance=-1,cntlid=-1,transport=%s,
 * ..."), has the option `name`. True too if it says nothing: the kernel itself will refuse what it
 * does not know.
 */
bool fm_connection_knows(const char *known, const char *name);

/*
 * error is what write() or read() gave (-errno), kernel_log what the kernel logged meanwhile ("" if
 * nobody could look): "no such subsystem" and "host not allowed" are the same errno. Sets err to a
 * plain line with what to do next.
 */
enum fm_connection_trouble fm_connection_explain(int error, const char *kernel_log,
						 const struct fm_connection_opts *opts,
						 struct fm_err *err);

struct fm_connection {
	char controller[32];	/* "nvme3" */
	int cntlid;
	bool was_there;		/* the kernel had this connection before */
};

/*
 * Connects. A connection that is there already is a success. A secret or TLS that the kernel cannot
 * use is refused before anything is sent. On an error *trouble says its kind.
 */
int fm_connection_open(const char *root, const struct fm_connection_opts *opts,
		       struct fm_connection *out, enum fm_connection_trouble *trouble,
		       struct fm_err *err);

/*
 * Removes the controller `name`, if it is still the one to this subsystem (-ESTALE else), and waits
 * until it and, if it was the subsystem's last, its block devices are gone: their names and numbers
 * are given to others at once. A controller that is not there is a success. -EBUSY: the devices
 * stay, somebody holds them. -EINVAL: not over TCP. -EAGAIN: the kernel does not say yet what it
 * is. -ETIMEDOUT: it is still there after wait_ms.
 */
int fm_connection_close(const char *root, const char *name, const char *subsystem, unsigned wait_ms,
			struct fm_err *err);

/* Has the kernel look again at what namespaces there are behind the controller `name`, if it is
 * live: later, by itself. */
void fm_connection_rescan(const char *root, const char *name);

#endif
