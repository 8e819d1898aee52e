/* SPDX-License-Identifier: MIT */
/* What is written to /dev/nvme-fabrics and what its answers mean: pure functions, no file is
 * touched. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/text.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/volume.h"

#define QUEUES_DEFAULT_MAX 8
#define NQN_UUID ":uuid:"

static bool is_set(const char *text)
{
	return text && text[0];
}

const char *fm_connection_trouble_name(enum fm_connection_trouble trouble)
{
	static const char *const names[] = {
		[FM_TROUBLE_NONE] = "none",	      [FM_TROUBLE_UNREACHABLE] = "unreachable",
		[FM_TROUBLE_NOT_ALLOWED] = "not-allowed", [FM_TROUBLE_SECRET] = "secret",
		[FM_TROUBLE_NQN] = "nqn",	      [FM_TROUBLE_REFUSED] = "refused",
		[FM_TROUBLE_BUSY] = "busy",	      [FM_TROUBLE_KERNEL] = "kernel",
		[FM_TROUBLE_MODULE] = "module",	      [FM_TROUBLE_PERMISSION] = "permission",
		[FM_TROUBLE_VALUE] = "value",	      [FM_TROUBLE_HOST] = "host",
		[FM_TROUBLE_OTHER] = "other",
	};

	assert((unsigned)trouble < sizeof(names) / sizeof(names[0]));
	return names[trouble];
}

int fm_connection_address(const char *text, char out[static FM_CONNECTION_ADDRESS_MAX])
{
	const char *scope = strchrnul(text, '%');
	char plain[INET6_ADDRSTRLEN];
	unsigned char bytes[16];
	size_t len = (size_t)(scope - text);
	int family = AF_INET6;

	if (len >= sizeof(plain) || strlen(scope) > FM_CONNECTION_ADDRESS_MAX - sizeof(plain))
		return -EINVAL;
	memcpy(plain, text, len);
	plain[len] = '\0';
	if (inet_pton(AF_INET, plain, bytes) == 1 && !*scope)
		family = AF_INET;
	else if (inet_pton(AF_INET6, plain, bytes) != 1)
		return -EINVAL;
	if (!inet_ntop(family, bytes, plain, sizeof(plain)))
		return -EINVAL;
	(void)snprintf(out, FM_CONNECTION_ADDRESS_MAX, "%s%s", plain, scope);
	return 0;
}

/* -------------------------------------------------------------------------------------- options */

/* A comma ends an option and a line end the text, and the kernel knows no escape. The value is not
 * shown: it may be a secret. */
static int check_value(const char *name, const char *value, struct fm_err *err)
{
	for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
		if (*p == ',')
			return fm_err_set(
				err, -EINVAL,
				"%s has a comma in it, which no option of a connection can have",
				name);
		if (*p < 0x20 || *p == 0x7f)
			return fm_err_set(err, -EINVAL,
					  "%s has a line end or another control character in it",
					  name);
	}
	return 0;
}

/* The kernel writes a secret of another form to its log, so it must not get that far. */
static int check_secret(const char *name, const char *value, struct fm_err *err)
{
	const char *key = value + strlen("DHHC-1:00:");
	size_t len = strlen(value);

	if (strncmp(value, "DHHC-1:0", 8) != 0 || value[8] < '0' || value[8] > '3' ||
	    value[9] != ':')
		return fm_err_set(err, -EINVAL,
				  "%s is not of the form DHHC-1:00:BASE64: (what `nvme "
				  "gen-dhchap-key` prints)",
				  name);
	if (len >= FM_CONNECTION_SECRET_MAX || len < 40 || value[len - 1] != ':' ||
	    strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") !=
		    len - 11)
		return fm_err_set(
			err, -EINVAL,
			"%s is cut off or damaged: its key is not base64 between two colons", name);
	return 0;
}

/* Newer kernels refuse a host NQN that comes with two host ids, and the other way round. */
static int check_host(const struct fm_connection_opts *o, struct fm_err *err)
{
	const char *uuid;

	if (!is_set(o->host_nqn) || !is_set(o->host_id))
		return fm_err_set(err, -EINVAL, "a host NQN and a host id are needed, both");
	uuid = strstr(o->host_nqn, NQN_UUID);
	if (uuid && strcasecmp(uuid + strlen(NQN_UUID), o->host_id) != 0)
		return fm_err_set(
			err, -EINVAL,
			"host id %s is not the one in the host NQN %s: write the same into both",
			o->host_id, o->host_nqn);
	return 0;
}

struct named {
	const char *name, *value;
};

static int check_texts(const struct fm_connection_opts *o, struct fm_err *err)
{
	const struct named texts[] = {
		{ "the subsystem", o->subsystem },	{ "the address", o->address },
		{ "the port", o->port },		{ "the host NQN", o->host_nqn },
		{ "the host id", o->host_id },		{ "the host address", o->host_address },
		{ "the host interface", o->host_interface }, { "the secret", o->secret },
		{ "the controller's secret", o->controller_secret },
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && ret == 0; i++)
		if (texts[i].value)
			ret = check_value(texts[i].name, texts[i].value, err);
	if (ret < 0)
		return ret;
	if (!is_set(o->subsystem) || !is_set(o->address) || !is_set(o->port))
		return fm_err_set(err, -EINVAL,
				  "a connection needs a subsystem, an address and a port");
	if (strlen(o->subsystem) > FM_VOLUME_NQN_MAX)
		return fm_err_set(err, -EINVAL, "the subsystem's name is longer than %d bytes",
				  FM_VOLUME_NQN_MAX);
	if (is_set(o->secret))
		ret = check_secret("the secret", o->secret, err);
	if (ret == 0 && is_set(o->controller_secret))
		ret = check_secret("the controller's secret", o->controller_secret, err);
	if (ret == 0 && is_set(o->controller_secret) && !is_set(o->secret))
		ret = fm_err_set(err, -EINVAL,
				 "a secret of the controller needs one of this host too");
	return ret;
}

static unsigned queues_of(const struct fm_connection_opts *o)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (o->queues > 0)
		return o->queues;
	if (cores < 1)
		return 1;
	return cores < QUEUES_DEFAULT_MAX ? (unsigned)cores : QUEUES_DEFAULT_MAX;
}

static int add_values(struct fm_text *t, const struct fm_connection_opts *o, struct fm_err *err)
{
	char address[FM_CONNECTION_ADDRESS_MAX], host_address[FM_CONNECTION_ADDRESS_MAX] = "";

	if (fm_connection_address(o->address, address) < 0)
		return fm_err_set(err, -EINVAL, "%.64s is no IPv4 or IPv6 address", o->address);
	if (is_set(o->host_address) && fm_connection_address(o->host_address, host_address) < 0)
		return fm_err_set(err, -EINVAL, "host address %.64s is no IPv4 or IPv6 address",
				  o->host_address);
	fm_text_add(t, "transport=tcp,traddr=%s,trsvcid=%s,nqn=%s,hostnqn=%s,hostid=%s", address,
		    o->port, o->subsystem, o->host_nqn, o->host_id);
	if (host_address[0])
		fm_text_add(t, ",host_traddr=%s", host_address);
	if (is_set(o->host_interface))
		fm_text_add(t, ",host_iface=%s", o->host_interface);
	/* A discovery controller has no I/O queues. */
	if (strcmp(o->subsystem, FM_CONNECTION_DISCOVERY_NQN) != 0) {
		fm_text_add(t, ",nr_io_queues=%u", queues_of(o));
		if (o->queue_size > 0)
			fm_text_add(t, ",queue_size=%u", o->queue_size);
	}
	fm_text_add(t, ",keep_alive_tmo=%d,reconnect_delay=%d,ctrl_loss_tmo=%d", o->keep_alive_s,
		    o->reconnect_delay_s, o->ctrl_loss_s);
	if (o->has_header_digest)
		fm_text_add(t, ",hdr_digest");
	if (o->has_data_digest)
		fm_text_add(t, ",data_digest");
	if (o->has_tls)
		fm_text_add(t, ",tls");
	if (is_set(o->secret))
		fm_text_add(t, ",dhchap_secret=%s", o->secret);
	if (is_set(o->controller_secret))
		fm_text_add(t, ",dhchap_ctrl_secret=%s", o->controller_secret);
	if (t->is_full)
		return fm_err_set(err, -E2BIG,
				  "the options of the connection are longer than %d bytes",
				  FM_CONNECTION_OPTIONS_MAX - 1);
	return 0;
}

int fm_connection_options(const struct fm_connection_opts *opts,
			  char text[static FM_CONNECTION_OPTIONS_MAX], struct fm_err *err)
{
	struct fm_text t = {.at = text, .left = FM_CONNECTION_OPTIONS_MAX};
	int ret = check_texts(opts, err);

	if (ret == 0)
		ret = check_host(opts, err);
	if (ret == 0 && opts->reconnect_delay_s < 1)
		ret = fm_err_set(err, -EINVAL,
				 "a reconnect delay of %d s: the kernel takes 1 and more",
				 opts->reconnect_delay_s);
	return ret == 0 ? add_values(&t, opts, err) : ret;
}

/* -------------------------------------------------------------------------------------- answers */

/* KEY=NUMBER at *at, which is moved behind it. */
static bool take_number(const char **at, const char *key, int *out)
{
	size_t len = strlen(key);
	char *end;
	long value;

	if (strncmp(*at, key, len) != 0 || (*at)[len] < '0' || (*at)[len] > '9')
		return false;
	value = strtol(*at + len, &end, 10);
	if (value > INT_MAX)
		return false;
	*out = (int)value;
	*at = end;
	return true;
}

int fm_connection_answer_parse(const char *text, size_t len, int *instance, int *cntlid)
{
	char copy[128];
	const char *at = copy;

	if (len >= sizeof(copy) || memchr(text, '\0', len))
		return -EBADMSG;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (!take_number(&at, "instance=", instance) || *at++ != ',' ||
	    !take_number(&at, "cntlid=", cntlid))
		return -EBADMSG;
	return strcmp(at, "\n") == 0 || *at == '\0' ? 0 : -EBADMSG;
}

bool fm_connection_knows(const char *known, const char *name)
{
	size_t len = strlen(name);

	if (!strstr(known, "transport="))
		return true;
	for (const char *at = known; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, name, len) == 0 && strchr("=,\n", at[len]))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------------------------- troubles */

static enum fm_connection_trouble kind_of(int error, const struct fm_connection_opts *o)
{
	switch (-error) {
	case ECONNREFUSED:
		/* Until 6.10 this was also what became of a wrong secret. */
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
	case EHOSTDOWN:
	case ETIMEDOUT:
	case ECONNRESET:
	case ECONNABORTED:
	case EPIPE: case ENOTCONN: case EADDRNOTAVAIL: case ENODEV:
		return FM_TROUBLE_UNREACHABLE;
	case EKEYREJECTED: case ENOKEY: case EACCES:
		return FM_TROUBLE_SECRET;
	case EPERM:
		return FM_TROUBLE_PERMISSION;
	case ENOENT: case ENXIO:
		return FM_TROUBLE_MODULE;
	case EOPNOTSUPP: case EPROTONOSUPPORT:
		return is_set(o->secret) || o->has_tls ? FM_TROUBLE_KERNEL : FM_TROUBLE_SECRET;
	case EINVAL:
		return FM_TROUBLE_VALUE;
	case EIO:
		return FM_TROUBLE_REFUSED;
	case EBUSY:
		return FM_TROUBLE_BUSY;
	}
	return FM_TROUBLE_OTHER;
}

/* Why the target refused, from the kernel's log: the errno is EIO for every reason. */
static enum fm_connection_trouble kind_in_log(const char *log, const struct fm_connection_opts *o)
{
	char line[FM_VOLUME_NQN_MAX + 64];

	(void)snprintf(line, sizeof(line), "Connect for subsystem %s is not allowed", o->subsystem);
	if (strstr(log, line))
		return FM_TROUBLE_NOT_ALLOWED;
	(void)snprintf(line, sizeof(line), "Connect Invalid Data Parameter, subsysnqn \"%s\"",
		       o->subsystem);
	if (strstr(log, line))
		return FM_TROUBLE_NQN;
	if (strstr(log, "Connect Invalid Data Parameter, hostnqn"))
		return FM_TROUBLE_NOT_ALLOWED;
	if (strstr(log, "Connect command failed: authentication required"))
		return FM_TROUBLE_SECRET;
	/* A target that ended the connection instead of an answer about the secret; one that
	 * answered has an errno of its own. */
	if (is_set(o->secret) && strstr(log, ": authentication failed"))
		return FM_TROUBLE_SECRET;
	if (strstr(log, "Connect command failed: controller is busy"))
		return FM_TROUBLE_BUSY;
	if (strstr(log, "but different hostid") || strstr(log, "but different hostnqn"))
		return FM_TROUBLE_HOST;
	return FM_TROUBLE_NONE;
}

static const char *secret_advice(int error, const struct fm_connection_opts *o)
{
	if (!is_set(o->secret))
		return "the target wants a secret (DH-HMAC-CHAP) and none is configured: set "
		       "secret_file";
	if (error == -EIO)
		return "the target ended the connection while the secret was checked: most likely "
		       "it is not the one the target has for this "
		       "host: compare them (the one of this host's NQN)";
	return "its secret is not the one the target has for this host: compare them (the one of "
	       "this host's NQN)";
}

/* A hint for the user: other reasons why nobody may answer at that address. */
static const char *unreachable_hint(int error, const struct fm_connection_opts *o)
{
	if (strcmp(o->port, "8009") == 0)
		return " (for discovery, some targets answer at 4420 only: ADDRESS:4420)";
	if (is_set(o->secret) && error == -ECONNREFUSED)
		return " (Linux before 6.10 also says so of a wrong secret)";
	return "";
}

static void say_of_target(enum fm_connection_trouble kind, int error,
			  const struct fm_connection_opts *o, struct fm_err *err)
{
	switch (kind) {
	case FM_TROUBLE_UNREACHABLE:
		(void)fm_err_set(err, error,
				 "%s port %s: %s: is the target up, and address and port right?%s",
				 o->address, o->port, fm_err_name(error),
				 unreachable_hint(error, o));
		break;
	case FM_TROUBLE_NOT_ALLOWED:
		(void)fm_err_set(err, error,
				 "the target does not allow this host at subsystem %s: add %s to "
				 "its allowed hosts",
				 o->subsystem, o->host_nqn);
		break;
	case FM_TROUBLE_SECRET:
		(void)fm_err_set(err, error, "subsystem %s: %s", o->subsystem,
				 secret_advice(error, o));
		break;
	case FM_TROUBLE_NQN:
		(void)fm_err_set(err, error,
				 "the target has no subsystem %s: `fmove nvme discover %s` shows "
				 "those it has",
				 o->subsystem, o->address);
		break;
	case FM_TROUBLE_REFUSED:
		(void)fm_err_set(err, error,
				 "the target refused: it has no subsystem %s or does not allow %s; "
				 "`dmesg` says which",
				 o->subsystem, o->host_nqn);
		break;
	case FM_TROUBLE_BUSY:
		(void)fm_err_set(err, error,
				 "the target has no free controller for subsystem %s: disconnect "
				 "another host or wait",
				 o->subsystem);
		break;
	default:	/* say() has it */
		break;
	}
}

static void say(enum fm_connection_trouble kind, int error, const struct fm_connection_opts *o,
		struct fm_err *err)
{
	switch (kind) {
	case FM_TROUBLE_UNREACHABLE:
	case FM_TROUBLE_NOT_ALLOWED:
	case FM_TROUBLE_SECRET:
	case FM_TROUBLE_NQN:
	case FM_TROUBLE_REFUSED:
	case FM_TROUBLE_BUSY:
		say_of_target(kind, error, o, err);
		break;
	case FM_TROUBLE_KERNEL:
		(void)fm_err_set(
			err, error,
			"this kernel has no %s for NVMe: take the option out or use a newer kernel",
			is_set(o->secret) ? "DH-HMAC-CHAP" : "TLS");
		break;
	case FM_TROUBLE_MODULE:
		(void)fm_err_set(err, error, "the kernel has no NVMe over TCP: modprobe nvme_tcp");
		break;
	case FM_TROUBLE_PERMISSION:
		(void)fm_err_set(err, error, "only root may make NVMe connections");
		break;
	case FM_TROUBLE_VALUE:
		(void)fm_err_set(err, error,
				 "the kernel takes one of the options for wrong; `dmesg` names it");
		break;
	case FM_TROUBLE_HOST:
		(void)fm_err_set(err, error,
				 "another connection of this machine has this host NQN with "
				 "another host id, or this host id (%s) "
				 "with another NQN: disconnect it, or give both the same",
				 o->host_id);
		break;
	case FM_TROUBLE_NONE:
	case FM_TROUBLE_OTHER:
		(void)fm_err_set(err, error, "the kernel said: %s", fm_err_name(error));
		break;
	}
}

enum fm_connection_trouble fm_connection_explain(int error, const char *kernel_log,
						 const struct fm_connection_opts *o,
						 struct fm_err *err)
{
	enum fm_connection_trouble kind = FM_TROUBLE_NONE;

	if (error == -EIO || error == -EINVAL)
		kind = kind_in_log(kernel_log, o);
	if (kind == FM_TROUBLE_NONE)
		kind = kind_of(error, o);
	say(kind, error, o, err);
	return kind;
}
