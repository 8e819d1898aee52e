/* SPDX-License-Identifier: MIT */
/* finding - see finding.h. */
#include "client/doctor/finding.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/plain.h"

struct fm_finding *fm_finding_add(struct fm_findings *list, const char *id,
				  enum fm_severity severity, const struct fm_facts *node)
{
	struct fm_finding *f;

	if (list->count == FM_FINDINGS_MAX) {
		list->left_out++;
		return NULL;
	}
	f = &list->at[list->count++];
	f->id = id;
	f->severity = severity;
	f->node = node;
	f->read[0] = f->means[0] = f->mend[0] = '\0';
	return f;
}

void fm_finding_drop(struct fm_findings *list, const struct fm_finding *f)
{
	if (!f)
		return;
	assert(list->count > 0 && f == &list->at[list->count - 1]);
	list->count--;
}

__attribute__((format(printf, 2, 0)))
static void add_line(char text[static FM_FINDING_TEXT_MAX], const char *fmt, va_list list)
{
	size_t len = strlen(text),
	       begin = len > 0 ? len + 1 : 0; /* at most the whole room: then nothing fits */
	char line[FM_FINDING_TEXT_MAX], shown[FM_PLAIN_MAX * FM_FINDING_TEXT_MAX];
	int n = vsnprintf(line, sizeof(line), fmt, list);

	if (n < 0 || (size_t)n >= sizeof(line))
		return;
	/* facts are others' words: none of them ends the line and begins one of its own */
	(void)fm_plain(line, (size_t)n, shown, sizeof(shown));
	if (strlen(shown) >= FM_FINDING_TEXT_MAX - begin)
		return;
	if (begin > 0)
		text[len] = '\n';
	(void)strcpy(text + begin, shown);
}

void fm_finding_read(struct fm_finding *f, const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	if (f)
		add_line(f->read, fmt, list);
	va_end(list);
}

void fm_finding_means(struct fm_finding *f, const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	if (f)
		add_line(f->means, fmt, list);
	va_end(list);
}

void fm_finding_mend(struct fm_finding *f, const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	if (f)
		add_line(f->mend, fmt, list);
	va_end(list);
}

const char *fm_severity_name(enum fm_severity severity)
{
	static const char *const names[] = {
		[FM_NOTE] = "note", [FM_WARNING] = "warning", [FM_ERROR] = "error"
	};

	return names[severity];
}
