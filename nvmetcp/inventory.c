/* SPDX-License-Identifier: MIT */
/*
 * inventory - a snapshot of the kernel's NVMe objects, from sysfs, kernels 5.15 to 6.18.
 *
 * Where things are. /sys/class/nvme has the controllers, /sys/class/nvme-subsystem the subsystems,
 * each with links to its controllers. With native multipath the block device, nvme0n1, is below its
 * subsystem, and every controller has a hidden device nvme0c1n1 (subsystem 0, controller 1) that is
 * one path to it. Without native multipath (nvme_core.multipath=N), and with it for a subsystem
 * that can have one controller only, the block device is below its controller; its first number
 * need not be the controller's.
 *
 * What is read. Only attributes that the kernel answers from its memory. `nuse` (since 6.8) sends
 * an Identify to the controller and waits for it: with a target that is gone, that is until the
 * connection is given up. `address` is not read either, see read_address().
 */
#include "nvmetcp/inventory.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "nvmetcp/sysfs.h"

#define SECTOR_BYTES 512u		/* of `size`, whatever the device's own blocks are */
#define NAMESPACES_FIRST 8u
#define NUMBER_DIGITS_MAX 9
#define PATH_BYTES 64			/* of "class/nvme-subsystem/NAME" */

/* A snapshot under way. */
struct scan {
	struct fm_sysfs_dir sys;
	struct fm_inventory *inv;
	unsigned namespace_room;
};

/* ---------------------------------------------------------------------------------------- names */

/* The position behind `word` and a number, or NULL. */
static const char *skip_numbered(const char *at, const char *word)
{
	size_t len = strlen(word), digits;

	if (!at || at[0] != word[0] || strncmp(at, word, len) != 0)
		return NULL;
	digits = strspn(at + len, "0123456789");
	return digits >= 1 && digits <= NUMBER_DIGITS_MAX ? at + len + digits : NULL;
}

static bool is_end(const char *at)
{
	return at && *at == '\0';
}

static bool is_controller(const char *name)
{
	return is_end(skip_numbered(name, "nvme"));
}

static bool is_subsystem(const char *name)
{
	return is_end(skip_numbered(name, "nvme-subsys"));
}

static bool is_namespace(const char *name)
{
	return is_end(skip_numbered(skip_numbered(name, "nvme"), "n"));
}

static bool is_path(const char *name)
{
	return is_end(skip_numbered(skip_numbered(skip_numbered(name, "nvme"), "c"), "n"));
}

static bool is_partition(const char *name)
{
	return is_end(skip_numbered(skip_numbered(skip_numbered(name, "nvme"), "n"), "p"));
}

static bool is_any(const char *name)
{
	return name[0] != '.';
}

static bool is_namespace_or_path(const char *name)
{
	return is_namespace(name) || is_path(name);
}

static bool is_namespace_or_controller(const char *name)
{
	return is_namespace(name) || is_controller(name);
}

/* "nvme0c1n2" is a path of "nvme0n2". */
static void head_of(const char *path, char head[FM_SYSFS_NAME_MAX])
{
	const char *c = strchr(path, 'c');

	snprintf(head, FM_SYSFS_NAME_MAX, "%.*s%s", (int)(c - path), path, skip_numbered(c, "c"));
}

/* --------------------------------------------------------------------------------------- values */

/* Seconds or a count: "5", "off", "-1". */
static int read_int(struct fm_sysfs_dir *dir, const char *attr)
{
	char text[24], *end;
	long value;

	if (!fm_sysfs_text(dir, attr, text, sizeof(text)))
		return FM_INVENTORY_UNKNOWN;
	if (strcmp(text, "off") == 0 || strcmp(text, "-1") == 0)
		return FM_INVENTORY_OFF;
	errno = 0;
	value = strtol(text, &end, 10);
	if (errno != 0 || *end != '\0' || value < 0 || value > INT_MAX)
		return FM_INVENTORY_UNKNOWN;
	return (int)value;
}

/* The 32 hexadecimal digits of a text with hyphens; "" if it has other ones or all are 0. */
static void digits_of(const char *text, char out[static 33])
{
	size_t count = 0;
	bool is_zero = true;

	for (; *text != '\0'; text++) {
		if (*text == '-')
			continue;
		if (count == 32 || !isxdigit((unsigned char)*text))
			break;
		out[count++] = (char)tolower((unsigned char)*text);
		is_zero = is_zero && *text == '0';
	}
	out[count == 32 && *text == '\0' && !is_zero ? 32 : 0] = '\0';
}

/*
 * A namespace without a UUID: its `uuid` shows the NGUID, "for backward compatibility". Only the
 * wwid, which takes the UUID first, says which of the two it is; before the wwid is there, the same
 * digits twice are taken for that.
 */
static void read_identity(struct fm_sysfs_dir *dir, struct fm_inv_namespace *ns)
{
	char text[FM_SYSFS_TEXT_MAX], digits[33];

	(void)fm_sysfs_text(dir, "wwid", ns->wwid, sizeof(ns->wwid));
	(void)fm_sysfs_text(dir, "nguid", text, sizeof(text));
	digits_of(text, ns->nguid);
	(void)fm_sysfs_text(dir, "uuid", text, sizeof(text));
	digits_of(text, digits);
	if (digits[0] == '\0' ||
	    (strncmp(ns->wwid, "uuid.", 5) != 0 && strcmp(digits, ns->nguid) == 0))
		return;
	snprintf(ns->uuid, sizeof(ns->uuid), "%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8,
		 digits + 12, digits + 16, digits + 20);
}

static dev_t read_dev(struct fm_sysfs_dir *dir)
{
	unsigned major_no, minor_no;
	char text[32], rest;

	if (!fm_sysfs_text(dir, "dev", text, sizeof(text)))
		return 0;
	if (sscanf(text, "%9u:%9u%c", &major_no, &minor_no, &rest) != 2)
		return 0;
	return makedev(major_no, minor_no);
}

/* ---- of a controller, of a subsystem ---- */

/*
 * From what udev is told, which the kernel has had since the connection was asked for. Not from
 * `address`: for that nvme-tcp asks the socket for its source address, and kernels up to 6.18 read
 * a socket that is not there any more (a NULL pointer, which takes the machine along) if the
 * connection is lost or removed at that moment.
 */
static void read_address(struct fm_sysfs_dir *dir, struct fm_inv_controller *c)
{
	const struct fm_sysfs_variable wanted[] = {
		{ "NVME_TRADDR", c->traddr, sizeof(c->traddr) },
		{ "NVME_TRSVCID", c->trsvcid, sizeof(c->trsvcid) },
	};

	fm_sysfs_variables(dir, wanted, sizeof(wanted) / sizeof(wanted[0]));
}

/* False: it has gone, for `state` is there as long as the controller is. Name and subsystem
 * stay. */
static bool read_controller(struct fm_sysfs_dir *dir, struct fm_inv_controller *c)
{
	if (!fm_sysfs_text(dir, "state", c->state, sizeof(c->state)))
		return false;
	(void)fm_sysfs_text(dir, "transport", c->transport, sizeof(c->transport));
	(void)fm_sysfs_text(dir, "subsysnqn", c->subsysnqn, sizeof(c->subsysnqn));
	(void)fm_sysfs_text(dir, "hostnqn", c->hostnqn, sizeof(c->hostnqn));
	read_address(dir, c);
	c->cntlid = read_int(dir, "cntlid");
	return true;
}

/* False: it has gone, for each has an NQN, if only one that the kernel made up. */
static bool read_subsystem(struct fm_sysfs_dir *dir, struct fm_inv_subsystem *sub)
{
	if (!fm_sysfs_text(dir, "subsysnqn", sub->nqn, sizeof(sub->nqn)))
		return false;
	(void)fm_sysfs_text(dir, "iopolicy", sub->iopolicy, sizeof(sub->iopolicy));
	return true;
}

/* ---- of a namespace ---- */

/* False: it has gone; every block device has a size, if only 0. */
static bool read_namespace(struct fm_sysfs_dir *dir, struct fm_inv_namespace *ns)
{
	uint64_t value;

	if (!fm_sysfs_u64(dir, "size", &value))
		return false;
	ns->size_bytes = value <= UINT64_MAX / SECTOR_BYTES ? value * SECTOR_BYTES : 0;
	if (fm_sysfs_u64(dir, "nsid", &value) && value <= UINT32_MAX)
		ns->nsid = (uint32_t)value;
	(void)fm_sysfs_u64(dir, "ro", &value);
	ns->is_read_only = value != 0;
	ns->dev = read_dev(dir);
	read_identity(dir, ns);
	return true;
}

static int read_holders(struct fm_sysfs_dir *dir, struct fm_inv_namespace *ns);

/* multipathd has it, which is no use of it: what is made of its device is. */
static int read_mapper(struct fm_sysfs_dir *mapper, const char *name, struct fm_inv_namespace *ns)
{
	memcpy(ns->mapper, name, strlen(name) + 1);
	ns->mapper_dev = read_dev(mapper);
	if (ns->part_count == FM_INV_PARTS_MAX)
		memcpy(ns->holder, name, strlen(name) + 1);
	else
		ns->part[ns->part_count++] = ns->mapper_dev;
	return read_holders(mapper, ns);
}

static int read_holder(const struct fm_sysfs_dir *holders, const char *name,
		       struct fm_inv_namespace *ns)
{
	struct fm_sysfs_dir holder;
	char uuid[160] = "";
	int ret = fm_sysfs_open(holders, name, &holder);

	if (ret < 0 && ret != -ENOENT)
		return ret;
	if (ret == 0)
		(void)fm_sysfs_text(&holder, "dm/uuid", uuid, sizeof(uuid));
	if (strncmp(uuid, "mpath-", 6) == 0 && !ns->mapper[0])
		ret = read_mapper(&holder, name, ns);
	else
		memcpy(ns->holder, name, strlen(name) + 1);
	if (ret == -ENOENT)
		return 0;
	ret = ret < 0 ? ret : holder.error;
	fm_sysfs_close(&holder);
	return ret;
}

/*
 * Reads what is made of a device: of the namespace, a partition of it, or the device of multipathd.
 */
static int read_holders(struct fm_sysfs_dir *dir, struct fm_inv_namespace *ns)
{
	struct fm_sysfs_names names;
	struct fm_sysfs_dir holders;
	int ret = fm_sysfs_open(dir, "holders", &holders);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = fm_sysfs_list(&holders, is_any, FM_INV_PARTS_MAX, &names);
	for (unsigned i = 0; ret == 0 && i < names.count && !ns->holder[0]; i++)
		ret = read_holder(&holders, names.name[i], ns);
	fm_sysfs_names_free(&names);
	fm_sysfs_close(&holders);
	return ret == -ENOENT ? 0 : ret;
}

static int read_partition(struct fm_sysfs_dir *dir, const char *name, struct fm_inv_namespace *ns)
{
	struct fm_sysfs_dir child;
	int ret;

	if (ns->part_count == FM_INV_PARTS_MAX) {
		memcpy(ns->holder, name, strlen(name) + 1);
		return 0;
	}
	ret = fm_sysfs_open(dir, name, &child);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ns->part[ns->part_count++] = read_dev(&child);
	ret = read_holders(&child, ns);
	ret = ret < 0 ? ret : child.error;
	fm_sysfs_close(&child);
	return ret;
}

/*
 * Reads the partitions of a namespace and what is made of them. A mount of those has another device
 * number.
 */
static void read_parts(struct fm_sysfs_dir *dir, struct fm_inv_namespace *ns)
{
	struct fm_sysfs_names names;
	int ret = read_holders(dir, ns);

	if (ret == 0) {
		ret = fm_sysfs_list(dir, is_partition, FM_INV_PARTS_MAX + 1, &names);
		for (unsigned i = 0; ret == 0 && i < names.count; i++)
			ret = read_partition(dir, names.name[i], ns);
		fm_sysfs_names_free(&names);
	}
	if (ret < 0 && ret != -ENOENT)
		dir->error = ret;
}

/* ----------------------------------------------------------------------------------- a snapshot */

/* A place for one more; NULL: there are too many, or *ret is -ENOMEM. */
static struct fm_inv_namespace *namespace_room(struct scan *s, int *ret)
{
	unsigned want = s->namespace_room ? s->namespace_room * 2 : NAMESPACES_FIRST;
	struct fm_inventory *inv = s->inv;
	void *grown;

	if (inv->namespace_count == FM_INVENTORY_NAMESPACES_MAX) {
		inv->is_cut = true;
		return NULL;
	}
	if (inv->namespace_count == s->namespace_room) {
		grown = FM_FAULT("inventory.namespaces")
				? NULL
				: realloc(inv->namespaces, want * sizeof(*inv->namespaces));
		if (!grown) {
			*ret = -ENOMEM;
			return NULL;
		}
		inv->namespaces = grown;
		s->namespace_room = want;
	}
	return &inv->namespaces[inv->namespace_count];
}

/* The block device `name` below dir. controller -1: it has paths, which are found later. */
static int add_namespace(struct scan *s, const struct fm_sysfs_dir *dir, const char *name,
			 int subsystem, int controller)
{
	struct fm_sysfs_dir child;
	struct fm_inv_namespace *ns;
	int ret = fm_sysfs_open(dir, name, &child);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ns = namespace_room(s, &ret);
	if (ns) {
		memset(ns, 0, sizeof(*ns));
		memcpy(ns->name, name, strlen(name) + 1);
		ns->subsystem = subsystem;
		if (controller >= 0) {
			ns->path_count = 1;
			ns->path[0].controller = controller;
			(void)fm_sysfs_text(&child, "ana_state", ns->path[0].ana_state,
					    sizeof(ns->path[0].ana_state));
		}
		if (read_namespace(&child, ns)) {
			read_parts(&child, ns);
			s->inv->namespace_count++;
		}
	}
	ret = ret < 0 ? ret : child.error;
	fm_sysfs_close(&child);
	return ret;
}

/* The hidden device `name` below a controller. What it is a path of may have come, or gone, since
 * that was looked at. */
static int add_path(struct scan *s, const struct fm_sysfs_dir *dir, const char *name,
		    int controller)
{
	struct fm_inv_namespace *ns = s->inv->namespaces, *end = ns + s->inv->namespace_count;
	struct fm_inv_path path = { .controller = controller };
	char head[FM_SYSFS_NAME_MAX];
	struct fm_sysfs_dir child;
	int ret;

	head_of(name, head);
	while (ns < end && strcmp(ns->name, head) != 0)
		ns++;
	if (ns == end)
		return 0;
	if (ns->path_count == FM_INV_PATHS_MAX) {
		s->inv->is_cut = true;
		return 0;
	}
	ret = fm_sysfs_open(dir, name, &child);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	(void)fm_sysfs_text(&child, "ana_state", path.ana_state, sizeof(path.ana_state));
	ret = child.error;
	fm_sysfs_close(&child);
	ns->path[ns->path_count++] = path;
	return ret;
}

/* Adds the namespaces and paths below a controller. */
static int add_children(struct scan *s, const struct fm_sysfs_dir *dir, int controller)
{
	int subsystem = s->inv->controllers[controller].subsystem;
	struct fm_sysfs_names names;
	int ret = fm_sysfs_list(dir, is_namespace_or_path, FM_INVENTORY_NAMESPACES_MAX, &names);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	s->inv->is_cut = s->inv->is_cut || names.is_cut;
	for (unsigned i = 0; i < names.count && ret == 0; i++)
		ret = is_path(names.name[i])
			      ? add_path(s, dir, names.name[i], controller)
			      : add_namespace(s, dir, names.name[i], subsystem, controller);
	fm_sysfs_names_free(&names);
	return ret;
}

/* A number may have been given to another controller since its subsystem was looked at. */
static bool is_of(const struct fm_inventory *inv, const struct fm_inv_controller *c)
{
	const char *nqn = c->subsystem < 0 ? "" : inv->subsystems[c->subsystem].nqn;

	return nqn[0] == '\0' || c->subsysnqn[0] == '\0' || strcmp(nqn, c->subsysnqn) == 0;
}

/* The controller whose name and subsystem are in `listed`, and what is below it; it gets the next
 * index. */
static int add_controller(struct scan *s, const struct fm_inv_controller *listed)
{
	struct fm_inv_controller *c = &s->inv->controllers[s->inv->controller_count];
	char path[PATH_BYTES];
	struct fm_sysfs_dir dir;
	struct stat st;
	int ret;

	snprintf(path, sizeof(path), "class/nvme/%s", listed->name);
	ret = fm_sysfs_open(&s->sys, path, &dir);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	memmove(c, listed, sizeof(*c));
	c->id = fstat(dir.fd, &st) == 0 ? st.st_ino : 0;
	if (read_controller(&dir, c)) {
		if (!is_of(s->inv, c))
			c->subsystem = -1;
		ret = add_children(s, &dir, (int)s->inv->controller_count++);
	}
	ret = ret < 0 ? ret : dir.error;
	fm_sysfs_close(&dir);
	return ret;
}

/* ---- subsystems ---- */

static void set_subsystem(struct fm_inventory *inv, unsigned listed, const char *controller,
			  int subsystem)
{
	for (unsigned i = 0; i < listed; i++)
		if (strcmp(inv->controllers[i].name, controller) == 0)
			inv->controllers[i].subsystem = subsystem;
}

/*
 * Adds the namespaces of a subsystem (native multipath), and finds its controllers among those
 * listed.
 */
static int add_subsystem_children(struct scan *s, const struct fm_sysfs_dir *dir, int subsystem,
				  unsigned listed)
{
	struct fm_sysfs_names names;
	int ret = fm_sysfs_list(dir, is_namespace_or_controller,
				FM_INVENTORY_NAMESPACES_MAX + FM_INVENTORY_CONTROLLERS_MAX, &names);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	s->inv->is_cut = s->inv->is_cut || names.is_cut;
	for (unsigned i = 0; i < names.count && ret == 0; i++) {
		if (is_controller(names.name[i]))
			set_subsystem(s->inv, listed, names.name[i], subsystem);
		else
			ret = add_namespace(s, dir, names.name[i], subsystem, -1);
	}
	fm_sysfs_names_free(&names);
	return ret;
}

/* Which controllers there are is known, `listed`; what they are is not. */
static int add_subsystem(struct scan *s, const char *name, unsigned listed)
{
	struct fm_inv_subsystem *sub = &s->inv->subsystems[s->inv->subsystem_count];
	char path[PATH_BYTES];
	struct fm_sysfs_dir dir;
	int ret;

	snprintf(path, sizeof(path), "class/nvme-subsystem/%s", name);
	ret = fm_sysfs_open(&s->sys, path, &dir);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (read_subsystem(&dir, sub)) {
		memcpy(sub->name, name, strlen(name) + 1);
		ret = add_subsystem_children(s, &dir, (int)s->inv->subsystem_count++, listed);
	}
	ret = ret < 0 ? ret : dir.error;
	fm_sysfs_close(&dir);
	return ret;
}

/* ---- all of it ---- */

/* The members of a class; none, where the kernel has no such class. */
static int list_class(struct scan *s, const char *class, bool (*wanted)(const char *), unsigned max,
		      struct fm_sysfs_names *out)
{
	struct fm_sysfs_dir dir;
	int ret = fm_sysfs_open(&s->sys, class, &dir);

	*out = (struct fm_sysfs_names){ 0 };
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = fm_sysfs_list(&dir, wanted, max, out);
	fm_sysfs_close(&dir);
	s->inv->is_cut = s->inv->is_cut || out->is_cut;
	return ret == -ENOENT ? 0 : ret;
}

/*
 * Only names at first: a controller does not say which subsystem it is of, subsystems say which
 * controllers they have, and namespaces must be known before their paths are.
 */
static int list_controllers(struct scan *s, unsigned *listed)
{
	struct fm_sysfs_names names;
	int ret = list_class(s, "class/nvme", is_controller, FM_INVENTORY_CONTROLLERS_MAX, &names);

	*listed = names.count;
	if (ret < 0 || names.count == 0)
		return ret;
	s->inv->controllers = FM_FAULT("inventory.controllers")
				      ? NULL
				      : calloc(names.count, sizeof(*s->inv->controllers));
	for (unsigned i = 0; i < names.count && s->inv->controllers; i++) {
		memcpy(s->inv->controllers[i].name, names.name[i], sizeof(names.name[i]));
		s->inv->controllers[i].subsystem = -1;
	}
	fm_sysfs_names_free(&names);
	return s->inv->controllers ? 0 : -ENOMEM;
}

static int add_subsystems(struct scan *s, unsigned listed)
{
	struct fm_sysfs_names names;
	int ret = list_class(s, "class/nvme-subsystem", is_subsystem, FM_INVENTORY_SUBSYSTEMS_MAX,
			     &names);

	if (ret < 0 || names.count == 0)
		return ret;
	s->inv->subsystems = FM_FAULT("inventory.subsystems")
				     ? NULL
				     : calloc(names.count, sizeof(*s->inv->subsystems));
	if (!s->inv->subsystems)
		ret = -ENOMEM;
	for (unsigned i = 0; i < names.count && ret == 0; i++)
		ret = add_subsystem(s, names.name[i], listed);
	fm_sysfs_names_free(&names);
	return ret;
}

static int scan_all(struct scan *s)
{
	struct fm_sysfs_dir class;
	unsigned listed;
	int ret = fm_sysfs_open(&s->sys, "class", &class);

	/* Without it this is no sysfs, and "there is no NVMe" would be wrong. */
	if (ret < 0)
		return ret;
	fm_sysfs_close(&class);
	ret = list_controllers(s, &listed);
	if (ret == 0)
		ret = add_subsystems(s, listed);
	for (unsigned i = 0; i < listed && ret == 0; i++)
		ret = add_controller(s, &s->inv->controllers[i]);
	return ret;
}

int fm_inventory_read(const char *root, struct fm_inventory **out, struct fm_err *err)
{
	struct scan s = { 0 };
	int ret;

	*out = NULL;
	ret = fm_sysfs_root(root, &s.sys, err);
	if (ret < 0)
		return ret;
	s.inv = FM_FAULT("inventory.new") ? NULL : calloc(1, sizeof(*s.inv));
	ret = s.inv ? scan_all(&s) : -ENOMEM;
	fm_sysfs_close(&s.sys);
	if (ret < 0) {
		fm_inventory_free(s.inv);
		return fm_err_sys(err, ret, "read the NVMe objects in %s/sys/class",
				  strcmp(root, "/") == 0 ? "" : root);
	}
	*out = s.inv;
	return 0;
}

/*
 * Whether the controller has a secret. The text is not kept. A kernel says "none" without a secret;
 * a kernel that knows no secrets has no such attribute.
 */
static bool has_secret(struct fm_sysfs_dir *dir, const char *attr)
{
	char secret[512];
	bool is_there =
		fm_sysfs_text(dir, attr, secret, sizeof(secret)) && strcmp(secret, "none") != 0;

	explicit_bzero(secret, sizeof(secret));
	return is_there;
}

void fm_inventory_settings(const char *root, const char *controller, struct fm_inv_settings *out)
{
	struct fm_sysfs_dir sys, dir = { .fd = -1, .error = -ENOENT };
	char path[PATH_BYTES];

	if (fm_sysfs_root(root, &sys, NULL) == 0) {
		snprintf(path, sizeof(path), "class/nvme/%s", controller);
		(void)fm_sysfs_open(&sys, path, &dir);
		fm_sysfs_close(&sys);
	}
	*out = (struct fm_inv_settings){
		.has_secret = has_secret(&dir, "dhchap_secret"),
		.has_controller_secret = has_secret(&dir, "dhchap_ctrl_secret"),
		.has_tls = has_secret(&dir, "tls_key"),
		.queue_count = read_int(&dir, "queue_count"),
		.keep_alive_s = read_int(&dir, "kato"),
		.reconnect_delay_s = read_int(&dir, "reconnect_delay"),
		.ctrl_loss_s = read_int(&dir, "ctrl_loss_tmo"),
		.fast_io_fail_s = read_int(&dir, "fast_io_fail_tmo"),
	};
	fm_sysfs_close(&dir);
}

void fm_inventory_free(struct fm_inventory *inv)
{
	if (!inv)
		return;
	free(inv->controllers);
	free(inv->subsystems);
	free(inv->namespaces);
	free(inv);
}

/* ----------------------------------------------------------------------------------- one device */

/* -ENOENT: it is no namespace, or has gone. */
static int identify(const struct fm_sysfs_dir *sys, const char *path, dev_t dev,
		    struct fm_inv_namespace *out)
{
	struct fm_sysfs_dir dir;
	int ret = fm_sysfs_target_name(sys, path, out->name);

	if (ret < 0 || !is_namespace(out->name))
		return -ENOENT;
	ret = fm_sysfs_open(sys, path, &dir);
	if (ret < 0)
		return ret;
	if (!read_namespace(&dir, out) || out->nsid == 0 || out->dev != dev)
		ret = -ENOENT;
	ret = dir.error < 0 ? dir.error : ret;
	fm_sysfs_close(&dir);
	return ret;
}

int fm_inventory_identify(const char *root, dev_t dev, struct fm_inv_namespace *out,
			  struct fm_err *err)
{
	struct fm_sysfs_dir sys;
	char path[PATH_BYTES];
	int ret;

	memset(out, 0, sizeof(*out));
	out->subsystem = -1;
	ret = fm_sysfs_root(root, &sys, err);
	if (ret < 0)
		return ret;
	snprintf(path, sizeof(path), "dev/block/%u:%u", major(dev), minor(dev));
	ret = identify(&sys, path, dev, out);
	fm_sysfs_close(&sys);
	if (ret == -ENOENT)
		return fm_err_set(err, -ENODEV, "device %u:%u is no NVMe namespace, or has gone",
				  major(dev), minor(dev));
	if (ret < 0)
		return fm_err_sys(err, ret, "identify device %u:%u", major(dev), minor(dev));
	return 0;
}

bool fm_inventory_is_path(const struct fm_inv_namespace *ns, int controller)
{
	for (unsigned i = 0; i < ns->path_count; i++)
		if (ns->path[i].controller == controller)
			return true;
	return false;
}

bool fm_inventory_is_live(const struct fm_inventory *inv, const struct fm_inv_namespace *ns)
{
	for (unsigned i = 0; i < ns->path_count; i++)
		if (strcmp(inv->controllers[ns->path[i].controller].state, "live") == 0)
			return true;
	return false;
}
