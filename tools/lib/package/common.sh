# SPDX-License-Identifier: BSD-3-Clause
# Functions that the scripts of this folder share: the version, a copy of the tree, and a log.
set -eu
say() { printf 'package: %s\n' "$*" >&2; }

# Prints the version of meson.build. Adds the day and hash of the commit, unless the commit has the tag of a release. If the file
# .package-version exists, prints it instead: a copy of the tree has no git.
version_of() {
  local version commit
  [ ! -f .package-version ] || { cat .package-version; return; }
  version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" meson.build | head -n 1)
  if commit=$(git log -1 --format=%cd.%h --date=format:%Y%m%d 2>/dev/null) &&
    ! git describe --exact-match --match "v$version" >/dev/null 2>&1; then
    version=$version+git$commit
  fi
  printf '%s\n' "$version"
}

# Copies the tree to the directory, without files that git ignores. Without git, copies the tree without builds.
copy_tree() {
  mkdir -p "$1"
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard --deduplicate |
      while IFS= read -r -d '' name; do [ ! -f "$name" ] || printf '%s\0' "$name"; done |
      tar -c --null --no-recursion -T - -f -
  else
    tar -c --exclude='./build*' -f - .
  fi | tar -x -C "$1" -f -
}

# Runs the command. If the command fails, prints the end of its output.
logged() {
  local log=$1
  shift
  "$@" >>"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    say "$1 failed; its whole output is in $log"
    exit 1
  }
}
