/* SPDX-License-Identifier: MIT */
/* system_log - see system_log.h. */
#include "client/cli/system_log.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-journal.h>

#include "mover/base/err.h"

#define LIBRARY "libsystemd.so.0"

/* What is called of the library. */
#define EACH_CALL(X)                                                                               \
	X(open)                                                                                    \
	X(close)                                                                                   \
	X(add_match)                                                                               \
	X(seek_head)                                                                               \
	X(next)                                                                                    \
	X(get_realtime_usec)                                                                       \
	X(get_data)                                                                                \
	X(get_fd)                                                                                  \
	X(process)                                                                                 \
	X(has_runtime_files)                                                                       \
	X(has_persistent_files)

#define POINTER(name) __typeof__(&sd_journal_##name) name;

struct fm_system_log {
	sd_journal *journal;
	EACH_CALL(POINTER)
};

/* The library stays loaded: it may have told the C library of threads' ends. */
static int load(struct fm_system_log *j, const char *field, struct fm_err *err)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return fm_err_set(err, -ENOENT,
				  "read the journal: %s; \"journalctl %s\" shows the same",
				  dlerror(), field);
#define LOAD(name)                                                                                 \
	j->name = (__typeof__(j->name))dlsym(library, "sd_journal_" #name);                        \
	if (!j->name)                                                                              \
		return fm_err_set(err, -ENOSYS,                                            \
				  "read the journal: " LIBRARY                                     \
				  " is too old; \"journalctl %s\" shows the same",                 \
				  field);
	EACH_CALL(LOAD)
	return 0;
}

static int open_at(struct fm_system_log *j, const char *field)
{
	int ret = j->open(&j->journal, SD_JOURNAL_LOCAL_ONLY);

	if (ret >= 0)
		ret = j->add_match(j->journal, field, 0);
	return ret < 0 ? ret : j->seek_head(j->journal);
}

int fm_system_log_open(const char *field, struct fm_system_log **out, struct fm_err *err)
{
	struct fm_system_log *j = calloc(1, sizeof(*j));
	int ret = j ? load(j, field, err) : fm_err_set(err, -ENOMEM, "out of memory");

	if (ret == 0) {
		ret = open_at(j, field);
		if (ret < 0)
			ret = fm_err_sys(err, ret, "read the journal");
	}
	if (ret < 0) {
		fm_system_log_close(j);
		return ret;
	}
	*out = j;
	return 0;
}

void fm_system_log_close(struct fm_system_log *j)
{
	if (j && j->journal)
		j->close(j->journal);
	free(j);
}

bool fm_system_log_has_files(const struct fm_system_log *j)
{
	return j->has_runtime_files(j->journal) > 0 || j->has_persistent_files(j->journal) > 0;
}

int fm_system_log_next(struct fm_system_log *j, uint64_t *time_us)
{
	int ret = j->next(j->journal);

	if (ret <= 0)
		return ret;
	ret = j->get_realtime_usec(j->journal, time_us);
	return ret < 0 ? ret : 1;
}

const char *fm_system_log_field(struct fm_system_log *j, const char *name, size_t *len)
{
	const size_t before = strlen(name) + 1; /* NAME= */
	const void *data;

	if (j->get_data(j->journal, name, &data, len) < 0 || *len < before)
		return NULL;
	*len -= before;
	return (const char *)data + before;
}

int fm_system_log_fd(const struct fm_system_log *j)
{
	return j->get_fd(j->journal);
}

int fm_system_log_process(struct fm_system_log *j)
{
	int ret = j->process(j->journal);

	return ret < 0 ? ret : 0;
}
