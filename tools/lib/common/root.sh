# SPDX-License-Identifier: BSD-3-Clause
# Functions for scripts that build or test in a root directory of a Debian release, as root. The calling script defines say() and
# logged().

# Makes a clean root directory of a release, and installs packages in it. If ARCHITECTURES is set, it names the processors of the
# packages; the default is this machine's processor. The host names and name servers are those of this machine. dpkg does not sync
# each file, because the directory need not survive a power failure. A mirror may be older than its Release file allows: unstable
# expires after a week.
make_root() {
  local release=$1 root=$2
  shift 2
  say "making a clean $release in $root"
  logged "$log" mmdebstrap --mode=root --variant=minbase ${1:+"--include=$*"} ${ARCHITECTURES:+"--architectures=$ARCHITECTURES"} \
    --dpkgopt=force-unsafe-io --aptopt='Acquire::Check-Valid-Until "false"' "$release" "$root" "${UROCE_MIRROR:-http://deb.debian.org/debian}"
  cp /etc/hosts /etc/resolv.conf "$root/etc/"
}

# Runs a command in the root directory, in new mount and PID namespaces that end with the command. If SHARED is set, this directory
# of the machine is mounted at the same path.
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
    mkdir "$root/dev/net"
    for name in fuse net/tun; do
      if [ -e "/dev/$name" ]; then touch "$root/dev/$name" && mount --bind "/dev/$name" "$root/dev/$name"; fi
    done
    mkdir "$root/dev/shm" && mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    ln -s /proc/self/fd "$root/dev/fd"
    if [ -n "$SHARED" ]; then
      mkdir -p "$root$SHARED"
      mount --bind "$SHARED" "$root$SHARED"
    fi
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
  ' sh "$root" "$@"
}
