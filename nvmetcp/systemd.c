/* SPDX-License-Identifier: MIT */
/* systemd - see systemd.h. */
#include "nvmetcp/systemd.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

#include "mover/base/err.h"
#include "mover/base/unit_name.h"

#define ANSWER_US 10000000	/* of one call; jobs are waited for without end */
#define SERVICE "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER SERVICE ".Manager"

struct fm_systemd {
	sd_bus *bus;
};

int fm_systemd_open(struct fm_systemd **out, struct fm_err *err)
{
	struct fm_systemd *systemd;
	int ret;

	if (sd_booted() <= 0)
		return fm_err_set(err, -ENOENT, "systemd does not run this machine");
	systemd = calloc(1, sizeof(*systemd));
	if (!systemd)
		return fm_err_set(err, -ENOMEM, "no memory for the bus");
	ret = sd_bus_open_system(&systemd->bus);
	if (ret >= 0) {
		(void)sd_bus_set_method_call_timeout(systemd->bus, ANSWER_US);
		*out = systemd;
		return 0;
	}
	free(systemd);
	return fm_err_set(err, ret == -ENOENT ? -ENOENT : -EAGAIN,
			  "the system bus does not answer: %s", fm_err_name(ret));
}

void fm_systemd_close(struct fm_systemd *systemd)
{
	if (!systemd)
		return;
	sd_bus_flush_close_unref(systemd->bus);
	free(systemd);
}

/* Makes an error text: that of systemd if there is one, which is clearer than the errno. */
static int explain(const char *what, const char *unit, sd_bus_error *error, int ret,
		   struct fm_err *err)
{
	(void)fm_err_set(err, -EIO, "%s %s: systemd says: %s", what, unit,
			 error->message ? error->message : fm_err_name(ret));
	sd_bus_error_free(error);
	return -EIO;
}

/* ---- looking ---- */

struct property {
	const char *interface, *name;
	char *out;
	size_t cap;
};

/* One that does not fit is as good as none. */
static int get_text(struct fm_systemd *systemd, const char *object, const struct property *p,
		    const char *unit, struct fm_err *err)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	char *text = NULL;
	int ret = sd_bus_get_property_string(systemd->bus, SERVICE, object, p->interface, p->name,
					     &error, &text);

	if (ret < 0)
		return explain("look at", unit, &error, ret, err);
	if (strlen(text) < p->cap)
		strcpy(p->out, text);
	free(text);
	return 0;
}

/* Number and path; 0: there is none. */
static int get_job(struct fm_systemd *systemd, const char *object, uint32_t *job, const char *unit,
		   struct fm_err *err)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *reply = NULL;
	const char *path;
	int ret = sd_bus_get_property(systemd->bus, SERVICE, object, SERVICE ".Unit", "Job", &error,
				      &reply, "(uo)");

	if (ret >= 0)
		ret = sd_bus_message_read(reply, "(uo)", job, &path);
	sd_bus_message_unref(reply);
	return ret < 0 ? explain("look at", unit, &error, ret, err) : 0;
}

static int look_at(struct fm_systemd *systemd, const char *object, struct fm_systemd_mount *out,
		   struct fm_err *err)
{
	char load[32] = "", active[32] = "", file[PATH_MAX] = "";
	const struct property wanted[] = {
		{ SERVICE ".Unit", "LoadState", load, sizeof(load) },
		{ SERVICE ".Unit", "ActiveState", active, sizeof(active) },
		{ SERVICE ".Unit", "FragmentPath", file, sizeof(file) },
		{ SERVICE ".Mount", "What", out->what, sizeof(out->what) },
		{ SERVICE ".Mount", "Options", out->options, sizeof(out->options) },
	};
	uint32_t job = 0;
	int ret = get_job(systemd, object, &job, out->name, err);

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && ret == 0; i++)
		ret = get_text(systemd, object, &wanted[i], out->name, err);
	out->has_file = strcmp(load, "loaded") == 0 && file[0];
	out->is_active = strcmp(active, "active") == 0;
	out->is_changing = job != 0 || (!out->is_active && strcmp(active, "inactive") != 0 &&
					strcmp(active, "failed") != 0);
	return ret;
}

int fm_systemd_look(struct fm_systemd *systemd, const char *point, struct fm_systemd_mount *out,
		    struct fm_err *err)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *reply = NULL;
	const char *object;
	int ret, len;

	*out = (struct fm_systemd_mount){ .has_file = false };
	len = fm_unit_escape_path(point, out->name, sizeof(out->name) - strlen(".mount"));
	if (len < 0)
		return 0;	/* systemd has no unit for it either */
	strcpy(out->name + len, ".mount");
	ret = sd_bus_call_method(systemd->bus, SERVICE, MANAGER_PATH, MANAGER, "LoadUnit", &error,
				 &reply, "s", out->name);
	if (ret < 0)
		return explain("look at", out->name, &error, ret, err);
	ret = sd_bus_message_read(reply, "o", &object);
	ret = ret < 0 ? explain("look at", out->name, &error, ret, err)
		      : look_at(systemd, object, out, err);
	sd_bus_message_unref(reply);
	return ret;
}

/* ---- options ---- */

static bool has_word(const char *list, const char *word, size_t len)
{
	for (const char *at = list; *at;) {
		size_t n = strcspn(at, ",");

		if (n == len && memcmp(at, word, len) == 0)
			return true;
		at += n + (at[n] == ',');
	}
	return false;
}

bool fm_systemd_has_options(const struct fm_systemd_mount *mount, const char *options,
			    const char **lacking, int *len)
{
	for (const char *at = options; *at;) {
		size_t n = strcspn(at, ",");
		bool is_default = n == 2 && memcmp(at, "rw", 2) == 0;

		*lacking = at;
		*len = (int)n;
		if (n > 0 && !is_default && !has_word(mount->options, at, n))
			return false;
		at += n + (at[n] == ',');
	}
	*lacking = "ro";
	*len = 2;
	return has_word(options, "ro", 2) || !has_word(mount->options, "ro", 2);
}

/* ---- jobs ---- */

struct job {
	const char *object;
	char result[32];		/* "": under way */
};

static int job_removed(sd_bus_message *message, void *ctx, sd_bus_error *error)
{
	struct job *job = ctx;
	const char *object, *unit, *result;
	uint32_t id;

	(void)error;
	if (sd_bus_message_read(message, "uoss", &id, &object, &unit, &result) >= 0 &&
	    strcmp(object, job->object) == 0)
		(void)snprintf(job->result, sizeof(job->result), "%s", result);
	return 0;
}

static int wait_for_job(struct fm_systemd *systemd, struct job *job)
{
	int ret = 0;

	while (ret >= 0 && !job->result[0]) {
		ret = sd_bus_process(systemd->bus, NULL);
		if (ret == 0)
			ret = sd_bus_wait(systemd->bus, UINT64_MAX);
	}
	return ret < 0 ? ret : 0;
}

/* The signal may come before the answer with the job's name; it is looked at after it all the
 * same. */
static int run_job(struct fm_systemd *systemd, const char *method, const char *mode,
		   const char *what, const char *unit, struct fm_err *err)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *reply = NULL;
	sd_bus_slot *slot = NULL;
	struct job job = { 0 };
	int ret;

	ret = sd_bus_match_signal(systemd->bus, &slot, SERVICE, MANAGER_PATH, MANAGER, "JobRemoved",
				  job_removed, &job);
	if (ret >= 0)
		ret = sd_bus_call_method(systemd->bus, SERVICE, MANAGER_PATH, MANAGER, "Subscribe",
					 &error, NULL, "");
	if (ret >= 0)
		ret = sd_bus_call_method(systemd->bus, SERVICE, MANAGER_PATH, MANAGER, method,
					 &error, &reply, "ss", unit, mode);
	if (ret >= 0)
		ret = sd_bus_message_read(reply, "o", &job.object);
	if (ret >= 0)
		ret = wait_for_job(systemd, &job);
	if (ret < 0)
		ret = explain(what, unit, &error, ret, err);
	else if (strcmp(job.result, "done") != 0)
		ret = fm_err_set(err, -EIO, "%s %s: %s; `systemctl status %s` says why", what, unit,
				 job.result, unit);
	else
		ret = 0;
	sd_bus_slot_unref(slot);
	sd_bus_message_unref(reply);
	return ret;
}

int fm_systemd_start(struct fm_systemd *systemd, const char *unit, struct fm_err *err)
{
	/* What somebody is stopping at this moment is not started in spite of him. */
	return run_job(systemd, "StartUnit", "fail", "start", unit, err);
}

int fm_systemd_stop(struct fm_systemd *systemd, const char *unit, struct fm_err *err)
{
	return run_job(systemd, "StopUnit", "replace", "stop", unit, err);
}
