/* SPDX-License-Identifier: BSD-3-Clause */
/* page.h - the parts of the page of `uroce dump --html` before and after its data. gen_page.py
 * makes them. */
#pragma once

extern const unsigned char uro_page_before[];
extern const unsigned uro_page_before_length;
extern const unsigned char uro_page_after[];
extern const unsigned uro_page_after_length;
