#!/bin/sh
# What is between power and systemd: kernel and boot loader, in a machine of power.sh. This
# is process 1 of its namespaces.
#
# usage: sh boot.sh ROOT CGROUP PIDFILE
set -eu
root=$1 cgroup=$2 pidfile=$3

# /proc is still the host's, which is to know this process by number.
sed -n 's/^PPid:[[:space:]]*//p' /proc/self/status >"$pidfile.new"
mv "$pidfile.new" "$pidfile"

# The cgroup that this process is in becomes the root of the namespace's.
echo 0 >"$cgroup/cgroup.procs"

cd "$root"
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
for name in sys sysrq-trigger; do # what would change the host's kernel
	[ -e proc/$name ] || continue
	mount --bind proc/$name proc/$name
	mount -o remount,bind,ro proc/$name
done
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 dev dev
for name in null zero full random urandom tty; do
	touch dev/$name
	mount --bind /dev/$name dev/$name
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=755 run run
mkdir run/host
hostname machine
pivot_root . run/host
umount -l /run/host
exec unshare --cgroup sh -c '
	mount -t cgroup2 cgroup /sys/fs/cgroup
	rmdir /run/host
	exec env -i container=haul PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd' </dev/null
