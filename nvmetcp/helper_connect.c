/* SPDX-License-Identifier: MIT */
/* The calls of a helper process that make and remove controllers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/private_file.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/libnvme.h"

#define DISCOVERY_CLOSE_MS 3000
#define WAIT_MS_MAX 600000

struct secrets {
	char host[FM_CONNECTION_SECRET_MAX], controller[FM_CONNECTION_SECRET_MAX];
};

/* Reads a secret from the first line of a file. connection.h checks its form. */
static int read_secret(const char *path, char out[static FM_CONNECTION_SECRET_MAX],
		       struct fm_err *err)
{
	int ret, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t got;

	if (fd < 0)
		return fm_err_sys(err, -errno, "open secret file %s", path);
	ret = fm_private_file_check(fd, path, geteuid(), err);
	if (ret == 0) {
		got = read(fd, out, FM_CONNECTION_SECRET_MAX);
		if (got < 0)
			ret = fm_err_sys(err, -errno, "read secret file %s", path);
		else if (got == 0 || got == FM_CONNECTION_SECRET_MAX)
			ret = fm_err_set(err, -EINVAL, "secret file %s is %s", path,
					 got ? "too long to hold a secret" : "empty");
		else
			out[got] = '\0';
	}
	if (ret == 0)
		out[strcspn(out, " \t\r\n")] = '\0';
	close(fd);
	return ret;
}

struct files {
	const char *host, *controller;
};

static int unpack_opts(struct fm_json *request, struct fm_connection_opts *o, struct files *files,
		       struct fm_err *err)
{
	int header = 0, data = 0, tls = 0, queues = 0, queue_size = 0, ret;

	if (o->subsystem && fm_json_get(request, "subsystem"))
		return fm_err_set(err, -EINVAL, "a discovery has no subsystem");
	ret = fm_helper_unpack(
		request, err,
		"{s?s, s:s, s:s, s:s, s:s, s?s, s?s, s?i, s?i, s?i, s?i, s?i, s?i, "
		"s?b, s?b, s?b, s?s, s?s}",
		"subsystem", &o->subsystem, "address", &o->address, "port", &o->port, "host_nqn",
		&o->host_nqn, "host_id", &o->host_id, "host_address", &o->host_address,
		"host_interface", &o->host_interface, "queues", &queues, "queue_size", &queue_size,
		"keep_alive_s", &o->keep_alive_s, "reconnect_delay_s", &o->reconnect_delay_s,
		"ctrl_loss_s", &o->ctrl_loss_s, "fast_io_fail_s", &o->fast_io_fail_s,
		"header_digest", &header, "data_digest", &data, "tls", &tls, "secret_file",
		&files->host, "controller_secret_file", &files->controller);
	if (ret < 0)
		return ret;
	if (queues < 0 || queue_size < 0)
		return fm_err_set(err, -EINVAL, "a negative number of queues");
	o->queues = (unsigned)queues;
	o->queue_size = (unsigned)queue_size;
	o->has_header_digest = header;
	o->has_data_digest = data;
	o->has_tls = tls;
	return 0;
}

static int open_with_secrets(struct fm_connection_opts *o, const struct files *files,
			     struct fm_connection *out, enum fm_connection_trouble *trouble,
			     struct fm_err *err)
{
	struct secrets secrets = { 0 };
	int ret = 0;

	*trouble = FM_TROUBLE_VALUE;
	if (files->host && files->host[0])
		ret = read_secret(files->host, secrets.host, err);
	if (ret == 0 && files->controller && files->controller[0])
		ret = read_secret(files->controller, secrets.controller, err);
	o->secret = secrets.host;
	o->controller_secret = secrets.controller;
	if (ret == 0)
		ret = fm_connection_open("", o, out, trouble, err);
	explicit_bzero(&secrets, sizeof(secrets));
	return ret;
}

/* The connection of a request; an error's kind goes into the answer. */
static int open_connection(struct fm_json *request, struct fm_json *answer,
			   struct fm_connection_opts *o, struct fm_connection *out,
			   struct fm_err *err)
{
	enum fm_connection_trouble trouble = FM_TROUBLE_VALUE;
	struct files files = { 0 };
	int ret = unpack_opts(request, o, &files, err);

	if (ret == 0)
		ret = open_with_secrets(o, &files, out, &trouble, err);
	if (ret < 0)
		(void)fm_helper_put(answer, "trouble",
				    fm_json_of_text(fm_connection_trouble_name(trouble)), NULL);
	return ret;
}

/* The values that the kernel uses by default. */
static const struct fm_connection_opts defaults = {
	.keep_alive_s = 5, .reconnect_delay_s = 10, .ctrl_loss_s = 600, .fast_io_fail_s = -1,
};

int fm_helper_connect(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	struct fm_connection_opts o = defaults;
	struct fm_connection c;
	int ret = open_connection(request, answer, &o, &c, err);

	if (ret == 0)
		ret = fm_helper_put(answer, "controller", fm_json_of_text(c.controller), err);
	if (ret == 0)
		ret = fm_helper_put(answer, "cntlid", fm_json_of_i64(c.cntlid), err);
	if (ret == 0)
		ret = fm_helper_put(answer, "was_there", fm_json_of_bool(c.was_there), err);
	return ret;
}

static int put_entries(const struct fm_discovery *log, struct fm_json *answer, struct fm_err *err)
{
	struct fm_json *entries = fm_json_array();
	int ret = 0;

	for (unsigned i = 0; i < log->count && ret == 0; i++) {
		const struct fm_discovered *e = &log->entry[i];
		struct fm_json *entry =
			fm_json_pack("{s:s, s:s, s:s, s:s, s:b}", "subsystem", e->subsystem,
				     "address", e->address, "port", e->port, "family",
				     e->is_ipv6 ? "ipv6" : "ipv4", "secure", e->wants_secure);

		if (!entries || !entry || fm_json_add(entries, entry) < 0)
			ret = fm_err_set(err, -ENOMEM, "no memory for the discovery log");
	}
	if (ret < 0) {
		fm_json_free(entries);
		return ret;
	}
	ret = fm_helper_put(answer, "entries", entries, err);
	if (ret == 0)
		ret = fm_helper_put(answer, "left_out", fm_json_of_i64(log->left_out), err);
	if (ret == 0)
		ret = fm_helper_put(answer, "cut", fm_json_of_bool(log->is_cut), err);
	return ret;
}

static int read_log(const char *controller, struct fm_json *answer, struct fm_err *err)
{
	struct fm_discovery *log;
	char path[64];
	int fd, ret;

	(void)snprintf(path, sizeof(path), "/dev/%s", controller);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fm_err_sys(err, -errno, "open %s", path);
	log = calloc(1, sizeof(*log));
	ret = log ? fm_libnvme_discover(fd, log, err)
		  : fm_err_set(err, -ENOMEM, "no memory for the discovery log");
	if (ret == 0)
		ret = put_entries(log, answer, err);
	free(log);
	close(fd);
	return ret;
}

int fm_helper_discover(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	struct fm_connection_opts o = defaults;
	struct fm_connection c = { 0 };
	struct fm_err close_err = { 0 };
	int ret = fm_libnvme_check(err), close_ret;

	if (ret < 0)
		return ret;
	o.subsystem = FM_CONNECTION_DISCOVERY_NQN;
	/* Should this process be killed meanwhile, the kernel gives the controller up soon after
	 * its target has gone. */
	o.ctrl_loss_s = 5;
	o.reconnect_delay_s = 2;
	ret = open_connection(request, answer, &o, &c, err);
	if (ret < 0)
		return ret;
	ret = read_log(c.controller, answer, err);
	close_ret = c.was_there ? 0
				: fm_connection_close("", c.controller, o.subsystem,
						      DISCOVERY_CLOSE_MS, &close_err);
	if (close_ret < 0)
		(void)fm_helper_put(answer, "left", fm_json_of_bool(true), NULL);
	if (ret == 0 && close_ret < 0) {
		*err = close_err;
		ret = close_ret;
	}
	return ret;
}

int fm_helper_disconnect(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	const char *controller, *subsystem, *device;
	const struct fm_json *unused = NULL, *at, *rdev;
	int wait_ms, ret;
	size_t i;

	(void)answer;
	ret = fm_helper_unpack(request, err, "{s:s, s:s, s:i, s?o}", "controller", &controller,
			       "subsystem", &subsystem, "wait_ms", &wait_ms, "unused", &unused);
	if (ret < 0)
		return ret;
	if (wait_ms < 0 || wait_ms > WAIT_MS_MAX)
		return fm_err_set(err, -EINVAL, "wait_ms is 0 to %d", WAIT_MS_MAX);
	for (i = 0; (at = fm_json_at(unused, i)); i++) {
		ret = fm_helper_unpack(at, err, "{s:s, s:o}", "device", &device, "rdev", &rdev);
		if (ret == 0)
			ret = fm_helper_check_unused(device, rdev, err);
		if (ret < 0)
			return ret;
	}
	return fm_connection_close("", controller, subsystem, (unsigned)wait_ms, err);
}
