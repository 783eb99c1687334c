/* SPDX-License-Identifier: BSD-3-Clause */
/* dump_html.h - the page of `uroce dump --html`. */
#pragma once

/* Writes a page that shows the capture @path to standard output. Returns the exit status. */
int uro_dump_html(const char *path);
