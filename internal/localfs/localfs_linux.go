package localfs

import "golang.org/x/sys/unix"

// A Kind says where a file system keeps its files.
type Kind uint8

// The kinds of file systems.
const (
	Unknown Kind = iota // any other place: perhaps another machine, or a program that serves the files (FUSE)
	Disk                // a disk of this machine
	RAM                 // the memory of this machine, or its swap space
)

// Of returns the kind of the file system of an open file, or Unknown if the system does not say.
func Of(fd int) Kind {
	var at unix.Statfs_t
	for err := error(unix.EINTR); err != nil; {
		if err = unix.Fstatfs(fd, &at); err != nil && err != unix.EINTR {
			return Unknown
		}
	}
	switch uint32(at.Type) { // the type of this field differs between architectures
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return RAM
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		// ext2 and ext3 have the number of ext4.
		return Disk
	}
	return Unknown
}
