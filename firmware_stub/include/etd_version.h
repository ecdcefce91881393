// SPDX-License-Identifier: Apache-2.0
/* Version of the library. Generated from pyproject.toml by schema/generate.py. */
#ifndef ETD_VERSION_H
#define ETD_VERSION_H

#define ETD_VERSION "0.1.0"
#define ETD_VERSION_MAJOR 0
#define ETD_VERSION_MINOR 1
#define ETD_VERSION_PATCH 0
/* For comparison in #if: major * 10000 + minor * 100 + patch. */
#define ETD_VERSION_NUMBER 100

#endif
