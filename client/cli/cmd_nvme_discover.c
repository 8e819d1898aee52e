/* SPDX-License-Identifier: MIT */
/* cmd_nvme_discover - fmove nvme discover: what a target offers, asked by fmove-nvmed. */
#include "client/cli/nvme.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/cli/discovered.h"
#include "client/cli/fields.h"
#include "client/cli/nvme_ready.h"
#include "config/address.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

enum { OPT_HOST_ADDRESS = FM_NVME_KEY, OPT_INTERFACE, OPT_SYSTEM };

const struct fm_opt fm_opts_nvme_discover[] = {
	{ "host-address", 0, OPT_HOST_ADDRESS, "ADDRESS", "this node's address to ask from", "" },
	{ "interface", 0, OPT_INTERFACE, "NAME", "the network interface to ask through", "" },
	{ "system", 0, OPT_SYSTEM, NULL,
	  "as root: make what this node lacks for it, one step after the other", NULL },
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define DISCOVERY_PORT 8009
#define DISCOVER_MS 90000	/* fmove-nvmed itself gives up earlier */

struct dialled {
	char host[FM_VALUE_HOST_MAX];
	char port[6];
};

/* Takes an address apart. -1: it is none. */
static int take_apart(const char *text, struct dialled *out)
{
	char whole[FM_ADDRESS_TEXT_MAX];
	uint16_t port;

	if (fm_address_complete(text, DISCOVERY_PORT, whole) < 0 ||
	    fm_value_address(whole, false, out->host, sizeof(out->host), &port) < 0)
		return -1;
	(void)snprintf(out->port, sizeof(out->port), "%u", port);	/* fits */
	return 0;
}

static void print_entry(const struct fm_json *entry)
{
	char address[FM_DISCOVERED_ADDRESS_MAX];

	fm_nvme_put_column(fm_discovered_address(fm_field_text(entry, "address"),
						 fm_field_text(entry, "port"), address,
						 sizeof(address)),
			   28);
	(void)putchar(' ');
	fm_nvme_put_column(fm_field_text(entry, "family"), 7);
	fm_nvme_put_column(fm_field_text(entry, "treq"), 13);
	(void)putchar(' ');
	fm_nvme_put(fm_field_text(entry, "subsystem"));
	(void)printf("%s\n", fm_field_is(entry, "is_same_address")
				     ? ""
				     : "  (not the address that was dialled)");
}

static void show(const struct fm_json *done, void *ctx)
{
	const struct fm_json *entries = fm_json_get(done, "entries");
	const struct dialled *dialled = ctx;

	if (fm_json_count(entries) == 0) {
		(void)printf("the target offers nothing to this host\n");
		return;
	}
	(void)printf("%-28s %-7s%-13s %s\n", "ADDRESS", "FAMILY", "SECURE", "SUBSYSTEM");
	for (size_t i = 0; i < fm_json_count(entries); i++)
		print_entry(fm_json_at(entries, i));
	(void)printf("\n# For fmove.conf; where it is mounted, and who writes, is yours to say "
		     "(fmove.conf(5)).\n");
	fm_discovered_print(stdout, entries, dialled->host);
}

int fm_cmd_nvme_discover(int argc, char **argv)
{
	struct fm_nvmed_request r = { .op = "discover" };
	struct dialled dialled;
	struct fm_args args;
	bool is_json = false, is_system = false;
	struct fm_err err = { 0 };
	int key;

	fm_args_begin(&args, "nvme discover", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == FM_NVME_KEY_SOCKET)
			fm_socket_set(args.value);
		else if (key == OPT_HOST_ADDRESS)
			r.host_address = args.value;
		else if (key == OPT_INTERFACE)
			r.host_interface = args.value;
		is_json |= key == FM_NVME_KEY_JSON;
		is_system |= key == OPT_SYSTEM;
	}
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	if (take_apart(args.operands[0], &dialled) < 0)
		return fm_usage(&args, "%s: must be ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT",
				args.operands[0]);
	/* whoever names a socket has a supervisor of his own */
	if (!fm_socket_path() && !getenv("FMOVE_NVMED_SOCKET") &&
	    fm_nvme_ready(is_system, &err) < 0)
		return fm_fail("nvme discover", &err);
	r.address = dialled.host;
	r.port = dialled.port;
	return fm_nvme_ask("nvme discover", &r, DISCOVER_MS, is_json, show, &dialled);
}
