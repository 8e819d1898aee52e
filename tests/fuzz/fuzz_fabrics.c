/* SPDX-License-Identifier: MIT */
/*
 * fuzz_fabrics - any bytes as what the kernel answers on /dev/nvme-fabrics and in its log, and as
 * mount options: understood within limits, or refused with a line.
 *
 * links: fm_nvmetcp
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/mount_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void try_answer(const uint8_t *data, size_t size)
{
	int instance = -1, cntlid = -1;

	if (fm_connection_answer_parse((const char *)data, size, &instance, &cntlid) == 0)
		check(instance >= 0 && cntlid >= 0);
}

/* A value from the configuration: it ends up in the options as it is, or not at all. */
static void try_value(const char *text)
{
	struct fm_connection_opts o = {
		.subsystem = text,
		.address = "10.0.0.1",
		.port = "4420",
		.host_nqn = "nqn.h",
		.host_id = "id",
		.queues = 1,
		.reconnect_delay_s = 1,
	};
	char options[FM_CONNECTION_OPTIONS_MAX], *at;
	struct fm_err err = { 0 };
	unsigned commas = 0;

	if (fm_connection_options(&o, options, &err) < 0) {
		check(err.code < 0 && err.text[0]);
		return;
	}
	for (at = options; *at; at++)
		commas += *at == ',';
	check(!strchr(options, '\n') &&
	      commas == (strcmp(text, FM_CONNECTION_DISCOVERY_NQN) == 0 ? 8 : 9));
}

static void try_log(const char *text)
{
	struct fm_connection_opts o = {
		.subsystem = "nqn.s", .address = "10.0.0.1", .port = "4420", .host_nqn = "nqn.h"};
	struct fm_err err = { 0 };

	check(fm_connection_explain(-5, text, &o, &err) != FM_TROUBLE_NONE && err.code == -5 &&
	      err.text[0]);
	(void)fm_connection_knows(text, "tls");
}

static void try_mount(const char *text)
{
	static struct fm_mount_options mo;
	struct fm_err err = { 0 };

	if (fm_mount_options_parse(text, &mo, &err) < 0)
		check(err.code < 0 && err.text[0]);
	else
		check(strlen(mo.data) <= strlen(text) && strlen(mo.data) < sizeof(mo.data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	try_answer(data, size);
	try_value(text);
	try_log(text);
	try_mount(text);
	free(text);
	return 0;
}
