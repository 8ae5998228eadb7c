/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef KNEE_SHIM_H
#define KNEE_SHIM_H

/* check_NAME, which calls `function`. */
#define SHIM(type, name, function, parameters, arguments)	\
	type check_##name parameters;				\
	type check_##name parameters				\
	{							\
		return function arguments;			\
	}

/* check_NAME, which calls knee_NAME. */
#define FUNCTION(type, name, parameters, arguments) SHIM(type, name, knee_##name, parameters, arguments)

#endif
