# SPDX-License-Identifier: BSD-3-Clause
# Root directories of Debian releases, for scripts that build or test in them as root. The script defines say() and logged().

# Makes a clean root directory of a release, with packages. The names of hosts are those of this machine. The tests need no
# protection against a power failure, so dpkg does not sync each file.
make_root() {
  local release=$1 root=$2
  shift 2
  say "making a clean $release in $root"
  logged "$log" mmdebstrap --mode=root --variant=minbase ${1:+"--include=$*"} --dpkgopt=force-unsafe-io \
    "$release" "$root" "${UROCE_MIRROR:-http://deb.debian.org/debian}"
  cp /etc/hosts /etc/resolv.conf "$root/etc/"
}

# Runs a command in the root directory, with mounts and processes that end with it. The directory in SHARED, if any, has the
# same path inside.
inside() {
  local root=$1
  shift
  SHARED=${SHARED-} unshare --mount --pid --fork --kill-child sh -c '
    set -eu
    root=$1; shift
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys" || :
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for name in null zero full random urandom tty; do touch "$root/dev/$name" && mount --bind "/dev/$name" "$root/dev/$name"; done
    mkdir "$root/dev/shm" && mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    ln -s /proc/self/fd "$root/dev/fd"
    if [ -n "$SHARED" ]; then
      mkdir -p "$root$SHARED"
      mount --bind "$SHARED" "$root$SHARED"
    fi
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
  ' sh "$root" "$@"
}
