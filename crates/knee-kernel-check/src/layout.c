/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where C puts the fields of the structures that Rust mirrors. */
#include <stddef.h>
#include <string.h>
#include "bbr3/state.h"
#include "knee_cocoa.h"
#include "knee_daimd.h"
#include "knee_lola.h"
#include "knee_lola_wild.h"

struct field {
	const char *structure;	/* as Rust calls it */
	const char *name;	/* NULL: the structure itself */
	u32 offset;
	u32 size;
};

#define WHOLE(rust, type) { rust, NULL, 0, sizeof(type) },
#define FIELD(rust, type, member) { rust, #member, offsetof(type, member), sizeof(((type *)0)->member) },

static const struct field fields[] = {
/* The build writes it from mirrors.rs. */
#include "fields.h"
};

/* The size of a field, of the whole structure without a name, 0 where there is none; where it lies goes into `offset`.
 * */
u64 check_layout(const char *structure, const char *name, u64 *offset);
u64 check_layout(const char *structure, const char *name, u64 *offset)
{
	u32 i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];

		if (strcmp(f->structure, structure) || (f->name ? !name || strcmp(f->name, name) : !!name))
			continue;
		*offset = f->offset;
		return f->size;
	}
	return 0;
}
