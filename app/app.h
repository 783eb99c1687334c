/* SPDX-License-Identifier: BSD-3-Clause */
/* app.h - the functions of the subcommands of `uroce`. Each subcommand has its own file. argv[0] is
 * the name of the subcommand. A function returns the exit status. A new subcommand needs a line
 * here, a row in main.c, and a file in meson.build. */
#pragma once

int uro_app_run(int argc, char **argv);
int uro_app_devices(int argc, char **argv);
int uro_app_info(int argc, char **argv);
int uro_app_hub(int argc, char **argv);
int uro_app_impair(int argc, char **argv);
int uro_app_shrink(int argc, char **argv);
int uro_app_dump(int argc, char **argv);
int uro_app_judge(int argc, char **argv);
int uro_app_why(int argc, char **argv);
int uro_app_peer(int argc, char **argv);
int uro_app_sim(int argc, char **argv);
int uro_app_stat(int argc, char **argv);
int uro_app_top(int argc, char **argv);
