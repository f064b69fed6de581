#!/bin/sh
# A machine: a disk, and a process 1 that is systemd. It ends when the machine is powered
# off. Everything it mounts is in its own mount namespace, which goes when it goes.
#
# usage: unshare --mount --propagation private sh power.sh DIR CGROUP [PACKAGE]
#
# DIR is an empty directory. CGROUP is one of version 2, empty as well. PACKAGE is an
# unpacked package of systemd, for where the host has none.
set -eu
dir=$1 cgroup=$2 package=${3-}
boot=$(dirname "$0")/boot.sh

# The host's system, but nothing that was set up on it. The disk outlives a reboot.
mount -t tmpfs -o mode=755 disk "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
for name in root srv tmp; do # overlayfs takes such a device for a file that was removed
	mknod "$dir/upper/$name" c 0 0
done
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" machine "$dir/root"
cd "$dir/root"
if [ -n "$package" ]; then
	tar -C "$package" -c . | tar -x --keep-directory-symlink
fi
rm -rf etc/systemd/system etc/rc?.d etc/haul etc/fstab var/lib/haul var/lib/private usr/bin/haul
mkdir -p etc/systemd/system srv
mkdir -m 700 root
mkdir -m 1777 tmp
cd /

# One cgroup for what is outside of the machine: those that hold others hold no process.
mkdir "$cgroup/outside" "$cgroup/machine"
echo 0 >"$cgroup/outside/cgroup.procs"

while :; do
	code=0
	# Without what would reach the host's kernel: modules, its clock, its log.
	setpriv --pdeathsig KILL --inh-caps=-all --bounding-set=-sys_module,-sys_time,-sys_rawio,-syslog \
		unshare --pid --fork --kill-child --mount --net --uts --ipc \
		sh "$boot" "$dir/root" "$cgroup/machine" "$dir.pid" || code=$?
	# The kernel ends process 1 by SIGHUP for a reboot, and by SIGINT to power off.
	[ $code = 129 ] || exit $((code == 130 ? 0 : code))
done
