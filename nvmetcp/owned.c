/* SPDX-License-Identifier: MIT */
/* owned - see owned.h. */
#include "nvmetcp/owned.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "nvmetcp/connection.h"

#define OWNED_MAX 4096		/* of a file; more than there can be controllers */

bool fm_owned_is_same_address(const char *a, const char *b)
{
	char one[FM_CONNECTION_ADDRESS_MAX], other[FM_CONNECTION_ADDRESS_MAX];

	if (fm_connection_address(a, one) < 0 || fm_connection_address(b, other) < 0)
		return strcmp(a, b) == 0;
	return strcmp(one, other) == 0;
}

static void drop(struct fm_owned_list *list, unsigned i)
{
	list->entry[i] = list->entry[--list->count];
}

static struct fm_owned *add(struct fm_owned_list *list)
{
	struct fm_owned *grown;

	grown = FM_FAULT("owned.alloc") ? NULL
					: realloc(list->entry, (list->count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	list->entry = grown;
	grown[list->count] = (struct fm_owned){ 0 };
	return &grown[list->count++];
}

static bool set_path(struct fm_owned *o, const char *subsystem, const char *address,
		     const char *port)
{
	struct fm_owned_path *p = &o->path;

	return snprintf(p->subsystem, sizeof(p->subsystem), "%s", subsystem) <
		       (int)sizeof(p->subsystem) &&
	       snprintf(p->address, sizeof(p->address), "%s", address) < (int)sizeof(p->address) &&
	       snprintf(p->port, sizeof(p->port), "%s", port) < (int)sizeof(p->port);
}

/* The entry of a connect whose end is not known. */
static struct fm_owned *expected(struct fm_owned_list *list, const struct fm_process *process)
{
	for (unsigned i = 0; i < list->count; i++) {
		struct fm_owned *o = &list->entry[i];

		if (o->is_expected && o->process.pid == process->pid &&
		    o->process.start == process->start)
			return o;
	}
	return NULL;
}

int fm_owned_expect(struct fm_owned_list *list, const char *subsystem, const char *address,
		    const char *port, const struct fm_process *process, struct fm_err *err)
{
	struct fm_owned *o = add(list);

	if (!o)
		return fm_err_set(err, -ENOMEM, "no memory to remember a connection");
	o->is_expected = true;
	o->process = *process;
	if (set_path(o, subsystem, address, port))
		return 0;
	list->count--;
	return fm_err_set(err, -EINVAL, "the name of a subsystem or its address is too long");
}

/* Another one may have taken it for its own, since it came to be at the same place. */
static void take_back(struct fm_owned_list *list, const struct fm_owned *from, const char *name)
{
	for (unsigned i = 0; i < list->count; i++) {
		struct fm_owned *o = &list->entry[i];

		if (o == from || !o->is_expected || strcmp(o->controller, name) != 0)
			continue;
		o->controller[0] = '\0';
		o->id = 0;
	}
}

void fm_owned_made(struct fm_owned_list *list, const struct fm_process *process,
		   const char *controller, int cntlid)
{
	struct fm_owned *o = expected(list, process);

	if (!o)
		return;
	take_back(list, o, controller);
	/* It may have been seen, and named, before the helper process said so. */
	if (strcmp(o->controller, controller) != 0)
		o->id = 0;
	(void)snprintf(o->controller, sizeof(o->controller), "%s", controller);
	o->cntlid = cntlid;
	o->is_expected = false;
}

void fm_owned_forget(struct fm_owned_list *list, const struct fm_process *process)
{
	struct fm_owned *o = expected(list, process);

	if (o)
		drop(list, (unsigned)(o - list->entry));
}

void fm_owned_doubt(struct fm_owned_list *list, const struct fm_process *process)
{
	struct fm_owned *o = expected(list, process);

	if (o)
		o->is_doubtful = true;
}

/* ---- compared with what there is ---- */

/* During its first connect a kernel may not say where a controller leads to. */
static bool leads_to(const struct fm_inv_controller *c, const struct fm_owned *o,
		     const char *host_nqn)
{
	bool is_said = c->subsysnqn[0] && c->subsysnqn[0] != '(';

	return strcmp(c->transport, "tcp") == 0 &&
	       (!c->hostnqn[0] || strcmp(c->hostnqn, host_nqn) == 0) &&
	       (!is_said || strcmp(c->subsysnqn, o->path.subsystem) == 0) &&
	       strcmp(c->trsvcid, o->path.port) == 0 &&
	       fm_owned_is_same_address(c->traddr, o->path.address);
}

static const struct fm_inv_controller *find_named(const struct fm_inventory *inv,
						  const struct fm_owned *o, const char *host_nqn)
{
	for (unsigned i = 0; i < inv->controller_count; i++) {
		const struct fm_inv_controller *c = &inv->controllers[i];

		if (strcmp(c->name, o->controller) == 0)
			return (!o->id || !c->id || o->id == c->id) && leads_to(c, o, host_nqn)
				       ? c
				       : NULL;
	}
	return NULL;
}

const struct fm_owned *fm_owned_find(const struct fm_owned_list *list,
				     const struct fm_inv_controller *c)
{
	for (unsigned i = 0; i < list->count; i++)
		if (strcmp(list->entry[i].controller, c->name) == 0)
			return &list->entry[i];
	return NULL;
}

static bool settle_expected(struct fm_owned_list *list, struct fm_owned *o,
			    const struct fm_inventory *inv, const char *host_nqn)
{
	for (unsigned i = 0; i < inv->controller_count; i++) {
		const struct fm_inv_controller *c = &inv->controllers[i];

		if (!leads_to(c, o, host_nqn) || fm_owned_find(list, c))
			continue;
		memcpy(o->controller, c->name, sizeof(o->controller));
		o->id = c->id;
		o->cntlid = c->cntlid;
		return true;
	}
	return false;
}

/* What was taken for it is still there, but leads elsewhere, as is known by now. */
static bool has_object(const struct fm_inventory *inv, const struct fm_owned *o)
{
	for (unsigned i = 0; i < inv->controller_count; i++)
		if (strcmp(inv->controllers[i].name, o->controller) == 0)
			return inv->controllers[i].id == o->id;
	return false;
}

/* A controller that is known by its name: whether anything changed, or it has gone. */
static bool settle_named(struct fm_owned_list *list, struct fm_owned *o,
			 const struct fm_inventory *inv, const char *host_nqn)
{
	const struct fm_inv_controller *c = find_named(inv, o, host_nqn);
	bool is_new = c && o->id != c->id;

	if (is_new)
		o->id = c->id;
	if (c || inv->is_cut)
		return is_new;
	if (!o->is_expected) {
		drop(list, (unsigned)(o - list->entry));
		return true;
	}
	o->is_spent = o->is_spent || !has_object(inv, o);
	o->controller[0] = '\0';
	o->id = 0;
	return true;
}

/* Its process had ended before this inventory was read: what it made is in it, or never comes. */
static bool settle_over(struct fm_owned_list *list, struct fm_owned *o,
			const struct fm_inventory *inv)
{
	if (!o->controller[0] && inv->is_cut)
		return false;
	if (o->controller[0]) {
		o->is_expected = false;
		o->is_guessed = true;
	} else {
		drop(list, (unsigned)(o - list->entry));
	}
	return true;
}

bool fm_owned_settle(struct fm_owned_list *list, const struct fm_inventory *inv,
		     const char *host_nqn)
{
	bool has_changed = false;

	for (unsigned i = list->count; i-- > 0;) {
		struct fm_owned *o = &list->entry[i];
		bool is_expected = o->is_expected;

		if (o->controller[0])
			has_changed = settle_named(list, o, inv, host_nqn) || has_changed;
		if (!is_expected)	/* and it may be dropped by now */
			continue;
		if (!o->controller[0] && !o->is_spent)
			has_changed = settle_expected(list, o, inv, host_nqn) || has_changed;
		if (o->is_over)
			has_changed = settle_over(list, o, inv) || has_changed;
	}
	return has_changed;
}

/* ---- as a text ---- */

char *fm_owned_write(const struct fm_owned_list *list, const char *boot)
{
	struct fm_json *all = fm_json_array(), *whole;
	char *text;

	for (unsigned i = 0; i < list->count; i++) {
		const struct fm_owned *o = &list->entry[i];
		struct fm_json *one = fm_json_pack(
			"{s:s, s:I, s:i, s:s, s:s, s:s, s:b, s:b, s:I, s:I}", "controller",
			o->controller, "id", (long long)o->id, "cntlid", o->cntlid, "subsystem",
			o->path.subsystem, "address", o->path.address, "port", o->path.port,
			"expected", o->is_expected, "guessed", o->is_guessed, "pid",
			(long long)o->process.pid, "start", (long long)o->process.start);

		if (!one || fm_json_add(all, one) < 0) {
			fm_json_free(all);
			return NULL;
		}
	}
	whole = fm_json_pack("{s:s, s:o}", "boot", boot, "controllers", all);
	text = whole ? fm_json_dump(whole, FM_JSON_FILE) : NULL;
	fm_json_free(whole);
	return text;
}

static int read_one(struct fm_owned_list *list, const struct fm_json *from)
{
	const char *controller = "", *subsystem = "", *address = "", *port = "";
	int64_t id = 0, cntlid = 0, pid = 0, start = 0;
	bool is_expected = false, is_guessed = false;
	/* Those that may be missing an earlier fmove-nvmed did not write. */
	const struct fm_json_key keys[] = {
		{ "controller", FM_JSON_TEXT, false, .text = &controller },
		{ "id", FM_JSON_INTEGER, false, .integer = &id },
		{ "cntlid", FM_JSON_INTEGER, false, .integer = &cntlid },
		{ "subsystem", FM_JSON_TEXT, false, .text = &subsystem },
		{ "address", FM_JSON_TEXT, false, .text = &address },
		{ "port", FM_JSON_TEXT, false, .text = &port },
		{ "expected", FM_JSON_BOOL, true, .flag = &is_expected },
		{ "guessed", FM_JSON_BOOL, true, .flag = &is_guessed },
		{ "pid", FM_JSON_INTEGER, true, .integer = &pid },
		{ "start", FM_JSON_INTEGER, true, .integer = &start },
	};
	struct fm_owned *o;

	if (fm_json_read_keys(from, keys, sizeof(keys) / sizeof(keys[0]), NULL) < 0 ||
	    cntlid < INT_MIN || cntlid > INT_MAX || pid < 0 || pid > INT32_MAX || start < 0)
		return -EINVAL;
	o = add(list);
	if (!o)
		return -ENOMEM;
	o->id = (uint64_t)id;
	o->cntlid = (int)cntlid;
	o->is_expected = is_expected || !controller[0];
	o->is_doubtful = o->is_expected;	/* who would have heard it is no more */
	o->is_guessed = is_guessed;
	o->process = (struct fm_process){ .pid = (pid_t)pid, .start = (uint64_t)start };
	if (snprintf(o->controller, sizeof(o->controller), "%s", controller) >=
	    (int)sizeof(o->controller))
		return -EINVAL;
	return set_path(o, subsystem, address, port) ? 0 : -EINVAL;
}

/* Reads the file. One of another boot counts as empty. */
static int read_whole(struct fm_owned_list *list, const struct fm_json *whole, const char *boot)
{
	const struct fm_json *all = fm_json_get(whole, "controllers");
	const char *of_boot = "";
	const struct fm_json_key keys[] = {
		{ "boot", FM_JSON_TEXT, false, .text = &of_boot },
		{ .key = "controllers" },
	};
	int ret = fm_json_read_keys(whole, keys, sizeof(keys) / sizeof(keys[0]), NULL);

	if (ret < 0 || fm_json_type(all) != FM_JSON_ARRAY || fm_json_count(all) > OWNED_MAX)
		return -EINVAL;
	if (strcmp(of_boot, boot) != 0)
		return 0;
	for (size_t i = 0; i < fm_json_count(all) && ret == 0; i++)
		ret = read_one(list, fm_json_at(all, i));
	return ret;
}

int fm_owned_read(struct fm_owned_list *list, const char *text, const char *boot,
		  struct fm_err *err)
{
	struct fm_json *whole = NULL;
	int ret = fm_json_parse(text, strlen(text), &whole, NULL);

	*list = (struct fm_owned_list){ 0 };
	if (ret == 0)
		ret = read_whole(list, whole, boot);
	fm_json_free(whole);
	if (ret < 0)
		fm_owned_clear(list);
	if (ret == -ENOMEM)
		return fm_err_set(err, ret, "no memory to remember connections");
	return ret < 0 ? fm_err_set(err, ret, "it is no list of connections") : 0;
}

void fm_owned_clear(struct fm_owned_list *list)
{
	free(list->entry);
	*list = (struct fm_owned_list){ 0 };
}
